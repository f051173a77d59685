//! The offset index: maps offsets to positions in the segment. Entries of 8 bytes: offset relative
//! to the segment's base, position.

use levada_io::map::FileMap;

use super::sorted::{self, Entry, Index};
use crate::LogError;
use crate::disk::ReadFiles;

/// The batch at a position ends at the segment's base and a delta.
pub(crate) type OffsetIndex = Index<OffsetEntry>;

/// An entry: a batch, by where it starts and by its last offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OffsetEntry {
    /// The last offset, less the segment's base.
    pub(crate) delta: u32,
    pub(crate) position: u64,
}

/// Start of a search for an offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hint {
    /// A batch starts here, at or below the requested offset.
    pub(crate) position: u64,
    /// Upper bound of the last offset of a batch that starts there, less the segment's base; `None`
    /// without an entry.
    pub(crate) delta: Option<u32>,
    /// The entry after that, whose batch ends after the offset sought.
    pub(crate) next: Option<OffsetEntry>,
}

impl Entry for OffsetEntry {
    const WIDTH: usize = 8;

    type Bytes = [u8; Self::WIDTH];

    fn encode(self) -> [u8; Self::WIDTH] {
        let mut bytes = [0; Self::WIDTH];
        bytes[..4].copy_from_slice(&self.delta.to_be_bytes());
        // Segments are not longer than positions of 32 bits can express.
        bytes[4..].copy_from_slice(&u32::try_from(self.position).unwrap_or(u32::MAX).to_be_bytes());
        bytes
    }

    fn read(map: &FileMap, slot: usize) -> Self {
        let at = slot * Self::WIDTH;
        Self { delta: map.read_u32_be(at), position: u64::from(map.read_u32_be(at + 4)) }
    }
}

impl OffsetIndex {
    /// The last entry that is not above `delta`, or the start of the segment.
    pub(crate) fn lookup(&self, disk: &dyn ReadFiles, delta: u32) -> Result<Hint, LogError> {
        let view = self.view(disk)?;
        let after = sorted::partition_point(&view, |entry: &OffsetEntry| entry.delta <= delta);
        let last: Option<OffsetEntry> = sorted::before(&view, after);
        view.unless_lost(Hint {
            position: last.map_or(0, |entry| entry.position),
            delta: last.map(|entry| entry.delta),
            next: sorted::at(&view, after),
        })
    }

    /// Finds the latest entry that is not above `delta` among all entries below position `end`,
    /// which may be in any order. Reads the whole index.
    pub(crate) fn nearest(
        &self,
        disk: &dyn ReadFiles,
        delta: u32,
        end: u64,
    ) -> Result<Option<OffsetEntry>, LogError> {
        let view = self.view(disk)?;
        let entries = (0..view.count).filter_map(|slot| sorted::at::<OffsetEntry>(&view, slot));
        let fit = entries.filter(|entry| entry.delta <= delta && (1..end).contains(&entry.position));
        view.unless_lost(fit.max_by_key(|entry| entry.delta))
    }

    /// The last entry's position that is not greater than `limit`: the start of a batch, or 0.
    pub(crate) fn boundary(&self, disk: &dyn ReadFiles, limit: u64) -> Result<u64, LogError> {
        let last = self.last_up_to(disk, limit)?;
        Ok(last.map_or(0, |entry| entry.position))
    }

    /// The last entry whose position is not greater than `limit`.
    pub(crate) fn last_up_to(
        &self,
        disk: &dyn ReadFiles,
        limit: u64,
    ) -> Result<Option<OffsetEntry>, LogError> {
        let view = self.view(disk)?;
        let after = sorted::partition_point(&view, |entry: &OffsetEntry| entry.position <= limit);
        view.unless_lost(sorted::before(&view, after))
    }

    /// All entries below a position.
    pub(crate) fn below(&self, disk: &dyn ReadFiles, position: u64) -> Result<Vec<OffsetEntry>, LogError> {
        self.head(disk, |entry| entry.position < position)
    }
}
