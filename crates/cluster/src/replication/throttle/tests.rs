//! Tests of the rate.

use super::{RateMeter, Windows};

const WINDOWS: Windows = Windows { samples: 11, sample_ms: 1000 };

#[test]
fn first_throttle_sample_has_full_duration() {
    let mut meter = RateMeter::new(WINDOWS);
    assert_eq!(meter.rate(0), 0.0);
    meter.record(500, 0);
    assert_eq!((meter.rate(0), meter.rate(1000), meter.rate(2000)), (500.0, 500.0, 250.0));
}

#[test]
fn throttle_drops_old_samples() {
    let mut meter = RateMeter::new(WINDOWS);
    meter.record(1000, 0);
    meter.record(1000, 999);
    meter.record(3000, 5000);
    assert_eq!(meter.rate(10_000), 500.0);
    assert_eq!(meter.rate(11_000), 500.0, "only the second sample is left, 6 s old");
    assert_eq!(meter.rate(16_000), 0.0);
}

#[test]
fn exceeded_rate_recovers_after_its_excess_time() {
    let mut meter = RateMeter::new(WINDOWS);
    assert_eq!(meter.excess_ms(1000, 0), 0);
    meter.record(1000, 0);
    assert_eq!(meter.excess_ms(1000, 0), 0);
    meter.record(2000, 500);
    assert_eq!((meter.excess_ms(1000, 500), meter.excess_ms(1000, 2999)), (2500, 1));
    assert_eq!((meter.rate(3000), meter.excess_ms(1000, 3000)), (1000.0, 0));
    assert_eq!(meter.excess_ms(900, 500), 2834);
    for limit in [0, 1] {
        assert_eq!(meter.excess_ms(limit, 10_000), 1000, "the sample is too old at 11 s");
        assert_eq!(meter.excess_ms(limit, 11_000), 0);
        meter.record(3000, 0);
    }
}

/// With a pause of a whole sample each sample has the bytes of one burst, and the oldest counts
/// although the pause before it does not: with ten bursts in a window a tenth of the rate is
/// lost.
#[test]
fn transfer_pausing_for_excess_reaches_the_rate() {
    let (limit, piece, end_ms) = (50_000_000, 1 << 20, 120_000);
    let mut meter = RateMeter::new(WINDOWS);
    let (mut sent, mut now_ms) = (0_u64, 0);
    while now_ms < end_ms {
        meter.record(piece, now_ms);
        sent += piece;
        now_ms += meter.excess_ms(limit, now_ms).max(1);
    }
    let average = sent as f64 * 1000.0 / now_ms as f64;
    assert!((0.98..1.01).contains(&(average / limit as f64)), "{average}");
}

#[test]
fn transfer_paused_above_limit_keeps_the_rate() {
    for (samples, sample_ms) in [(11, 1000), (2, 1000), (1, 5000), (20, 100)] {
        let (limit, piece) = (2_000_000.0, 1 << 20);
        let windows = Windows { samples, sample_ms };
        let mut meter = RateMeter::new(windows);
        let (mut sent, end_ms) = (0_u64, 120_000);
        for now_ms in (0..end_ms).step_by(10) {
            if meter.rate(now_ms) <= limit {
                meter.record(piece, now_ms);
                sent += piece;
            }
        }
        let average = sent as f64 * 1000.0 / end_ms as f64;
        // The last piece of each window may exceed the limit.
        let window_s = samples as f64 * sample_ms as f64 / 1000.0;
        let most = limit + (piece as f64 * 2.0) / window_s.min(1.0);
        assert!(average > limit * 0.8 && average < most, "{windows:?}: {average}");
    }
}
