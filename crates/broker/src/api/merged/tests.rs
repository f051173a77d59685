//! Tests of the order in which refused and answered partitions come together.

use super::merge;

type Topic = (&'static str, Vec<i32>);

fn merged(refused: &[Topic], answered: &[Topic]) -> Vec<Topic> {
    merge(refused.to_vec(), answered.to_vec(), |topic| topic.0, |one, other| one.1.extend(other.1))
}

#[test]
fn merged_topics_start_with_their_refused_partitions() {
    let refused = [("b", vec![9]), ("a", vec![0]), ("b", vec![8])];
    let answered = [("c", vec![0]), ("b", vec![1]), ("c", vec![1])];
    assert_eq!(merged(&refused, &answered), [("b", vec![9, 8, 1]), ("a", vec![0]), ("c", vec![0, 1])]);
}

#[test]
fn results_without_refusals_are_not_merged() {
    let answered = [("b", vec![0]), ("a", vec![0]), ("b", vec![1])];
    assert_eq!(merged(&[], &answered), answered);
}
