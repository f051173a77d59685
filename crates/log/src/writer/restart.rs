//! Restart of a log at another offset: a follower whose log has nothing that the leader still has.

use std::path::PathBuf;
use std::sync::Arc;

use super::active::Active;
use super::{Retired, Writer};
use crate::disk::At;
use crate::epochs::Epochs;
use crate::producers::Producers;
use crate::segment::Segment;
use crate::{LogError, OFFSET_MAX, recover};

impl Writer {
    /// Removes everything from the log and lets it begin and end at `offset`, as do the high
    /// watermark and the recovery point. Leader epochs and producers are removed. Returns the
    /// former files for removal later. Blocks.
    ///
    /// A crash on the way leaves the log as it was, a beginning of it, or an empty one.
    ///
    /// # Errors
    /// An offset that no log may have, or a failing disk: then the partition is offline.
    pub fn restart_at(&mut self, offset: i64, now_ms: i64) -> Result<Retired, LogError> {
        self.refuse_offline()?;
        let partition = self.partition.clone();
        if !(0..=OFFSET_MAX).contains(&offset) {
            let (log_start, log_end) = (partition.log_start(), partition.log_end());
            return Err(LogError::OutOfRange { offset, log_start, log_end });
        }
        let _held = partition.hold_flushes();
        let done = self.start_over(offset, now_ms);
        done.inspect_err(|error| partition.go_offline(error))
    }

    /// Does it, in this order: the marks are lowered, the files go, the last segment's first, and
    /// then the epochs; all this is on the device before there is a file of the new segment.
    fn start_over(&mut self, offset: i64, now_ms: i64) -> Result<Retired, LogError> {
        let (disk, partition) = (self.disk.clone(), self.partition.clone());
        let (dir, segments) = (&*partition.dir(), partition.segments.load_full());
        // The names may mean other files soon: readers of these segments need them open.
        for segment in segments.iter().filter(|segment| segment.base() == offset).chain(segments.last()) {
            segment.hold(&*disk)?;
        }
        segments.iter().for_each(|segment| segment.hold_aborted(&*disk));
        self.stale_recovery_point = self.stale_recovery_point.max(partition.recovery_point());
        partition.note_cut();
        partition.marks.lower(partition.log_start().min(offset));
        let files: Vec<PathBuf> = recover::log_files(&*disk, dir)?;
        let retired = Retired::rename(&disk, files.into_iter())?;
        self.epochs_stored = false;
        Epochs::default().replace(&*disk, dir)?;
        let fresh = Arc::new(Segment::create(&*disk, dir, offset)?);
        disk.sync_dir(dir).at("sync", dir)?;
        self.active = Active::fresh(fresh.clone(), None, now_ms);
        partition.publish_segments(vec![fresh]);
        partition.publish_epochs(Epochs::default());
        self.epochs_stored = true;
        (self.producers, self.snapshot_at) = (Producers::default(), -1);
        partition.marks.restart(offset);
        let marks = [partition.log_start(), partition.high_watermark(), partition.log_end()];
        assert_eq!(marks, [offset; 3], "a restarted log begins and ends at its offset");
        self.assert_active_is_last();
        Ok(retired)
    }
}
