//! Data directories that fail while the broker runs: their partitions leave service. Also logs that
//! cannot serve although their directories work, and directories that refuse records.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use levada_metadata::uuid::LOST_DIRECTORY;
use levada_process::clock::uptime_ms;
use levada_wire::Uuid;
use tokio::sync::Notify;

use crate::replica::data_dir::DataDir;
use crate::replica::lane::holds_last_for;
use crate::replica::last_shutdown::{PartitionAtShutdown, UnservedReason};
use crate::replica::{Partition, Replicas, TopicPartition};

/// Time after which a log that cannot be opened, or cannot begin a leader epoch, is lost.
/// Housekeeping tries again every few seconds, and a full disk or a lack of descriptors may pass.
const LOST_AFTER_MS: i64 = 30_000;

/// A directory that has failed.
#[derive(Clone, Debug)]
pub(crate) struct FailedDir {
    pub(crate) path: PathBuf,
    pub(crate) id: Uuid,
}

impl Replicas {
    /// Directories that failed since the last call.
    pub(crate) fn take_failed_directories(&self) -> Vec<FailedDir> {
        let failed = self.dirs.take_failed().into_iter();
        failed.map(|dir| FailedDir { path: dir.path().to_owned(), id: dir.id() }).collect()
    }

    /// The partitions that are served from failed directories.
    pub(crate) fn in_failed_directories(&self) -> Vec<Arc<Partition>> {
        let mut all = self.partitions.all();
        all.retain(|partition| self.dirs.around(partition.log()).has_failed());
        all
    }

    /// Removes a partition of a failed directory from service. Clients get KAFKA_STORAGE_ERROR.
    pub(crate) fn abandon(&self, partition: &Partition) {
        let log = partition.log();
        log.abandon();
        let left = PartitionAtShutdown::of(log);
        self.unopened.lock().note(&partition.key(), left);
        self.partitions.remove_one(partition.topic_id(), partition.index());
        drop(partition.lane().take_writer());
    }

    /// Makes directories refuse records if an append, or work that delays appends, has not returned
    /// for this time. Completes requests that wait for it, or for replicas that another broker is
    /// to lead. Does not wait.
    pub(crate) fn refuse_blocked(&self, after: Duration) {
        // The usual case: one look for each thread, and none for each partition.
        if !holds_last_for(after) {
            return;
        }
        let is_blocked =
            |partition: &Partition| partition.lane().held_for().is_some_and(|held| held >= after);
        let blocked = self.partitions.find(is_blocked);
        for partition in &blocked {
            let cause = format!("work on the log of {} has not returned for {after:?}", partition.name());
            self.dirs.around(partition.log()).refuse(&cause);
            partition.lane().give_up_waiting();
            self.blocked.notify_one();
        }
        let is_frozen =
            |dir: &DataDir| blocked.iter().any(|one| std::ptr::eq(self.dirs.around(one.log()), dir));
        for dir in self.dirs.iter().filter(|dir| is_frozen(dir)) {
            let has_heirs = |one: &&Arc<Partition>| one.leadership().has_others_in_sync(self.node_id);
            self.in_directory(dir).iter().filter(has_heirs).for_each(|one| one.lane().give_up_waiting());
        }
    }

    /// Wakes while work that holds a writer does not return.
    pub(crate) fn blocked(&self) -> &Notify {
        &self.blocked
    }

    /// The partitions whose logs are in this directory.
    pub(crate) fn in_directory(&self, dir: &DataDir) -> Vec<Arc<Partition>> {
        let mut all = self.partitions.all();
        all.retain(|partition| std::ptr::eq(self.dirs.around(partition.log()), dir));
        all
    }

    /// Reports the directory of these partitions to the metadata again.
    pub(crate) fn report_placed(&self, partitions: &[Arc<Partition>]) {
        self.dirs.note_placed(&partitions.iter().map(|one| one.key()).collect::<Vec<_>>());
    }

    /// Partitions whose logs cannot serve although their directories work: a log went offline, for
    /// example because its files were deleted; it lacks records, and another replica can lead; its
    /// topic has remote storage; or, for [`LOST_AFTER_MS`], it could not be opened, or keeps
    /// another replica in sync from leading because a leader epoch cannot be stored. Also those in
    /// directories that refuse records, if another replica is in sync.
    pub(crate) fn lost(&self, now_ms: i64) -> Vec<TopicPartition> {
        let any_refuses = self.dirs.iter().any(DataDir::refuses_records);
        let lost = self.partitions.find(|partition| self.cannot_serve(partition, now_ms, any_refuses));
        let mut lost: Vec<TopicPartition> = lost.iter().map(|one| one.key()).collect();
        lost.extend(self.unopened.lock().tiered().cloned());
        // A directory that is out of use may have the log.
        if !self.dirs.has_closed() {
            let unopened = self.unopened.lock();
            let unopened = unopened.failed_before(now_ms - LOST_AFTER_MS);
            lost.extend(unopened.filter(|key| !self.dirs.is_in_failed(key)).cloned());
        }
        lost
    }

    /// True if the log cannot serve although its directory works. This runs for every idle log
    /// every two seconds, so that the directory is looked up by its path only with a reason.
    fn cannot_serve(&self, partition: &Partition, now_ms: i64, any_refuses: bool) -> bool {
        let dir = || self.dirs.around(partition.log());
        // The last replica in sync continues to serve fetches.
        let refuses = || dir().refuses_records() && partition.leadership().has_others_in_sync(self.node_id);
        let cannot = partition.log().is_offline()
            || partition.yields()
            || partition.holds_up_since(now_ms - LOST_AFTER_MS)
            || (any_refuses && refuses());
        cannot && !dir().has_failed()
    }

    /// True if the partition is one of [`Replicas::lost`].
    fn is_lost(&self, key: &TopicPartition, now_ms: i64) -> bool {
        if let Some(partition) = self.partitions.by_name(&key.0, key.1) {
            return self.cannot_serve(&partition, now_ms, true);
        }
        let may_be_elsewhere = self.dirs.has_closed() || self.dirs.is_in_failed(key);
        let unopened = self.unopened.lock();
        let has_failed = !may_be_elsewhere && unopened.has_failed_before(key, now_ms - LOST_AFTER_MS);
        has_failed || unopened.unserved_reason(&key.0, key.1) == Some(UnservedReason::Tiered)
    }

    /// The directory that the metadata of a cluster is to have for a partition: the id of the one
    /// that holds it or will soon, if that works, or [`LOST_DIRECTORY`] if the log cannot serve.
    /// None for a log that could not be opened yet: the metadata keeps the directory that it has.
    pub(crate) fn directory_of(&self, topic: &str, index: i32) -> Option<Uuid> {
        let key = (topic.to_owned(), index);
        if self.is_lost(&key, uptime_ms()) {
            return Some(LOST_DIRECTORY);
        }
        if self.unopened.lock().is_closed(topic, index) {
            return None;
        }
        let dir = self.dirs.announced(&key)?;
        (!dir.has_failed()).then(|| dir.id())
    }
}
