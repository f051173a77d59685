//! Searches for the first offset at or after a timestamp.

use std::sync::atomic::Ordering;

use levada_base::batch::{self, BatchError, BatchView, HEADER_LEN, MAX_EXPANDED, NO_TIMESTAMP};
use levada_base::compress::CompressError;

use crate::ReadError;
use crate::partition::Partition;
use crate::segment::{SWEEP, Segment};

/// A record found by its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimestampOffset {
    /// Offset of the record.
    pub offset: i64,
    /// Timestamp of the record, ms since 1970.
    pub timestamp: i64,
    /// The leader epoch of its batch.
    pub leader_epoch: i32,
}

/// Searches of a log by the times of its records.
#[derive(Clone, Copy, Debug)]
pub struct Times<'a> {
    log: &'a Partition,
    /// Most bytes to which a batch may expand.
    expanded_max: usize,
}

impl Partition {
    /// Searches of the log by time.
    pub fn times(&self) -> Times<'_> {
        Times { log: self, expanded_max: MAX_EXPANDED }
    }

    /// The leader epoch under which `offset` was, or will be, written; -1 if unknown.
    pub fn epoch_at(&self, offset: i64) -> i32 {
        self.epochs.load().at(offset)
    }
}

impl Times<'_> {
    /// The same searches, with a limit of bytes to which a batch expands. Beyond a limit below
    /// [`MAX_EXPANDED`] they fail with [`ReadError::Expands`].
    #[must_use]
    pub fn within(self, expanded_max: usize) -> Self {
        Self { expanded_max, ..self }
    }

    /// The first record at or above the log's start whose timestamp is not before `timestamp`; none
    /// if all are earlier. Expands the one batch that contains it. Blocks on a cold page.
    ///
    /// # Errors
    /// A failing disk, bytes that are not a batch, or a batch beyond the limit.
    pub fn first_at(self, timestamp: i64) -> Result<Option<TimestampOffset>, ReadError> {
        self.log.despite_move(|| self.find(timestamp))
    }

    fn find(self, timestamp: i64) -> Result<Option<TimestampOffset>, ReadError> {
        let segments = self.log.segments.load_full();
        let log_start = self.log.log_start();
        for (at, segment) in segments.iter().enumerate() {
            let below_start = segments.get(at + 1).is_some_and(|next| next.base() <= log_start);
            if below_start {
                continue;
            }
            let latest = segment.max_timestamp(&*self.log.disk)?;
            if latest < timestamp && !(latest == NO_TIMESTAMP && self.hides_times(segment)?) {
                continue;
            }
            if let Some(found) = self.search(segment, timestamp, log_start)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// For a segment without time index entries: true if the header of its first batch does not
    /// state the times of the records, as in logs of an earlier version.
    fn hides_times(self, segment: &Segment) -> Result<bool, ReadError> {
        let mut scan = segment.scan(&*self.log.disk, 0..segment.size(), HEADER_LEN)?;
        let Some(head) = scan.next()? else { return Ok(false) };
        Ok(scan.header(&head)?.misstates_times())
    }

    /// The first record with the largest timestamp; none if the log is empty.
    ///
    /// # Errors
    /// Same as [`Times::first_at`].
    pub fn latest(self) -> Result<Option<TimestampOffset>, ReadError> {
        for looked_at in [false, true] {
            let largest = self.log.despite_move(|| self.largest(looked_at))?;
            if largest == NO_TIMESTAMP {
                continue;
            }
            let found = self.first_at(largest)?;
            if found.is_some() {
                return Ok(found);
            }
            // The indexes of a log that Kafka compacted contain times of batches without records.
        }
        Ok(None)
    }

    /// The largest timestamp from the log's start on, by the indexes or, if they are not reliable,
    /// by the batches.
    fn largest(self, looked_at: bool) -> Result<i64, ReadError> {
        let segments = self.log.segments.load_full();
        let log_start = self.log.log_start();
        let mut largest = NO_TIMESTAMP;
        for (at, segment) in segments.iter().enumerate() {
            if segments.get(at + 1).is_some_and(|next| next.base() <= log_start) {
                continue;
            }
            largest = largest.max(if looked_at || segment.base() < log_start {
                self.largest_from(segment, log_start)?
            } else {
                segment.max_timestamp(&*self.log.disk)?
            });
        }
        Ok(largest)
    }

    /// The largest timestamp of a segment's records from `log_start` on: its index also covers
    /// earlier records.
    fn largest_from(self, segment: &Segment, log_start: i64) -> Result<i64, ReadError> {
        let disk = &*self.log.disk;
        let start = segment.offsets.lookup(disk, segment.delta(log_start))?.position;
        let mut scan = segment.scan(disk, start..segment.size(), SWEEP)?;
        let mut largest = NO_TIMESTAMP;
        while let Some(head) = scan.next()? {
            let header = scan.header(&head)?;
            if header.last_offset() < log_start || header.record_count() == 0 {
                continue;
            }
            if header.base_offset() >= log_start && !header.misstates_times() {
                largest = largest.max(header.max_timestamp());
                continue;
            }
            let corrupt = scan.corrupt(head.position);
            let above = latest_of(scan.batch(&head)?, log_start, self.expanded_max);
            let above = above.map_err(|error| unread(&error, self.expanded_max, corrupt))?;
            largest = largest.max(above);
        }
        Ok(largest)
    }

    /// The latest timestamp in the batch that holds `offset`, or in the next batch if none holds
    /// it; none at the log's end. Reads one header, after a lookup in the offset index. Blocks on a
    /// cold page.
    ///
    /// # Errors
    /// A failing disk, or bytes that are not a batch.
    pub fn of_batch(self, offset: i64) -> Result<Option<i64>, ReadError> {
        self.log.despite_move(|| self.find_batch(offset))
    }

    fn find_batch(self, offset: i64) -> Result<Option<i64>, ReadError> {
        let segments = self.log.segments.load_full();
        let first = segments.partition_point(|segment| segment.base() <= offset).saturating_sub(1);
        let interval = self.log.interval.load(Ordering::Relaxed);
        for segment in &segments[first..] {
            let from = offset.max(segment.base());
            let Some(head) = segment.find(&*self.log.disk, from, segment.size(), interval)? else { continue };
            let mut scan = segment.scan(&*self.log.disk, head.position..segment.size(), HEADER_LEN)?;
            let Some(head) = scan.next()? else { continue };
            return Ok(Some(scan.header(&head)?.max_timestamp()));
        }
        Ok(None)
    }

    fn search(
        self,
        segment: &Segment,
        timestamp: i64,
        log_start: i64,
    ) -> Result<Option<TimestampOffset>, ReadError> {
        // The entry means that no record up to its offset is later than its timestamp: begin after
        // it only if that is earlier.
        let hint = segment.times.lookup(&*self.log.disk, timestamp.saturating_sub(1))?;
        let start = match hint {
            Some(entry) => segment.offsets.lookup(&*self.log.disk, entry.delta)?.position,
            None => 0,
        };
        let mut scan = segment.scan(&*self.log.disk, start..segment.size(), SWEEP)?;
        while let Some(head) = scan.next()? {
            let (last_offset, too_early) = {
                let header = scan.header(&head)?;
                let too_early = header.max_timestamp() < timestamp && !header.misstates_times();
                (header.last_offset(), too_early)
            };
            if last_offset < log_start || too_early {
                continue;
            }
            let corrupt = scan.corrupt(head.position);
            let found = first_at_or_after(scan.batch(&head)?, (timestamp, log_start), self.expanded_max);
            let found = found.map_err(|error| unread(&error, self.expanded_max, corrupt))?;
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }
}

/// The error of a batch whose records cannot be read; `corrupt` unless it is only too large for a
/// limited search.
fn unread(error: &BatchError, expanded_max: usize, corrupt: ReadError) -> ReadError {
    let is_large = matches!(error, BatchError::Compression(CompressError::TooLarge { .. }));
    if is_large && expanded_max < MAX_EXPANDED {
        ReadError::Expands { bytes_max: expanded_max }
    } else {
        corrupt
    }
}

fn first_at_or_after(
    bytes: &[u8],
    (timestamp, log_start): (i64, i64),
    expanded_max: usize,
) -> Result<Option<TimestampOffset>, BatchError> {
    let wanted = |found: &TimestampOffset| found.offset >= log_start && found.timestamp >= timestamp;
    timed(bytes, expanded_max)?.find(|found| found.as_ref().map_or(true, wanted)).transpose()
}

/// The largest timestamp of a batch's records from `log_start` on.
fn latest_of(bytes: &[u8], log_start: i64, expanded_max: usize) -> Result<i64, BatchError> {
    let mut latest = NO_TIMESTAMP;
    for found in timed(bytes, expanded_max)? {
        let found = found?;
        if found.offset >= log_start {
            latest = latest.max(found.timestamp);
        }
    }
    Ok(latest)
}

/// The records of a batch by offset and time.
fn timed(
    bytes: &[u8],
    expanded_max: usize,
) -> Result<impl Iterator<Item = Result<TimestampOffset, BatchError>>, BatchError> {
    let header = BatchView::parse(bytes)?;
    let (base, leader_epoch) = (header.base_offset(), header.leader_epoch());
    let (base_timestamp, stamped) = (header.base_timestamp(), header.is_log_append_time());
    let stamp = stamped.then(|| header.max_timestamp());
    let records = batch::records_within(bytes, expanded_max)?;
    Ok(records.map(move |record| {
        let record = record?;
        let own = base_timestamp.saturating_add(record.timestamp_delta);
        let offset = base.saturating_add(i64::from(record.offset_delta));
        Ok(TimestampOffset { offset, timestamp: stamp.unwrap_or(own), leader_epoch })
    }))
}
