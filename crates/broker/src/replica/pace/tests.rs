//! Bytes spread over time, and the end of waiting.

use super::*;

#[test]
fn throttle_delays_bytes_by_configured_rate() {
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
    let pace = Pace::default();
    assert!(pace.go_on(1 << 40, f64::MAX));
    pace.halt();
    assert!(!pace.go_on(1 << 40, 1.0));
}
