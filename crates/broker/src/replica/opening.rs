//! Opening the logs of partitions, and adding them to those that are served.

use std::sync::Arc;

use levada_log::{LogError, OpenOptions, Writer};
use levada_wire::Uuid;

use crate::clock::now_ms;
use crate::config::TopicConfig;
use crate::metadata::image::{ConfigResource, Image};
use crate::replica::last_shutdown::PartitionAtShutdown;
use crate::replica::log_config::{log_config, topic_config};
use crate::replica::{Leadership, Partition, PartitionIdentity, Replicas, TopicPartition};

/// A partition that the metadata has and that is to be opened.
pub(crate) struct Missing {
    pub(crate) identity: PartitionIdentity,
    config: Arc<TopicConfig>,
}

impl Missing {
    pub(crate) fn key(&self) -> TopicPartition {
        (self.identity.topic.to_string(), self.identity.index)
    }

    pub(crate) fn is(&self, (topic, index): &TopicPartition) -> bool {
        *self.identity.topic == **topic && self.identity.index == *index
    }
}

impl Replicas {
    /// Partitions of the topics of which this broker has a replica that is not served yet.
    pub(crate) fn missing(&self, image: &Image, topics: impl Iterator<Item = Uuid>) -> Vec<Missing> {
        let mut missing = Vec::new();
        for topic in topics.filter_map(|id| image.topic_by_id(id)) {
            let own = image.configs(&ConfigResource::topic(&**topic.name()));
            let config = Arc::new(topic_config(&self.config.load(), topic.name(), own.map(|own| &**own)));
            for (index, partition) in topic.partitions() {
                let ours = partition.replicas.contains(&self.node_id);
                let is_absent = || {
                    self.partitions.by_id(topic.id(), index).is_none()
                        && !self.is_recovering(topic.name(), index)
                };
                if ours && is_absent() {
                    let identity = PartitionIdentity {
                        topic: topic.name().clone(),
                        topic_id: topic.id(),
                        index,
                        leadership: Leadership::of(partition, self.node_id),
                    };
                    missing.push(Missing { identity, config: config.clone() });
                }
            }
        }
        missing
    }

    /// Opens partitions, on all cores when there are many. Those that cannot be opened are noted
    /// and tried again by the housekeeping; the first failure is returned beside the partitions
    /// that are open.
    pub(crate) fn open(
        &self,
        missing: Vec<Missing>,
        left: &(impl Fn(&TopicPartition) -> PartitionAtShutdown + Sync),
    ) -> (Vec<Partition>, Option<LogError>) {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let mut shares: Vec<Vec<Missing>> = Vec::new();
        shares.resize_with(cores.min(missing.len().max(1)), Vec::new);
        let workers = shares.len();
        for (at, one) in missing.into_iter().enumerate() {
            shares[at % workers].push(one);
        }
        let open_share = |share: Vec<Missing>| -> Vec<Result<Partition, LogError>> {
            share.into_iter().map(|one| self.open_partition(one, left)).collect()
        };
        let results = std::thread::scope(|scope| {
            let own = shares.pop().unwrap_or_default();
            let others: Vec<_> = shares.into_iter().map(|share| scope.spawn(|| open_share(share))).collect();
            let mut results = open_share(own);
            for other in others {
                results.extend(other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
            }
            results
        });
        let mut failure = None;
        let opened = results.into_iter().filter_map(|result| match result {
            Ok(partition) => Some(partition),
            Err(error) => {
                failure.get_or_insert(error);
                None
            }
        });
        (opened.collect(), failure)
    }

    /// Opens one partition; should that fail, the failure is noted.
    pub(crate) fn open_partition(
        &self,
        one: Missing,
        left: impl Fn(&TopicPartition) -> PartitionAtShutdown,
    ) -> Result<Partition, LogError> {
        let key = one.key();
        let left = left(&key);
        let opened = self.try_open(one, left);
        if let Err(error) = &opened
            && self.unopened.lock().note(&key, left)
        {
            tracing::error!(topic = key.0, partition = key.1, %error, "partition offline: cannot open its log; the broker retries every few seconds");
        }
        opened
    }

    fn try_open(&self, one: Missing, left: PartitionAtShutdown) -> Result<Partition, LogError> {
        let Missing { identity, config } = one;
        let (topic, index) = (identity.topic.clone(), identity.index);
        // The leader epochs of a follower's log come from its batches alone.
        let led = Some(&identity.leadership).filter(|leadership| leadership.is_leader());
        let options = OpenOptions {
            config: log_config(&self.config.load(), &config),
            leader_epoch: led.map_or(-1, |leadership| leadership.leader_epoch()),
            recovery_point: left.recovery_point,
            log_start: left.log_start,
            high_watermark: Some(left.high_watermark),
            clean: left.clean,
            disk: self.data_dir.disk().clone(),
            checked_bytes: self.recovery.checked_bytes(),
            background: self.data_dir.background().clone(),
            ..OpenOptions::new(self.data_dir.partition(&topic, index))
        };
        self.data_dir.displace_stale(&topic, index, identity.topic_id)?;
        let is_new = !self.data_dir.has_partition(&topic, index);
        let opened = Writer::open(options, now_ms());
        if is_new {
            self.data_dir.note_new_name();
        }
        let (writer, report) = opened?;
        self.data_dir.identify(&topic, index, identity.topic_id)?;
        if let Some(cut) = &report.cut {
            tracing::warn!(partition = %format_args!("{topic}-{index}"), ?cut, "truncated a torn batch at the end of the log");
        }
        let partition = Partition::new(identity, writer, config, self.upkeep.clone());
        Ok(partition.leased(self.lease.clone()).replicated(self.replication.clone()))
    }

    /// Adds opened partitions to those that are served.
    ///
    /// # Errors
    /// The names of new directories are not on the device: none is served, and opening is tried
    /// again.
    pub(crate) fn enter(
        &self,
        opened: Vec<Partition>,
        left: impl Fn(&TopicPartition) -> PartitionAtShutdown,
    ) -> Result<Vec<Arc<Partition>>, LogError> {
        let keys: Vec<TopicPartition> =
            opened.iter().map(|one| (one.topic().to_owned(), one.index())).collect();
        // Were the names of new directories lost, records that are on the device would be lost with
        // them.
        if let Err(error) = self.data_dir.sync_names() {
            keys.iter().for_each(|key| {
                self.unopened.lock().note(key, left(key));
            });
            return Err(error);
        }
        self.partitions.add(opened);
        keys.iter().for_each(|key| self.unopened.lock().forget(key));
        let served = keys.iter().filter_map(|(topic, index)| self.partitions.by_name(topic, *index));
        Ok(served.collect())
    }
}
