//! The lag of groups over the last hour. A sample is taken whenever the lag is computed: for
//! `/metrics`, and for open pages of the console. Nothing is computed only for a sample.

use std::collections::{BTreeMap, VecDeque};

use parking_lot::Mutex;

/// Age at which samples are dropped.
const KEPT_MS: i64 = 3_600_000;
/// Minimum time between two samples of a group.
const STEP_MS: i64 = 20_000;
/// Maximum number of groups with samples.
const GROUPS_MAX: usize = 1_000;

/// Lag of a group at one time, summed over its partitions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LagSample {
    /// The time in milliseconds since 1970.
    pub at_ms: i64,
    /// Number of records after the committed offsets: the lag.
    pub records: u64,
    /// Age of the oldest of these records in seconds, if it is known.
    pub seconds: Option<f64>,
}

/// Samples of groups, at most 181 for each of at most 1 000 groups: 6 MiB.
#[derive(Debug, Default)]
pub(crate) struct LagHistory(Mutex<BTreeMap<String, VecDeque<LagSample>>>);

impl LagHistory {
    /// Adds a sample of each group, unless its last one is younger than 20 s, and drops samples
    /// older than an hour.
    pub(crate) fn record<'a>(&self, samples: impl Iterator<Item = (&'a str, LagSample)>, now_ms: i64) {
        let mut groups = self.0.lock();
        for (group, sample) in samples {
            let full = groups.len() >= GROUPS_MAX;
            let known = match groups.get_mut(group) {
                Some(known) => known,
                None if full => continue,
                None => groups.entry(group.to_owned()).or_default(),
            };
            // A clock that was set back leaves samples of the future behind.
            known.retain(|one| one.at_ms <= sample.at_ms);
            if known.back().is_none_or(|last| last.at_ms + STEP_MS <= sample.at_ms) {
                known.push_back(sample);
            }
        }
        groups.retain(|_, samples| {
            while samples.front().is_some_and(|first| first.at_ms + KEPT_MS < now_ms) {
                samples.pop_front();
            }
            !samples.is_empty()
        });
    }

    /// Samples of a group, the oldest first.
    pub(crate) fn of(&self, group: &str) -> Vec<LagSample> {
        self.0.lock().get(group).map(|samples| samples.iter().copied().collect()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests;
