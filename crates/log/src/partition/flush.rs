//! Making the log durable, beside the appends: segments that are no longer written to, or everything.

use std::sync::atomic::Ordering;

use crate::LogError;
use crate::disk::At;
use crate::epochs::Epochs;
use crate::partition::Partition;

impl Partition {
    /// Makes everything below the log's end durable and moves the recovery point there, which is returned. Appends go on
    /// meanwhile. Blocks.
    ///
    /// # Errors
    /// A failing disk: what the kernel could not write it may have dropped, so the partition goes offline and stays so until
    /// it is opened again.
    pub fn flush(&self) -> Result<i64, LogError> {
        self.flush_to(self.log_end())
    }

    /// As [`Partition::flush`], for segments that are no longer written to only. Costs nothing if there is no new one.
    ///
    /// # Errors
    /// As [`Partition::flush`].
    pub fn flush_sealed(&self) -> Result<i64, LogError> {
        let sealed_end = self.segments.load().last().map_or(0, |active| active.base());
        self.flush_to(sealed_end)
    }

    fn flush_to(&self, end: i64) -> Result<i64, LogError> {
        let _flushing = self.flushing.lock();
        let names = self.unsynced_names.swap(false, Ordering::AcqRel);
        let done = self.recovery_point();
        if end <= done && !names {
            return Ok(done);
        }
        if let Err(error) = self.sync_range(done, end, names) {
            self.go_offline();
            return Err(error);
        }
        self.marks.recovery_point.fetch_max(end, Ordering::AcqRel);
        Ok(end.max(done))
    }

    fn sync_range(&self, done: i64, end: i64, names: bool) -> Result<(), LogError> {
        let segments = self.segments.load_full();
        for (at, segment) in segments.iter().enumerate() {
            let next = segments.get(at + 1).map_or(i64::MAX, |next| next.base());
            if next <= done || segment.base() >= end {
                continue;
            }
            self.disk.sync(segment.file(&*self.disk)?, segment.path()).at("sync", segment.path())?;
            segment.offsets.entries().sync(&*self.disk)?;
            segment.times.entries().sync(&*self.disk)?;
        }
        if names {
            Epochs::sync(&*self.disk, self.dir())?;
            self.disk.sync_dir(self.dir()).at("sync", self.dir())?;
        }
        Ok(())
    }

    /// A file was created or renamed: the next flush syncs the directory as well.
    pub(crate) fn note_new_name(&self) {
        self.unsynced_names.store(true, Ordering::Release);
    }
}
