//! Topics under way, and failures.

use super::{FAILURES_MAX, StreamsTopics};

const LONG_MS: i64 = 600_000;

fn begin(topics: &StreamsTopics, name: &str) -> bool {
    !topics.begin(vec![name.to_owned()], |name| name).is_empty()
}

#[test]
fn topic_creation_in_progress_starts_once() {
    let topics = StreamsTopics::default();
    assert!(begin(&topics, "one"));
    assert!(!begin(&topics, "one"));
    topics.end(&["one".to_owned()], Vec::new(), LONG_MS);
    assert!(begin(&topics, "one"));
}

#[test]
fn creation_failures_are_reported_until_expiry() {
    let topics = StreamsTopics::default();
    let names = ["one".to_owned()];
    let failed = |kept_ms| {
        topics.end(&names, vec![("one".to_owned(), "no".to_owned())], kept_ms);
    };
    assert!(begin(&topics, "one"));
    failed(LONG_MS);
    assert!(!begin(&topics, "one"));
    assert_eq!(topics.failures(["one", "two"].into_iter()), [("one", "no".to_owned())]);
    failed(0);
    assert!(topics.failures(["one"].into_iter()).is_empty());
    assert!(begin(&topics, "one"));
}

#[test]
fn remembered_creation_failures_are_bounded() {
    let topics = StreamsTopics::default();
    for number in 0..FAILURES_MAX + 10 {
        let kept_ms = LONG_MS + i64::try_from(number).unwrap();
        topics.end(&[], vec![(format!("topic-{number}"), "no".to_owned())], kept_ms);
    }
    assert!(topics.failures(["topic-9"].into_iter()).is_empty());
    assert_eq!(topics.failures(["topic-10"].into_iter()).len(), 1);
}
