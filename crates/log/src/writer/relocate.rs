//! Move of a log to another directory: a copy that has caught up to the log's end replaces it.
//! Readers and waiters keep the [`Partition`], which uses the new files from then on.

use std::path::PathBuf;
use std::sync::Arc;

use super::Writer;
use crate::background::Background;
use crate::disk::At;
use crate::epochs::Epochs;
use crate::partition::Partition;
use crate::producers::snapshot;
use crate::watch::FailureWatch;
use crate::{LogError, OpenOptions};

/// A step of a move that is the caller's.
type Step<'a> = &'a dyn Fn() -> Result<(), LogError>;

/// The target of a log's move.
pub struct Destination<'a> {
    /// The directory that the copy has after `commit`.
    pub dir: PathBuf,
    /// Threads that prepare files for the writer there.
    pub background: Background,
    /// Receiver of failures of the storage at the destination.
    pub watch: FailureWatch,
    /// Syncs everything that must be on the device before the copy replaces the log. The copy is on
    /// the device.
    pub prepare: Step<'a>,
    /// Renames the log's directory to a temporary name and the copy's to the final one; both are
    /// synced when it returns.
    pub commit: Step<'a>,
    /// Restores both names after a failure; both are on the device when it returns.
    pub revert: Step<'a>,
}

impl Writer {
    /// Replaces the log by a copy: the copy has the same batches up to the same end. It gets the
    /// state that batches do not contain (epochs, producers) and is synced; `prepare` and `commit`
    /// are called. Then the partition has the copy's files. The caller removes the former files.
    /// Blocks.
    ///
    /// # Errors
    /// A copy that has another end, or a failing disk. The log is as it was, unless `revert` fails
    /// as well: then the next start may find either, and the partition is offline.
    pub fn relocate(&mut self, copy: Self, to: Destination<'_>, now_ms: i64) -> Result<(), LogError> {
        self.refuse_offline()?;
        self.complete(copy, now_ms)?;
        (to.prepare)()?;
        let partition = self.partition.clone();
        // Held to the end: a reader that misses a file waits for this lock.
        let _held = partition.hold_flushes();
        // Readers of the former segments request aborted transactions after the files are removed.
        let former = partition.segments.load_full();
        former.iter().for_each(|segment| segment.hold_aborted(&*self.disk));
        let revert = to.revert;
        let moved = (to.commit)().and_then(|()| self.reopen(to, now_ms));
        let moved = moved.and_then(|copy| self.agree(&copy.partition).map(|()| copy));
        let copy = moved.inspect_err(|_| {
            if let Err(error) = revert() {
                partition.mark_offline(&error);
            }
        })?;
        partition.adopt(&copy.partition);
        partition.note_new_name();
        let Self { active, background, snapshot_at, .. } = copy;
        (self.active, self.background, self.snapshot_at) = (active, background, snapshot_at);
        (self.spare, self.epochs_stored) = (None, true);
        self.assert_active_is_last();
        Ok(())
    }

    /// Syncs the copy, with the epochs and producers of this log.
    fn complete(&self, mut copy: Self, now_ms: i64) -> Result<(), LogError> {
        let (disk, dir, end) = (&*self.disk, copy.partition.dir(), self.partition.log_end());
        copy.reach(&self.partition, now_ms)?;
        self.agree(&copy.partition)?;
        copy.close()?;
        self.producers.store(disk, &dir, end)?;
        snapshot::sync(disk, &dir, end)?;
        Epochs::clone(&self.partition.epochs.load()).replace(disk, &dir)?;
        disk.sync_dir(&dir).at("sync", &dir)
    }

    /// Follows a log over offsets at its end that compaction has left without a batch.
    fn reach(&mut self, log: &Partition, now_ms: i64) -> Result<(), LogError> {
        let (own, end) = (self.partition.log_end(), log.log_end());
        let is_gap = || log.read(own, 1, end, true).is_ok_and(|slice| slice.is_empty());
        if own < end && own >= log.log_start() && is_gap() {
            self.roll_at(end, now_ms)?;
            self.partition.marks.extend(end, &self.partition.dir());
        }
        Ok(())
    }

    fn agree(&self, copy: &Partition) -> Result<(), LogError> {
        let (end, found) = (self.partition.log_end(), copy.log_end());
        if end == found {
            return Ok(());
        }
        let detail = format!("the copy of the log ends at offset {found}, the log at {end}");
        Err(LogError::corrupt(&copy.dir(), detail))
    }

    /// Opens the copy in its present directory.
    fn reopen(&self, to: Destination<'_>, now_ms: i64) -> Result<Self, LogError> {
        let options = OpenOptions {
            config: self.config.clone(),
            recovery_point: self.partition.log_end(),
            log_start: self.partition.log_start(),
            high_watermark: Some(self.partition.high_watermark()),
            clean: true,
            disk: Arc::clone(&self.disk),
            background: to.background,
            watch: to.watch,
            ..OpenOptions::new(to.dir)
        };
        let (copy, _) = Self::open(options, now_ms)?;
        Ok(copy)
    }
}
