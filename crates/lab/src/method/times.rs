//! Durations of many operations of one kind, each timed separately.

use std::time::Duration;

use super::experiment::Metrics;
use super::metric::Metric;

/// Metrics of [`values`].
pub(crate) fn metrics() -> [Metric; 5] {
    [
        Metric::less("mean_us", "mean", "µs"),
        Metric::less("p50_us", "median", "µs"),
        Metric::less("p99_us", "p99", "µs"),
        Metric::less("max_us", "max", "µs"),
        Metric::less("deviation_us", "deviation", "µs"),
    ]
}

/// Returns mean, quantiles and standard deviation of the durations in µs, by the names of
/// [`metrics`]. Empty without durations.
pub(crate) fn values(times: impl IntoIterator<Item = Duration>) -> Metrics {
    let mut us: Vec<f64> = times.into_iter().map(|time| time.as_secs_f64() * 1e6).collect();
    us.sort_by(f64::total_cmp);
    if us.is_empty() {
        return Metrics::new();
    }
    let count = us.len() as f64;
    // Minimum duration that at least `percent` of all durations do not exceed.
    let at = |percent: usize| us[(us.len() * percent).div_ceil(100) - 1];
    let mean = us.iter().sum::<f64>() / count;
    let deviation = (us.iter().map(|time| (time - mean).powi(2)).sum::<f64>() / count).sqrt();
    let values = [mean, at(50), at(99), at(100), deviation];
    metrics().into_iter().map(|metric| metric.name).zip(values).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_measured_values() {
        let values = values((1..=200).rev().map(Duration::from_micros));
        let check =
            |name: &str, expected: f64| assert!((values[name] - expected).abs() < 1e-6, "{name}: {values:?}");
        check("mean_us", 100.5);
        check("p50_us", 100.0);
        check("p99_us", 198.0);
        check("max_us", 200.0);
        check("deviation_us", 57.734_304_9);
        assert_eq!(super::values([]), Metrics::new());
    }

    #[test]
    fn p99_is_exceeded_by_at_most_one_percent() {
        fn check(count: u64, expected: f64) {
            let values = values((1..=count).map(Duration::from_micros));
            assert!((values["p99_us"] - expected).abs() < 1e-6, "{count}: {values:?}");
        }
        check(1, 1.0);
        check(64, 64.0);
        check(100, 99.0);
        check(150, 149.0);
    }
}
