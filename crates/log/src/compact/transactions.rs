//! Transactions during a compaction: the aborted ones, and for each marker if its transaction has
//! remaining records.

use std::collections::{BTreeMap, HashMap, HashSet};

use levada_base::batch::{BatchView, EndMarker, Marker};

use crate::index::Aborted;

/// Transactions by producer; a producer has one at a time.
#[derive(Debug, Default)]
pub(super) struct Transactions {
    /// Aborted transactions that begin later, by first offset and producer.
    ahead: BTreeMap<(i64, i64), Aborted>,
    /// Aborted transactions that have begun, each with a flag if one of its batches was seen.
    aborted: HashMap<i64, (Aborted, bool)>,
    /// Producers whose current, committed transaction has a batch among those seen.
    committed: HashSet<i64>,
    /// Aborted transactions with remaining batches, in the order of their markers.
    kept: Vec<Aborted>,
}

impl Transactions {
    /// Adds aborted transactions that overlap the next segment; known ones are ignored.
    pub(super) fn expect(&mut self, found: Vec<Aborted>) {
        self.ahead.extend(found.into_iter().map(|one| ((one.first_offset, one.producer_id), one)));
    }

    /// Processes a batch of records; returns true if its records are aborted.
    pub(super) fn pass(&mut self, batch: &BatchView<'_>) -> bool {
        self.begin_up_to(batch.last_offset());
        if !batch.is_transactional() {
            return false;
        }
        match self.aborted.get_mut(&batch.producer_id()) {
            Some((_, seen)) => {
                *seen = true;
                true
            }
            None => {
                self.committed.insert(batch.producer_id());
                false
            }
        }
    }

    /// Processes a batch of control records; returns true if it ends a transaction without
    /// remaining records.
    pub(super) fn pass_marker(&mut self, batch: &BatchView<'_>) -> bool {
        self.begin_up_to(batch.last_offset());
        if batch.record_count() == 0 {
            return true;
        }
        match EndMarker::parse(batch.bytes()).map(|end| end.marker) {
            Some(Marker::Abort) => match self.aborted.remove(&batch.producer_id()) {
                Some((one, true)) => {
                    self.kept.push(one);
                    false
                }
                _ => true,
            },
            Some(Marker::Commit) => !self.committed.remove(&batch.producer_id()),
            None => false,
        }
    }

    /// Aborted transactions with remaining records whose markers were processed since the last
    /// call.
    pub(super) fn take_kept(&mut self) -> Vec<Aborted> {
        std::mem::take(&mut self.kept)
    }

    fn begin_up_to(&mut self, offset: i64) {
        while let Some(next) = self.ahead.first_entry().filter(|next| next.key().0 <= offset) {
            let one = next.remove();
            self.aborted.entry(one.producer_id).or_insert((one, false));
        }
    }
}
