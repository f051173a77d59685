//! The time index: maps timestamps to offsets. Entries of 12 bytes: a timestamp, and the relative
//! offset of the first batch with that timestamp; every later timestamp is after that batch.

use levada_io::map::FileMap;

use super::sorted::{self, Entry, Index};
use crate::LogError;
use crate::disk::ReadFiles;

/// Timestamps ascend from entry to entry; so do offsets.
pub(crate) type TimeIndex = Index<TimeEntry>;

/// One entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TimeEntry {
    pub(crate) timestamp: i64,
    pub(crate) delta: u32,
}

impl Entry for TimeEntry {
    const WIDTH: usize = 12;

    type Bytes = [u8; Self::WIDTH];

    fn encode(self) -> [u8; Self::WIDTH] {
        let mut bytes = [0; Self::WIDTH];
        bytes[..8].copy_from_slice(&self.timestamp.to_be_bytes());
        bytes[8..].copy_from_slice(&self.delta.to_be_bytes());
        bytes
    }

    fn read(map: &FileMap, slot: usize) -> Self {
        let at = slot * Self::WIDTH;
        Self { timestamp: map.read_i64_be(at), delta: map.read_u32_be(at + 8) }
    }

    /// True if its timestamp is later than the last one's.
    fn is_new(&self, index: &TimeIndex, disk: &dyn ReadFiles) -> Result<bool, LogError> {
        Ok(self.timestamp > index.last(disk)?.map_or(-1, |entry| entry.timestamp))
    }
}

impl TimeIndex {
    /// The last entry whose timestamp is not later.
    pub(crate) fn lookup(&self, disk: &dyn ReadFiles, timestamp: i64) -> Result<Option<TimeEntry>, LogError> {
        let view = self.view(disk)?;
        let after = sorted::partition_point(&view, |entry: &TimeEntry| entry.timestamp <= timestamp);
        view.unless_lost(sorted::before(&view, after))
    }

    /// All entries below an offset.
    pub(crate) fn below(&self, disk: &dyn ReadFiles, delta: u32) -> Result<Vec<TimeEntry>, LogError> {
        self.head(disk, |entry| entry.delta < delta)
    }
}
