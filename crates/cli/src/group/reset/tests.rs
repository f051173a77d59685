//! Tests of where a reset moves offsets to.

use super::*;

fn place() -> TopicPartition {
    ("t".to_owned(), 0)
}

fn check(goal: Goal, committed: Option<i64>, expected: Option<i64>) {
    let committed =
        committed.map(|offset| (place(), Committed { offset, leader_epoch: None, metadata: String::new() }));
    let at_time = matches!(goal, Goal::Time(1)).then_some(7);
    let ranges = BTreeMap::from([(place(), Range { start: 5, end: 10, at_time })]);
    let moved = moves(goal, &committed.into_iter().collect(), &ranges);
    let new = moved.ok().map(|moves| moves[0].new);
    assert_eq!(new, expected, "{goal:?}");
}

#[test]
fn offsets_go_where_they_are_sent_and_stay_in_the_log() {
    check(Goal::Earliest, None, Some(5));
    check(Goal::Latest, Some(6), Some(10));
    check(Goal::Offset(6), None, Some(6));
    check(Goal::Offset(1), None, Some(5));
    check(Goal::Offset(11), None, Some(10));
    check(Goal::Time(1), None, Some(7));
    check(Goal::Time(2), None, Some(10));
    check(Goal::Shift(2), Some(6), Some(8));
    check(Goal::Shift(-20), Some(6), Some(5));
    check(Goal::Shift(i64::MAX), Some(6), Some(10));
    check(Goal::Shift(1), None, None);
}

#[test]
fn topics_are_read() {
    fn check(text: &str, topic: &str, partitions: &[i32]) {
        let expected = Chosen { topic: topic.to_owned(), partitions: partitions.to_vec() };
        assert_eq!(text.parse(), Ok(expected), "{text}");
    }
    check("clicks", "clicks", &[]);
    check("clicks:0", "clicks", &[0]);
    check("clicks:0,2", "clicks", &[0, 2]);
    for text in ["", ":1", "clicks:", "clicks:a", "clicks:-1", "clicks:1,"] {
        assert!(text.parse::<Chosen>().is_err(), "{text}");
    }
}
