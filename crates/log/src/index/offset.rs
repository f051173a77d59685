//! The offset index: maps offsets to positions in the segment. Entries of 8 bytes: offset relative
//! to the segment's base, position.

use std::path::PathBuf;

use levada_io::map::FileMap;

use super::{Entries, View};
use crate::LogError;
use crate::disk::{Disk, ReadFiles};

const WIDTH: usize = 8;

/// An index entry: the batch at `position` ends at `base + delta`.
#[derive(Debug)]
pub(crate) struct OffsetIndex {
    entries: Entries,
}

/// Start of a search for an offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hint {
    /// A batch starts here, at or below the requested offset.
    pub(crate) position: u64,
    /// No batch that starts there ends behind this offset (less the segment's base); none without
    /// an entry.
    pub(crate) delta: Option<u32>,
    /// The entry after that, whose batch ends behind the offset sought.
    pub(crate) next: Option<OffsetEntry>,
}

/// An entry: a batch, by where it starts and by its last offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OffsetEntry {
    pub(crate) position: u64,
    /// Less the segment's base.
    pub(crate) delta: u32,
}

impl OffsetIndex {
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

    /// The last entry that is not above `delta`, or the start of the segment.
    pub(crate) fn lookup(&self, disk: &dyn ReadFiles, delta: u32) -> Result<Hint, LogError> {
        let view = self.entries.view(disk)?;
        let after = partition_point(&view, |map, slot| delta_at(map, slot) <= delta);
        let delta = after.checked_sub(1).zip(view.map()).map(|(slot, map)| delta_at(map, slot));
        view.unless_lost(Hint {
            position: position_before(&view, after),
            delta,
            next: entry_of(&view, after),
        })
    }

    /// Of all entries below position `end`, in any order, the latest that is not above `delta`.
    /// Reads the whole index.
    pub(crate) fn nearest(
        &self,
        disk: &dyn ReadFiles,
        delta: u32,
        end: u64,
    ) -> Result<Option<OffsetEntry>, LogError> {
        let view = self.entries.view(disk)?;
        let entries = (0..view.count).filter_map(|slot| entry_of(&view, slot));
        let fit = entries.filter(|entry| entry.delta <= delta && (1..end).contains(&entry.position));
        view.unless_lost(fit.max_by_key(|entry| entry.delta))
    }

    /// The last entry's position that is not greater than `limit`: the start of a batch, or 0.
    pub(crate) fn boundary(&self, disk: &dyn ReadFiles, limit: u64) -> Result<u64, LogError> {
        let view = self.entries.view(disk)?;
        let after = partition_point(&view, |map, slot| position_at(map, slot) <= limit);
        view.unless_lost(position_before(&view, after))
    }

    /// All entries below a position, as (delta, position).
    pub(crate) fn below(&self, disk: &dyn ReadFiles, position: u64) -> Result<Vec<(u32, u32)>, LogError> {
        let view = self.entries.view(disk)?;
        let Some(map) = view.map() else { return Ok(Vec::new()) };
        let all = (0..view.count).map(|slot| (delta_at(map, slot), position_at(map, slot) as u32));
        view.unless_lost(all.take_while(|entry| u64::from(entry.1) < position).collect())
    }

    /// Makes these its entries. An index on disk that holds the first of them and nothing else is
    /// kept, another replaced.
    pub(crate) fn with_entries(
        self,
        disk: &dyn Disk,
        entries: &[(u32, u32)],
        capacity: usize,
    ) -> Result<Self, LogError> {
        let have = self.below(disk, u64::MAX)?;
        let whole = have.len() == self.count(disk)? && disk.len(self.entries.path()).is_ok();
        let kept = whole && entries.starts_with(&have) && self.entries.ends_in_zeroes(disk)?;
        let index = if kept { self } else { Self::create(disk, self.entries.replaced(disk)?)? };
        for entry in &entries[index.count(disk)?..] {
            index.append(disk, *entry, capacity)?;
        }
        Ok(index)
    }

    /// The last entry, as (delta, position).
    pub(crate) fn last(&self, disk: &dyn ReadFiles) -> Result<Option<(u32, u32)>, LogError> {
        let view = self.entries.view(disk)?;
        let slot = view.count.checked_sub(1);
        view.unless_lost(
            slot.zip(view.map()).map(|(slot, map)| (delta_at(map, slot), position_at(map, slot) as u32)),
        )
    }

    pub(crate) fn count(&self, disk: &dyn ReadFiles) -> Result<usize, LogError> {
        Ok(self.entries.view(disk)?.count)
    }

    pub(crate) fn append(&self, disk: &dyn Disk, entry: (u32, u32), capacity: usize) -> Result<(), LogError> {
        self.entries.append(disk, &encode(entry), capacity)
    }

    /// The bytes of an index file with these entries.
    pub(crate) fn file_of(entries: &[(u32, u32)]) -> Vec<u8> {
        entries.iter().flat_map(|entry| encode(*entry)).collect()
    }
}

fn encode((delta, position): (u32, u32)) -> [u8; WIDTH] {
    let mut bytes = [0; WIDTH];
    bytes[..4].copy_from_slice(&delta.to_be_bytes());
    bytes[4..].copy_from_slice(&position.to_be_bytes());
    bytes
}

fn delta_at(map: &FileMap, slot: usize) -> u32 {
    map.read_u32_be(slot * WIDTH)
}

fn position_at(map: &FileMap, slot: usize) -> u64 {
    u64::from(map.read_u32_be(slot * WIDTH + 4))
}

fn entry_of(view: &View<'_>, slot: usize) -> Option<OffsetEntry> {
    let map = view.map().filter(|_| slot < view.count)?;
    Some(OffsetEntry { position: position_at(map, slot), delta: delta_at(map, slot) })
}

fn position_before(view: &View<'_>, slot: usize) -> u64 {
    slot.checked_sub(1).and_then(|slot| entry_of(view, slot)).map_or(0, |entry| entry.position)
}

/// The first slot for which `before` does not hold.
pub(super) fn partition_point(view: &View<'_>, before: impl Fn(&FileMap, usize) -> bool) -> usize {
    let Some(map) = view.map() else { return 0 };
    let (mut low, mut high) = (0, view.count);
    while low < high {
        let middle = low.midpoint(high);
        if before(map, middle) { low = middle + 1 } else { high = middle }
    }
    low
}
