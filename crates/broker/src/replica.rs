//! The partitions of which this broker has a replica: their logs in the data directory, the table
//! of served partitions, and background work on logs.
//!
//! `partition` is one of them, with its `leadership`, its append `lane`, what the acknowledgements
//! of `submitted` batches wait for, the syncs among it (`durability`), and the `waiters` of long
//! polls. `following` performs a follower's tasks on its log. `opening` opens logs, and `recovery`
//! counts the logs to check first. `data_dirs` has the directories of all logs, and `failed_dirs`
//! takes the partitions of failed directories out of service. `doubts` decides who leads a
//! partition whose log lacks records that it has had. `moves` moves replicas from one directory to
//! another. `tiered` keeps logs of topics with remote storage closed. `housekeeping`, `retention`,
//! `expiry`, `compaction` (with the state of its `cleaner`) and `discarded` are background work,
//! `checkpoints` stores the offsets from which the next start continues, and `closing` closes all
//! logs.
//!
//! `publishing` decides by the metadata which partitions this broker serves, and what their
//! coordinators receive.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use levada_log::Shortfall;
use levada_metadata::Metadata;
use levada_metadata::controller::{TOPIC_NAME_BYTES_MAX, is_internal};
use levada_metadata::image::Topic;
use levada_wire::Uuid;
use levada_wire::error_code::ErrorCode;
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::live_config::LiveConfig;

mod checkpoints;
mod cleaner;
mod closing;
mod compaction;
pub(crate) mod data_dir;
pub(crate) mod data_dirs;
mod discarded;
mod doubts;
mod durability;
mod expiry;
mod failed_dirs;
mod following;
mod housekeeping;
pub(crate) mod lane;
pub(crate) mod last_shutdown;
mod leadership;
mod lease;
pub(crate) mod led;
pub(crate) mod log_config;
mod moves;
pub(crate) mod opening;
mod pace;
mod partition;
mod recovery;
pub(crate) mod replication;
mod retention;
pub(crate) mod submitted;
mod tally;
mod throttle;
pub(crate) mod tiered;
mod waiters;

pub use self::cleaner::CleanerStats;
pub use self::lane::Work;
pub use self::recovery::{Recovery, RecoveryProgress};
pub use self::tally::TrafficTotals;

pub(crate) use self::checkpoints::Checkpoints;
use self::cleaner::Cleaner;
pub(crate) use self::compaction::Compaction;
use self::data_dirs::DataDirs;
use self::discarded::Removals;
pub(crate) use self::following::FollowerTasks;
pub(crate) use self::housekeeping::Housekeeping;
use self::last_shutdown::{LastShutdown, UnservedPartitions, UnservedReason};
pub(crate) use self::leadership::Leadership;
pub(crate) use self::lease::{Lease, Witness};
pub(crate) use self::moves::MoveView;
use self::moves::Moves;
pub(crate) use self::partition::{
    OFFSETS_TOPIC, Partition, PartitionIdentity, Partitions, SHARE_STATES_TOPIC, TRANSACTIONS_TOPIC,
    TopicPartition,
};
use self::replication::Replication;
pub use self::replication::ReplicationState;
use self::tally::Upkeep;
pub(crate) use self::waiters::Waiters;

/// The replicas of this broker.
pub(crate) struct Replicas {
    node_id: i32,
    config: Arc<LiveConfig>,
    metadata: Arc<Metadata>,
    dirs: Arc<DataDirs>,
    partitions: Arc<Partitions>,
    unopened: Arc<Mutex<UnservedPartitions>>,
    recovery: Arc<Recovery>,
    checkpoints: Arc<Checkpoints>,
    removals: Arc<Removals>,
    housekeeping: Arc<Housekeeping>,
    compaction: Arc<Compaction>,
    cleaner: Arc<Cleaner>,
    follower_tasks: FollowerTasks,
    moves: Moves,
    /// Served logs that lack records and have no other replicas, by topic id and index.
    losses: Mutex<BTreeMap<(Uuid, i32), Shortfall>>,
    /// Partitions whose logs lack segments before the last one, with the base offsets.
    gaps: Mutex<BTreeMap<(Uuid, i32), Vec<i64>>>,
    upkeep: Arc<Upkeep>,
    replication: Arc<Replication>,
    /// The right to act as a leader; none is needed while no other node can lead.
    lease: Option<Arc<Lease>>,
    /// Notified while work that holds a writer does not return.
    blocked: Notify,
}

impl Replicas {
    /// Replicas without partitions, on data directories in the state of this last shutdown.
    pub(crate) fn new(
        config: Arc<LiveConfig>,
        metadata: Arc<Metadata>,
        dirs: DataDirs,
        left: &LastShutdown,
    ) -> Self {
        let (dirs, partitions) = (Arc::new(dirs), Arc::new(Partitions::default()));
        let (unopened, cleaner) = (Arc::default(), Arc::new(Cleaner::new(left.cleaned())));
        let checkpoints = Arc::new(Checkpoints::new(
            dirs.clone(),
            partitions.clone(),
            Arc::clone(&unopened),
            cleaner.clone(),
        ));
        let (removals, upkeep) = (Arc::new(Removals::new(dirs.clone())), Arc::default());
        let housekeeping =
            Housekeeping::new(config.clone(), partitions.clone(), removals.clone(), Arc::clone(&upkeep));
        let compaction = Compaction {
            config: config.clone(),
            partitions: partitions.clone(),
            cleaner: cleaner.clone(),
            checkpoints: checkpoints.clone(),
            removals: removals.clone(),
        };
        let follower_tasks = FollowerTasks {
            partitions: partitions.clone(),
            checkpoints: checkpoints.clone(),
            removals: removals.clone(),
        };
        let lease = config.load().cluster.as_ref().map(|cluster| Lease::new(&cluster.times));
        Self {
            lease: lease.map(Arc::new),
            replication: Arc::new(Replication::new(config.clone(), metadata.clone())),
            node_id: config.load().node_id,
            config,
            metadata,
            dirs,
            partitions,
            unopened,
            recovery: Arc::default(),
            checkpoints,
            removals,
            housekeeping: Arc::new(housekeeping),
            compaction: Arc::new(compaction),
            cleaner,
            follower_tasks,
            moves: Moves::default(),
            losses: Mutex::default(),
            gaps: Mutex::default(),
            upkeep,
            blocked: Notify::new(),
        }
    }

    /// A partition that is served.
    ///
    /// # Errors
    /// There is no such partition, or its log cannot be opened.
    pub(crate) fn partition(&self, topic: &str, index: i32) -> Result<Arc<Partition>, ErrorCode> {
        if topic.len() > TOPIC_NAME_BYTES_MAX {
            // No such topic can be: a request that names many of its partitions costs no hashing of
            // the name.
            return Err(ErrorCode::UnknownTopicOrPartition);
        }
        self.partitions.by_name(topic, index).ok_or_else(|| self.not_served(topic, index))
    }

    /// Like [`Replicas::partition`], by the topic's id.
    pub(crate) fn partition_by_id(&self, topic_id: Uuid, index: i32) -> Result<Arc<Partition>, ErrorCode> {
        let absent = || match self.metadata.image().topic_by_id(topic_id) {
            Some(topic) => self.not_served(topic.name(), index),
            None => ErrorCode::UnknownTopicId,
        };
        self.partitions.by_id(topic_id, index).ok_or_else(absent)
    }

    fn not_served(&self, topic: &str, index: i32) -> ErrorCode {
        match self.unopened.lock().unserved_reason(topic, index) {
            // Kafka's error for a partition that the broker does not lead yet: clients find the
            // leader again, and wait.
            Some(UnservedReason::Recovering) => ErrorCode::NotLeaderOrFollower,
            Some(UnservedReason::Failed) => ErrorCode::KafkaStorageError,
            Some(UnservedReason::Tiered) => ErrorCode::NotLeaderOrFollower,
            None if self.is_led_elsewhere(topic, index) => ErrorCode::NotLeaderOrFollower,
            // In a cluster the image is ahead of the logs: the partition is about to be opened.
            None if self.lease.is_some() && self.metadata.has_partition(topic, index) => {
                ErrorCode::NotLeaderOrFollower
            }
            // The partition never existed here, or is being deleted with its topic.
            None => ErrorCode::UnknownTopicOrPartition,
        }
    }

    /// All partitions that are served.
    pub(crate) fn partitions(&self) -> &Partitions {
        &self.partitions
    }

    /// The partitions of a topic for which clients may come to this broker, if it leads them. In a
    /// cluster, an image is visible before its partitions are open. As in Kafka, clients see their
    /// leader by then: some clients keep a partition without a leader in mind for seconds.
    pub(crate) fn online<'a>(&'a self, topic: &'a Topic) -> impl Fn(i32) -> bool + 'a {
        let online = self.partitions.online(topic.id());
        let is_opening = |index| {
            self.lease.is_some() && self.unopened.lock().unserved_reason(topic.name(), index).is_none()
        };
        move |index| online(index).unwrap_or_else(|| is_opening(index))
    }

    /// Number of changes after which [`Replicas::online`] may differ, for topics that are
    /// [opened](Replicas::is_opened).
    pub(crate) fn changes(&self) -> u64 {
        self.partitions.changes()
    }

    /// True if each partition of the topic with a replica on this broker is open, or has been.
    pub(crate) fn is_opened(&self, topic: &Topic) -> bool {
        let (online, own) = (self.partitions.online(topic.id()), self.config.load().node_id);
        topic.partitions().all(|(index, one)| !one.replicas.contains(&own) || online(index).is_some())
    }

    /// True if the partition serves, or will serve once its log is checked.
    pub(crate) fn may_serve(&self, topic: &str, index: i32) -> bool {
        let partition = self.partitions.by_name(topic, index);
        partition.map_or_else(
            || self.unopened.lock().is_recovering(topic, index),
            |partition| !partition.log().is_offline(),
        )
    }

    /// True if another broker of the cluster leads the partition, or will: this one has no replica.
    pub(crate) fn is_led_elsewhere(&self, topic: &str, index: i32) -> bool {
        let (image, own) = (self.metadata.image(), self.config.load().node_id);
        let found = image.topic(topic).and_then(|topic| topic.partition(index));
        found.is_some_and(|partition| {
            if partition.has_leader() { partition.leader != own } else { !partition.replicas.contains(&own) }
        })
    }

    /// Number of partitions that are offline after a failure of their storage.
    pub(crate) fn offline(&self) -> usize {
        self.unopened.lock().failed() + self.partitions.offline()
    }

    /// Number of partitions whose logs are being checked or are yet to be checked, and the number
    /// of those that hold the state of a coordinator.
    pub(crate) fn recovering(&self) -> (usize, usize) {
        let unopened = self.unopened.lock();
        unopened
            .recovering()
            .fold((0, 0), |(all, internal), (topic, _)| (all + 1, internal + usize::from(is_internal(topic))))
    }

    /// State that all replicated partitions share.
    pub(crate) fn replication(&self) -> &Arc<Replication> {
        &self.replication
    }

    /// The right to act as a leader; none is needed while no other node can lead.
    pub(crate) fn lease(&self) -> Option<&Arc<Lease>> {
        self.lease.as_ref()
    }

    /// The partitions that are not served.
    pub(crate) fn unopened(&self) -> &Mutex<UnservedPartitions> {
        &self.unopened
    }

    /// The recovery of this start.
    pub(crate) fn recovery(&self) -> &Arc<Recovery> {
        &self.recovery
    }

    /// The checkpoints in the data directories.
    pub(crate) fn checkpoints(&self) -> &Checkpoints {
        &self.checkpoints
    }

    /// Files that are to be removed.
    pub(crate) fn removals(&self) -> &Removals {
        &self.removals
    }

    /// The upkeep of the logs.
    pub(crate) fn housekeeping(&self) -> &Arc<Housekeeping> {
        &self.housekeeping
    }

    /// The compaction of the logs.
    pub(crate) fn compaction(&self) -> &Arc<Compaction> {
        &self.compaction
    }

    /// The tasks of followers.
    pub(crate) fn follower_tasks(&self) -> &FollowerTasks {
        &self.follower_tasks
    }

    /// The state of compaction.
    pub(crate) fn cleaner(&self) -> &Cleaner {
        &self.cleaner
    }

    /// Counts of the work on all logs.
    pub(crate) fn upkeep(&self) -> &Upkeep {
        &self.upkeep
    }

    /// The data directories.
    pub(crate) fn dirs(&self) -> &DataDirs {
        &self.dirs
    }

    /// Closes the logs of partitions of a deleted topic and takes the names from their directories;
    /// returns the directories for [`DataDirs::remove`]. Only as part of the change that
    /// deletes the topic: later the name may be another topic's.
    pub(crate) fn mark_deleted(&self, partitions: &[Arc<Partition>]) -> Vec<PathBuf> {
        let mut marked = Vec::with_capacity(partitions.len());
        let mut was_compacted = false;
        for partition in partitions {
            drop(partition.lane().take_writer());
            self.losses.lock().remove(&(partition.topic_id(), partition.index()));
            self.gaps.lock().remove(&(partition.topic_id(), partition.index()));
            let key = partition.key();
            was_compacted |= self.cleaner.forget(&key);
            marked.extend(partition.log().leave(|| self.dirs.mark_deleted(&key)));
        }
        if was_compacted {
            // A new topic of that name has not been compacted.
            self.checkpoints.store_cleaner();
        }
        marked
    }

    /// Renames the directory of a partition that is not served, if it has one, and returns the
    /// directory for [`DataDirs::remove`]. The partition's log must not be open.
    pub(crate) fn mark_unserved_deleted(&self, topic: &str, index: i32) -> Option<PathBuf> {
        let key = (topic.to_owned(), index);
        self.unopened.lock().forget(&key);
        if self.cleaner.forget(&key) {
            self.checkpoints.store_cleaner();
        }
        self.dirs.mark_deleted_if_found(&key)
    }
}
