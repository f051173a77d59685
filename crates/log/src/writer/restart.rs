//! Restart of a log at another offset: a follower whose log has nothing that the leader still has.

use std::path::PathBuf;
use std::sync::Arc;

use super::active::Active;
use super::{Retired, Writer};
use crate::disk::At;
use crate::epochs::Epochs;
use crate::producers::{Producers, snapshot};
use crate::segment::Segment;
use crate::{LogError, OFFSET_MAX, recover};

/// State of a log after its remote part.
#[derive(Clone, Debug)]
pub struct TieredState {
    /// The first offset of the log, with the remote part.
    pub log_start: i64,
    /// The offset after the remote part, where the local part begins.
    pub local_start: i64,
    /// Leader epochs up to there, and their first offsets.
    pub epochs: Vec<(i32, i64)>,
    /// The producers there, as the file of a snapshot.
    pub producers: Vec<u8>,
}

/// State that a restarted log begins with.
struct Beginning {
    log_start: i64,
    offset: i64,
    epochs: Epochs,
    producers: Producers,
}

impl Writer {
    /// Removes everything from the log and lets it begin and end at `offset`, as do the high
    /// watermark and the recovery point. Leader epochs and producers are removed. Returns the
    /// former files for removal later. Blocks.
    ///
    /// A crash during the restart leaves the log as it was, a beginning of it, or an empty one.
    ///
    /// # Errors
    /// An offset that no log may have, or a failing disk: then the partition is offline.
    pub fn restart_at(&mut self, offset: i64, now_ms: i64) -> Result<Retired, LogError> {
        let (epochs, producers) = (Epochs::default(), Producers::default());
        self.begin_anew(Beginning { log_start: offset, offset, epochs, producers }, now_ms)
    }

    /// Like [`Writer::restart_at`], for a log whose earlier records only remote storage has: it
    /// begins before its local part, and has the leader epochs and the producers of its remote
    /// part.
    ///
    /// A crash during the restart leaves the log as it was, a beginning of it, or an empty one with
    /// or without the state.
    ///
    /// # Errors
    /// State that no log can have, or a failing disk: then the partition is offline.
    pub fn restart_after(&mut self, state: &TieredState, now_ms: i64) -> Result<Retired, LogError> {
        let TieredState { log_start, local_start: offset, .. } = *state;
        let wrong = |what: String| LogError::corrupt(&self.partition.dir(), format!("remote state: {what}"));
        if !(0..=offset).contains(&log_start) {
            return Err(wrong(format!("the log starts at {log_start}, and its local part at {offset}")));
        }
        let producers = Producers::decode(&state.producers, now_ms).map_err(wrong)?;
        if producers.reach() >= offset {
            return Err(wrong(format!("a producer has offset {}", producers.reach())));
        }
        let epochs = Epochs::of(state.epochs.clone()).filter(|epochs| epochs.latest() >= 0);
        let epochs = epochs.ok_or_else(|| wrong(format!("leader epochs {:?}", state.epochs)))?;
        if epochs.latest_offset().is_some_and(|start| start >= offset) {
            return Err(wrong(format!("leader epochs {:?} from {offset} on", state.epochs)));
        }
        self.begin_anew(Beginning { log_start, offset, epochs, producers }, now_ms)
    }

    fn begin_anew(&mut self, beginning: Beginning, now_ms: i64) -> Result<Retired, LogError> {
        self.refuse_offline()?;
        let (partition, offset) = (self.partition.clone(), beginning.offset);
        if !(0..=OFFSET_MAX).contains(&offset) {
            let (log_start, log_end) = (partition.log_start(), partition.log_end());
            return Err(LogError::OutOfRange { offset, log_start, log_end });
        }
        let _held = partition.hold_flushes();
        let done = self.start_over(beginning, now_ms);
        done.inspect_err(|error| partition.go_offline(error))
    }

    /// Does it, in this order: the marks are lowered, the files go, the last segment's first, and
    /// then the epochs; all this is on the device before there is a file of the new segment. The
    /// state of a remote part comes last, its epochs after its producers: without epochs, a
    /// follower begins again.
    fn start_over(&mut self, beginning: Beginning, now_ms: i64) -> Result<Retired, LogError> {
        let Beginning { log_start, offset, epochs, producers } = beginning;
        let (disk, partition) = (self.disk.clone(), self.partition.clone());
        let (dir, segments) = (&*partition.dir(), partition.segments.load_full());
        // The names may mean other files soon: readers of these segments need them open.
        for segment in segments.iter().filter(|segment| segment.base() == offset).chain(segments.last()) {
            segment.hold(&*disk)?;
        }
        segments.iter().for_each(|segment| segment.hold_aborted(&*disk));
        self.stale_recovery_point = self.stale_recovery_point.max(partition.recovery_point());
        partition.note_cut();
        partition.marks.lower(partition.log_start().min(log_start));
        partition.lower_highest_remote(offset - 1);
        let files: Vec<PathBuf> = recover::log_files(&*disk, dir)?;
        let retired = Retired::rename(&disk, files.into_iter())?;
        self.epochs_stored = false;
        Epochs::default().replace(&*disk, dir)?;
        let fresh = Arc::new(Segment::create(&*disk, dir, offset)?);
        disk.sync_dir(dir).at("sync", dir)?;
        self.snapshot_at = -1;
        if epochs.latest() >= 0 {
            producers.store(&*disk, dir, offset)?;
            snapshot::sync(&*disk, dir, offset)?;
            epochs.replace(&*disk, dir)?;
            self.snapshot_at = offset;
        }
        self.active = Active::fresh(fresh.clone(), None, now_ms);
        partition.publish_segments(vec![fresh]);
        partition.publish_epochs(epochs);
        self.epochs_stored = true;
        let first_open = producers.first_unstable();
        self.producers = producers;
        partition.marks.restart(log_start, offset);
        partition.marks.restart_transactions(first_open);
        let marks = [partition.log_start(), partition.high_watermark(), partition.log_end()];
        assert_eq!(marks, [log_start, offset, offset], "a restarted log begins and ends at its offsets");
        self.assert_active_is_last();
        Ok(retired)
    }
}
