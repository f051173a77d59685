//! Tests of the signs of life.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::watchdog;

#[test]
fn the_watchdog_is_told_only_while_every_thread_gives_signs_of_life() {
    let mut watchdog = watchdog(2, Duration::from_secs(10));
    let beat = |thread: usize, pulse: &super::Pulse| pulse.beats[thread].fetch_add(1, Ordering::Relaxed);
    assert!(!watchdog.all_alive(), "no thread has started");
    beat(0, &watchdog.pulse);
    assert!(!watchdog.all_alive(), "one thread has not started");
    beat(1, &watchdog.pulse);
    assert!(watchdog.all_alive());
    assert!(!watchdog.all_alive(), "nothing since");
    beat(1, &watchdog.pulse);
    assert!(!watchdog.all_alive(), "thread 0 hangs");
    beat(0, &watchdog.pulse);
    assert!(watchdog.all_alive(), "thread 0 goes on");
}

#[test]
fn messages_come_twice_as_often_as_the_watchdog_asks_and_beats_twice_as_often_as_messages() {
    let watchdog = watchdog(1, Duration::from_secs(20));
    assert_eq!(watchdog.pause, Duration::from_secs(10));
    assert_eq!(watchdog.pulse.pause, Duration::from_secs(5));
}
