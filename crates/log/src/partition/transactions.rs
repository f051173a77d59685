//! Which aborted transactions a reader of committed data must be told of.

use crate::ReadError;
use crate::partition::Partition;

/// An aborted transaction that overlaps a range: the reader drops this producer's records from the first offset up to its abort marker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AbortedTransaction {
    /// The producer.
    pub producer_id: i64,
    /// The first offset of the transaction.
    pub first_offset: i64,
}

impl Partition {
    /// Every aborted transaction with an offset in `from..upto`, by first offset. `upto` must not lie behind the last stable
    /// offset: of what lies behind it is not known yet how it ends. Reads the ends of small files; no lock.
    ///
    /// # Errors
    /// A failing disk, or an index that is none.
    pub fn aborted(&self, from: i64, upto: i64) -> Result<Vec<AbortedTransaction>, ReadError> {
        let segments = self.segments.load();
        let first = segments.partition_point(|segment| segment.base() <= from).saturating_sub(1);
        let mut found = Vec::new();
        for segment in &segments[first.min(segments.len())..] {
            if segment.aborted.overlapping(&*self.disk, (from, upto), &mut found)? {
                break;
            }
        }
        let told = |one: crate::index::Aborted| AbortedTransaction {
            producer_id: one.producer_id,
            first_offset: one.first_offset,
        };
        let mut found: Vec<AbortedTransaction> = found.into_iter().map(told).collect();
        found.sort_by_key(|one| one.first_offset);
        Ok(found)
    }
}
