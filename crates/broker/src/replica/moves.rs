//! Moves of replicas from one data directory to another (AlterReplicaLogDirs).
//!
//! A thread copies the log, batch by batch with verified checksums, to a directory next to its new
//! place (`copy`). When the copy has reached the log's end, the broker reports the new directory to
//! the metadata; once the metadata has that directory, the copy replaces the log (`switch`).
//! Readers and writers keep their partition, and appends wait only for the last step.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use levada_config::BrokerConfig;
use levada_log::checkpoint::PartitionMetadata;
use levada_process::blocking::off_shard;
use levada_wire::error_code::ErrorCode;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::task::JoinSet;

use crate::replica::data_dir::{DataDir, Found};
use crate::replica::data_dirs::DataDirs;
use crate::replica::pace::Pace;
use crate::replica::{Partition, Replicas, TopicPartition};

mod copy;
mod switch;

use self::copy::Job;

/// Pause before the next check of unfinished moves whose partitions are not served yet.
const RESUME: Duration = Duration::from_secs(1);

/// The moves of a broker.
#[derive(Default)]
pub(crate) struct Moves {
    all: Mutex<BTreeMap<TopicPartition, Arc<Move>>>,
    asked: Notify,
    announced: Notify,
    pace: Pace,
}

/// Move of one replica between data directories.
struct Move {
    partition: Arc<Partition>,
    /// The directory of the copy.
    future: Found,
    /// Data directory that contains `future`.
    to: std::path::PathBuf,
    copy: ArcSwapOption<levada_log::Partition>,
    has_begun: AtomicBool,
    /// Held during the last step; a cancellation waits for it.
    cancelled: Mutex<bool>,
}

/// State of a moving log, as clients see it.
pub(crate) struct MoveView {
    pub(crate) topic: String,
    pub(crate) index: i32,
    pub(crate) size_bytes: u64,
    /// Offsets that the copy lacks.
    pub(crate) lag: i64,
}

impl Moves {
    /// Logs on their way to this data directory.
    pub(crate) fn to(&self, dir: &Path) -> Vec<MoveView> {
        let all = self.all.lock();
        all.values().filter(|one| one.to == dir).map(|one| one.view()).collect()
    }

    /// Wakes when a directory is to be reported to the metadata.
    pub(crate) fn announced(&self) -> &Notify {
        &self.announced
    }

    /// Stops all work soon; the next start begins the moves again.
    pub(crate) fn halt(&self) {
        self.pace.halt();
    }

    /// Begins a move of this partition to a directory.
    fn begin(&self, partition: Arc<Partition>, future: Found, dir: &DataDir) {
        self.add(Move {
            partition,
            future,
            to: dir.path().to_owned(),
            copy: ArcSwapOption::empty(),
            has_begun: AtomicBool::new(false),
            cancelled: Mutex::new(false),
        });
    }

    /// Registers a move, unless the partition is already moving to the same directory: the second
    /// of two concurrent requests would move the log onto itself.
    fn add(&self, one: Move) {
        let mut all = self.all.lock();
        let is_same = |known: &Arc<Move>| known.to == one.to && !known.partition.is_deleted();
        let is_known = all.get(&one.future.key).is_some_and(is_same);
        if !is_known {
            all.insert(one.future.key.clone(), Arc::new(one));
            self.asked.notify_one();
        }
    }

    /// A move that waits for a thread. The caller owns the move.
    fn next(&self) -> Option<Arc<Move>> {
        let all = self.all.lock();
        all.values().find(|one| !one.has_begun.swap(true, Ordering::AcqRel)).cloned()
    }

    fn of(&self, key: &TopicPartition) -> Option<Arc<Move>> {
        self.all.lock().get(key).cloned()
    }

    /// Removes a move, unless another move has begun for the partition.
    fn forget(&self, one: &Move) {
        let mut all = self.all.lock();
        if all.get(&one.future.key).is_some_and(|now| std::ptr::eq(&**now, one)) {
            all.remove(&one.future.key);
        }
    }
}

impl Move {
    fn view(&self) -> MoveView {
        let (end, copy) = (self.partition.log().log_end(), self.copy.load());
        let (size_bytes, copied) = copy.as_ref().map_or((0, 0), |copy| (copy.size_bytes(), copy.log_end()));
        let (topic, index) = self.future.key.clone();
        MoveView { topic, index, size_bytes, lag: (end - copied).max(0) }
    }

    /// True if the log is in the directory already.
    fn is_over(&self) -> bool {
        self.partition.log().dir().parent() == Some(&*self.to)
    }

    fn is_cancelled(&self) -> bool {
        *self.cancelled.lock()
    }
}

impl Replicas {
    /// The moves between data directories.
    pub(crate) fn moves(&self) -> &Moves {
        &self.moves
    }

    /// Moves a partition to the data directory of this path. A partition that is there, or on its
    /// way there, stays unchanged; a move elsewhere is cancelled. A partition that this broker does
    /// not have yet is created there later. A cordoned directory is refused. Blocks.
    pub(crate) fn move_to(&self, topic: &str, index: i32, path: &Path) -> Result<(), ErrorCode> {
        let found = self.dirs.by_path(path).map_err(|_| ErrorCode::KafkaStorageError)?;
        let dir = found.ok_or(ErrorCode::LogDirNotFound)?;
        if self.config.load().is_cordoned(dir.configured()) {
            return Err(ErrorCode::InvalidReplicaAssignment);
        }
        let key = (topic.to_owned(), index);
        let known = self.moves.of(&key).filter(|one| !one.partition.is_deleted());
        if let Some(other) = known.as_ref().filter(|one| one.to != dir.path()) {
            Job::new(self, other).cancel();
        }
        let partition = self.partition(topic, index).map_err(|error| {
            if error == ErrorCode::KafkaStorageError {
                return error;
            }
            // As in Kafka, also for a topic that is created later.
            self.dirs.prefer(key.clone(), dir);
            if self.metadata.has_partition(topic, index) {
                ErrorCode::ReplicaNotAvailable
            } else {
                ErrorCode::UnknownTopicOrPartition
            }
        })?;
        if partition.log().is_offline() {
            return Err(ErrorCode::KafkaStorageError);
        }
        let is_there = partition.log().dir().parent() == Some(dir.path());
        if is_there || known.is_some_and(|one| one.to == dir.path() && !one.is_cancelled()) {
            return Ok(());
        }
        if self.dirs.offline().next().is_some() {
            // As in Kafka: the offline directory may already have a copy.
            return Err(ErrorCode::KafkaStorageError);
        }
        tracing::info!(partition = partition.name(), to = %dir.path().display(), "the replica moves to another directory");
        self.moves.begin(partition, dir.new_future(&key), dir);
        Ok(())
    }

    /// Runs requested moves; never returns.
    pub(crate) async fn run_moves(self: Arc<Self>) {
        let mut running = JoinSet::new();
        let mut unfinished =
            self.dirs.take_copies().into_iter().map(|(found, dir)| (found, dir.id())).collect();
        loop {
            let replicas = self.clone();
            unfinished = off_shard(move || replicas.resume(unfinished)).await;
            while running.len() < threads(&self.config.load(), &self.dirs) {
                let Some(next) = self.moves.next() else { break };
                let replicas = self.clone();
                running.spawn_blocking(move || Job::new(&replicas, &next).carry_out());
            }
            tokio::select! {
                Some(_) = running.join_next(), if !running.is_empty() => {}
                () = self.moves.asked.notified() => {}
                () = tokio::time::sleep(RESUME), if !unfinished.is_empty() => {}
            }
        }
    }

    /// Restarts the moves of the former process whose partitions are served by now; returns the
    /// others. Their copies start from the beginning: after a crash of the machine a copy may have
    /// records that its log has lost, and the log may have other records there. Blocks.
    fn resume(&self, unfinished: Vec<(Found, levada_wire::Uuid)>) -> Vec<(Found, levada_wire::Uuid)> {
        let mut waiting = Vec::new();
        for (found, id) in unfinished {
            let Some(dir) = self.dirs.online().find(|dir| dir.id() == id) else { continue };
            let (topic, index) = (found.key.0.clone(), found.key.1);
            match self.partitions.by_name(&topic, index) {
                None if self.metadata.has_partition(&topic, index) => waiting.push((found, id)),
                served => {
                    let resumed = served.filter(|served| {
                        self.moves.of(&found.key).is_none() && is_resumable(served, &found, dir)
                    });
                    self.dirs.remove(&found.path);
                    if let Some(partition) = resumed {
                        tracing::info!(partition = partition.name(), to = %dir.path().display(), "the move of the replica begins again");
                        self.moves.begin(partition, dir.new_future(&found.key), dir);
                    }
                }
            }
        }
        waiting
    }
}

fn threads(config: &BrokerConfig, dirs: &DataDirs) -> usize {
    let set = config.settings().text("num.replica.alter.log.dirs.threads").map(str::parse);
    set.and_then(Result::ok).unwrap_or_else(|| dirs.iter().count()).max(1)
}

/// True if the copy in this directory belongs to the partition, which is still elsewhere.
fn is_resumable(partition: &Partition, found: &Found, dir: &DataDir) -> bool {
    let metadata = PartitionMetadata::load(&**dir.disk(), &found.path).ok().flatten();
    let is_of_topic = metadata.is_some_and(|found| found.topic_id == partition.topic_id().to_bytes());
    is_of_topic && partition.log().dir().parent() != Some(dir.path())
}

#[cfg(test)]
mod tests;
