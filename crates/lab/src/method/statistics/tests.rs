//! Intervals have the stated confidence.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::*;

#[test]
fn spread_around_zero_is_none() {
    let of = |values: &[f64]| Interval::of(values.iter().copied()).expect("values").spread();
    assert_eq!(of(&[0.0, 0.0, 0.0, 4.0, 5.0]), None, "the spread has no base");
    assert_eq!(of(&[2.0, 2.0, 2.0]), Some(0.0));
}

#[test]
fn interval_has_median_and_order_statistics() {
    fn check(values: &[f64], median: f64, ends: (f64, f64), confidence: f64) {
        let interval = Interval::of(values.iter().copied()).unwrap();
        assert_eq!((interval.median, interval.low, interval.high), (median, ends.0, ends.1), "{values:?}");
        assert!((interval.confidence - confidence).abs() < 1e-3, "{interval:?}");
    }
    check(&[7.0], 7.0, (7.0, 7.0), 0.0);
    check(&[2.0, 1.0], 1.5, (1.0, 2.0), 0.5);
    check(&[5.0, 1.0, 3.0, 2.0, 4.0], 3.0, (1.0, 5.0), 0.9375);
    check(&[6.0, 5.0, 1.0, 3.0, 2.0, 4.0], 3.5, (1.0, 6.0), 0.96875);
    // The tables of the sign test state 4 and 12 for 15 values, with 96.5 %.
    let fifteen: Vec<f64> = (1..=15).map(f64::from).collect();
    check(&fifteen, 8.0, (4.0, 12.0), 0.9648);
    check(&[1.0, f64::NAN, 3.0], 2.0, (1.0, 3.0), 0.5);
    assert_eq!(Interval::of([]), None);
    assert_eq!(Interval::of([f64::INFINITY]), None);
}

#[test]
fn interval_confidence_matches_actual_median_coverage() {
    let mut random = StdRng::seed_from_u64(7);
    for count in [6, 15, 31] {
        // A skewed distribution, like that of durations. The true median of the square of a uniform
        // value is a quarter.
        let mut interval = || Interval::of((0..count).map(|_| random.random::<f64>().powi(2))).unwrap();
        let promised = interval().confidence;
        let covered = (0..4000).filter(|_| {
            let interval = interval();
            interval.low <= 0.25 && 0.25 <= interval.high
        });
        let share = covered.count() as f64 / 4000.0;
        assert!(
            (share - promised).abs() < 0.02,
            "{share} of the intervals of {count} values contain the median, stated {promised}"
        );
    }
}
