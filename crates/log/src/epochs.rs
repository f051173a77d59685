//! The first offset of each leader epoch, and the file that stores it (`leader-epoch-checkpoint`).

use std::io;
use std::path::Path;

use crate::LogError;
use crate::checkpoint::{
    self, LEADER_EPOCHS, Replacement, Rights, leader_epochs_text, parse_leader_epochs, read_text,
};
use crate::disk::{At, Disk};

#[cfg(test)]
mod tests;

/// Epochs and their first offsets; both ascend.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Epochs {
    entries: Vec<(i32, i64)>,
}

impl Epochs {
    /// Epochs from entries; none if the entries are not in order.
    pub(crate) fn of(entries: Vec<(i32, i64)>) -> Option<Self> {
        let in_order = |pair: &[(i32, i64)]| pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1;
        let is_valid = entries.windows(2).all(in_order)
            && entries.iter().all(|(epoch, offset)| *epoch >= 0 && *offset >= 0);
        is_valid.then_some(Self { entries })
    }

    /// The latest epoch, -1 if there is none.
    pub(crate) fn latest(&self) -> i32 {
        self.entries.last().map_or(-1, |entry| entry.0)
    }

    /// Epochs that begin below an offset.
    pub(crate) fn before(&self, offset: i64) -> Vec<(i32, i64)> {
        self.entries.iter().copied().filter(|entry| entry.1 < offset).collect()
    }

    /// Epochs of the records in a range of offsets. The first begins at the range's start.
    pub(crate) fn within(&self, range: std::ops::Range<i64>) -> Vec<(i32, i64)> {
        let mut cut = Self { entries: self.before(range.end) };
        cut.truncate_start(range.start);
        cut.entries
    }

    /// All leader epochs and their first offsets.
    pub(crate) fn all(&self) -> &[(i32, i64)] {
        &self.entries
    }

    /// Start offset of the first epoch.
    pub(crate) fn first_offset(&self) -> Option<i64> {
        self.entries.first().map(|entry| entry.1)
    }

    /// Start offset of the latest epoch.
    pub(crate) fn latest_offset(&self) -> Option<i64> {
        self.entries.last().map(|entry| entry.1)
    }

    /// The given epochs, followed by later ones.
    pub(crate) fn followed_by(mut self, later: &Self) -> Self {
        for (epoch, offset) in &later.entries {
            self.assign(*epoch, *offset);
        }
        self
    }

    /// The epoch current at an offset, -1 if unknown.
    pub(crate) fn at(&self, offset: i64) -> i32 {
        let after = self.entries.partition_point(|entry| entry.1 <= offset);
        after.checked_sub(1).map_or(-1, |at| self.entries[at].0)
    }

    /// Records that an epoch begins at an offset; returns true if this changes the list.
    pub(crate) fn assign(&mut self, epoch: i32, offset: i64) -> bool {
        if epoch < 0 || epoch <= self.latest() {
            return false;
        }
        // An epoch in which nothing was written leaves no trace.
        self.entries.retain(|entry| entry.1 < offset);
        self.entries.push((epoch, offset));
        self.assert_in_order();
        true
    }

    /// Epochs increase, and no epoch begins before its predecessor.
    fn assert_in_order(&self) {
        let in_order = |pair: &[(i32, i64)]| pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1;
        debug_assert!(self.entries.windows(2).all(in_order), "epochs out of order: {:?}", self.entries);
    }

    /// The latest epoch not above the requested one, with its end offset; (-1, -1) if unknown. A
    /// requested epoch below the first entry ends at the first entry's start offset. As in Kafka
    /// this includes negative epochs other than -1.
    pub(crate) fn end_offset(&self, epoch: i32, log_end: i64) -> (i32, i64) {
        if epoch == -1 {
            return (-1, -1);
        }
        if epoch == self.latest() {
            return (epoch, log_end);
        }
        let after = self.entries.partition_point(|entry| entry.0 <= epoch);
        match (after.checked_sub(1), self.entries.get(after)) {
            (_, None) => (-1, -1),
            (None, Some(next)) => (epoch, next.1),
            (Some(floor), Some(next)) => (self.entries[floor].0, next.1),
        }
    }

    /// Removes epochs that begin at or after the log's end; returns true if there were any.
    pub(crate) fn truncate_end(&mut self, log_end: i64) -> bool {
        let before = self.entries.len();
        self.entries.retain(|entry| entry.1 < log_end);
        before != self.entries.len()
    }

    /// Moves the start of the epoch that was current at the log's start to that offset; returns
    /// true if this changes the list.
    pub(crate) fn truncate_start(&mut self, log_start: i64) -> bool {
        let covered = self.entries.partition_point(|entry| entry.1 <= log_start);
        let Some(current) = covered.checked_sub(1).filter(|at| *at > 0 || self.entries[0].1 < log_start)
        else {
            return false;
        };
        self.entries.drain(..current);
        self.entries[0].1 = log_start;
        self.assert_in_order();
        true
    }

    /// Reads the file; no file is no epochs.
    pub(crate) fn load(disk: &dyn Disk, dir: &Path) -> Result<Self, LogError> {
        let path = dir.join(LEADER_EPOCHS);
        let Some(text) = read_text(disk, &path)? else { return Ok(Self::default()) };
        // As Kafka creates it, empty.
        if text.is_empty() {
            return Ok(Self::default());
        }
        let entries = parse_leader_epochs(&text).map_err(|detail| LogError::corrupt(&path, detail))?;
        Ok(Self { entries })
    }

    /// Writes a new file and renames it over the old one; the next flush makes it durable.
    pub(crate) fn store(&self, disk: &dyn Disk, dir: &Path) -> Result<(), LogError> {
        let path = dir.join(LEADER_EPOCHS);
        let text = leader_epochs_text(&self.entries);
        Replacement::write(disk, &path, text.as_bytes(), Rights::Writable)?.publish()
    }

    /// Like [`Epochs::store`], and the new file is on the device when this returns.
    pub(crate) fn replace(&self, disk: &dyn Disk, dir: &Path) -> Result<(), LogError> {
        let text = leader_epochs_text(&self.entries);
        checkpoint::replace(disk, &dir.join(LEADER_EPOCHS), text.as_bytes(), Rights::Writable)
    }

    /// Waits until the file is on the device, if there is one.
    pub(crate) fn sync(disk: &dyn Disk, dir: &Path) -> Result<(), LogError> {
        let path = dir.join(LEADER_EPOCHS);
        match disk.sync_file(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            other => other.at("sync", &path),
        }
    }
}
