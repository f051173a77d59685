//! Upkeep of the logs while the broker runs, and their close when it stops: flushing sealed
//! segments, rebuilding misleading indexes, checkpoints.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use levada_log::LogError;
use levada_log::checkpoint::OffsetCheckpoint;
use levada_process::blocking::off_shard;
use levada_process::clock::steady_ms;
use levada_wire::Uuid;
use parking_lot::Mutex;

use crate::replica::data_dir::DataDir;
use crate::replica::last_shutdown::{Offsets, PartitionAtShutdown};
use crate::replica::{Partition, Replicas};

/// Longest and shortest pause between two checks of `flush.ms`.
const FLUSHES_MS: i64 = 5_000;
const FLUSHES_MIN_MS: i64 = 50;

/// Rounds in which the files of each idle log are checked once: two minutes. A check costs more
/// than the rest of a round, and an idle log has nothing new to lose.
const LOOKS: usize = 24;

/// Number of logs that are closed at the same time. Each waits for several syncs of the device,
/// which completes those of many files together.
const CLOSERS: usize = 16;

/// The part of upkeep that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Part {
    Flush,
    Round,
}

/// Logs whose upkeep has failed and has not succeeded since. An error that recurs in every round is
/// logged once.
#[derive(Debug, Default)]
pub(super) struct FailedUpkeep(Mutex<HashSet<(Uuid, i32, Part)>>);

impl FailedUpkeep {
    /// True if this is the first failure since the last success.
    fn is_new(&self, partition: &Partition, part: Part) -> bool {
        self.0.lock().insert((partition.topic_id(), partition.index(), part))
    }

    fn succeeded(&self, partition: &Partition, part: Part) {
        let mut failed = self.0.lock();
        if !failed.is_empty() {
            failed.remove(&(partition.topic_id(), partition.index(), part));
        }
    }

    /// Forgets logs that are not among these.
    fn keep(&self, partitions: &[Arc<Partition>]) {
        let mut failed = self.0.lock();
        if !failed.is_empty() {
            let present = partitions.iter().map(|partition| (partition.topic_id(), partition.index()));
            let present: HashSet<(Uuid, i32)> = present.collect();
            failed.retain(|(topic_id, index, _)| present.contains(&(*topic_id, *index)));
        }
    }
}

impl Replicas {
    /// Runs one round of housekeeping for every served log. Blocks.
    pub(crate) fn keep_logs(&self) {
        let round = self.rounds.fetch_add(1, Ordering::Relaxed);
        let partitions = self.partitions.all();
        for (at, partition) in partitions.iter().enumerate() {
            self.keep_partition(partition, at % LOOKS == round % LOOKS);
        }
        self.failed_upkeep.keep(&partitions);
    }

    /// Forces logs to the device whose topics set `flush.ms`; never returns.
    pub(crate) async fn run_flushes(self: Arc<Self>) {
        let mut looked_ms = steady_ms();
        loop {
            let now = steady_ms();
            let since_ms = std::mem::replace(&mut looked_ms, now);
            let replicas = self.clone();
            // One pass flushes and finds the next pause: the state of an idle log is in no cache of
            // the processor.
            let pause_ms = off_shard(move || {
                let flush = |shortest: i64, partition: &Arc<Partition>| {
                    let flush_ms = partition.config().flush_ms;
                    replicas.flush_if_due(partition, flush_ms, (since_ms, now));
                    shortest.min(flush_ms)
                };
                replicas.partitions.all().iter().fold(FLUSHES_MS, flush)
            })
            .await;
            let pause_ms = pause_ms.max(FLUSHES_MIN_MS).unsigned_abs();
            tokio::time::sleep(Duration::from_millis(pause_ms)).await;
        }
    }

    /// Flushes if a deadline of `flush.ms` passed between two checks: deadlines are multiples of
    /// it, so no state is needed.
    fn flush_if_due(&self, partition: &Partition, flush_ms: i64, (since_ms, now_ms): (i64, i64)) {
        let flush_ms = flush_ms.max(1);
        if since_ms / flush_ms == now_ms / flush_ms || partition.log().durable() >= partition.log().log_end()
        {
            return;
        }
        match self.upkeep.flush(partition.log(), levada_log::Partition::flush) {
            Err(error) if self.failed_upkeep.is_new(partition, Part::Flush) => {
                let offline = partition.log().is_offline();
                tracing::error!(partition = partition.name(), offline, %error, "not flushed; the broker repeats the flush");
            }
            Err(_) => {}
            Ok(_) => self.failed_upkeep.succeeded(partition, Part::Flush),
        }
    }

    fn keep_partition(&self, partition: &Partition, is_due: bool) {
        if partition.is_deleted() {
            return;
        }
        let flush = || self.upkeep.flush(partition.log(), levada_log::Partition::flush_sealed);
        let kept = look_for_files(partition, is_due).and_then(|()| flush());
        let kept = kept.and_then(|_| reindex(partition));
        match kept {
            // The log's files were deleted during the check.
            Err(_) if partition.is_deleted() => {}
            Err(error) if self.failed_upkeep.is_new(partition, Part::Round) => {
                tracing::error!(partition = partition.name(), %error, "housekeeping failed; the broker repeats it every few seconds");
            }
            Err(_) => {}
            Ok(_) => self.failed_upkeep.succeeded(partition, Part::Round),
        }
    }

    /// Writes the state that a crash must not lose. Blocks.
    pub(crate) fn store_checkpoints(&self) {
        // A failure is in the log, and the next round writes them again.
        let _ = self.try_store_checkpoints();
    }

    /// Like [`Replicas::store_checkpoints`], but returns the error instead of logging it.
    ///
    /// # Errors
    /// The first failure of a directory in use; it is in the log.
    fn try_store_checkpoints(&self) -> Result<(), LogError> {
        // A thread that read the list before a topic was deleted must not write after the deletion.
        let mut stored_marks = self.storing_checkpoint.lock();
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
            let open = all.iter().map(|one| ((one.topic().to_owned(), one.index()), of(one.left())));
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
    pub(crate) fn note_misleading_checkpoint(&self) {
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
    pub(crate) fn store_misleading_checkpoints(&self) -> Result<(), LogError> {
        let mut is_misleading = self.is_misleading.lock();
        if std::mem::take(&mut *is_misleading) { self.try_store_checkpoints() } else { Ok(()) }
    }

    /// Closes every log, leaves the checkpoints and the marker of a clean shutdown. Appends are
    /// refused from now on. Blocks.
    pub(crate) fn close(&self, broker_epoch: i64) {
        self.dirs.release_reserves();
        let unopened = self.unopened.lock().clone();
        unopened.unclean().filter_map(|key| self.dirs.of(key)).for_each(DataDir::note_unclean);
        close_logs(&self.partitions.all(), |partition| self.dirs.around(partition.log()).note_unclean());
        self.store_checkpoints();
        self.dirs.mark_clean(broker_epoch);
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

/// Fails if the files of the log are no longer in their directory. Checks only if the log has grown
/// since the last check, or if it `is_due`. Blocks.
fn look_for_files(partition: &Partition, is_due: bool) -> Result<(), LogError> {
    let end = partition.log().log_end();
    if partition.looked_for_at.swap(end, Ordering::Relaxed) == end && !is_due {
        return Ok(());
    }
    partition.log().check_files_present()
}

/// Closes the logs of partitions, several at a time, and calls `failed` with those that have
/// failed. Blocks.
fn close_logs(partitions: &[Arc<Partition>], failed: impl Fn(&Partition) + Sync) {
    let next = AtomicUsize::new(0);
    let work = || {
        while let Some(partition) = partitions.get(next.fetch_add(1, Ordering::Relaxed)) {
            let Some(writer) = partition.lane().take_writer() else {
                // A write has panicked. Deleted partitions are no longer served.
                failed(partition);
                continue;
            };
            if let Err(error) = writer.close() {
                tracing::error!(partition = partition.name(), %error, "cannot close the log cleanly");
                failed(partition);
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..CLOSERS.min(partitions.len()) {
            // This thread continues alone if there is no other.
            let _ = std::thread::Builder::new().spawn_scoped(scope, work);
        }
        work();
    });
}

/// Rebuilds damaged indexes that readers have detected. The thread reads their segments before it
/// takes the writer.
fn reindex(partition: &Partition) -> Result<(), LogError> {
    if !partition.log().has_misleading_index() {
        return Ok(());
    }
    let Some(config) = partition.lane().with_writer(|writer| writer.config().clone()) else { return Ok(()) };
    for reindexed in partition.log().reindex(&config)? {
        partition.lane().with_writer(|writer| writer.replace_indexes(&reindexed)).transpose()?;
    }
    Ok(())
}
