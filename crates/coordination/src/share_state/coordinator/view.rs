//! Read-only queries of a coordinator: the keys, their states by the log, and the offset up to
//! which the log may be pruned.

use super::Coordinator;
use crate::share_state::key::ShareKey;
use crate::share_state::request::{StateSummary, StoredState};
use crate::share_state::share::Share;

impl Coordinator {
    /// The keys, with a summary of the state of each, in order.
    pub fn summaries(&self) -> impl Iterator<Item = (&ShareKey, StateSummary)> {
        self.slots.all_stored().map(|(key, share)| (key, share.summary()))
    }

    /// The state of a key; none if it has none.
    pub fn stored(&self, key: &ShareKey) -> Option<StoredState> {
        self.slots.stored(key).map(Share::stored)
    }

    /// Number of state batches in memory, including those that are being written.
    pub fn batch_count(&self) -> usize {
        self.slots.batches()
    }

    /// Offset of the first record in the log that a key needs; without keys, of the last tombstone.
    /// None if that is not known, or is 0.
    pub fn redundant_before(&self) -> Option<i64> {
        self.floors.redundant_before()
    }
}
