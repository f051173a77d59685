//! Data directories that fail while the broker runs: their partitions leave service.

use std::path::PathBuf;
use std::sync::Arc;

use levada_wire::Uuid;
use tokio::sync::Notify;

use crate::replica::last_shutdown::PartitionAtShutdown;
use crate::replica::{Partition, Replicas, TopicPartition};

/// A directory that has failed.
#[derive(Clone, Debug)]
pub(crate) struct FailedDir {
    pub(crate) path: PathBuf,
    pub(crate) id: Uuid,
}

impl Replicas {
    /// Wakes when a directory has failed.
    pub(crate) fn failures(&self) -> &Arc<Notify> {
        self.dirs.news()
    }

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

    /// Takes a partition of a failed directory out of service. Clients get KAFKA_STORAGE_ERROR.
    pub(crate) fn abandon(&self, partition: &Partition) {
        let log = partition.log();
        log.abandon();
        let left = PartitionAtShutdown::of(log);
        self.unopened.lock().note(&(partition.topic().to_owned(), partition.index()), left);
        self.partitions.remove_one(partition.topic_id(), partition.index());
        drop(partition.lane().take_writer());
    }

    /// True if the partition is in a directory that has failed.
    pub(crate) fn is_in_failed_directory(&self, key: &TopicPartition) -> bool {
        self.dirs.is_in_failed(key)
    }

    /// Drops the directory of a partition that has left this broker, if the directory has failed:
    /// the next partition of the name gets another one.
    pub(crate) fn forget_failed(&self, topic: &str, index: i32) {
        self.dirs.forget_if_failed(&(topic.to_owned(), index));
    }

    /// Partitions that entered service since the last call, with the ids of their directories.
    pub(crate) fn take_placed(&self) -> Vec<(TopicPartition, Uuid)> {
        self.dirs.take_placed()
    }

    /// The id of the directory that holds a partition or will soon, if it works.
    pub(crate) fn directory_of(&self, topic: &str, index: i32) -> Option<Uuid> {
        let dir = self.dirs.announced(&(topic.to_owned(), index))?;
        (!dir.has_failed()).then(|| dir.id())
    }
}
