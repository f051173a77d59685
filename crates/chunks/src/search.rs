//! Searches in a remote segment: a position by an offset or a timestamp, and batches from there on.
//! Each header is checked before use, because index and segment come from another system.

use std::fs::File;
use std::io;
use std::ops::Range;

use levada_base::batch::{self, BatchError, BatchView, HEADER_LEN, MAX_EXPANDED, NO_TIMESTAMP};

mod indexes;
#[cfg(test)]
mod tests;

pub use indexes::{AbortedEntries, AbortedEntry, OffsetEntries, OffsetEntry, TimeEntries};

/// Bytes of a segment's records by position.
pub trait RecordBytes {
    /// The reason why bytes are not available.
    type Error;

    /// Fills `into` from `position` on. The caller has checked that the segment has these bytes.
    /// Blocks.
    ///
    /// # Errors
    /// The bytes cannot be read.
    fn read_at(&self, position: u64, into: &mut [u8]) -> Result<(), Self::Error>;
}

/// The reason why a search has no result.
#[derive(Debug, thiserror::Error)]
pub enum SearchError<E> {
    /// The bytes cannot be read.
    #[error("the bytes of the segment cannot be read")]
    Read(E),
    /// The local file of an index cannot be read.
    #[error("an index in the remote cache: {0}")]
    Index(#[from] io::Error),
    /// A batch is damaged, or does not follow the one before it.
    #[error("position {position}: {fault}")]
    Damaged {
        /// Position of the damage in the segment.
        position: u64,
        /// Description of the damage.
        fault: String,
    },
}

/// The header of a batch in a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchAt {
    /// Position of the batch in the segment.
    pub position: u64,
    /// Size of the batch, bytes.
    pub size: u64,
    /// First offset of the batch.
    pub base_offset: i64,
    /// Last offset of the batch.
    pub last_offset: i64,
    /// Largest timestamp of the batch, ms since 1970.
    pub max_timestamp: i64,
    /// True if the header does not state the times of the records.
    misstates_times: bool,
}

impl BatchAt {
    /// Position after the batch.
    pub fn end(&self) -> u64 {
        self.position + self.size
    }
}

/// The first batch in a range of positions whose last offset is not before `offset`; none if there
/// is none. A batch begins at the start of the range.
///
/// # Errors
/// The bytes cannot be read, or are not batches in order.
pub fn first_batch<B: RecordBytes>(
    bytes: &B,
    range: Range<u64>,
    offset: i64,
) -> Result<Option<BatchAt>, SearchError<B::Error>> {
    let mut position = range.start;
    let mut last_offset = i64::MIN;
    while let Some(found) = batch_at(bytes, position, range.end)? {
        if found.base_offset <= last_offset {
            return Err(damaged(position, format!("offset {} follows {last_offset}", found.base_offset)));
        }
        if found.last_offset >= offset {
            return Ok(Some(found));
        }
        (position, last_offset) = (found.end(), found.last_offset);
    }
    Ok(None)
}

/// End of the last batch that follows `first` and does not end after `limit`; the end of `first` if
/// there is none. The index gives a position near the limit.
///
/// # Errors
/// Same as [`first_batch`].
pub fn whole_until<B: RecordBytes>(
    bytes: &B,
    offsets: OffsetEntries<'_>,
    first: &BatchAt,
    limit: u64,
) -> Result<u64, SearchError<B::Error>> {
    let boundary = offsets.last_within(limit)?;
    if let Some(boundary) = boundary.filter(|entry| u64::from(entry.position) >= first.end()) {
        return Ok(boundary.position.into());
    }
    let mut end = first.end();
    while let Some(next) = batch_at(bytes, end, limit)? {
        end = next.end();
    }
    Ok(end)
}

/// The first record at or after an offset whose timestamp is not before `timestamp`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimedRecord {
    /// Offset of the record.
    pub offset: i64,
    /// Timestamp of the record, ms since 1970.
    pub timestamp: i64,
    /// The leader epoch of its batch.
    pub leader_epoch: i32,
}

/// The first record at or after the offset `from` whose timestamp is not before `timestamp`, in the
/// batches of a range of positions; none if there is none. Expands the batches that may have it.
///
/// # Errors
/// Same as [`first_batch`].
pub fn first_by_time<B: RecordBytes>(
    bytes: &B,
    range: Range<u64>,
    (timestamp, from): (i64, i64),
) -> Result<Option<TimedRecord>, SearchError<B::Error>> {
    let mut position = range.start;
    while let Some(found) = batch_at(bytes, position, range.end)? {
        position = found.end();
        let is_too_early = found.max_timestamp < timestamp && !found.misstates_times;
        if found.last_offset < from || is_too_early {
            continue;
        }
        let size = usize::try_from(found.size).map_err(|_| damaged(found.position, "too large".into()))?;
        let mut whole = vec![0; size];
        bytes.read_at(found.position, &mut whole).map_err(SearchError::Read)?;
        let record = timed(&whole, timestamp, from);
        let record = record.map_err(|error| damaged(found.position, error.to_string()))?;
        if record.is_some() {
            return Ok(record);
        }
    }
    Ok(None)
}

fn timed(whole: &[u8], timestamp: i64, from: i64) -> Result<Option<TimedRecord>, BatchError> {
    let header = BatchView::parse(whole)?;
    let stamp = header.is_log_append_time().then(|| header.max_timestamp());
    for record in batch::records_within(whole, MAX_EXPANDED)? {
        let record = record?;
        let own = header.base_timestamp().saturating_add(record.timestamp_delta);
        let offset = header.base_offset().saturating_add(i64::from(record.offset_delta));
        let (time, leader_epoch) = (stamp.unwrap_or(own), header.leader_epoch());
        if offset >= from && time >= timestamp && time != NO_TIMESTAMP {
            return Ok(Some(TimedRecord { offset, timestamp: time, leader_epoch }));
        }
    }
    Ok(None)
}

/// The batch at a position; none if no whole batch fits before `end`.
fn batch_at<B: RecordBytes>(
    bytes: &B,
    position: u64,
    end: u64,
) -> Result<Option<BatchAt>, SearchError<B::Error>> {
    if position.saturating_add(HEADER_LEN as u64) > end {
        return Ok(None);
    }
    let mut header = [0; HEADER_LEN];
    bytes.read_at(position, &mut header).map_err(SearchError::Read)?;
    let view = BatchView::parse_header(&header).map_err(|error| damaged(position, error.to_string()))?;
    let size = view.size_bytes() as u64;
    if view.base_offset() < 0 || view.last_offset() < view.base_offset() {
        return Err(damaged(position, format!("offsets {} to {}", view.base_offset(), view.last_offset())));
    }
    let found = BatchAt {
        position,
        size,
        base_offset: view.base_offset(),
        last_offset: view.last_offset(),
        max_timestamp: view.max_timestamp(),
        misstates_times: view.misstates_times(),
    };
    Ok((found.end() <= end).then_some(found))
}

fn damaged<E>(position: u64, fault: String) -> SearchError<E> {
    SearchError::Damaged { position, fault }
}

/// Reads the whole of a file's range.
fn read_range(file: &File, at: u64, into: &mut [u8]) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, into, at)
}
