//! Logs on their way from one data directory to another.
//!
//! The copy of a log has a directory `topic-0.<id>-future` in its new place. To let it take the
//! place of the log, the log's directory is renamed to `topic-0.<id>-delete` with the same id, and
//! then the copy's to `topic-0`. A start that finds the first rename alone does the second: the
//! copy was complete.

use std::path::Path;

use levada_log::LogError;
use levada_log::checkpoint::PartitionMetadata;
use levada_metadata::uuid::is_reserved;
use levada_wire::Uuid;

use super::DataDirs;
use crate::replica::TopicPartition;
use crate::replica::data_dir::{DELETED, DataDir, DataDirError, FUTURE, Found};

/// Maximum number of partitions for which a directory is requested before this broker has them.
const WISHES_MAX: usize = 100_000;

/// Directories of moving logs, as a start finds them in one data directory.
pub(super) struct Traces {
    futures: Vec<Found>,
    deleted: Vec<Found>,
}

impl Traces {
    pub(super) fn of(dir: &DataDir) -> Result<Self, DataDirError> {
        Ok(Self { futures: dir.found(FUTURE)?, deleted: dir.found(DELETED)? })
    }
}

impl DataDirs {
    /// Registers the copies that an earlier process left. A complete copy that replaces its log is
    /// used as the log.
    pub(super) fn note_copies(&self, all: Vec<Traces>) {
        let is_left_for = |future: &Found| {
            let mut deleted = all.iter().flat_map(|traces| &traces.deleted);
            deleted.any(|left| left.key == future.key && left.unique == future.unique)
        };
        let mut homes = self.homes.lock();
        for (at, traces) in all.iter().enumerate() {
            for future in &traces.futures {
                let has_home = homes.of.contains_key(&future.key);
                if !has_home && is_left_for(future) {
                    homes.insert(future.key.clone(), at);
                    self.complete.lock().push((future.clone(), at));
                } else {
                    self.futures.lock().push((future.clone(), at));
                }
            }
        }
    }

    /// Renames complete copies to the names of their logs.
    pub(super) fn finish_moves(&self) -> Result<(), DataDirError> {
        for (future, at) in std::mem::take(&mut *self.complete.lock()) {
            let (dir, (topic, index)) = (&self.dirs[at], &future.key);
            let renamed = dir.rename(&future.path, &dir.partition(topic, *index));
            renamed.or_else(|error| self.tolerate(at, error))?;
        }
        Ok(())
    }

    /// True if a directory out of use may be all that is left of a partition: its log moved to a
    /// directory that is offline now.
    pub(super) fn may_be_needed(&self, key: &TopicPartition) -> bool {
        self.offline().next().is_some() && !self.homes.lock().of.contains_key(key)
    }

    /// Copies that a process before has left unfinished.
    pub(in crate::replica) fn take_copies(&self) -> Vec<(Found, &DataDir)> {
        let found = std::mem::take(&mut *self.futures.lock());
        found.into_iter().map(|(future, at)| (future, &self.dirs[at])).collect()
    }

    /// Replaces the log by the complete copy of a partition whose log is missing, as Kafka does, if
    /// the metadata assigns the partition to this directory: the log's directory is offline or
    /// lost, and the copy had reached the log's end before the metadata changed. A broker that is
    /// its own controller has no other source for records that the copy may lack: it waits for a
    /// directory that is offline and may have the log.
    ///
    /// # Errors
    /// Directories are offline, and one of them may have the log; a failing disk.
    pub(in crate::replica) fn adopt_copy(
        &self,
        dir: &DataDir,
        key: &TopicPartition,
        (topic_id, recorded): (Uuid, Uuid),
    ) -> Result<(), LogError> {
        if self.futures.lock().is_empty() || dir.has_partition(&key.0, key.1) {
            return Ok(());
        }
        let at = self.index_of(dir);
        let is_it = |(found, there): &(Found, usize)| found.key == *key && *there == at;
        let Some((found, _)) = self.futures.lock().iter().find(|one| is_it(one)).cloned() else {
            return Ok(());
        };
        let metadata = PartitionMetadata::load(&**dir.disk(), &found.path)?;
        let is_of_topic = metadata.is_some_and(|found| found.topic_id == topic_id.to_bytes());
        if !is_of_topic || recorded != dir.id() {
            return Ok(());
        }
        if let (Some(_), Some(lost)) = (self.metadata, self.offline().next()) {
            return Err(LogError::Offline { dir: lost.join(format!("{}-{}", key.0, key.1)) });
        }
        dir.rename(&found.path, &dir.partition(&key.0, key.1))?;
        self.futures.lock().retain(|one| !is_it(one));
        tracing::warn!(topic = key.0, partition = key.1, directory = %dir.path().display(), "the log is missing; its unfinished copy replaces it");
        Ok(())
    }

    /// Records that the partition is about to be in this directory: the metadata gets the
    /// directory, and the partition's checkpoints are stored there as well.
    pub(in crate::replica) fn arrive(&self, key: &TopicPartition, dir: &DataDir) {
        let at = self.index_of(dir);
        self.homes.lock().arriving.insert(key.clone(), at);
    }

    /// The partition does not move to this directory; true if the metadata may already assign it
    /// there.
    pub(in crate::replica) fn stay(&self, key: &TopicPartition, dir: &DataDir) -> bool {
        let (mut homes, at) = (self.homes.lock(), self.index_of(dir));
        let was_announced = homes.arriving.get(key) == Some(&at);
        if was_announced {
            homes.arriving.remove(key);
        }
        was_announced
    }

    /// Records that the partition is in this directory from now on.
    pub(in crate::replica) fn settle(&self, key: &TopicPartition, dir: &DataDir) {
        let (mut homes, at) = (self.homes.lock(), self.index_of(dir));
        homes.arriving.remove(key);
        homes.insert(key.clone(), at);
    }

    /// Assigns this directory to a partition that this broker does not have yet.
    pub(in crate::replica) fn prefer(&self, key: TopicPartition, dir: &DataDir) {
        let (mut homes, at) = (self.homes.lock(), self.index_of(dir));
        let has_room = homes.preferred.len() < WISHES_MAX || homes.preferred.contains_key(&key);
        if !homes.of.contains_key(&key) && has_room {
            homes.preferred.insert(key, at);
        }
    }

    /// The directory that the metadata is to name for a partition.
    pub(in crate::replica) fn announced(&self, key: &TopicPartition) -> Option<&DataDir> {
        let at = self.homes.lock().arriving.get(key).copied();
        at.map(|at| &self.dirs[at]).or_else(|| self.of(key))
    }

    /// Directory with this path; `None` if the configuration does not have it.
    ///
    /// # Errors
    /// The directory is offline.
    pub(crate) fn by_path(&self, path: &Path) -> Result<Option<&DataDir>, LogError> {
        match self.online().find(|dir| dir.path().as_os_str() == path.as_os_str()) {
            Some(dir) => Ok(Some(dir)),
            None if self.offline().any(|dir| dir.as_os_str() == path.as_os_str()) => {
                Err(LogError::Offline { dir: path.to_owned() })
            }
            None => Ok(None),
        }
    }

    /// The directory of this id.
    pub(super) fn by_id(&self, id: Uuid) -> Option<usize> {
        self.dirs.iter().position(|dir| dir.id() == id && !is_reserved(id))
    }

    fn index_of(&self, dir: &DataDir) -> usize {
        self.dirs.iter().position(|own| std::ptr::eq(own, dir)).expect("the directory is one of these")
    }

    /// Continues without a directory, if the error is one of its device and other directories
    /// remain.
    pub(super) fn tolerate(&self, at: usize, error: LogError) -> Result<(), DataDirError> {
        let dir = &self.dirs[at];
        if self.is_dispensable(at) {
            dir.report(&error);
        }
        if dir.has_failed() { Ok(()) } else { Err(error.into()) }
    }
}
