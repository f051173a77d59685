//! Flushes in parallel with appends: of sealed segments, or of the whole log.

use std::io;
use std::sync::atomic::Ordering;

use parking_lot::MutexGuard;

use crate::LogError;
use crate::disk::{At, is_out_of_descriptors};
use crate::epochs::Epochs;
use crate::partition::Partition;
use crate::segment::Segment;

impl Partition {
    /// Makes everything below the log's end durable and moves the recovery point there, which is
    /// returned. Appends continue. Blocks.
    ///
    /// # Errors
    /// A failing disk: the kernel may have dropped the pages that it could not write, and a
    /// repeated sync would succeed without them, so the partition goes offline until it is opened
    /// again. A lack of descriptors has no such effect.
    pub fn flush(&self) -> Result<i64, LogError> {
        self.flush_to(Self::log_end)
    }

    /// Like [`Partition::flush`], for sealed segments only. Costs nothing if there is no new one.
    ///
    /// # Errors
    /// Same as [`Partition::flush`].
    pub fn flush_sealed(&self) -> Result<i64, LogError> {
        // A follower's segment may begin after the log's end until its first batch is there.
        let sealed = |partition: &Self| partition.segments.load().last().map_or(0, |active| active.base());
        self.flush_to(|partition| sealed(partition).min(partition.log_end()))
    }

    /// Makes the records below the log's end durable, but no indexes: the next opening reads more
    /// than after a [`Partition::flush`], which syncs indexes as well. Returns the durable offset.
    /// Appends continue. Blocks.
    ///
    /// # Errors
    /// Same as [`Partition::flush`].
    pub fn sync_records(&self) -> Result<i64, LogError> {
        let flushing = self.flushing.lock();
        if self.is_offline() {
            return Err(LogError::Offline { dir: self.dir().to_path_buf() });
        }
        // Under the lock: the log may have been cut while it was waited for.
        let end = self.log_end();
        // A segment with something below `end` had its name noted before.
        if self.unsynced_names.load(Ordering::Acquire) {
            drop(flushing);
            return self.flush();
        }
        let durable = self.durable();
        let segments = self.segments.load_full();
        for (at, segment) in segments.iter().enumerate() {
            let next = segments.get(at + 1).map_or(i64::MAX, |next| next.base());
            if next <= durable || segment.base() >= end {
                continue;
            }
            self.sync_batches(segment).inspect_err(|error| self.doubt(error))?;
        }
        self.marks.durable.fetch_max(end, Ordering::AcqRel);
        self.assert_durable_marks();
        Ok(end.max(durable))
    }

    /// Asserts the order of the durability marks. Called with the lock held that prevents
    /// truncations.
    fn assert_durable_marks(&self) {
        let (recovery_point, durable, end) = (self.recovery_point(), self.durable(), self.log_end());
        assert!(
            recovery_point <= durable && durable <= end,
            "marks of {} are out of order: recovery point {recovery_point}, durable {durable}, log end {end}",
            self.dir().display()
        );
    }

    fn flush_to(&self, end: impl FnOnce(&Self) -> i64) -> Result<i64, LogError> {
        let _flushing = self.flushing.lock();
        if self.is_offline() {
            return Err(LogError::Offline { dir: self.dir().to_path_buf() });
        }
        // In this order: every file with offsets below `end` got its name, and was marked for the
        // sync of the directory, before.
        let (done, end) = (self.recovery_point(), end(self));
        let names = self.unsynced_names.swap(false, Ordering::AcqRel);
        if end <= done && !names {
            return Ok(done);
        }
        if let Err(error) = self.sync_range(done, end, names) {
            if names {
                self.note_new_name();
            }
            self.doubt(&error);
            return Err(error);
        }
        // In this order: no reader finds the recovery point above the durable offset.
        self.marks.durable.fetch_max(end, Ordering::AcqRel);
        self.marks.recovery_point.fetch_max(end, Ordering::AcqRel);
        self.assert_durable_marks();
        Ok(end.max(done))
    }

    fn sync_range(&self, done: i64, end: i64, names: bool) -> Result<(), LogError> {
        let segments = self.segments.load_full();
        for (at, segment) in segments.iter().enumerate() {
            let next = segments.get(at + 1).map_or(i64::MAX, |next| next.base());
            // A segment that was sealed at the recovery point got its last index entries after the
            // flush that reached it.
            if next < done || next == done && !names || segment.base() >= end.max(done) {
                continue;
            }
            match self.sync_segment(segment) {
                // Retention was faster.
                Err(LogError::Io { source, .. })
                    if source.kind() == io::ErrorKind::NotFound && next <= self.log_start() => {}
                other => other?,
            }
        }
        if names {
            let dir = self.dir();
            Epochs::sync(&*self.disk, &dir)?;
            self.disk.sync_dir(&dir).at("sync", &dir)?;
        }
        Ok(())
    }

    fn sync_segment(&self, segment: &Segment) -> Result<(), LogError> {
        let disk = &*self.disk;
        self.sync_batches(segment)?;
        segment.offsets.entries().sync(disk)?;
        segment.times.entries().sync(disk)?;
        segment.aborted.sync(disk)
    }

    /// Makes the records of one segment durable, with its length, but not its indexes.
    ///
    /// # Errors
    /// Same as [`Partition::flush`].
    pub(crate) fn sync_one(&self, segment: &Segment) -> Result<(), LogError> {
        let _flushing = self.flushing.lock();
        if self.is_offline() {
            return Err(LogError::Offline { dir: self.dir().to_path_buf() });
        }
        self.sync_segment(segment).inspect_err(|error| self.doubt(error))
    }

    /// Records a failed sync, after which the contents of the device are unknown. A sync that did
    /// not begin, for lack of a descriptor, leaves no doubt: it is retried.
    fn doubt(&self, error: &LogError) {
        if !error.source_io().is_some_and(is_out_of_descriptors) {
            self.go_offline(error);
        }
    }

    /// Syncs the batches of a segment. After a failure the page cache holds pages as clean that are
    /// not on the device: the next opening must read from the device.
    fn sync_batches(&self, segment: &Segment) -> Result<(), LogError> {
        let (file, path) = (segment.file(&*self.disk)?, segment.path());
        let synced = self.disk.sync(file, path);
        synced.inspect_err(|_| self.disk.drop_cached(file, path)).at("sync", path)
    }

    /// Records that a file was created or renamed: the next flush syncs the directory as well.
    pub(crate) fn note_new_name(&self) {
        self.unsynced_names.store(true, Ordering::Release);
    }

    /// Prevents syncs while the log's end moves backwards.
    pub(crate) fn hold_flushes(&self) -> MutexGuard<'_, ()> {
        self.flushing.lock()
    }
}
