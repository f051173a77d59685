//! Aborted transactions for consumers with `read_committed`.

use std::sync::Arc;

use levada_base::batch::HEADER_LEN;

use crate::disk::{NonBlockingReads, ReadFiles};
use crate::index::Aborted;
use crate::partition::{Partition, Slice};
use crate::segment::Segment;
use crate::{LogError, ReadError};

/// An aborted transaction that overlaps a range: the reader drops this producer's records from the
/// first offset up to its abort marker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AbortedTransaction {
    /// Producer id of the transaction.
    pub producer_id: i64,
    /// The first offset of the transaction.
    pub first_offset: i64,
}

impl Partition {
    /// Every aborted transaction with an offset in `from..upto`, by first offset. `upto` must not
    /// be above the last stable offset: the result of later transactions is not known yet. Reads
    /// the ends of small files; no lock.
    ///
    /// # Errors
    /// A failing disk, or an index that is none.
    pub fn aborted(&self, from: i64, upto: i64) -> Result<Vec<AbortedTransaction>, ReadError> {
        Ok(told(aborted_among(&self.segments.load(), &*self.disk, (from, upto))?))
    }

    /// Like [`Partition::aborted`], for a range that was read from `from` on, with the limit
    /// `upto`: by the files of the read, even if compaction has replaced them since. Reads at most
    /// one more header; does not wait for it if the range was found by [`Partition::read_cached`].
    ///
    /// # Errors
    /// Same as [`Partition::aborted`], and [`ReadError::Cold`].
    pub fn aborted_in(
        &self,
        slice: &Slice,
        from: i64,
        upto: i64,
    ) -> Result<Vec<AbortedTransaction>, ReadError> {
        let (Some(extent), Some(segments)) = (&slice.extent, &slice.segments) else { return Ok(Vec::new()) };
        let cached = NonBlockingReads(&*self.disk);
        let disk: &dyn ReadFiles = if slice.cached { &cached } else { &*self.disk };
        let end = end_of(segments, disk, (slice.base_offset, extent.offset + extent.len));
        let found = end.and_then(|end| Ok(aborted_among(segments, disk, (from, end.min(upto)))?));
        found.map(told).map_err(|error| if slice.cached { error.or_cold() } else { error })
    }
}

/// The aborted transactions with an offset in `from..upto`, in the order of their markers.
pub(crate) fn aborted_among(
    segments: &[Arc<Segment>],
    disk: &dyn ReadFiles,
    (from, upto): (i64, i64),
) -> Result<Vec<Aborted>, LogError> {
    let first = segments.partition_point(|segment| segment.base() <= from).saturating_sub(1);
    let mut found = Vec::new();
    for segment in &segments[first.min(segments.len())..] {
        if segment.aborted.overlapping(disk, (from, upto), &mut found)? {
            break;
        }
    }
    Ok(found)
}

/// The offset at which the batch after `position` begins, in the segment that holds `offset`; the
/// largest one if there is none yet.
fn end_of(
    segments: &[Arc<Segment>],
    disk: &dyn ReadFiles,
    (offset, position): (i64, u64),
) -> Result<i64, ReadError> {
    let at = segments.partition_point(|segment| segment.base() <= offset).saturating_sub(1);
    let Some(segment) = segments.get(at) else { return Ok(i64::MAX) };
    let head = segment.scan(disk, position..segment.size(), HEADER_LEN)?.next()?;
    let next = segments.get(at + 1).map_or(i64::MAX, |next| next.base());
    Ok(head.map_or(next, |head| head.base_offset))
}

fn told(mut found: Vec<Aborted>) -> Vec<AbortedTransaction> {
    found.sort_by_key(|one| one.first_offset);
    let told =
        |one: Aborted| AbortedTransaction { producer_id: one.producer_id, first_offset: one.first_offset };
    found.into_iter().map(told).collect()
}
