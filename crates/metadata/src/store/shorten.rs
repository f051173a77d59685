//! Retention of the metadata log: regular snapshots of the image, and removal of older snapshots
//! and segments. A snapshot and its name are on the device before the files that it replaces are
//! removed.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use levada_base::batch::BatchView;
use levada_log::disk::Disk;
use levada_log::journal::{SegmentLimits, segments};

use super::snapshot::{LogRecord, Snapshot, SnapshotId, each_record, snapshots};
use super::{Store, StoreError};
use crate::image::Image;
use crate::records::control::ControlRecord;

/// Intervals of snapshots, and retention of old files. The defaults are Kafka's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreLimits {
    /// `metadata.log.segment.bytes`: the most bytes of a segment.
    pub segment_bytes: u64,
    /// `metadata.log.segment.ms`: the longest time between the timestamps of a segment's first
    /// batch and of another.
    pub segment_ms: i64,
    /// `metadata.log.max.record.bytes.between.snapshots`: bytes of records after which a snapshot
    /// is taken.
    pub snapshot_bytes: u64,
    /// `metadata.log.max.snapshot.interval.ms`: time after which a snapshot is taken if records
    /// were appended; 0 for never.
    pub snapshot_interval_ms: i64,
    /// `metadata.max.retention.bytes`: the oldest snapshots and segments are removed while the
    /// total is larger; negative for never.
    pub retention_bytes: i64,
    /// `metadata.max.retention.ms`: or when they are older; negative for never.
    pub retention_ms: i64,
}

impl Default for StoreLimits {
    fn default() -> Self {
        Self {
            segment_bytes: 1 << 30,
            segment_ms: 7 * 86_400_000,
            snapshot_bytes: 20 << 20,
            snapshot_interval_ms: 3_600_000,
            retention_bytes: 100 << 20,
            retention_ms: 7 * 86_400_000,
        }
    }
}

impl StoreLimits {
    /// Limits of one segment.
    pub(super) fn segment(&self) -> SegmentLimits {
        SegmentLimits { bytes: self.segment_bytes, ms: self.segment_ms }
    }
}

/// Bytes written since the latest snapshot.
#[derive(Clone, Copy, Debug)]
pub(super) struct Since {
    /// Size of these batches, bytes.
    pub(super) bytes: u64,
    /// Time of the last snapshot, or of the start of the process.
    pub(super) at_ms: i64,
}

impl Since {
    fn is_due(self, limits: &StoreLimits, now_ms: i64) -> bool {
        let interval_ms = limits.snapshot_interval_ms;
        let is_time = interval_ms > 0 && now_ms.saturating_sub(self.at_ms) >= interval_ms;
        self.bytes > 0 && (self.bytes >= limits.snapshot_bytes || is_time)
    }
}

/// A snapshot that is due, detached from the store so that changes can continue while it is
/// written.
#[derive(Debug)]
#[must_use]
pub struct DueSnapshot {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    limits: StoreLimits,
    control: Vec<ControlRecord>,
    image: Image,
}

impl Store {
    /// The due snapshot, if any. The log continues in a new segment, so that the segments before
    /// the snapshot can be removed whole. After a failure the next snapshot is due after the same
    /// number of bytes, or the same time.
    ///
    /// # Errors
    /// The next segment cannot be begun.
    pub fn due_snapshot(&mut self, now_ms: i64) -> Result<Option<DueSnapshot>, StoreError> {
        let is_settled = !self.journal.is_in_doubt() && !self.replay.in_transaction();
        if !is_settled || !self.since.is_due(&self.limits, now_ms) {
            return Ok(None);
        }
        self.since = Since { bytes: 0, at_ms: now_ms };
        self.journal.begin_segment()?;
        let mut control = Vec::new();
        if self.quorum.kraft_version >= 1 {
            control.push(ControlRecord::KRaftVersion(self.quorum.kraft_version));
            control.push(ControlRecord::Voters(self.quorum.voters.clone()));
        }
        Ok(Some(DueSnapshot {
            disk: self.disk.clone(),
            dir: self.path.clone(),
            limits: self.limits,
            control,
            image: self.replay.image().clone(),
        }))
    }
}

impl DueSnapshot {
    /// Writes the snapshot; once it is on the device, removes the files that it replaces, as far as
    /// retention permits. Returns the offset up to which files are removed. Blocks. One at a time
    /// for a directory.
    ///
    /// # Errors
    /// An error of the disk; the replaced files stay.
    pub fn write(self, now_ms: i64) -> Result<i64, StoreError> {
        let id = SnapshotId { end_offset: self.image.offset() + 1, epoch: self.image.epoch() };
        let snapshot = Snapshot {
            timestamp_ms: self.image.timestamp_ms(),
            control: self.control,
            records: self.image.to_records(),
        };
        snapshot.store(&*self.disk, &self.dir, id, now_ms)?;
        Past { disk: &*self.disk, dir: &self.dir, limits: self.limits }.clean(now_ms)?;
        Ok(id.end_offset)
    }
}

/// Files in a directory other than the latest snapshot and the log after it.
struct Past<'a> {
    disk: &'a dyn Disk,
    dir: &'a Path,
    limits: StoreLimits,
}

impl Past<'_> {
    /// Removes the oldest snapshots and the segments before the next one, while they exceed the
    /// limits of bytes or age. Afterwards the log begins at or before the end of the oldest
    /// remaining snapshot.
    fn clean(&self, now_ms: i64) -> Result<(), StoreError> {
        self.remove_leftovers()?;
        let mut kept = snapshots(self.disk, self.dir)?;
        let mut log = segments(self.disk, self.dir)?;
        let files = kept.iter().map(|id| id.path(self.dir)).chain(log.iter().map(|(_, path)| path.clone()));
        let mut total = files.map(|path| self.len(&path)).sum::<Result<u64, _>>()?;
        let mut removed = false;
        while let [oldest, next, ..] = kept[..] {
            if !self.is_too_large(total) && !self.is_too_old(oldest, now_ms) {
                break;
            }
            let covered =
                |log: &[(i64, PathBuf)]| log.get(1).is_some_and(|(base, _)| *base <= next.end_offset);
            while covered(&log) {
                total -= self.remove(&log.remove(0).1)?;
            }
            total -= self.remove(&oldest.path(self.dir))?;
            kept.remove(0);
            removed = true;
        }
        if removed {
            self.disk.sync_dir(self.dir).map_err(|source| StoreError::io("sync", self.dir, source))?;
        }
        Ok(())
    }

    fn is_too_large(&self, bytes: u64) -> bool {
        u64::try_from(self.limits.retention_bytes).is_ok_and(|most| bytes > most)
    }

    fn is_too_old(&self, id: SnapshotId, now_ms: i64) -> bool {
        let age_ms = || now_ms.saturating_sub(self.covered_to_ms(id).unwrap_or(0));
        self.limits.retention_ms >= 0 && age_ms() > self.limits.retention_ms
    }

    /// The time of the last record in a snapshot, by its header; none if it has none.
    fn covered_to_ms(&self, id: SnapshotId) -> Option<i64> {
        let path = id.path(self.dir);
        let file = self.disk.open_to_read(&path).ok()?;
        let mut bytes = vec![0; HEADER_BATCH_MAX];
        let filled = self.disk.read_at(&file, &path, &mut bytes, 0).ok()?;
        let batch = BatchView::parse(&bytes[..filled]).ok()?;
        let mut found = None;
        let look = each_record(&path, &batch, |record| {
            if let LogRecord::Control(ControlRecord::SnapshotHeader { last_contained_log_timestamp_ms }) =
                record
            {
                found = Some(last_contained_log_timestamp_ms);
            }
            Ok(())
        });
        look.ok().and(found)
    }

    /// Files of snapshots that were begun and not finished, or were to be removed.
    fn remove_leftovers(&self) -> Result<(), StoreError> {
        let entries = self.disk.list(self.dir).map_err(|source| StoreError::io("list", self.dir, source))?;
        let ends = [".checkpoint.tmp", ".checkpoint.part", ".checkpoint.deleted"];
        let is_leftover = |path: &Path| {
            path.file_name()
                .and_then(|name| name.to_str())
                .is_some_and(|name| ends.iter().any(|end| name.ends_with(end)))
        };
        let leftovers = entries.iter().filter(|entry| is_leftover(&entry.path));
        leftovers.map(|entry| self.remove(&entry.path)).try_for_each(|removed| removed.map(drop))
    }

    /// Removes a file; returns its size in bytes.
    fn remove(&self, path: &Path) -> Result<u64, StoreError> {
        let len = self.len(path)?;
        self.disk.remove(path).map_err(|source| StoreError::io("remove", path, source))?;
        Ok(len)
    }

    fn len(&self, path: &Path) -> Result<u64, StoreError> {
        self.disk.len(path).map_err(|source| StoreError::io("look at", path, source))
    }
}

/// A snapshot's first batch has a header and one voter, and is far smaller.
const HEADER_BATCH_MAX: usize = 4096;
