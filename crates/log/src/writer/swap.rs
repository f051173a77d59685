//! Replacement of files while the log is in use: a compacted segment replaces its source segments
//! by renames only, and rebuilt indexes replace corrupt ones.

use std::path::PathBuf;
use std::sync::Arc;

use super::Writer;
use crate::LogError;
use crate::compact::Cleaned;
use crate::disk::{Disk, is_full, remove_if_there, rename_if_there, suffixed};
use crate::producers::LastRecords;
use crate::recover::Reindexed;
use crate::segment::{DELETED, FILES, SWAP, Segment};

/// Files that are out of the log under separate names, to be removed when no reader can need them
/// (`file.delete.delay.ms`). Ranges that were handed out stay valid after that. After a crash, the
/// next opening removes them.
#[derive(Debug)]
#[must_use = "the files stay until they are removed"]
pub struct Retired {
    disk: Arc<dyn Disk>,
    paths: Vec<PathBuf>,
}

impl Retired {
    /// Removes the files. Blocks.
    ///
    /// # Errors
    /// A failing disk; the next opening removes the remaining files.
    pub fn remove(self) -> Result<(), LogError> {
        self.paths.iter().try_for_each(|path| remove_if_there(&*self.disk, path).map(drop))
    }

    /// Renames files of segments to names with the suffix `.deleted`. If the disk has no space for
    /// the longer name, the file is removed instead.
    pub(super) fn rename(
        disk: &Arc<dyn Disk>,
        files: impl Iterator<Item = PathBuf>,
    ) -> Result<Self, LogError> {
        let mut paths = Vec::new();
        for path in files {
            let retired = suffixed(&path, DELETED);
            match rename_if_there(&**disk, &path, &retired) {
                Ok(true) => paths.push(retired),
                Ok(false) => {}
                Err(error) if error.source_io().is_some_and(is_full) => {
                    remove_if_there(&**disk, &path)?;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(Self { disk: disk.clone(), paths })
    }
}

impl Writer {
    /// The last record of each producer with state in the log.
    pub fn last_records(&self) -> LastRecords {
        self.producers.last_records()
    }

    /// Puts a compacted segment in place; returns the files of the replaced segments, `None` if
    /// these segments of the log have changed, or the log was truncated since the compaction began:
    /// then the result is discarded. Renames at most a few hundred files; a flush makes the names
    /// durable.
    ///
    /// A truncation may have removed the later value for which a record was taken out, also from a
    /// segment that is not among the replaced ones.
    ///
    /// In this order, so that a crash leaves one or the other: the new files are renamed to
    /// `.swap`, and after the last of these renames the next opening continues from here; the old
    /// files are renamed; the new files get their final names.
    ///
    /// # Errors
    /// A failing disk. If it fails half way, the partition is offline, and the next opening
    /// finishes the work.
    pub fn replace(&mut self, cleaned: Cleaned) -> Result<Option<Retired>, LogError> {
        let mut segments = Vec::clone(&self.partition.segments.load());
        let is_intact = !self.partition.is_offline() && self.partition.cuts() == cleaned.cuts;
        let place = place(&segments, &cleaned.old).filter(|_| is_intact);
        let Some(at) = place else { return cleaned.discard().map(|()| None) };
        if let Err(error) = self.announce(&cleaned) {
            return self.retreat(cleaned).and(Err(error));
        }
        let retired = self.take_over(&cleaned).inspect_err(|error| self.partition.go_offline(error))?;
        let fresh = Segment::on_disk(&self.partition.dir(), cleaned.base, cleaned.size);
        fresh.publish_max_timestamp(cleaned.max_timestamp);
        segments.splice(at..at + cleaned.old.len(), [Arc::new(fresh)]);
        self.partition.publish_segments(segments);
        self.partition.note_new_name();
        Ok(Some(retired))
    }

    /// Replaces corrupt indexes and syncs the new ones; `false` if these segments of the log have
    /// changed. Readers of the old indexes continue to use them. After a crash during this a start
    /// rebuilds missing indexes, and readers detect wrong ones. Blocks.
    ///
    /// # Errors
    /// A failing disk: the old indexes stay in use, and the next [`crate::Partition::reindex`] has
    /// the segment again.
    pub fn replace_indexes(&mut self, reindexed: &Reindexed) -> Result<bool, LogError> {
        let Reindexed { old, built } = reindexed;
        let (disk, partition) = (&*self.disk, &self.partition);
        let mut segments = Vec::clone(&partition.segments.load());
        let place = segments.iter().position(|segment| Arc::ptr_eq(segment, old));
        let Some(at) = place.filter(|_| !partition.is_offline()) else { return Ok(false) };
        // Names are about to mean other files.
        old.hold(disk)?;
        partition.note_new_name();
        let fresh = old.with_indexes(disk, built, self.config.segment_index_bytes)?;
        for entries in [fresh.offsets.entries(), fresh.times.entries()] {
            entries.trim_leftover(disk)?;
            // No later flush covers these files: files below the recovery point count as synced.
            entries.sync(disk)?;
        }
        tracing::info!(path = %fresh.path().display(), "index rebuilt");
        segments[at] = Arc::new(fresh);
        partition.publish_segments(segments);
        Ok(true)
    }

    fn announce(&self, cleaned: &Cleaned) -> Result<(), LogError> {
        FILES.into_iter().try_for_each(|file| {
            let (from, path) = cleaned.paths(file);
            rename_if_there(&*self.disk, &from, &suffixed(&path, SWAP)).map(drop)
        })
    }

    /// Removes everything of a segment that could not be announced as a whole: as long as one file
    /// is `.cleaned`, no opening uses the others.
    fn retreat(&self, cleaned: Cleaned) -> Result<(), LogError> {
        let announced = FILES.map(|file| suffixed(&cleaned.paths(file).1, SWAP));
        let removed = announced.iter().try_for_each(|path| remove_if_there(&*self.disk, path).map(drop));
        let removed = removed.and_then(|()| cleaned.discard());
        removed.inspect_err(|error| self.partition.go_offline(error))
    }

    fn take_over(&self, cleaned: &Cleaned) -> Result<Retired, LogError> {
        for segment in &cleaned.old {
            segment.hold_aborted(&*self.disk);
        }
        let old = cleaned.old.iter().flat_map(|old| old.files());
        let retired = Retired::rename(&self.disk, cleaned.snapshots.iter().cloned().chain(old))?;
        for file in FILES {
            let path = cleaned.paths(file).1;
            rename_if_there(&*self.disk, &suffixed(&path, SWAP), &path)?;
        }
        Ok(retired)
    }
}

/// Position of these segments in the log, without the last one.
fn place(segments: &[Arc<Segment>], old: &[Arc<Segment>]) -> Option<usize> {
    let first = old.first()?;
    let at = segments.iter().position(|segment| Arc::ptr_eq(segment, first))?;
    let found = segments.get(at..at + old.len())?;
    let same = found.iter().zip(old).all(|(one, other)| Arc::ptr_eq(one, other));
    (same && at + old.len() < segments.len()).then_some(at)
}
