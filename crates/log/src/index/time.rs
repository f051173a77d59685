//! The time index: maps timestamps to offsets. Entries of 12 bytes: a timestamp, and the relative
//! offset of the first batch with that timestamp; every later timestamp is after that batch.

use std::path::PathBuf;

use levada_io::map::FileMap;

use super::offset::partition_point;
use super::{Entries, View};
use crate::LogError;
use crate::disk::{Disk, ReadFiles};

const WIDTH: usize = 12;

/// Timestamps ascend from entry to entry; so do offsets.
#[derive(Debug)]
pub(crate) struct TimeIndex {
    entries: Entries,
}

/// One entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TimeEntry {
    pub(crate) timestamp: i64,
    pub(crate) delta: u32,
}

impl TimeIndex {
    pub(crate) fn create(disk: &dyn Disk, path: PathBuf) -> Result<Self, LogError> {
        Ok(Self { entries: Entries::create(disk, path, WIDTH)? })
    }

    pub(crate) fn on_disk(path: PathBuf) -> Self {
        Self { entries: Entries::on_disk(path, WIDTH) }
    }

    /// Number of entries that fit in `segment.index.bytes`; never none.
    pub(crate) fn capacity(index_bytes: u32) -> usize {
        (index_bytes as usize / WIDTH).max(2)
    }

    pub(crate) fn entries(&self) -> &Entries {
        &self.entries
    }

    /// The last entry whose timestamp is not later.
    pub(crate) fn lookup(&self, disk: &dyn ReadFiles, timestamp: i64) -> Result<Option<TimeEntry>, LogError> {
        let view = self.entries.view(disk)?;
        let after = partition_point(&view, |map, slot| map.read_i64_be(slot * WIDTH) <= timestamp);
        view.unless_lost(entry_before(&view, after))
    }

    pub(crate) fn last(&self, disk: &dyn ReadFiles) -> Result<Option<TimeEntry>, LogError> {
        let view = self.entries.view(disk)?;
        view.unless_lost(entry_before(&view, view.count))
    }

    /// All entries below an offset.
    pub(crate) fn below(&self, disk: &dyn ReadFiles, delta: u32) -> Result<Vec<TimeEntry>, LogError> {
        let view = self.entries.view(disk)?;
        let Some(map) = view.map() else { return Ok(Vec::new()) };
        let all = (0..view.count).map(|slot| entry_at(map, slot));
        view.unless_lost(all.take_while(|entry| entry.delta < delta).collect())
    }

    /// Makes these its entries; as [`super::OffsetIndex::with_entries`].
    pub(crate) fn with_entries(
        self,
        disk: &dyn Disk,
        entries: &[TimeEntry],
        capacity: usize,
    ) -> Result<Self, LogError> {
        let have = self.below(disk, u32::MAX)?;
        let whole = have.len() == self.count(disk)? && disk.len(self.entries.path()).is_ok();
        let kept = whole && entries.starts_with(&have) && self.entries.ends_in_zeroes(disk)?;
        let index = if kept { self } else { Self::create(disk, self.entries.replaced(disk)?)? };
        for entry in &entries[index.count(disk)?..] {
            index.append(disk, *entry, capacity)?;
        }
        Ok(index)
    }

    pub(crate) fn count(&self, disk: &dyn ReadFiles) -> Result<usize, LogError> {
        Ok(self.entries.view(disk)?.count)
    }

    /// Appends an entry unless its timestamp is no later than the last one's.
    pub(crate) fn append(&self, disk: &dyn Disk, entry: TimeEntry, capacity: usize) -> Result<(), LogError> {
        let last = self.last(disk)?.map_or(-1, |entry| entry.timestamp);
        if entry.timestamp <= last {
            return Ok(());
        }
        self.entries.append(disk, &encode(entry), capacity)
    }

    /// The bytes of an index file with these entries.
    pub(crate) fn file_of(entries: &[TimeEntry]) -> Vec<u8> {
        entries.iter().flat_map(|entry| encode(*entry)).collect()
    }
}

fn encode(entry: TimeEntry) -> [u8; WIDTH] {
    let mut bytes = [0; WIDTH];
    bytes[..8].copy_from_slice(&entry.timestamp.to_be_bytes());
    bytes[8..].copy_from_slice(&entry.delta.to_be_bytes());
    bytes
}

fn entry_at(map: &FileMap, slot: usize) -> TimeEntry {
    TimeEntry { timestamp: map.read_i64_be(slot * WIDTH), delta: map.read_u32_be(slot * WIDTH + 8) }
}

fn entry_before(view: &View<'_>, slot: usize) -> Option<TimeEntry> {
    let map = view.map()?;
    slot.checked_sub(1).filter(|slot| *slot < view.count).map(|slot| entry_at(map, slot))
}
