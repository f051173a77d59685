//! Choice of logs, and memory of past cleanings.

use super::*;

fn key(topic: &str) -> TopicPartition {
    (topic.to_owned(), 0)
}

#[test]
fn log_is_cleaned_by_one_thread_and_checkpointed() {
    let cleaner = Cleaner::new([(key("a"), 7)].into());
    assert!(cleaner.is_free(&key("a")) && cleaner.take(&key("a")));
    assert!(!cleaner.is_free(&key("a")) && !cleaner.take(&key("a")));
    cleaner.give_back(&key("a"));
    assert_eq!(cleaner.checkpoint(&key("a")), Some(7));
    assert!(cleaner.take(&key("a")));
    cleaner.done(&key("a"), 9, || false);
    assert!(cleaner.is_free(&key("a")));
    assert_eq!(cleaner.checkpoints(), [(key("a"), 9)].into());
}

#[test]
fn cleaner_forgets_deleted_topics() {
    let cleaner = Cleaner::default();
    assert!(cleaner.take(&key("a")));
    cleaner.exclude(&key("b"));
    cleaner.done(&key("a"), 9, || true);
    cleaner.forget(&key("b"));
    assert_eq!((cleaner.checkpoint(&key("a")), cleaner.is_free(&key("b"))), (None, true));
}

#[test]
fn compaction_continues_at_end_of_truncated_log() {
    let cleaner = Cleaner::new([(key("a"), 7)].into());
    assert!(!cleaner.lower(&key("a"), 7) && !cleaner.lower(&key("b"), 3));
    assert!(cleaner.lower(&key("a"), 5));
    assert_eq!(cleaner.checkpoints(), [(key("a"), 5)].into());
    assert!(cleaner.take(&key("a")));
    assert!(!cleaner.lower(&key("a"), 8), "a log that has grown to 9, while it is compacted");
    cleaner.done(&key("a"), 9, || false);
    assert_eq!(cleaner.checkpoint(&key("a")), Some(8));
}
