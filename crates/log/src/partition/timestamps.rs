//! From a point in time to an offset.

use crate::ReadError;
use crate::batch::{self, NO_TIMESTAMP};
use crate::partition::Partition;
use crate::segment::{SWEEP, Segment};

/// A record found by its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimestampOffset {
    /// The record's offset.
    pub offset: i64,
    /// Its timestamp, in milliseconds since 1970.
    pub timestamp: i64,
    /// The leader epoch of its batch.
    pub leader_epoch: i32,
}

impl Partition {
    /// The first record not below the log's start whose timestamp is not before `timestamp`; none if all are. Expands the one
    /// batch that holds it. Blocks on a cold page.
    ///
    /// # Errors
    /// A failing disk, or bytes that are no batch.
    pub fn offset_for_timestamp(&self, timestamp: i64) -> Result<Option<TimestampOffset>, ReadError> {
        let segments = self.segments.load_full();
        let log_start = self.log_start();
        for (at, segment) in segments.iter().enumerate() {
            let below_start = segments.get(at + 1).is_some_and(|next| next.base() <= log_start);
            if below_start || segment.max_timestamp(&*self.disk)? < timestamp {
                continue;
            }
            if let Some(found) = self.search(segment, timestamp, log_start)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// The first record with the largest timestamp; none if the log is empty.
    ///
    /// # Errors
    /// As [`Partition::offset_for_timestamp`].
    pub fn max_timestamp_offset(&self) -> Result<Option<TimestampOffset>, ReadError> {
        let segments = self.segments.load_full();
        let mut largest = NO_TIMESTAMP;
        for segment in segments.iter() {
            largest = largest.max(segment.max_timestamp(&*self.disk)?);
        }
        if largest == NO_TIMESTAMP { Ok(None) } else { self.offset_for_timestamp(largest) }
    }

    /// The leader epoch under which `offset` was, or will be, written; -1 if unknown.
    pub fn epoch_at(&self, offset: i64) -> i32 {
        self.epochs.load().at(offset)
    }

    fn search(
        &self,
        segment: &Segment,
        timestamp: i64,
        log_start: i64,
    ) -> Result<Option<TimestampOffset>, ReadError> {
        // The entry says that up to its offset nothing is later than its timestamp: begin behind it only if that is earlier.
        let hint = segment.times.lookup(&*self.disk, timestamp.saturating_sub(1))?;
        let start = match hint {
            Some(entry) => segment.offsets.lookup(&*self.disk, entry.delta)?.position,
            None => 0,
        };
        let mut scan = segment.scan(&*self.disk, start..segment.size(), SWEEP)?;
        while let Some(head) = scan.next()? {
            let (last_offset, latest) = {
                let header = scan.header(&head)?;
                (header.last_offset(), header.max_timestamp())
            };
            if last_offset < log_start || latest < timestamp {
                continue;
            }
            let corrupt = scan.corrupt(head.position);
            let found = first_at_or_after(scan.batch(&head)?, timestamp, log_start).map_err(|_| corrupt)?;
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }
}

fn first_at_or_after(
    bytes: &[u8],
    timestamp: i64,
    log_start: i64,
) -> Result<Option<TimestampOffset>, batch::BatchError> {
    let header = batch::BatchView::parse(bytes)?;
    for record in batch::records(bytes)? {
        let record = record?;
        let offset = header.base_offset() + i64::from(record.offset_delta);
        let time = match header.is_log_append_time() {
            true => header.max_timestamp(),
            false => header.base_timestamp().saturating_add(record.timestamp_delta),
        };
        if offset >= log_start && time >= timestamp {
            return Ok(Some(TimestampOffset {
                offset,
                timestamp: time,
                leader_epoch: header.leader_epoch(),
            }));
        }
    }
    Ok(None)
}
