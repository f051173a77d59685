//! Reasons for which the metadata log cannot be followed, each logged once for operators.
//!
//! An election causes a few of them within a second or two; these are not worth a line.

use std::collections::BTreeMap;

#[cfg(test)]
mod tests;

/// Number of consecutive occurrences of a reason, without progress, before it is logged.
const PATIENCE: u32 = 5;

/// Maximum number of different reasons that are counted.
const REASONS_MAX: usize = 32;

/// The reasons since the last progress, with their counts.
#[derive(Debug, Default)]
pub(super) struct Setbacks(BTreeMap<String, u32>);

impl Setbacks {
    /// Counts a reason; true if it is to be logged now.
    pub(super) fn is_worth_a_word(&mut self, reason: &str) -> bool {
        if self.0.len() >= REASONS_MAX && !self.0.contains_key(reason) {
            return false;
        }
        let times = self.0.entry(reason.to_owned()).or_default();
        *times = times.saturating_add(1);
        *times == PATIENCE
    }
}
