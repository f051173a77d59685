//! State that the previous process left in the data directory and in each partition, and the
//! partitions that are not served.

use std::collections::{BTreeMap, HashMap};

use crate::replica::TopicPartition;

/// Offsets by partition, as checkpoints have them.
pub(crate) type Offsets = BTreeMap<TopicPartition, i64>;

/// State in which the process before left one directory.
#[derive(Default)]
pub(crate) struct DirectoryAtShutdown {
    /// Every log was closed cleanly.
    pub(crate) clean: bool,
    /// The epoch of the process's registration, if the logs were closed cleanly.
    pub(crate) broker_epoch: Option<i64>,
    pub(crate) recovery_points: Offsets,
    pub(crate) log_starts: Offsets,
    pub(crate) high_watermarks: Offsets,
    /// The offset from which compaction continues.
    pub(crate) cleaned: Offsets,
}

/// State in which the process before left all directories.
pub(crate) struct LastShutdown {
    /// Every log of every directory was closed cleanly.
    pub(crate) clean: bool,
    /// The epoch of the process's registration, if all directories have the same.
    pub(crate) broker_epoch: Option<i64>,
    /// In the order of [`crate::replica::DataDirs`].
    dirs: Vec<DirectoryAtShutdown>,
    /// The directory of each partition, if there are several.
    homes: HashMap<TopicPartition, usize>,
}

/// State in which one partition was left; the default is that of a new one.
#[derive(Clone, Copy, Default)]
pub(crate) struct PartitionAtShutdown {
    pub(crate) clean: bool,
    pub(crate) recovery_point: i64,
    pub(crate) log_start: i64,
    pub(crate) high_watermark: i64,
}

impl PartitionAtShutdown {
    /// State in which an open log is left without a close.
    pub(crate) fn of(log: &levada_log::Partition) -> Self {
        Self {
            clean: false,
            recovery_point: log.recovery_point(),
            log_start: log.log_start(),
            high_watermark: log.high_watermark(),
        }
    }

    /// True if a checkpoint has the partition beyond the start of a new log.
    pub(super) fn has_offsets(&self) -> bool {
        self.recovery_point > 0 || self.log_start > 0 || self.high_watermark > 0
    }
}

impl LastShutdown {
    pub(super) fn new(dirs: Vec<DirectoryAtShutdown>, homes: HashMap<TopicPartition, usize>) -> Self {
        let broker_epoch = dirs.first().and_then(|first| first.broker_epoch);
        Self {
            clean: dirs.iter().all(|dir| dir.clean),
            broker_epoch: broker_epoch.filter(|_| dirs.iter().all(|dir| dir.broker_epoch == broker_epoch)),
            dirs,
            homes,
        }
    }

    /// The same, without the registration.
    pub(super) fn without_broker_epoch(self) -> Self {
        Self { broker_epoch: None, ..self }
    }

    fn dir(&self, key: &TopicPartition) -> Option<&DirectoryAtShutdown> {
        match &self.dirs[..] {
            [only] => Some(only),
            several => self.homes.get(key).and_then(|at| several.get(*at)),
        }
    }

    /// State in which one partition was left.
    pub(crate) fn of(&self, key: &TopicPartition) -> PartitionAtShutdown {
        let Some(dir) = self.dir(key) else { return PartitionAtShutdown::default() };
        let offset = |offsets: &Offsets| offsets.get(key).copied().unwrap_or(0);
        PartitionAtShutdown {
            clean: dir.clean,
            recovery_point: offset(&dir.recovery_points),
            log_start: offset(&dir.log_starts),
            high_watermark: offset(&dir.high_watermarks),
        }
    }

    /// The offset from which compaction continues.
    pub(crate) fn cleaned(&self) -> Offsets {
        let all =
            self.dirs.iter().enumerate().flat_map(|(at, dir)| dir.cleaned.iter().map(move |one| (at, one)));
        let is_there =
            |at: usize, key: &TopicPartition| self.dirs.len() == 1 || self.homes.get(key) == Some(&at);
        let there = all.filter(|(at, (key, _))| is_there(*at, key));
        there.map(|(_, (key, offset))| (key.clone(), *offset)).collect()
    }

    /// True if a checkpoint has a partition that is none any more.
    pub(crate) fn is_stale(&self, known: impl Fn(&str, i32) -> bool) -> bool {
        let mut keys =
            self.dirs.iter().flat_map(|dir| dir.recovery_points.keys().chain(dir.log_starts.keys()));
        keys.any(|(topic, index)| !known(topic, *index))
    }
}

/// States of the partitions that are not served. Their checkpoints stay unchanged.
#[derive(Clone, Default)]
pub(crate) struct UnservedPartitions(BTreeMap<TopicPartition, (PartitionAtShutdown, UnservedReason)>);

/// The reason why a partition is not served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UnservedReason {
    /// Its log is being checked, or will be.
    Recovering,
    /// The log could not be opened.
    Failed,
}

impl UnservedPartitions {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Number of partitions that could not be opened.
    pub(crate) fn failed(&self) -> usize {
        self.0.values().filter(|(_, absence)| *absence == UnservedReason::Failed).count()
    }

    /// Partitions whose recovery runs or is still to come.
    pub(crate) fn recovering(&self) -> impl Iterator<Item = &TopicPartition> {
        self.0.iter().filter(|(_, (_, absence))| *absence == UnservedReason::Recovering).map(|(key, _)| key)
    }

    /// The reason why it is not served, if that is known.
    pub(crate) fn unserved_reason(&self, topic: &str, index: i32) -> Option<UnservedReason> {
        if self.is_empty() {
            return None;
        }
        self.0.get(&(topic.to_owned(), index)).map(|(_, absence)| *absence)
    }

    pub(crate) fn of(&self, key: &TopicPartition) -> PartitionAtShutdown {
        self.0.get(key).map(|(left, _)| *left).unwrap_or_default()
    }

    /// The log could not be opened; the value is true for a new failure.
    pub(crate) fn note(&mut self, key: &TopicPartition, left: PartitionAtShutdown) -> bool {
        let before = self.0.insert(key.clone(), (left, UnservedReason::Failed));
        before.is_none_or(|(_, absence)| absence != UnservedReason::Failed)
    }

    /// The log will be recovered.
    pub(crate) fn expect(&mut self, key: TopicPartition, left: PartitionAtShutdown) {
        self.0.insert(key, (left, UnservedReason::Recovering));
    }

    /// The log begins as a new one.
    pub(super) fn reset(&mut self, key: &TopicPartition) {
        if let Some((left, _)) = self.0.get_mut(key) {
            *left = PartitionAtShutdown::default();
        }
    }

    pub(crate) fn forget(&mut self, key: &TopicPartition) {
        self.0.remove(key);
    }

    /// Drops logs that could not be opened and are no longer `wanted`.
    pub(crate) fn keep(&mut self, wanted: impl Fn(&TopicPartition) -> bool) {
        self.0.retain(|key, (_, absence)| *absence != UnservedReason::Failed || wanted(key));
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&TopicPartition, PartitionAtShutdown)> {
        self.0.iter().map(|(key, (left, _))| (key, *left))
    }
}
