//! Snapshots: files of batches with the whole state up to an offset. Each begins with a header
//! record and ends with a footer record. A file without the footer is incomplete.

use std::path::{Path, PathBuf};

use levada_base::batch::{BatchView, Builder, MAX_EXPANDED, records_within};
use levada_log::checkpoint::{Replacement, Rights, replace};
use levada_log::disk::Disk;
use levada_log::journal::read_batches;
use levada_wire::primitives::Bytes;

use super::{StoreError, change};
use crate::records::control::{self, ControlRecord};
use crate::records::{self as metadata_records, Record};

/// The levels and settings that a new cluster begins with, as `kafka-storage format` leaves them.
pub const BOOTSTRAP: &str = "bootstrap.checkpoint";

/// Position of a snapshot in the log.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) struct SnapshotId {
    /// The first offset it does not cover.
    pub(super) end_offset: i64,
    /// Epoch of the last record it covers.
    pub(super) epoch: i32,
}

impl SnapshotId {
    pub(super) fn path(self, dir: &Path) -> PathBuf {
        dir.join(format!("{:020}-{:010}.checkpoint", self.end_offset, self.epoch))
    }

    fn parse(name: &str) -> Option<Self> {
        let (end_offset, epoch) = name.strip_suffix(".checkpoint")?.split_once('-')?;
        Some(Self { end_offset: end_offset.parse().ok()?, epoch: epoch.parse().ok()? })
    }
}

/// The snapshots in `dir`, oldest first.
pub(super) fn snapshots(disk: &dyn Disk, dir: &Path) -> Result<Vec<SnapshotId>, StoreError> {
    let entries = disk.list(dir).map_err(|source| StoreError::io("list", dir, source))?;
    let names = entries.iter().filter_map(|entry| entry.path.file_name()?.to_str());
    let mut found: Vec<SnapshotId> = names.filter_map(SnapshotId::parse).collect();
    found.sort_unstable();
    Ok(found)
}

/// Contents of a snapshot.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Snapshot {
    pub(super) timestamp_ms: i64,
    pub(super) control: Vec<ControlRecord>,
    pub(super) records: Vec<Record>,
}

impl Snapshot {
    /// Reads a snapshot that must be whole.
    pub(super) fn read(disk: &dyn Disk, path: &Path) -> Result<Self, StoreError> {
        let mut snapshot = Self::default();
        let mut whole = false;
        read_batches(disk, path, |batch| {
            each_record(path, batch, |record| {
                match record {
                    LogRecord::Control(ControlRecord::SnapshotHeader { last_contained_log_timestamp_ms }) => {
                        snapshot.timestamp_ms = last_contained_log_timestamp_ms;
                    }
                    LogRecord::Control(ControlRecord::SnapshotFooter) => whole = true,
                    LogRecord::Control(record) => snapshot.control.push(record),
                    LogRecord::Metadata(record) => snapshot.records.push(record),
                }
                Ok(())
            })
        })?;
        if !whole {
            let detail = "the snapshot has no end: it was not written whole".to_owned();
            return Err(StoreError::damaged(path, detail));
        }
        Ok(snapshot)
    }

    /// Writes a snapshot, which lasts once the caller has synced it; `epoch` marks its batches.
    pub(super) fn write(
        &self,
        disk: &dyn Disk,
        path: &Path,
        (epoch, now_ms): (i32, i64),
        rights: Rights,
    ) -> Result<(), StoreError> {
        Ok(Replacement::write(disk, path, &self.encode(path, (epoch, now_ms))?, rights)?.publish()?)
    }

    /// Writes a snapshot into `dir`; when this returns it is on the device, with its name.
    pub(super) fn store(
        &self,
        disk: &dyn Disk,
        dir: &Path,
        id: SnapshotId,
        now_ms: i64,
    ) -> Result<(), StoreError> {
        let path = id.path(dir);
        Ok(replace(disk, &path, &self.encode(&path, (id.epoch, now_ms))?, Rights::ReadOnly)?)
    }

    fn encode(&self, path: &Path, (epoch, now_ms): (i32, i64)) -> Result<Vec<u8>, StoreError> {
        let mut bytes = Vec::new();
        let mut offset = 0;
        let header = ControlRecord::SnapshotHeader { last_contained_log_timestamp_ms: self.timestamp_ms };
        let first: Vec<ControlRecord> = std::iter::once(header).chain(self.control.iter().cloned()).collect();
        let mut push = |batch: Bytes, records: usize| {
            offset += i64::try_from(records).unwrap_or(i64::MAX);
            bytes.extend_from_slice(&batch);
            offset
        };
        let mut next = push(control_batch(path, &first, 0, epoch, now_ms)?, first.len());
        let level = change::level(None, &self.records);
        let values = self.records.iter().filter_map(|record| change::encode(record, level).transpose());
        let values = values.collect::<Result<Vec<_>, _>>()?;
        // Kafka reads a snapshot batch by batch into a buffer; it writes at most this many records
        // in one.
        for run in change::runs(values, RECORDS_PER_BATCH) {
            next = push(metadata_batch(path, &run, next, epoch, now_ms)?, run.len());
        }
        push(control_batch(path, &[ControlRecord::SnapshotFooter], next, epoch, now_ms)?, 1);
        Ok(bytes)
    }
}

const RECORDS_PER_BATCH: usize = 1024;

/// One record of the metadata log.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum LogRecord {
    Control(ControlRecord),
    Metadata(Record),
}

/// Hands on each record of a batch that was read from `path`.
pub(super) fn each_record(
    path: &Path,
    batch: &BatchView<'_>,
    mut visit: impl FnMut(LogRecord) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let damaged =
        |offset: i64, detail: String| StoreError::damaged(path, format!("offset {offset}: {detail}"));
    let base = batch.base_offset();
    // Uncompressed records of our own log need no separate bound: they are already in memory.
    let expanded_max = MAX_EXPANDED.max(batch.bytes().len());
    let list = records_within(batch.bytes(), expanded_max);
    let list = list.map_err(|error| damaged(base, error.to_string()))?;
    for record in list {
        let record = record.map_err(|error| damaged(base, error.to_string()))?;
        let offset = base.saturating_add(i64::from(record.offset_delta));
        let value = record.value.unwrap_or_default();
        let decoded = if batch.is_control() {
            control::decode(record.key.unwrap_or_default(), value).map(LogRecord::Control)
        } else {
            metadata_records::decode(value).map(|(record, _)| LogRecord::Metadata(record))
        };
        visit(decoded.map_err(|error| damaged(offset, error.to_string()))?)?;
    }
    Ok(())
}

/// A batch of metadata records.
pub(super) fn metadata_batch(
    path: &Path,
    values: &[change::Value],
    base_offset: i64,
    epoch: i32,
    now_ms: i64,
) -> Result<Bytes, StoreError> {
    let mut builder = Builder::new().base_offset(base_offset).leader_epoch(epoch);
    for value in values {
        builder.push(now_ms, None, Some(value));
    }
    finish(path, &builder)
}

/// A batch of control records.
pub(super) fn control_batch(
    path: &Path,
    records: &[ControlRecord],
    base_offset: i64,
    epoch: i32,
    now_ms: i64,
) -> Result<Bytes, StoreError> {
    let mut builder = Builder::new().base_offset(base_offset).leader_epoch(epoch).control();
    for record in records {
        let (key, value) = control::encode(record).map_err(StoreError::Unencodable)?;
        builder.push(now_ms, Some(&key), Some(&value));
    }
    finish(path, &builder)
}

fn finish(path: &Path, builder: &Builder) -> Result<Bytes, StoreError> {
    let bytes = builder.build().map_err(|source| StoreError::io("encode a batch for", path, source))?;
    Ok(bytes.freeze())
}
