//! Open-loop load: the due time of a request does not depend on responses, and its latency begins
//! at the due time. A stall of a broker counts for every request that was due during the stall (no
//! coordinated omission).

use std::num::NonZeroU64;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use crate::error::LabError;
use crate::harness::bench::Bench;
use crate::machine::cpu;
use crate::method::experiment::Metrics;
use crate::method::metric::Metric;

/// Requests at equal intervals.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FixedRate {
    start: Instant,
    period: Duration,
}

impl FixedRate {
    /// Creates a rate whose first request is due at `start`.
    pub(crate) fn new(start: Instant, per_second: f64) -> Self {
        Self { start, period: Duration::from_secs_f64(1.0 / per_second) }
    }

    /// Due time of the n-th request, from 0.
    pub(crate) fn due(&self, n: u64) -> Instant {
        self.start
            + Duration::from_nanos(
                n.saturating_mul(u64::try_from(self.period.as_nanos()).unwrap_or(u64::MAX)),
            )
    }

    /// Sleeps until the n-th request is due.
    pub(crate) fn wait(&self, n: u64) {
        std::thread::sleep(self.due(n).saturating_duration_since(Instant::now()));
    }

    /// Number of requests that are due within `time`.
    pub(crate) fn count(&self, time: Duration) -> u64 {
        (time.as_nanos() / self.period.as_nanos().max(1)).try_into().unwrap_or(u64::MAX)
    }
}

/// Prepares a thread that measures: binds it to the client's processor and requests exact wake-ups.
pub(crate) fn settle(bench: &Bench) {
    cpu::pin(bench.places().receiver());
    // With the default timer slack the kernel may wake the thread 50 µs late.
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
}

/// Gives the calling thread the lowest priority, so that a client with much work does not delay the
/// clocks of others.
pub(crate) fn step_back() {
    // The call fails only in unusual containers, in which the clients then share the processor
    // equally.
    let _ = levada_io::priority::last();
}

/// Returns the result of a thread, or continues its panic.
pub(crate) fn joined<T>(outcome: std::thread::Result<Result<T, LabError>>) -> Result<T, LabError> {
    outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Histogram of latencies in nanoseconds, with a precision of three digits.
#[derive(Debug)]
pub(crate) struct Latencies {
    histogram: Histogram<u64>,
}

/// Bounds and precision of the histogram: from 0.1 µs to ten minutes. A greater latency counts as
/// ten minutes.
const LEAST_NS: u64 = 100;
const MOST_NS: u64 = 600_000_000_000;
const DIGITS: u8 = 3;

impl Latencies {
    pub(crate) fn new() -> Result<Self, LabError> {
        let histogram = Histogram::new_with_bounds(LEAST_NS, MOST_NS, DIGITS);
        let histogram = histogram
            .map_err(|error| LabError::step("cannot create a histogram")(std::io::Error::other(error)))?;
        Ok(Self { histogram })
    }

    /// Records the latency of a request that was due at `due` and is complete now.
    pub(crate) fn done(&mut self, due: Instant) {
        let late = Instant::now().saturating_duration_since(due);
        self.histogram.saturating_record(u64::try_from(late.as_nanos()).unwrap_or(u64::MAX));
    }

    /// Number of latencies.
    #[cfg(test)]
    pub(crate) fn count(&self) -> u64 {
        self.histogram.len()
    }

    pub(crate) fn add(&mut self, other: &Self) -> Result<(), LabError> {
        let added = self.histogram.add(&other.histogram);
        added.map_err(|error| LabError::step("cannot add histograms")(std::io::Error::other(error)))
    }

    /// Returns a quantile in ms; NaN if there are no latencies.
    pub(crate) fn quantile_ms(&self, quantile: f64) -> f64 {
        if self.histogram.is_empty() {
            return f64::NAN;
        }
        self.histogram.value_at_quantile(quantile) as f64 / 1e6
    }

    /// Inserts the quantiles as `NAME_p50_ms` and so on. Inserts nothing if there are no latencies.
    pub(crate) fn put(&self, name: &str, into: &mut Metrics) {
        if self.histogram.is_empty() {
            return;
        }
        for (label, quantile) in QUANTILES {
            into.insert(metric_name(name, label), self.quantile_ms(quantile));
        }
    }
}

/// Reported quantiles of a latency, the most important first.
const QUANTILES: [(&str, f64); 4] = [("p99", 0.99), ("p50", 0.5), ("p99.9", 0.999), ("max", 1.0)];

/// Metrics that [`Latencies::put`] inserts.
pub(crate) fn metrics(name: &str) -> impl Iterator<Item = Metric> {
    QUANTILES.into_iter().map(move |(label, _)| {
        Metric::less(&metric_name(name, label), &format!("{} {label}", name.replace('_', " ")), "ms")
    })
}

fn metric_name(name: &str, label: &str) -> String {
    format!("{name}_{}_ms", label.replace('.', ""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_latencies_yield_no_metrics() {
        let mut latencies = Latencies::new().unwrap();
        let mut metrics = Metrics::new();
        latencies.put("fetch", &mut metrics);
        assert_eq!(metrics, Metrics::new());
        assert!(latencies.quantile_ms(0.99).is_nan());
        latencies.done(Instant::now());
        latencies.put("fetch", &mut metrics);
        assert_eq!((latencies.count(), metrics.len()), (1, QUANTILES.len()));
    }
}
