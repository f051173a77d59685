//! The batches of a range that was read, by their headers.

use levada_base::batch::HEADER_LEN;
use levada_io::Extent;

use crate::ReadError;
use crate::disk::{NonBlockingReads, ReadFiles};
use crate::partition::{Partition, Slice};
use crate::segment::{Head, Scan};

/// Bytes of one read where batches are small; where they are large, only headers are.
const WINDOW_BYTES: usize = 4096;
/// Size in bytes up to which a batch is small: a window has several.
const SMALL_BATCH_BYTES: u64 = WINDOW_BYTES as u64 / 4;
const _: () = assert!(HEADER_LEN < WINDOW_BYTES, "a window has the header of a batch");

/// A batch in a range that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchSpan {
    /// Base offset.
    pub base_offset: i64,
    /// Last offset, inclusive.
    pub last_offset: i64,
    /// Position in the file of the range, in bytes.
    pub position: u64,
    /// Size in bytes.
    pub size: u64,
    /// Producer id, or [`levada_base::batch::NO_PRODUCER_ID`].
    pub producer_id: i64,
    /// True if the batch belongs to a transaction.
    pub is_transactional: bool,
    /// True for the marker at the end of a transaction.
    pub is_control: bool,
}

impl BatchSpan {
    fn read(scan: &mut Scan<'_>, head: &Head) -> Result<Self, ReadError> {
        let header = scan.header(head)?;
        let span = Self {
            base_offset: head.base_offset,
            last_offset: header.last_offset(),
            position: head.position,
            size: head.size,
            producer_id: header.producer_id(),
            is_transactional: header.is_transactional(),
            is_control: header.is_control(),
        };
        if span.last_offset < span.base_offset { Err(scan.corrupt(head.position)) } else { Ok(span) }
    }
}

impl Slice {
    /// The part of the range from the first of these batches to the last; none without batches. The
    /// batches are neighbours in the range.
    pub fn extent_of(&self, batches: &[BatchSpan]) -> Option<Extent> {
        let (extent, (first, last)) = (self.extent.as_ref()?, batches.first().zip(batches.last())?);
        let end = (last.position + last.size).min(extent.offset + extent.len);
        let len = end.checked_sub(first.position).filter(|len| *len > 0)?;
        Some(Extent { file: extent.file.clone(), offset: first.position, len })
    }
}

impl Partition {
    /// The batches of a range, in order, up to the one for which `is_enough` is true. Reads their
    /// headers; does not wait for them if the range was found by [`Partition::read_cached`].
    ///
    /// # Errors
    /// A failing disk, bytes that are not a batch, and [`ReadError::Cold`].
    pub fn batches_in(
        &self,
        slice: &Slice,
        is_enough: impl FnMut(&BatchSpan) -> bool,
    ) -> Result<Vec<BatchSpan>, ReadError> {
        let cached = NonBlockingReads(&*self.disk);
        let disk: &dyn ReadFiles = if slice.cached { &cached } else { &*self.disk };
        let found = batches_in(disk, slice, is_enough);
        found.map_err(|error| if slice.cached { error.or_cold() } else { error })
    }
}

fn batches_in(
    disk: &dyn ReadFiles,
    slice: &Slice,
    mut is_enough: impl FnMut(&BatchSpan) -> bool,
) -> Result<Vec<BatchSpan>, ReadError> {
    let mut found = Vec::new();
    let (Some(extent), Some(segments)) = (&slice.extent, &slice.segments) else { return Ok(found) };
    let at = segments.partition_point(|segment| segment.base() <= slice.base_offset).saturating_sub(1);
    let Some(segment) = segments.get(at) else { return Ok(found) };
    let (mut next, end) = (extent.offset, extent.offset + extent.len);
    while next < end {
        // Neighbouring batches are of similar size.
        let is_small = found.last().is_some_and(|batch: &BatchSpan| batch.size <= SMALL_BATCH_BYTES);
        let mut scan = segment.scan(disk, next..end, if is_small { WINDOW_BYTES } else { HEADER_LEN })?;
        while let Some(head) = scan.next()? {
            let batch = BatchSpan::read(&mut scan, &head)?;
            found.push(batch);
            if is_enough(&batch) {
                return Ok(found);
            }
            next = head.end();
            if (batch.size <= SMALL_BATCH_BYTES) != is_small {
                break;
            }
        }
    }
    Ok(found)
}
