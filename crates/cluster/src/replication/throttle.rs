//! The rate of replicated bytes, measured as Kafka measures it for its replication quotas: over the
//! samples that are not too old, and over at least one of them.

use std::collections::VecDeque;

/// Samples of a rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Windows {
    /// Number of samples (`replication.quota.window.num`).
    pub samples: usize,
    /// Length of a sample (`replication.quota.window.size.seconds`), ms.
    pub sample_ms: i64,
}

impl Windows {
    /// Age at which a sample no longer counts, ms.
    fn kept_ms(self) -> i64 {
        let samples = i64::try_from(self.samples).unwrap_or(i64::MAX);
        self.sample_ms.saturating_mul(samples)
    }
}

/// Bytes of the last samples.
#[derive(Debug)]
pub struct RateMeter {
    windows: Windows,
    /// Start and bytes of each sample, oldest first. Only times with bytes have samples.
    samples: VecDeque<(i64, u64)>,
}

impl RateMeter {
    /// A meter that has counted no bytes.
    pub fn new(windows: Windows) -> Self {
        Self { windows, samples: VecDeque::new() }
    }

    /// Counts transferred bytes.
    pub fn record(&mut self, bytes: u64, now_ms: i64) {
        self.forget(now_ms);
        match self.samples.back_mut() {
            Some((start_ms, sum)) if now_ms - *start_ms < self.windows.sample_ms => *sum += bytes,
            _ => self.samples.push_back((now_ms, bytes)),
        }
    }

    /// Bytes per second, from the start of the oldest sample to now.
    pub fn rate(&mut self, now_ms: i64) -> f64 {
        self.forget(now_ms);
        let Some((start_ms, _)) = self.samples.front() else { return 0.0 };
        let elapsed_ms = (now_ms - start_ms).max(self.windows.sample_ms).max(1);
        let bytes: u64 = self.samples.iter().map(|(_, bytes)| bytes).sum();
        bytes as f64 * 1000.0 / elapsed_ms as f64
    }

    /// Milliseconds until the rate is at most `limit` bytes per second if no bytes are transferred,
    /// or until the oldest sample expires, which changes the rate. 0 if the rate is not above the
    /// limit.
    pub fn excess_ms(&mut self, limit: i64, now_ms: i64) -> i64 {
        if self.rate(now_ms) <= limit as f64 {
            return 0;
        }
        let Some((start_ms, _)) = self.samples.front() else { return 0 };
        let bytes: u64 = self.samples.iter().map(|(_, bytes)| bytes).sum();
        // A conversion of a float saturates, also that of infinity.
        let needed_ms = (bytes as f64 * 1000.0 / limit as f64).ceil() as i64;
        let kept_ms = self.windows.kept_ms();
        needed_ms.min(kept_ms).saturating_sub(now_ms - start_ms).max(1)
    }

    fn forget(&mut self, now_ms: i64) {
        let kept_ms = self.windows.kept_ms();
        while self.samples.front().is_some_and(|(start_ms, _)| now_ms - start_ms >= kept_ms) {
            self.samples.pop_front();
        }
    }
}

#[cfg(test)]
mod tests;
