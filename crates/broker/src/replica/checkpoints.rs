//! The checkpoints in the data directories: offsets by partition, from which the next start
//! continues.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use levada_log::LogError;
use levada_log::checkpoint::OffsetCheckpoint;
use parking_lot::Mutex;

use crate::replica::cleaner::Cleaner;
use crate::replica::data_dir::DataDir;
use crate::replica::data_dirs::DataDirs;
use crate::replica::last_shutdown::{Offsets, PartitionAtShutdown, UnservedPartitions};
use crate::replica::{Partition, Partitions, TopicPartition};

/// Writes the checkpoints of all directories.
pub(crate) struct Checkpoints {
    dirs: Arc<DataDirs>,
    partitions: Arc<Partitions>,
    unopened: Arc<Mutex<UnservedPartitions>>,
    cleaner: Arc<Cleaner>,
    /// Held while checkpoints are written, so that no older one comes later. Hash of the marks of
    /// all partitions that are on the device, if known.
    storing: Mutex<Option<u64>>,
    /// A checkpoint misleads the next start until it is written again. Locked while it is.
    is_misleading: Mutex<bool>,
}

impl Checkpoints {
    pub(super) fn new(
        dirs: Arc<DataDirs>,
        partitions: Arc<Partitions>,
        unopened: Arc<Mutex<UnservedPartitions>>,
        cleaner: Arc<Cleaner>,
    ) -> Self {
        let (storing, is_misleading) = (Mutex::default(), Mutex::default());
        Self { dirs, partitions, unopened, cleaner, storing, is_misleading }
    }

    /// Writes the state that a crash must not lose. Blocks.
    pub(crate) fn store(&self) {
        // A failure is in the log, and the next round writes them again.
        let _ = self.try_store();
    }

    /// Like [`Checkpoints::store`], but returns the error instead of logging it.
    ///
    /// # Errors
    /// The first failure of a directory in use; it is in the log.
    fn try_store(&self) -> Result<(), LogError> {
        // A thread that read the list before a topic was deleted must not write after the deletion.
        let mut stored_marks = self.storing.lock();
        // In this order: a log that is opened in between is in both.
        let unopened = self.unopened.lock().clone();
        let all = self.partitions.all();
        // A move between directories changes the checkpoints of both without another mark.
        let is_whole = !self.dirs.is_several() && unopened.iter().next().is_none();
        let marks = is_whole.then(|| hash_of_marks(&all));
        if marks.is_some() && *stored_marks == marks {
            return Ok(());
        }
        *stored_marks = None;
        let offsets = |of: fn(PartitionAtShutdown) -> i64| -> Offsets {
            let open = all.iter().map(|one| (one.key(), of(one.left())));
            unopened.iter().map(|(key, one)| (key.clone(), of(one))).chain(open).collect()
        };
        let stored = [
            (OffsetCheckpoint::RecoveryPoint, offsets(|left| left.recovery_point)),
            (OffsetCheckpoint::LogStart, offsets(|left| left.log_start)),
            (OffsetCheckpoint::Replication, offsets(|left| left.high_watermark)),
        ];
        let (mut is_stored, mut failure) = (true, None);
        for (checkpoint, offsets) in stored {
            match self.dirs.store(checkpoint, offsets) {
                Ok(is_everywhere) => is_stored &= is_everywhere,
                Err(error) => drop(failure.get_or_insert(error)),
            }
        }
        *stored_marks = marks.filter(|_| is_stored && failure.is_none());
        failure.map_or(Ok(()), Err)
    }

    /// Notes that the checkpoints have offsets that would mislead the next start if this process
    /// ended now: a high watermark that has fallen, or a log start that has risen.
    pub(crate) fn note_misleading(&self) {
        *self.is_misleading.lock() = true;
    }

    /// Writes the checkpoints if they mislead. With a high watermark from before, the log would
    /// open after another crash as if the records that have come there since were committed; with
    /// a log start from before, deleted records would be there again. Blocks, also while another
    /// thread writes them.
    ///
    /// # Errors
    /// The first failure of a directory in use; it is in the log, and housekeeping writes the
    /// checkpoints again.
    pub(crate) fn store_misleading(&self) -> Result<(), LogError> {
        let mut is_misleading = self.is_misleading.lock();
        if std::mem::take(&mut *is_misleading) { self.try_store() } else { Ok(()) }
    }

    /// Lowers the checkpoint of compaction to the end of a truncated log, at most.
    pub(super) fn lower_cleaner(&self, partition: &Partition, log_end: i64) {
        if self.cleaner.lower(&partition.key(), log_end) {
            self.store_cleaner();
        }
    }

    /// Stores the offsets at which compaction continues. Blocks.
    pub(super) fn store_cleaner(&self) {
        let _storing = self.storing.lock();
        // A failure is in the log.
        let _ = self.dirs.store(OffsetCheckpoint::Cleaner, self.cleaner.checkpoints());
    }

    /// Removes the offsets of a partition whose log begins as a new one, from the files too.
    ///
    /// # Errors
    /// The files cannot be written.
    pub(super) fn forget(&self, dir: &DataDir, key: &TopicPartition) -> Result<(), LogError> {
        let mut stored_marks = self.storing.lock();
        *stored_marks = None;
        self.unopened.lock().reset(key);
        self.cleaner.forget(key);
        dir.forget_offsets(key)
    }
}

/// Hash of the marks of these partitions in the checkpoints. An equal hash shows, without the
/// memory for new checkpoints, that those of an idle broker are unchanged.
fn hash_of_marks(partitions: &[Arc<Partition>]) -> u64 {
    let mut hasher = DefaultHasher::new();
    for partition in partitions {
        let left = partition.left();
        let marks = [left.recovery_point, left.log_start, left.high_watermark];
        (partition.topic_id().to_bytes(), partition.index(), marks).hash(&mut hasher);
    }
    hasher.finish()
}
