//! State that the previous process left in the data directory and in each partition, and the
//! partitions that are not served.

use std::collections::{BTreeMap, HashMap};

use levada_process::clock::uptime_ms;

use crate::replica::TopicPartition;

/// Offsets by partition, as checkpoints have them.
pub(crate) type Offsets = BTreeMap<TopicPartition, i64>;

/// State in which the previous process left one directory.
#[derive(Default)]
pub(crate) struct DirectoryAtShutdown {
    /// True if every log was closed cleanly.
    pub(crate) clean: bool,
    /// The epoch of the process's registration, if the logs were closed cleanly.
    pub(crate) broker_epoch: Option<i64>,
    pub(crate) recovery_points: Offsets,
    pub(crate) log_starts: Offsets,
    pub(crate) high_watermarks: Offsets,
    /// The offset from which compaction continues.
    pub(crate) cleaned: Offsets,
}

/// State in which the previous process left all directories.
pub(crate) struct LastShutdown {
    /// True if every log of every directory was closed cleanly.
    pub(crate) clean: bool,
    /// Broker epoch of the registration, if all directories have the same.
    pub(crate) broker_epoch: Option<i64>,
    /// Directories in the order of [`crate::replica::DataDirs`].
    dirs: Vec<DirectoryAtShutdown>,
    /// The directory of each partition, if there are several.
    homes: HashMap<TopicPartition, usize>,
}

/// State in which a partition was left at the shutdown; by default that of a new partition.
#[derive(Clone, Copy, Default)]
pub(crate) struct PartitionAtShutdown {
    pub(crate) clean: bool,
    pub(crate) recovery_point: i64,
    pub(crate) log_start: i64,
    pub(crate) high_watermark: i64,
}

impl PartitionAtShutdown {
    /// State of an open log that is abandoned without a close.
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

    /// Removes the broker epoch of the registration.
    pub(super) fn without_broker_epoch(self) -> Self {
        Self { broker_epoch: None, ..self }
    }

    fn dir(&self, key: &TopicPartition) -> Option<&DirectoryAtShutdown> {
        match &self.dirs[..] {
            [only] => Some(only),
            several => self.homes.get(key).and_then(|at| several.get(*at)),
        }
    }

    /// State of one partition at the last shutdown.
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

    /// True if a checkpoint names a partition that no longer exists.
    pub(crate) fn is_stale(&self, known: impl Fn(&str, i32) -> bool) -> bool {
        let mut keys =
            self.dirs.iter().flat_map(|dir| dir.recovery_points.keys().chain(dir.log_starts.keys()));
        keys.any(|(topic, index)| !known(topic, *index))
    }
}

/// States of the partitions that are not served. Their checkpoints stay unchanged.
#[derive(Clone, Default)]
pub(crate) struct UnservedPartitions(BTreeMap<TopicPartition, Unserved>);

#[derive(Clone, Copy)]
struct Unserved {
    left: PartitionAtShutdown,
    reason: UnservedReason,
    /// Time at which the reason began, ms of uptime.
    since_ms: i64,
}

/// The reason why a partition is not served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UnservedReason {
    /// The partition's log is being checked, or is yet to be checked.
    Recovering,
    /// The log could not be opened.
    Failed,
    /// The topic has remote storage, so that the log stays closed.
    Tiered,
}

impl UnservedPartitions {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Number of partitions that could not be opened.
    pub(crate) fn failed(&self) -> usize {
        self.0.values().filter(|unserved| unserved.reason == UnservedReason::Failed).count()
    }

    /// Partitions whose recovery is running or yet to come.
    pub(crate) fn recovering(&self) -> impl Iterator<Item = &TopicPartition> {
        let all = self.0.iter().filter(|(_, unserved)| unserved.reason == UnservedReason::Recovering);
        all.map(|(key, _)| key)
    }

    /// Partitions whose logs could not be opened at this time or earlier.
    pub(super) fn failed_before(&self, time_ms: i64) -> impl Iterator<Item = &TopicPartition> {
        let is_failed = move |unserved: &Unserved| {
            unserved.reason == UnservedReason::Failed && unserved.since_ms <= time_ms
        };
        self.0.iter().filter(move |(_, unserved)| is_failed(unserved)).map(|(key, _)| key)
    }

    /// True if the partition is one of [`UnservedPartitions::failed_before`].
    pub(super) fn has_failed_before(&self, key: &TopicPartition, time_ms: i64) -> bool {
        let failed = self.0.get(key).filter(|unserved| unserved.reason == UnservedReason::Failed);
        failed.is_some_and(|unserved| unserved.since_ms <= time_ms)
    }

    /// Partitions of topics with remote storage.
    pub(crate) fn tiered(&self) -> impl Iterator<Item = &TopicPartition> {
        let all = self.0.iter().filter(|(_, unserved)| unserved.reason == UnservedReason::Tiered);
        all.map(|(key, _)| key)
    }

    /// Keeps the log closed, because its topic has remote storage; true if it was not closed
    /// before.
    pub(crate) fn refuse(&mut self, key: &TopicPartition, left: PartitionAtShutdown) -> bool {
        let (reason, since_ms) = (UnservedReason::Tiered, uptime_ms());
        let before = self.0.insert(key.clone(), Unserved { left, reason, since_ms });
        before.is_none_or(|before| before.reason != reason)
    }

    /// Partitions whose logs the next start has to check.
    pub(super) fn unclean(&self) -> impl Iterator<Item = &TopicPartition> {
        let is_untouched =
            |unserved: &Unserved| unserved.reason == UnservedReason::Tiered && unserved.left.clean;
        self.0.iter().filter(move |(_, unserved)| !is_untouched(unserved)).map(|(key, _)| key)
    }

    /// The reason why it is not served, if that is known.
    pub(crate) fn unserved_reason(&self, topic: &str, index: i32) -> Option<UnservedReason> {
        if self.is_empty() {
            return None;
        }
        self.0.get(&(topic.to_owned(), index)).map(|unserved| unserved.reason)
    }

    /// True if the partition's log is being checked, or is yet to be checked.
    pub(crate) fn is_recovering(&self, topic: &str, index: i32) -> bool {
        self.unserved_reason(topic, index) == Some(UnservedReason::Recovering)
    }

    /// True if the partition's log could not or may not be opened, or its directory has failed.
    pub(crate) fn is_closed(&self, topic: &str, index: i32) -> bool {
        matches!(self.unserved_reason(topic, index), Some(UnservedReason::Failed | UnservedReason::Tiered))
    }

    pub(crate) fn of(&self, key: &TopicPartition) -> PartitionAtShutdown {
        self.0.get(key).map(|unserved| unserved.left).unwrap_or_default()
    }

    /// The log could not be opened; the value is true for a new failure.
    pub(crate) fn note(&mut self, key: &TopicPartition, left: PartitionAtShutdown) -> bool {
        let before = self.0.get(key).filter(|unserved| unserved.reason == UnservedReason::Failed);
        let (is_new, since_ms) =
            before.map_or_else(|| (true, uptime_ms()), |unserved| (false, unserved.since_ms));
        self.0.insert(key.clone(), Unserved { left, reason: UnservedReason::Failed, since_ms });
        is_new
    }

    /// Registers a log that is yet to be recovered.
    pub(crate) fn expect(&mut self, key: TopicPartition, left: PartitionAtShutdown) {
        let (reason, since_ms) = (UnservedReason::Recovering, uptime_ms());
        self.0.insert(key, Unserved { left, reason, since_ms });
    }

    /// Discards what the last shutdown recorded about the partition, whose log begins as a new one.
    pub(super) fn reset(&mut self, key: &TopicPartition) {
        if let Some(unserved) = self.0.get_mut(key) {
            unserved.left = PartitionAtShutdown::default();
        }
    }

    pub(crate) fn forget(&mut self, key: &TopicPartition) {
        self.0.remove(key);
    }

    /// Drops logs that could not be opened and are no longer `wanted`.
    pub(crate) fn keep(&mut self, wanted: impl Fn(&TopicPartition) -> bool) {
        self.0.retain(|key, unserved| unserved.reason != UnservedReason::Failed || wanted(key));
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&TopicPartition, PartitionAtShutdown)> {
        self.0.iter().map(|(key, unserved)| (key, unserved.left))
    }
}
