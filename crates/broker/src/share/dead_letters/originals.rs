//! The records that dead letters are about, read from the log a batch at a time.

use std::sync::Arc;

use levada_base::batch::{self, BatchView, Record, Records};
use levada_log::Partition as Log;

/// Largest batch that is read, stored and expanded, in bytes. Dead letters of records in larger
/// ones have no copies.
const BATCH_BYTES_MAX: usize = 8 << 20;

/// Bytes read and expanded after which the reader is used up.
const WORK_BYTES_MAX: usize = 64 << 20;

/// Reads records in the order of their offsets. Blocks for the disk. Keeps one batch in memory.
pub(super) struct Originals {
    log: Arc<Log>,
    /// Last offset for which the log was read, or that its batch has.
    read_up_to: i64,
    base: i64,
    records: Option<Records>,
    /// The next record of the batch.
    next: Option<(i64, Record)>,
    /// Bytes that were read and expanded.
    work_bytes: usize,
}

impl Originals {
    pub(super) fn new(log: Arc<Log>) -> Self {
        Self { log, read_up_to: -1, base: 0, records: None, next: None, work_bytes: 0 }
    }

    /// True if a record of another batch is better read later: other work waits for this reader.
    pub(super) fn is_used_up(&self) -> bool {
        self.work_bytes >= WORK_BYTES_MAX
    }

    /// The record at an offset that is not below the one before; none if there is none, if it
    /// cannot be read, and for records that are not a client's.
    pub(super) fn record(&mut self, offset: i64) -> Option<Record> {
        if offset > self.read_up_to {
            self.open(offset);
        }
        while self.next.as_ref().is_some_and(|(at, _)| *at < offset) {
            self.next = self.take();
        }
        self.next.as_ref().filter(|(at, _)| *at == offset).map(|(_, record)| record.clone())
    }

    fn take(&mut self) -> Option<(i64, Record)> {
        let record = self.records.as_mut()?.next()?.ok()?;
        Some((self.base.saturating_add(record.offset_delta.into()), record))
    }

    /// Reads the batch of an offset, or the next one.
    fn open(&mut self, offset: i64) {
        (self.read_up_to, self.records, self.next) = (offset, None, None);
        // The size before the bytes: nothing is allocated for a batch that is too large.
        let Ok(range) = self.log.read(offset, 1, self.log.high_watermark(), true) else { return };
        let Some(extent) = range.extent else { return };
        if extent.len > BATCH_BYTES_MAX as u64 {
            return;
        }
        let Ok(bytes) = self.log.read_batches(offset, 1) else { return };
        self.work_bytes += bytes.len();
        let Ok(view) = BatchView::parse(&bytes) else { return };
        self.base = view.base_offset();
        self.read_up_to = view.last_offset().max(offset);
        if view.is_control() {
            return;
        }
        self.records = batch::records_within(&bytes, BATCH_BYTES_MAX).ok();
        // Also an expansion that has failed took its time.
        self.work_bytes += self.records.as_ref().map_or(BATCH_BYTES_MAX, Records::expanded_bytes);
        self.next = self.take();
    }
}
