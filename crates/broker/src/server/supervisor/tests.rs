//! Tests of the signs of life.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::watchdog;

#[test]
fn watchdog_is_fed_only_while_threads_beat() {
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
fn watchdog_pause_is_half_and_beat_quarter() {
    let watchdog = watchdog(1, Duration::from_secs(20), Instant::now());
    assert_eq!(watchdog.pause, Duration::from_secs(10));
    assert_eq!(watchdog.pulse.pause, Duration::from_secs(5));
}

#[test]
fn unrelated_signal_does_not_hasten_watchdog_message() {
    let start = Instant::now();
    let mut watchdog = watchdog(1, Duration::from_secs(20), start);
    let at = |seconds: u64| start + Duration::from_secs(seconds);
    assert!(!watchdog.is_due(at(3)), "a reload");
    assert!(watchdog.is_due(at(10)));
    assert!(!watchdog.is_due(at(19)));
    assert!(watchdog.is_due(at(20)));
}
