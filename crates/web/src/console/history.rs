//! Bytes in and out over the last hour, for the chart of the first page. Samples are taken from the
//! first visit of the page on, until an hour after the last one.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use levada_process::tasks::caught;
use parking_lot::Mutex;

use super::Console;

/// Time between two samples.
const STEP: Duration = Duration::from_secs(10);
/// Maximum number of samples: those of an hour.
const SAMPLES_MAX: usize = 360;

/// Samples, the oldest first.
#[derive(Default)]
pub(super) struct History(Mutex<Samples>);

#[derive(Default)]
struct Samples {
    taken: VecDeque<Sample>,
    /// Samples to be taken until an hour without a reader has passed; 0 if sampling is off.
    left: usize,
}

/// Bytes since the broker's start.
#[derive(Clone, Copy, Debug)]
struct Sample {
    at: Instant,
    produced: u64,
    fetched: u64,
}

/// Bytes a second, between two samples.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub(super) struct Traffic {
    /// End of the time, in seconds before now.
    ago: f64,
    produced: f64,
    fetched: f64,
}

impl Console {
    /// Continues sampling for another hour.
    pub(super) fn keep_history(self: &Arc<Self>) {
        if self.history.renew() {
            let own = self.clone();
            // After a panic the next page begins again.
            tokio::spawn(async move {
                if caught("the history of the console", own.sample()).await.is_err() {
                    *own.history.0.lock() = Samples::default();
                }
            });
        }
    }

    async fn sample(&self) {
        let mut beat = tokio::time::interval(STEP);
        loop {
            beat.tick().await;
            let stats = self.door.source().stats();
            let (produced, fetched) = (stats.produced_bytes(), stats.fetched_bytes());
            if !self.history.push(Sample { at: Instant::now(), produced, fetched }) {
                return;
            }
        }
    }
}

impl History {
    /// True if sampling was off until now.
    fn renew(&self) -> bool {
        let mut samples = self.0.lock();
        let rested = samples.left == 0;
        samples.left = SAMPLES_MAX;
        if rested {
            samples.taken.clear();
        }
        rested
    }

    /// False if this was the last sample.
    fn push(&self, sample: Sample) -> bool {
        let mut samples = self.0.lock();
        samples.taken.push_back(sample);
        if samples.taken.len() > SAMPLES_MAX {
            samples.taken.pop_front();
        }
        samples.left = samples.left.saturating_sub(1);
        samples.left > 0
    }

    /// The rates between the samples, the oldest first.
    pub(super) fn traffic(&self, now: Instant) -> Vec<Traffic> {
        let samples = self.0.lock();
        let pairs = samples.taken.iter().zip(samples.taken.iter().skip(1));
        let rate = |(one, next): (&Sample, &Sample)| {
            let seconds = next.at.duration_since(one.at).as_secs_f64().max(0.001);
            Traffic {
                ago: now.duration_since(next.at).as_secs_f64(),
                produced: next.produced.saturating_sub(one.produced) as f64 / seconds,
                fetched: next.fetched.saturating_sub(one.fetched) as f64 / seconds,
            }
        };
        pairs.map(rate).collect()
    }
}

#[cfg(test)]
mod tests;
