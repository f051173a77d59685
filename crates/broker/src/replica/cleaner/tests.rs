//! Choice of logs, memory of past cleanings, and bytes spread over time.

use super::*;

fn key(topic: &str) -> TopicPartition {
    (topic.to_owned(), 0)
}

#[test]
fn a_log_is_in_one_hand_and_its_end_is_remembered() {
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
fn nothing_is_remembered_of_a_deleted_topic() {
    let cleaner = Cleaner::default();
    assert!(cleaner.take(&key("a")));
    cleaner.exclude(&key("b"));
    cleaner.done(&key("a"), 9, || true);
    cleaner.forget(&key("b"));
    assert_eq!((cleaner.checkpoint(&key("a")), cleaner.is_free(&key("b"))), (None, true));
}

#[test]
fn bytes_take_the_time_that_the_rate_asks_for() {
    let (mut throttle, start) = (Throttle::default(), Instant::now());
    let at = |ms| start + Duration::from_millis(ms);
    let check = |throttle: &mut Throttle, bytes, rate, now_ms, wanted_ms| {
        assert_eq!(
            throttle.spend(bytes, rate, at(now_ms)),
            Duration::from_millis(wanted_ms),
            "{bytes} at {now_ms}"
        );
    };
    check(&mut throttle, u64::MAX, f64::MAX, 0, 0);
    check(&mut throttle, 100, 1_000.0, 0, 100);
    check(&mut throttle, 100, 1_000.0, 50, 150);
    // Time that passed unused is not given credit for.
    check(&mut throttle, 5, 1_000.0, 900, 0);
    check(&mut throttle, 5, 1_000.0, 900, 10);
    check(&mut throttle, 10_000, 1_000.0, 1_000, 1_000);
    check(&mut throttle, 0, 1_000.0, 20_000, 0);
}

#[test]
fn waiting_ends_when_the_broker_stops() {
    let cleaner = Cleaner::default();
    assert!(cleaner.go_on(1 << 40, f64::MAX));
    cleaner.halt();
    assert!(!cleaner.go_on(1 << 40, 1.0));
}
