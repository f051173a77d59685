//! Leases by the clock.

use super::*;

/// A session of 9 s without an interval of heartbeats, 2 s, and without a tenth.
const PAUSE_MS: i64 = 6_100;

fn lease() -> Lease {
    let lease = Lease::new(&LifecycleTimes::default());
    assert!(lease.is_valid(1_000), "nothing was seen yet");
    lease.tick(1_000);
    lease
}

#[test]
fn lease_expires_during_pause_until_confirmed() {
    let lease = lease();
    assert!(lease.is_valid(1_000 + PAUSE_MS));
    let woken_ms = 1_001 + PAUSE_MS;
    assert!(!lease.is_valid(woken_ms), "before any thread has noted the pause");
    lease.tick(woken_ms);
    assert_eq!(lease.pauses(), 1);
    assert!(!lease.is_valid(woken_ms), "nor after it");
    lease.tick(woken_ms + 500);
    assert!(!lease.is_valid(woken_ms + 500), "time alone heals nothing");
    lease.confirm(1);
    assert!(lease.is_valid(woken_ms + 500));
}

#[test]
fn short_session_keeps_lease_of_busy_process() {
    let times = LifecycleTimes { session_ms: 500, heartbeat_ms: 400, ..LifecycleTimes::default() };
    let lease = Lease::new(&times);
    lease.tick(1_000);
    assert!(lease.is_valid(2_500));
    assert!(!lease.is_valid(2_501));
}

#[test]
fn lease_needs_confirmation_begun_after_the_pause() {
    let lease = lease();
    lease.tick(20_000);
    lease.tick(40_000);
    lease.confirm(1);
    assert!(!lease.is_valid(40_000));
    lease.confirm(2);
    assert!(lease.is_valid(40_000));
}

#[test]
fn running_process_keeps_lease_without_controllers() {
    let lease = lease();
    for now_ms in (1_000..600_000).step_by(500) {
        lease.tick(now_ms);
        assert!(lease.is_valid(now_ms + 499));
    }
    assert_eq!(lease.pauses(), 0);
}

#[test]
fn a_revoked_lease_stays_revoked() {
    let lease = lease();
    lease.revoke();
    assert!(!lease.is_valid(1_000));
    lease.tick(20_000);
    lease.confirm(1);
    assert!(!lease.is_valid(20_000));
}

#[test]
fn lease_survives_few_late_ticks() {
    let lease = lease();
    let late_ms = 5 * lease.interval().as_millis() as i64;
    assert!(lease.is_valid(1_000 + late_ms), "{late_ms}");
    lease.tick(1_000 + late_ms);
    assert_eq!(lease.pauses(), 0);
}

#[test]
fn single_stalled_thread_is_not_process_pause() {
    let mut witness = Witness::default();
    (0..100).for_each(|tick| witness.note(tick * 500, 6_000));
    assert!(!witness.was_paused(50_000), "one thread alone was held up for 45 s");
    witness.note(95_000, 6_000);
    assert!(witness.was_paused(95_010));
    (1..20).for_each(|tick| witness.note(95_000 + tick * 500, 6_000));
    assert!(!witness.was_paused(104_500), "that was another pause");
}
