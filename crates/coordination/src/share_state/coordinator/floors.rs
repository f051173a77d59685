//! The offset up to which the coordinator's partition may be pruned.

use std::collections::BTreeSet;

/// The offsets of the records that keys need. Appends take effect in their order, so that every
/// record in flight has a higher offset than all records here.
#[derive(Debug)]
pub(super) struct Floors {
    /// Offset of the last snapshot of each key: replay of a key begins there.
    floors: BTreeSet<i64>,
    /// Offset of the last tombstone, which no key needs.
    removed: i64,
    /// Start of the log after the last deletion of records.
    pruned: i64,
}

impl Default for Floors {
    fn default() -> Self {
        Self { floors: BTreeSet::new(), removed: -1, pruned: 0 }
    }
}

impl Floors {
    /// Updates the offset from which on a key needs records; none if it needs none.
    pub(super) fn replace(&mut self, before: Option<i64>, next: Option<i64>) {
        if let Some(before) = before {
            self.floors.remove(&before);
        }
        self.floors.extend(next);
    }

    /// Records that the record at this offset has removed a key.
    pub(super) fn remove(&mut self, offset: i64) {
        self.removed = self.removed.max(offset);
    }

    /// Records that the log begins at this offset.
    pub(super) fn pruned(&mut self, offset: i64) {
        self.pruned = self.pruned.max(offset);
    }

    /// Offset of the first record that a key needs; without keys, of the last tombstone. None if
    /// that is not known, or is 0.
    pub(super) fn redundant_before(&self) -> Option<i64> {
        let first = self.floors.first().copied();
        Some(first.unwrap_or(self.removed)).filter(|offset| *offset > 0)
    }

    /// Like [`Floors::redundant_before`]; `None` if the log already begins there.
    pub(super) fn unpruned(&self) -> Option<i64> {
        self.redundant_before().filter(|offset| *offset > self.pruned)
    }
}
