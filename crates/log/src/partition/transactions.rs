//! Which aborted transactions a reader of committed data must be told of.

use crate::ReadError;
use crate::batch::HEADER_LEN;
use crate::disk::{Cached, Disk};
use crate::partition::{Partition, Slice};

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
        self.overlapping(&*self.disk, from, upto)
    }

    fn overlapping(
        &self,
        disk: &dyn Disk,
        from: i64,
        upto: i64,
    ) -> Result<Vec<AbortedTransaction>, ReadError> {
        let segments = self.segments.load();
        let first = segments.partition_point(|segment| segment.base() <= from).saturating_sub(1);
        let mut found = Vec::new();
        for segment in &segments[first.min(segments.len())..] {
            if segment.aborted.overlapping(disk, (from, upto), &mut found)? {
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

    /// As [`Partition::aborted`], for a range that was read from `from` on, bounded by `upto`. Reads at most one more header; does not
    /// wait for it if the range was found by [`Partition::read_cached`].
    ///
    /// # Errors
    /// As there, and [`ReadError::Cold`].
    pub fn aborted_in(
        &self,
        slice: &Slice,
        from: i64,
        upto: i64,
    ) -> Result<Vec<AbortedTransaction>, ReadError> {
        let Some(extent) = &slice.extent else { return Ok(Vec::new()) };
        let cached = Cached(&*self.disk);
        let disk = if slice.cached { &cached } else { &*self.disk };
        let end = self.end_of(disk, slice.base_offset, extent.offset + extent.len);
        let found = end.and_then(|end| self.overlapping(disk, from, end.min(upto)));
        found.map_err(|error| if slice.cached { error.or_cold() } else { error })
    }

    /// The offset at which the batch behind `position` begins, in the segment that holds `offset`; the largest one if there is none yet.
    fn end_of(&self, disk: &dyn Disk, offset: i64, position: u64) -> Result<i64, ReadError> {
        let segments = self.segments.load();
        let at = segments.partition_point(|segment| segment.base() <= offset).saturating_sub(1);
        let Some(segment) = segments.get(at) else { return Ok(i64::MAX) };
        let head = segment.scan(disk, position..segment.size(), HEADER_LEN)?.next()?;
        let next = segments.get(at + 1).map_or(i64::MAX, |next| next.base());
        Ok(head.map_or(next, |head| head.base_offset))
    }
}
