//! Acknowledged batches of a partition.

use levada_tests::replicas::Batch;

/// The batches of a partition in the order of their offsets, as the leader had them on its disk.
#[derive(Default)]
pub(super) struct Ledger(Vec<Batch>);

impl Ledger {
    /// The offset after the last batch.
    pub(super) fn end(&self) -> i64 {
        self.0.last().map_or(0, |batch| batch.last + 1)
    }

    /// Adds batches that follow.
    pub(super) fn add(&mut self, batches: Vec<Batch>) {
        for batch in batches {
            assert_eq!(batch.base, self.end(), "the next batch");
            self.0.push(batch);
        }
    }

    /// The batches from the one with an offset on.
    pub(super) fn from(&self, offset: i64) -> &[Batch] {
        let first = self.0.partition_point(|batch| batch.last < offset);
        &self.0[first..]
    }

    /// True if these are adjacent batches of the partition.
    pub(super) fn has(&self, batches: &[Batch]) -> bool {
        let Some(first) = batches.first() else { return false };
        self.from(first.base).starts_with(batches)
    }
}
