//! Tests of the order in which refused and answered partitions come together.

use super::merge;

type Topic = (&'static str, Vec<i32>);

fn merged(refused: &[Topic], answered: &[Topic]) -> Vec<Topic> {
    merge(refused.to_vec(), answered.to_vec(), |topic| topic.0, |one, other| one.1.extend(other.1))
}

#[test]
fn refused_partitions_come_first_and_answered_ones_join_their_topic() {
    let refused = [("b", vec![9]), ("a", vec![0]), ("b", vec![8])];
    let answered = [("c", vec![0]), ("b", vec![1]), ("c", vec![1])];
    assert_eq!(merged(&refused, &answered), [("b", vec![9, 8, 1]), ("a", vec![0]), ("c", vec![0, 1])]);
}

#[test]
fn without_a_refusal_the_answers_stay_as_they_are() {
    let answered = [("b", vec![0]), ("a", vec![0]), ("b", vec![1])];
    assert_eq!(merged(&[], &answered), answered);
}
