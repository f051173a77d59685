//! Tests of the signs of life.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::watchdog;

#[test]
fn the_watchdog_is_told_only_while_every_thread_gives_signs_of_life() {
    let mut watchdog = watchdog(2, Duration::from_secs(10), Instant::now());
    let beat = |thread: usize, pulse: &super::Pulse| pulse.beats[thread].fetch_add(1, Ordering::Relaxed);
    assert_eq!(watchdog.silent(), Some(0), "no thread has started");
    beat(0, &watchdog.pulse);
    assert_eq!(watchdog.silent(), Some(1), "one thread has not started");
    beat(1, &watchdog.pulse);
    assert_eq!(watchdog.silent(), None);
    assert_eq!(watchdog.silent(), Some(0), "nothing since");
    beat(1, &watchdog.pulse);
    assert_eq!(watchdog.silent(), Some(0), "thread 0 hangs");
    beat(0, &watchdog.pulse);
    assert_eq!(watchdog.silent(), None, "thread 0 goes on");
    assert_eq!([0, 1].map(|thread| watchdog.pulse.name(thread)), ["shard-0", "admin"]);
}

#[test]
fn messages_come_twice_as_often_as_the_watchdog_asks_and_beats_twice_as_often_as_messages() {
    let watchdog = watchdog(1, Duration::from_secs(20), Instant::now());
    assert_eq!(watchdog.pause, Duration::from_secs(10));
    assert_eq!(watchdog.pulse.pause, Duration::from_secs(5));
}

#[test]
fn a_signal_between_two_messages_does_not_bring_the_next_one_forward() {
    let start = Instant::now();
    let mut watchdog = watchdog(1, Duration::from_secs(20), start);
    let at = |seconds: u64| start + Duration::from_secs(seconds);
    assert!(!watchdog.is_due(at(3)), "a reload");
    assert!(watchdog.is_due(at(10)));
    assert!(!watchdog.is_due(at(19)));
    assert!(watchdog.is_due(at(20)));
}
