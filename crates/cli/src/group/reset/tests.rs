//! Tests of where a reset moves offsets to.

use super::*;

fn place() -> TopicPartition {
    ("t".to_owned(), 0)
}

fn check(goal: Goal, committed: Option<i64>, expected: Option<i64>) {
    let committed = committed.map(|offset| (place(), offset)).into_iter().collect();
    let at_time = matches!(goal, Goal::Time(1)).then_some(7);
    let ranges = BTreeMap::from([(place(), Range { start: 5, end: 10, at_time })]);
    let moved = moves(goal, (Kind::Committed, &committed), &ranges);
    let new = moved.ok().map(|moves| moves[0].new);
    assert_eq!(new, expected, "{goal:?}");
}

#[test]
fn group_reset_reaches_goal_within_log() {
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
fn reset_topics_are_parsed() {
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

#[test]
fn plans_name_the_offsets_of_their_group() {
    let plan = |kind: Kind, offset: Option<i64>| {
        let one = Move { topic: "t".to_owned(), partition: 0, present: kind.present(offset), new: 3 };
        let plan = Plan { group: "g", kind, executed: false, partitions: &[one] };
        serde_json::to_value(&plan).unwrap()["partitions"][0].clone()
    };
    let json = serde_json::json!({ "topic": "t", "partition": 0, "committed": null, "new": 3 });
    assert_eq!(plan(Kind::Committed, None), json);
    let json = serde_json::json!({ "topic": "t", "partition": 0, "start": 1, "new": 3 });
    assert_eq!(plan(Kind::Start, Some(1)), json);
}
