//! Tests of quantiles and means.

use super::{BOUNDS_US, Durations, mean, quantile};

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
