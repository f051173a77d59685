//! Tests of quantiles, means and the pressure on the memory.

use super::{BOUNDS_US, Durations, mean, pressure, quantile};

#[test]
fn memory_pressure_is_unknown_before_a_look() {
    assert_eq!(pressure(&[("free", false), ("full", false), ("stalled", false)]), "—");
    assert_eq!(pressure(&[("free", false), ("full", true), ("stalled", false)]), "full");
}

#[test]
fn a_quantile_is_the_bound_of_its_bucket() {
    let mut durations = Durations::default();
    assert_eq!((quantile(&durations, 0.99), mean(&durations)), ("—".to_owned(), "—".to_owned()));
    (durations.buckets[0], durations.buckets[3]) = (99, 1);
    durations.sum_ns = 100 * 50_000;
    assert_eq!(quantile(&durations, 0.5), "≤ 100 µs");
    assert_eq!(quantile(&durations, 0.99), "≤ 100 µs");
    assert_eq!(quantile(&durations, 1.0), "≤ 1.0 ms");
    assert_eq!(mean(&durations), "50 µs");
    durations.buckets[BOUNDS_US.len()] = 100;
    assert_eq!(quantile(&durations, 0.99), "> 10.00 s");
}
