//! State of the active segment that only the writer needs.

use std::io;
use std::sync::Arc;

use levada_io::map::WriteMap;

use super::mapped::Windows;
use crate::disk::{At, Disk};
use crate::index::{OffsetEntry, OffsetIndex, TimeEntry, TimeIndex};
use crate::progress::Progress;
use crate::segment::Segment;
use crate::{LogConfig, LogError, ReadError};

/// The segment to which records are appended.
#[derive(Debug)]
pub(super) struct Active {
    pub(super) segment: Arc<Segment>,
    /// Written bytes; readers see only the published ones.
    pub(super) size: u64,
    /// Time at which it was created or, if it was found on disk, opened.
    pub(super) created_ms: i64,
    pub(super) progress: Progress,
    /// The windows of mapped appends.
    pub(super) windows: Windows,
    /// True if bytes of an undone write may remain above `size`, because they could not be
    /// truncated.
    pub(super) has_remains: bool,
    // Contents of a segment found on disk are looked up when the first batch is appended.
    known: bool,
    // The last entry that this writer has given the offset index, as (delta, position).
    indexed: Option<OffsetEntry>,
}

impl Active {
    /// A new segment, perhaps with a window that was prepared.
    pub(super) fn fresh(segment: Arc<Segment>, window: Option<WriteMap>, now_ms: i64) -> Self {
        let (progress, windows) = (Progress::none(), Windows::with(window));
        assert_eq!(segment.size(), 0, "{segment} is new");
        let (has_remains, indexed) = (false, None);
        Self { segment, size: 0, created_ms: now_ms, progress, windows, has_remains, known: true, indexed }
    }

    pub(super) fn resume(segment: Arc<Segment>, now_ms: i64) -> Self {
        let size = segment.size();
        let (progress, windows) = (Progress::none(), Windows::default());
        let (has_remains, indexed) = (false, None);
        Self { segment, size, created_ms: now_ms, progress, windows, has_remains, known: size == 0, indexed }
    }

    /// Truncates the bytes that an undone write has left, before anything else is written or the
    /// segment is sealed.
    ///
    /// # Errors
    /// The file system is still read-only.
    pub(super) fn cut_remains(&mut self, disk: &dyn Disk) -> Result<(), LogError> {
        if self.has_remains {
            let path = self.segment.path();
            disk.truncate(self.segment.file(disk)?, path, self.size).at("truncate", path)?;
            self.has_remains = false;
        }
        Ok(())
    }

    /// Reads the state of a segment on disk.
    pub(super) fn learn(&mut self, disk: &dyn Disk) -> Result<(), LogError> {
        if self.known {
            return Ok(());
        }
        if let Some(last) = self.segment.times.last(disk)? {
            self.progress.latest = last;
        }
        let mut scan = self.segment.scan(disk, 0..self.size, levada_base::batch::HEADER_LEN)?;
        let first =
            scan.next().and_then(|head| head.map(|head| Ok(scan.header(&head)?.max_timestamp())).transpose());
        self.progress.first_timestamp = match first {
            Err(ReadError::Storage(error)) => return Err(error),
            // Damage at the beginning does not prevent appends at the end.
            other => other.unwrap_or_default(),
        };
        self.known = true;
        Ok(())
    }

    /// Adds index entries of batches that have been written. A disk too full for them costs later
    /// searches some reads, no more.
    ///
    /// # Errors
    /// An index that was lost while in use.
    pub(super) fn index(
        &mut self,
        disk: &dyn Disk,
        config: &LogConfig,
        entries: &[(OffsetEntry, TimeEntry)],
    ) -> Result<(), LogError> {
        let capacity = OffsetIndex::capacity(config.segment_index_bytes);
        let time_capacity = TimeIndex::capacity(config.segment_index_bytes);
        for (offset, time) in entries {
            let increases = |last: OffsetEntry| last.delta < offset.delta && last.position < offset.position;
            debug_assert!(self.indexed.is_none_or(increases), "{offset:?} after {:?}", self.indexed);
            self.indexed = Some(*offset);
            let offsets = self.segment.offsets.append(disk, *offset, capacity);
            match offsets.and_then(|()| self.segment.times.append(disk, *time, time_capacity)) {
                Ok(()) => {}
                Err(lost @ LogError::Lost { .. }) => return Err(lost),
                // The log went with the index, or will: records in files without a name are lost
                // with the process.
                Err(LogError::Io { path, source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                    return Err(LogError::Lost { path });
                }
                Err(error) => tracing::warn!(%error, "cannot write an index entry"),
            }
        }
        Ok(())
    }

    /// True if either index has no space for `more` entries and the last entry of the time index.
    pub(super) fn is_index_full(
        &self,
        disk: &dyn Disk,
        config: &LogConfig,
        more: usize,
    ) -> Result<bool, LogError> {
        let (offsets, times) =
            (self.segment.offsets.count(disk)? + more, self.segment.times.count(disk)? + more);
        Ok(offsets >= OffsetIndex::limit(config.segment_index_bytes)
            || times >= TimeIndex::limit(config.segment_index_bytes) - 1)
    }

    /// Writes the segment's largest timestamp to the time index.
    pub(super) fn close_times(&self, disk: &dyn Disk, config: &LogConfig) -> Result<(), LogError> {
        if self.known && self.size > 0 {
            let capacity = TimeIndex::capacity(config.segment_index_bytes);
            self.segment.times.append(disk, self.progress.latest, capacity)?;
        }
        Ok(())
    }

    /// Trims the file to its contents, if mapped appends reserved more; returns true if they did.
    pub(super) fn unmap(&mut self, disk: &dyn Disk) -> Result<bool, LogError> {
        if !self.windows.is_ahead() {
            return Ok(false);
        }
        self.windows = Windows::default();
        let path = self.segment.path();
        disk.truncate(self.segment.file(disk)?, path, self.size).at("trim", path)?;
        Ok(true)
    }

    pub(super) fn sync(&self, disk: &dyn Disk) -> Result<(), LogError> {
        disk.sync(self.segment.file(disk)?, self.segment.path()).at("sync", self.segment.path())
    }

    /// Cuts both indexes to their entries.
    pub(super) fn trim(&self, disk: &dyn Disk) -> Result<(), LogError> {
        self.segment.offsets.entries().trim(disk)?;
        self.segment.times.entries().trim(disk)
    }
}
