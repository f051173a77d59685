//! Reasons for which the metadata log is not followed, to be told to operators once each.
//!
//! An election brings a few of them within a second or two, which nobody needs to read.

use std::collections::BTreeMap;

#[cfg(test)]
mod tests;

/// Number of times that a reason comes without any progress before it is told.
const PATIENCE: u32 = 5;

/// Different reasons that are counted.
const REASONS_MAX: usize = 32;

/// The reasons since the last progress, and how often each has come.
#[derive(Debug, Default)]
pub(super) struct Setbacks(BTreeMap<String, u32>);

impl Setbacks {
    /// Counts a reason; true if it is to be told now.
    pub(super) fn is_worth_a_word(&mut self, reason: &str) -> bool {
        if self.0.len() >= REASONS_MAX && !self.0.contains_key(reason) {
            return false;
        }
        let times = self.0.entry(reason.to_owned()).or_default();
        *times = times.saturating_add(1);
        *times == PATIENCE
    }
}
