//! Records of aborted transactions, which readers of committed records leave out.

use std::collections::{BTreeSet, VecDeque};

use levada_base::batch::{BatchView, EndMarker, Marker};
use levada_wire::messages::fetch_response::AbortedTransaction;

/// The aborted transactions of one response for one partition. Batches are shown to it in order.
pub(super) struct Aborted {
    /// Aborted transactions whose first batch is still to be read, by first offset.
    coming: VecDeque<(i64, i64)>,
    /// Producers with an open transaction that will be aborted.
    open: BTreeSet<i64>,
}

impl Aborted {
    pub(super) fn new(transactions: Option<Vec<AbortedTransaction>>) -> Self {
        let transactions = transactions.unwrap_or_default().into_iter();
        let mut coming: Vec<_> = transactions.map(|one| (one.first_offset, one.producer_id)).collect();
        coming.sort_unstable();
        Self { coming: coming.into(), open: BTreeSet::new() }
    }

    /// True if the batch belongs to an aborted transaction.
    pub(super) fn holds(&mut self, batch: &BatchView<'_>) -> bool {
        while let Some((first, producer)) = self.coming.front().copied() {
            if first > batch.last_offset() {
                break;
            }
            self.coming.pop_front();
            self.open.insert(producer);
        }
        if batch.is_control() {
            let ended = EndMarker::parse(batch.bytes());
            if let Some(marker) = ended.filter(|marker| marker.marker == Marker::Abort) {
                self.open.remove(&marker.producer_id);
            }
            return false;
        }
        batch.is_transactional() && self.open.contains(&batch.producer_id())
    }
}
