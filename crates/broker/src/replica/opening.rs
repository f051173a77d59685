//! Opening the logs of partitions, and adding them to those that are served.

use std::path::Path;
use std::sync::Arc;

use levada_config::{CleanupPolicy, TopicConfig};
use levada_log::{LogError, OpenOptions, Writer};
use levada_metadata::image::{ConfigResource, Image};
use levada_process::clock::now_ms;
use levada_wire::Uuid;

use crate::replica::data_dir::DataDir;
use crate::replica::last_shutdown::PartitionAtShutdown;
use crate::replica::log_config::{log_config, topic_config};
use crate::replica::{Leadership, Partition, PartitionIdentity, Replicas, TopicPartition};

/// A partition that the metadata has and that is to be opened.
pub(crate) struct Missing {
    pub(crate) identity: PartitionIdentity,
    config: Arc<TopicConfig>,
    /// The directory that the metadata names for the replica.
    directory: Uuid,
    /// True if the topic has remote storage, which this broker does not serve.
    pub(super) is_tiered: bool,
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
    /// Partitions of the topics with a replica on this broker that is not served yet.
    pub(crate) fn missing(&self, image: &Image, topics: impl Iterator<Item = Uuid>) -> Vec<Missing> {
        let mut missing = Vec::new();
        for topic in topics.filter_map(|id| image.topic_by_id(id)) {
            let own = image.configs(&ConfigResource::topic(&**topic.name()));
            let config = Arc::new(topic_config(&self.config.load(), topic.name(), own.map(|own| &**own)));
            let is_tiered = !self.config.load().remote_log.is_enabled && image.is_tiered(topic.name());
            for (index, partition) in topic.partitions() {
                let is_absent = || {
                    self.partitions.by_id(topic.id(), index).is_none()
                        && !self.unopened.lock().is_recovering(topic.name(), index)
                };
                let at = partition.replicas.iter().position(|replica| *replica == self.node_id);
                let is_lost = || self.dirs.is_in_failed(&(topic.name().to_string(), index));
                if let Some(at) = at
                    && is_absent()
                    && !is_lost()
                {
                    let identity = PartitionIdentity {
                        topic: topic.name().clone(),
                        topic_id: topic.id(),
                        index,
                        leadership: Leadership::of(partition, self.node_id),
                    };
                    let directory = partition.directories.get(at).copied().unwrap_or_default();
                    missing.push(Missing { identity, config: config.clone(), directory, is_tiered });
                }
            }
        }
        missing
    }

    /// Opens partitions, on all cores if there are many. Partitions that cannot be opened are
    /// recorded, and housekeeping retries them; the result contains the first failure together with
    /// the open partitions.
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
        let mut left = left(&key);
        let opened = self.try_open(one, &mut left);
        if let Err(error) = &opened
            && self.unopened.lock().note(&key, left)
        {
            tracing::error!(topic = key.0, partition = key.1, %error, "partition offline: cannot open its log; the broker retries every few seconds");
        }
        opened
    }

    /// Opens one partition. If its directory is new, `left` becomes the state of a new partition.
    fn try_open(&self, one: Missing, left: &mut PartitionAtShutdown) -> Result<Partition, LogError> {
        let key = one.key();
        let Missing { mut identity, config, directory, .. } = one;
        let (topic, index) = (identity.topic.clone(), identity.index);
        let broker = self.config.load();
        let cordoned = |dir: &Path| broker.is_cordoned(dir);
        let dir = self.dirs.home(&key, directory, cordoned)?;
        let claims = *left;
        let placed = self.place(dir, &key, (identity.topic_id, directory), left);
        let is_missing = matches!(placed, Ok(true));
        let opened = placed.and_then(|_| {
            let is_new = !dir.has_partition(&topic, index);
            // The leader epochs of a follower's log come from its batches alone, and a leader with
            // followers begins its epoch when it has its role.
            let led = Some(&identity.leadership).filter(|leadership| leadership.is_alone());
            let options = OpenOptions {
                config: log_config(&broker, &config),
                leader_epoch: led.map_or(-1, |leadership| leadership.leader_epoch()),
                recovery_point: left.recovery_point,
                log_start: left.log_start,
                high_watermark: Some(left.high_watermark),
                gapless_from: self.gapless_from(&identity, config.cleanup_policy),
                is_sole: !identity.leadership.is_replicated(),
                clean: left.clean,
                disk: dir.disk().clone(),
                checked_bytes: self.recovery.checked_bytes(),
                background: dir.background().clone(),
                watch: dir.watch(),
                ..OpenOptions::new(dir.partition(&topic, index))
            };
            let opened = Writer::open(options, now_ms());
            if is_new {
                dir.note_new_name();
            }
            let opened = opened?;
            dir.identify(&topic, index, identity.topic_id).map(|()| opened)
        });
        let (writer, report) = opened.inspect_err(|error| {
            dir.report(error);
            if !dir.has_failed() && !dir.has_partition(&topic, index) {
                self.dirs.forget(&key);
            }
        })?;
        let doubt = self.note_losses(&identity, &report, (claims, is_missing));
        if doubt.is_some() {
            // From now on the recovery point in the checkpoint is evidence.
            writer.partition().flush()?;
        }
        if doubt.is_some() || writer.partition().high_watermark() < left.high_watermark {
            self.checkpoints.note_misleading();
        }
        if doubt.is_some() && identity.leadership.is_leader() {
            identity.leadership = identity.leadership.unstored();
        }
        // A process that ended between a truncation and its note left a checkpoint beyond the end.
        if self.cleaner.lower(&key, writer.partition().log_end()) {
            self.checkpoints.store_cleaner();
        }
        let partition = Partition::new(identity, writer, config, self.upkeep.clone());
        let partition = partition.leased(self.lease.clone()).replicated(self.replication.clone());
        Ok(partition.doubted(doubt))
    }

    /// Makes the partition's directory the one of its topic. Checkpoints name a partition by its
    /// topic's name: if the directory was another topic's, or is missing, their offsets are not
    /// the partition's, and `left` becomes the state of a new one. Otherwise its log would begin
    /// at an offset that the topic does not have yet. A broker that is its own controller knows its
    /// topics: there the log continues at the offsets of a directory that is missing. True if a
    /// directory with offsets is missing.
    fn place(
        &self,
        dir: &DataDir,
        key: &TopicPartition,
        (topic_id, recorded): (Uuid, Uuid),
        left: &mut PartitionAtShutdown,
    ) -> Result<bool, LogError> {
        // A deleted topic of that name may have left its directory.
        self.dirs.retry_removals();
        let was_displaced = dir.displace_stale(&key.0, key.1, topic_id)?;
        self.dirs.adopt_copy(dir, key, (topic_id, recorded))?;
        if left.has_offsets() && (was_displaced || dir.lacks_partition(&key.0, key.1)) {
            if !was_displaced && self.lease.is_none() {
                return Ok(true);
            }
            // Before there is a directory: no start after a crash finds it with the offsets.
            self.checkpoints.forget(dir, key)?;
            *left = PartitionAtShutdown::default();
            return Ok(!was_displaced);
        }
        Ok(false)
    }

    /// The offset from which missing offsets are no work of compaction, if the log has to end where
    /// some are: two logs that end at the same offset of the same epoch must be equal.
    fn gapless_from(&self, identity: &PartitionIdentity, policy: CleanupPolicy) -> Option<i64> {
        let key = (identity.topic.to_string(), identity.index);
        let ends = identity.leadership.ends_at_holes(policy.compact);
        ends.then(|| self.cleaner.checkpoint(&key).unwrap_or(0))
    }

    /// Adds opened partitions to those that are served.
    ///
    /// # Errors
    /// The names of new directories are not on the device: no partition in the directory around
    /// them is served, and opening is tried again. If another one is served, there is no error.
    pub(crate) fn enter(&self, mut opened: Vec<Partition>) -> Result<Vec<Arc<Partition>>, LogError> {
        // Were the names of new directories lost, records that are on the device would be lost with
        // them.
        let mut failure = None;
        for dir in self.dirs.iter() {
            let is_here = |one: &Partition| std::ptr::eq(self.dirs.around(one.log()), dir);
            if !opened.iter().any(is_here) {
                continue;
            }
            if let Err(error) = dir.sync_names() {
                dir.report(&error);
                let held_back = opened.extract_if(.., |one| is_here(one));
                held_back.for_each(|one| {
                    self.unopened.lock().note(&one.key(), PartitionAtShutdown::of(one.log()));
                });
                failure = Some(error);
            }
        }
        if let (true, Some(error)) = (opened.is_empty(), failure) {
            return Err(error);
        }
        let keys: Vec<TopicPartition> = opened.iter().map(Partition::key).collect();
        self.partitions.add(opened);
        keys.iter().for_each(|key| self.unopened.lock().forget(key));
        self.dirs.note_placed(&keys);
        let served = keys.iter().filter_map(|(topic, index)| self.partitions.by_name(topic, *index));
        Ok(served.collect())
    }
}
