//! The part of a batch that remains: all of it, some of its records, its header, or nothing.

use std::borrow::Cow;

use levada_base::batch::{self, BatchView, RecompressError, Record, Records};

use super::key_map::KeyMap;
use super::transactions::Transactions;
use crate::producers::LastRecords;

/// Decides on batches in the order of the log.
pub(super) struct Filter<'a> {
    pub(super) keys: &'a KeyMap,
    pub(super) transactions: &'a mut Transactions,
    pub(super) producers: &'a LastRecords,
    /// End of this compaction: the batch before it stays, so that the offset is not lost.
    pub(super) end: i64,
    pub(super) now_ms: i64,
    pub(super) delete_retention_ms: i64,
    /// Number of records kept so far.
    pub(super) kept: u64,
    /// Number of records checked.
    pub(super) seen: u64,
}

/// The records of a batch that are kept. They are decoded again for the new batch: a batch may have
/// millions, each of which would take more memory than its bytes.
#[derive(Default)]
struct Kept {
    records: Option<Records>,
    /// For each record of the batch, true if compaction keeps it.
    stays: Vec<bool>,
    count: usize,
    has_tombstone: bool,
}

impl Kept {
    fn iter(&self) -> impl Iterator<Item = Record> + Clone {
        // All of them were decoded before.
        let records = self.records.clone().into_iter().flatten().map_while(Result::ok);
        records.zip(&self.stays).filter(|(_, stays)| **stays).map(|(record, _)| record)
    }
}

impl Filter<'_> {
    /// Remaining part of an intact batch.
    ///
    /// # Errors
    /// Records that are none, or a codec that fails.
    pub(super) fn filter<'b>(&mut self, bytes: &'b [u8]) -> Result<Option<Cow<'b, [u8]>>, RecompressError> {
        let batch = BatchView::parse(bytes)?;
        let settled = if batch.is_control() {
            self.transactions.pass_marker(&batch)
        } else {
            self.transactions.pass(&batch)
        };
        let is_over = batch.delete_horizon_ms().is_some_and(|horizon_ms| horizon_ms <= self.now_ms);
        let dropped = settled && (!batch.is_control() || is_over);
        let stays = self.producers.is_last(&batch) || batch.last_offset() + 1 == self.end;
        if dropped && !stays {
            self.seen += batch.record_count().unsigned_abs() as u64;
            return Ok(None);
        }
        let kept = self.records(&batch, dropped, is_over)?;
        if kept.count == 0 {
            return Ok(if stays { Some(batch::emptied(&batch)?.into()) } else { None });
        }
        self.kept += kept.count as u64;
        let begins_horizon =
            batch.delete_horizon_ms().is_none() && (batch.is_control() && settled || kept.has_tombstone);
        if kept.count == batch.record_count().unsigned_abs() as usize && !begins_horizon {
            return Ok(Some(bytes.into()));
        }
        let horizon_ms = if begins_horizon {
            Some(self.now_ms.saturating_add(self.delete_retention_ms))
        } else {
            batch.delete_horizon_ms()
        };
        Ok(Some(batch::rewrite(&batch, kept.iter(), horizon_ms)?.into()))
    }

    fn records(
        &mut self,
        batch: &BatchView<'_>,
        dropped: bool,
        is_over: bool,
    ) -> Result<Kept, RecompressError> {
        let mut kept = Kept::default();
        self.seen += batch.record_count().unsigned_abs() as u64;
        if dropped || batch.record_count() == 0 {
            return Ok(kept);
        }
        let records = batch::records(batch.bytes())?;
        for record in records.clone() {
            let record = record?;
            let stays = batch.is_control() || self.is_current(batch, &record, is_over);
            kept.stays.push(stays);
            kept.count += usize::from(stays);
            kept.has_tombstone |= stays && record.value.is_none();
        }
        kept.records = Some(records);
        Ok(kept)
    }

    fn is_current(&self, batch: &BatchView<'_>, record: &Record, is_over: bool) -> bool {
        let offset = batch.base_offset() + i64::from(record.offset_delta);
        if offset > self.keys.latest() {
            return true;
        }
        // A record without a key is removed: such records are from before the topic was compacted.
        let Some(key) = &record.key else { return false };
        self.keys.last(key).is_none_or(|last| offset >= last) && (record.value.is_some() || !is_over)
    }
}
