//! Counts of share groups since the start.

use std::sync::atomic::{AtomicU64, Ordering};

use levada_coordination::share_partition::AckBatch;

use crate::source::{ACKNOWLEDGEMENTS, DeadLetterCounts};

/// Counts since the start.
#[derive(Debug, Default)]
pub(super) struct ShareCounts {
    acquired: AtomicU64,
    expired: AtomicU64,
    acknowledged: [AtomicU64; ACKNOWLEDGEMENTS.len()],
    pub(super) letters: LetterCounts,
}

/// Counts of dead letters since the start.
#[derive(Debug, Default)]
pub(crate) struct LetterCounts {
    written: AtomicU64,
    given_up: AtomicU64,
    requests: AtomicU64,
    failed_requests: AtomicU64,
}

impl LetterCounts {
    /// A batch of dead letters is on its way.
    pub(crate) fn sent(&self) {
        self.requests.fetch_add(1, Ordering::Relaxed);
    }

    /// Dead letters were written.
    pub(crate) fn written(&self, records: u64) {
        self.written.fetch_add(records, Ordering::Relaxed);
    }

    /// Dead letters were given up: the last attempt to write their batch has failed.
    pub(crate) fn given_up(&self, records: u64) {
        self.given_up.fetch_add(records, Ordering::Relaxed);
        self.failed_requests.fetch_add(1, Ordering::Relaxed);
    }

    /// The counts.
    pub(super) fn shown(&self) -> DeadLetterCounts {
        let count = |of: &AtomicU64| of.load(Ordering::Relaxed);
        DeadLetterCounts {
            written: count(&self.written),
            given_up: count(&self.given_up),
            requests: count(&self.requests),
            failed_requests: count(&self.failed_requests),
        }
    }
}

impl ShareCounts {
    /// Records were acquired.
    pub(super) fn acquired(&self, records: i64) {
        self.acquired.fetch_add(records.max(0).unsigned_abs(), Ordering::Relaxed);
    }

    /// The locks of records have ended.
    pub(super) fn expired(&self, records: i64) {
        self.expired.fetch_add(records.max(0).unsigned_abs(), Ordering::Relaxed);
    }

    /// Records were acknowledged. A batch has one kind, or one for each record.
    pub(super) fn acknowledged(&self, batches: &[AckBatch<'_>]) {
        for batch in batches {
            let each = if batch.types.len() == 1 { batch.last.abs_diff(batch.first) + 1 } else { 1 };
            for kind in batch.types {
                let count = usize::try_from(*kind).ok().and_then(|kind| self.acknowledged.get(kind));
                count.into_iter().for_each(|count| {
                    count.fetch_add(each, Ordering::Relaxed);
                });
            }
        }
    }

    /// Records that were acquired, and of these those whose lock has ended.
    pub(super) fn deliveries(&self) -> (u64, u64) {
        (self.acquired.load(Ordering::Relaxed), self.expired.load(Ordering::Relaxed))
    }

    /// Records that were acknowledged, in the order of [`ACKNOWLEDGEMENTS`].
    pub(super) fn acknowledgements(&self) -> [u64; ACKNOWLEDGEMENTS.len()] {
        std::array::from_fn(|kind| self.acknowledged[kind].load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn acknowledgements_are_counted_by_record_and_kind() {
        let counts = ShareCounts::default();
        counts.acknowledged(&[
            AckBatch { first: 10, last: 19, types: &[1] },
            AckBatch { first: 20, last: 22, types: &[2, 3, 2] },
            AckBatch { first: 23, last: 23, types: &[9] },
        ]);
        assert_eq!(counts.acknowledgements(), [0, 10, 2, 1, 0]);
        counts.acquired(7);
        counts.expired(3);
        assert_eq!(counts.deliveries(), (7, 3));
        counts.letters.sent();
        counts.letters.written(4);
        counts.letters.given_up(2);
        let letters = DeadLetterCounts { written: 4, given_up: 2, requests: 1, failed_requests: 1 };
        assert_eq!(counts.letters.shown(), letters);
    }
}
