//! The batches of a range that was read: all of them by their headers, or only the last ones.

use std::ops::Range;

use levada_base::batch::{HEADER_LEN, NO_PRODUCER_ID};
use levada_io::Extent;

use crate::ReadError;
use crate::disk::{NonBlockingReads, ReadFiles};
use crate::index::OffsetEntry;
use crate::partition::{Partition, Slice};
use crate::segment::{Head, Scan, Segment};

/// Bytes of one read where batches are small; where they are large, only headers are.
const WINDOW_BYTES: usize = 4096;
/// Size in bytes up to which a batch is small: a window has several.
const SMALL_BATCH_BYTES: u64 = WINDOW_BYTES as u64 / 4;
const _: () = assert!(HEADER_LEN < WINDOW_BYTES, "a window has the header of a batch");

/// A batch in a range that was read, or several neighbouring ones whose headers were not read.
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
    /// True for batches that [`Partition::last_batches_in`] has joined: their producers and kinds
    /// are unknown.
    pub is_joined: bool,
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
            is_joined: false,
        };
        if span.last_offset < span.base_offset { Err(scan.corrupt(head.position)) } else { Ok(span) }
    }

    /// The batches of a range before this batch, as one.
    fn join_earlier(&self, base_offset: i64, position: u64) -> Self {
        Self {
            base_offset,
            last_offset: self.base_offset - 1,
            position,
            size: self.position - position,
            producer_id: NO_PRODUCER_ID,
            is_transactional: false,
            is_control: false,
            is_joined: true,
        }
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

    /// The segment of the range, and the positions of the range.
    fn place(&self) -> Option<(&Segment, Range<u64>)> {
        let (extent, segments) = (self.extent.as_ref()?, self.segments.as_ref()?);
        let at = segments.partition_point(|segment| segment.base() <= self.base_offset).saturating_sub(1);
        Some((segments.get(at)?, extent.offset..extent.offset + extent.len))
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
        self.read_in(slice, |disk, segment, range| batches_in(disk, segment, range, is_enough))
    }

    /// Like [`Partition::batches_in`] up to the batch that ends at or after `until`, but joins the
    /// batches before the last index entry up to `until` to one, and reads their headers only if
    /// there is no such entry, or if the index is wrong. Lists at most about `count_max` batches.
    ///
    /// # Errors
    /// Same as [`Partition::batches_in`].
    pub fn last_batches_in(
        &self,
        slice: &Slice,
        (until, count_max): (i64, usize),
    ) -> Result<Vec<BatchSpan>, ReadError> {
        self.read_in(slice, |disk, segment, range| {
            let list = |range| {
                let mut count = 0;
                batches_in(disk, segment, range, |batch| {
                    count += 1;
                    count >= count_max || batch.last_offset >= until
                })
            };
            let entry = last_entry(disk, segment, (range.end, until))?;
            let Some(entry) = entry.filter(|entry| entry.position > range.start) else {
                return list(range);
            };
            let latest = segment.base() + i64::from(entry.delta);
            match list(entry.position..range.end) {
                Ok(mut batches)
                    if batches.first().is_some_and(|first| {
                        (slice.base_offset + 1..=until).contains(&first.base_offset)
                            && first.last_offset <= latest
                    }) =>
                {
                    let joined = batches[0].join_earlier(slice.base_offset, range.start);
                    batches.insert(0, joined);
                    Ok(batches)
                }
                // No batch begins there: the index is wrong.
                Ok(_) | Err(ReadError::Corrupt { .. }) => list(range),
                Err(error) => Err(error),
            }
        })
    }

    fn read_in(
        &self,
        slice: &Slice,
        read: impl FnOnce(&dyn ReadFiles, &Segment, Range<u64>) -> Result<Vec<BatchSpan>, ReadError>,
    ) -> Result<Vec<BatchSpan>, ReadError> {
        let Some((segment, range)) = slice.place() else { return Ok(Vec::new()) };
        let cached = NonBlockingReads(&*self.disk);
        let disk: &dyn ReadFiles = if slice.cached { &cached } else { &*self.disk };
        let found = read(disk, segment, range);
        found.map_err(|error| if slice.cached { error.or_cold() } else { error })
    }
}

/// The last index entry below the position `end` whose batch ends at or before the offset `until`.
fn last_entry(
    disk: &dyn ReadFiles,
    segment: &Segment,
    (end, until): (u64, i64),
) -> Result<Option<OffsetEntry>, ReadError> {
    let delta = segment.delta(until);
    // Mostly a range has fewer offsets: one search is enough.
    let last = segment.offsets.last_up_to(disk, end - 1)?;
    if last.is_none_or(|last| last.delta <= delta) {
        return Ok(last);
    }
    let hint = segment.offsets.lookup(disk, delta)?;
    let earlier = hint.delta.map(|delta| OffsetEntry { delta, position: hint.position });
    Ok(earlier.filter(|earlier| earlier.position < end))
}

fn batches_in(
    disk: &dyn ReadFiles,
    segment: &Segment,
    range: Range<u64>,
    mut is_enough: impl FnMut(&BatchSpan) -> bool,
) -> Result<Vec<BatchSpan>, ReadError> {
    let mut found = Vec::new();
    let mut next = range.start;
    while next < range.end {
        // Neighbouring batches are of similar size.
        let is_small = found.last().is_some_and(|batch: &BatchSpan| batch.size <= SMALL_BATCH_BYTES);
        let window = if is_small { WINDOW_BYTES } else { HEADER_LEN };
        let mut scan = segment.scan(disk, next..range.end, window)?;
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
