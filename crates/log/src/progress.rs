//! Progress of the active segment: the time of the next index entries, and their timestamps.

use levada_base::batch::{BatchView, NO_TIMESTAMP};

use crate::index::{OffsetEntry, TimeEntry};

/// State that determines the index entries; a copy is advanced with batches that are not written
/// yet.
#[derive(Clone, Debug)]
pub(crate) struct Progress {
    /// Bytes since the batch that got the last index entry.
    since_index: u64,
    /// The largest timestamp of the first batch, which `segment.ms` counts from.
    pub(crate) first_timestamp: Option<i64>,
    /// The largest timestamp, and the last offset of its batch.
    pub(crate) latest: TimeEntry,
}

/// The entries that one batch adds.
pub(crate) type NewEntries = Option<(OffsetEntry, TimeEntry)>;

impl Progress {
    /// A segment without batches.
    pub(crate) fn none() -> Self {
        Self {
            since_index: 0,
            first_timestamp: None,
            latest: TimeEntry { timestamp: NO_TIMESTAMP, delta: 0 },
        }
    }

    /// Counts a batch at `position`; returns its index entries, if any: the first batch after more
    /// than `interval` bytes gets them.
    pub(crate) fn advance(
        &mut self,
        batch: &BatchView<'_>,
        delta: u32,
        position: u64,
        interval: u32,
    ) -> NewEntries {
        let timestamp = batch.max_timestamp();
        self.first_timestamp.get_or_insert(timestamp);
        // A batch without records, left by compaction, has no record's time.
        if timestamp > self.latest.timestamp && batch.record_count() > 0 {
            self.latest = TimeEntry { timestamp, delta };
        }
        let mut entries = None;
        if self.since_index > u64::from(interval) {
            self.since_index = 0;
            entries = Some((OffsetEntry { delta, position }, self.latest));
        }
        self.since_index += batch.size_bytes() as u64;
        entries
    }
}
