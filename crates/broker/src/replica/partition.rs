//! A served partition: its log, its append lane, and the requests that wait for its data. Also the
//! table of all partitions, which every request reads without a lock.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

use arc_swap::{ArcSwap, ArcSwapOption, Guard};
use levada_cluster::directories::ReplicaKey;
use levada_cluster::replication::leader::FollowerFetch;
use levada_config::TopicConfig;
use levada_log::Writer;
use levada_metadata::controller::is_internal;
use levada_process::clock;
use levada_wire::Uuid;
use levada_wire::error_code::ErrorCode;
use parking_lot::Mutex;
use tokio::sync::RwLock;

use crate::replica::durability::Syncs;
use crate::replica::lane::{AppendLane, RepeatedWarning};
use crate::replica::leadership::Leadership;
use crate::replica::lease::Lease;
use crate::replica::led::{Led, LedPartition};
use crate::replica::replication::Replication;
use crate::replica::tally::{Traffic, Upkeep};
use crate::replica::waiters::Waiters;

mod appending;
mod doubt;
mod following;
mod role;

pub(in crate::replica) use self::doubt::Doubt;
use role::{Unstored, take_role};

/// Internal topics, to which only the broker itself writes.
pub(crate) const OFFSETS_TOPIC: &str = "__consumer_offsets";
pub(crate) const TRANSACTIONS_TOPIC: &str = "__transaction_state";
pub(crate) const SHARE_STATES_TOPIC: &str = "__share_group_state";

/// Topic and index of a partition, as checkpoints name it.
pub(crate) type TopicPartition = (String, i32);

/// One partition.
pub(crate) struct Partition {
    topic: Arc<str>,
    topic_id: Uuid,
    index: i32,
    /// Changes with the lane's writer locked, so that changes and appends are in order.
    leadership: ArcSwap<Leadership>,
    /// Present while this node leads and there are, or were, other replicas.
    led: ArcSwapOption<Led>,
    replication: Option<Arc<Replication>>,
    log: Arc<levada_log::Partition>,
    lane: AppendLane,
    waiters: Arc<Waiters>,
    syncs: Arc<Syncs>,
    /// Held shared from the check that a batch belongs to its transaction until the batch is queued
    /// in the lane, and exclusively by a marker. A marker in between would end the transaction,
    /// which the batch would then open again.
    transactions: RwLock<u64>,
    config: ArcSwap<TopicConfig>,
    marker_warning: RepeatedWarning,
    replication_warning: RepeatedWarning,
    unstored: Unstored,
    /// Present while the log lacks records that another replica may have.
    doubt: Mutex<Option<Doubt>>,
    traffic: Traffic,
    /// True if the topic has been deleted, or the replica has left this node; requests that still
    /// hold the partition get an error.
    deleted: AtomicBool,
    lease: Option<Arc<Lease>>,
    /// Log end offset when housekeeping last checked that the files exist.
    pub(super) looked_for_at: AtomicI64,
}

/// Names and ids of a partition.
pub(crate) struct PartitionIdentity {
    pub(crate) topic: Arc<str>,
    pub(crate) topic_id: Uuid,
    pub(crate) index: i32,
    pub(crate) leadership: Leadership,
}

impl Partition {
    /// A partition that serves this log; `upkeep` counts the work on it.
    pub(crate) fn new(
        identity: PartitionIdentity,
        mut writer: Writer,
        config: Arc<TopicConfig>,
        upkeep: Arc<Upkeep>,
    ) -> Self {
        let (leadership, failure) = take_role(&mut writer, identity.leadership);
        let partition = Self {
            topic: identity.topic,
            topic_id: identity.topic_id,
            index: identity.index,
            leadership: ArcSwap::from_pointee(leadership),
            led: ArcSwapOption::empty(),
            replication: None,
            log: writer.partition().clone(),
            syncs: Arc::new(Syncs::new(writer.partition().clone(), &config, upkeep)),
            lane: AppendLane::new(writer),
            waiters: Arc::default(),
            transactions: RwLock::default(),
            config: ArcSwap::new(config),
            marker_warning: RepeatedWarning::default(),
            replication_warning: RepeatedWarning::default(),
            unstored: Unstored::default(),
            doubt: Mutex::default(),
            traffic: Traffic::default(),
            deleted: AtomicBool::new(false),
            lease: None,
            looked_for_at: AtomicI64::new(i64::MIN),
        };
        partition.note_attempt(&partition.leadership.load(), failure.as_ref());
        partition
    }

    /// Serves the partition only as long as the lease is valid.
    pub(crate) fn leased(self, lease: Option<Arc<Lease>>) -> Self {
        Self { lease, ..self }
    }

    /// Sets the replicas on other nodes, if there are any.
    pub(crate) fn replicated(self, replication: Arc<Replication>) -> Self {
        let partition = Self { replication: Some(replication), ..self };
        partition.follow_leadership(&partition.leadership.load());
        partition
    }

    pub(crate) fn topic(&self) -> &str {
        &self.topic
    }

    /// Like [`Partition::topic`], as shared text.
    pub(crate) fn shared_topic(&self) -> Arc<str> {
        self.topic.clone()
    }

    pub(crate) fn topic_id(&self) -> Uuid {
        self.topic_id
    }

    /// Traffic of producers and consumers.
    pub(crate) fn traffic(&self) -> &Traffic {
        &self.traffic
    }

    pub(crate) fn index(&self) -> i32 {
        self.index
    }

    /// Topic and index.
    pub(crate) fn key(&self) -> TopicPartition {
        (self.topic.to_string(), self.index)
    }

    /// `topic-index`, as directories and messages name it.
    pub(crate) fn name(&self) -> String {
        format!("{}-{}", self.topic, self.index)
    }

    pub(crate) fn is_internal(&self) -> bool {
        is_internal(&self.topic)
    }

    pub(crate) fn config(&self) -> Guard<Arc<TopicConfig>> {
        self.config.load()
    }

    /// Applies a changed configuration, effective for the next append.
    pub(crate) fn configure(&self, config: Arc<TopicConfig>, log: levada_log::LogConfig) {
        self.syncs.configure(&config);
        let min_insync_replicas = config.min_insync_replicas;
        self.config.store(config);
        self.lane.with_writer(|writer| {
            writer.set_config(log);
            self.end_tiers(writer);
        });
        if let Some(led) = &*self.led.load() {
            led.configure(min_insync_replicas);
        }
    }

    pub(crate) fn log(&self) -> &levada_log::Partition {
        &self.log
    }

    /// The log, for callers that keep it during their work.
    pub(crate) fn shared_log(&self) -> Arc<levada_log::Partition> {
        self.log.clone()
    }

    /// Part of this node in the partition, as of now.
    pub(crate) fn leadership(&self) -> Guard<Arc<Leadership>> {
        self.leadership.load()
    }

    /// Applies a later leadership; an earlier one changes nothing. Appends that were checked before
    /// are refused, and waiters check again. A log without a writer does not lead.
    pub(crate) fn lead(&self, next: Leadership) {
        self.lane.with_writer_if_any(|writer| {
            if next.follows(&self.leadership.load()) {
                tracing::debug!(
                    partition = self.name(),
                    leader = next.leader(),
                    epoch = next.leader_epoch(),
                    replicas = ?next.replicas(),
                    "leadership changed"
                );
                let next = self.in_view_of_doubt(next);
                let (next, failure) = match writer {
                    Some(writer) => take_role(writer, next),
                    None if next.is_leader() => (next.unstored(), None),
                    None => (next, None),
                };
                self.note_attempt(&next, failure.as_ref());
                self.follow_leadership(&next);
                self.leadership.store(Arc::new(next));
            }
        });
        self.waiters.wake();
    }

    /// Begins, continues or ends the leadership of a replicated partition, after the writer has
    /// changed its role.
    fn follow_leadership(&self, next: &Leadership) {
        let held = self.led.load_full();
        match (held, &self.replication) {
            (Some(led), _) if next.is_leader() => led.lead(next),
            (Some(led), _) => {
                led.resign();
                self.led.store(None);
            }
            (None, Some(replication)) if next.is_leader() && next.is_replicated() => {
                let of = LedPartition {
                    key: ReplicaKey::new(self.topic_id, self.index),
                    log: self.log.clone(),
                    consumers: self.waiters.clone(),
                };
                let min_insync_replicas = self.config.load().min_insync_replicas;
                let led = Led::begin(of, replication.clone(), next, min_insync_replicas);
                self.led.store(Some(Arc::new(led)));
            }
            (None, _) => {}
        }
    }

    /// The leadership of a replicated partition; none if this node does not lead, or is the only
    /// replica.
    pub(crate) fn led(&self) -> Option<Arc<Led>> {
        self.led.load_full()
    }

    /// Checks that this node leads and that the other one has a replica. `known` is the leader
    /// epoch that the fetch names, -1 for none.
    pub(crate) fn check_follower(&self, replica: i32, known: i32) -> Result<(), ErrorCode> {
        self.check_leader(known)?;
        match &*self.led.load() {
            Some(led) => led.check_follower(replica, known >= 0),
            None if known >= 0 => Err(ErrorCode::UnknownLeaderEpoch),
            None => Err(ErrorCode::NotLeaderOrFollower),
        }
    }

    /// Number of replicas in sync if acks=all is to be refused, because the topic requires more. A
    /// topic cannot require more than it has replicas (KIP-966): with one replica, one is enough.
    pub(crate) fn shortage(&self) -> Option<usize> {
        self.led.load().as_ref().and_then(|led| led.shortage())
    }

    /// Processes the position of a follower from its fetch, after the log was read for it.
    pub(crate) fn follower_fetched(&self, fetch: FollowerFetch) -> Result<(), ErrorCode> {
        self.led.load().as_ref().map_or(Err(ErrorCode::NotLeaderOrFollower), |led| led.fetched(fetch))
    }

    /// Checks that a consumer may read from this replica: the leader, or a follower.
    pub(crate) fn check_replica(&self, known: i32) -> Result<(), ErrorCode> {
        if self.is_deleted() {
            return Err(self.absence());
        }
        let leadership = self.leadership.load();
        leadership.check_epoch(known)?;
        if leadership.is_leader() && !self.has_lease() { Err(ErrorCode::NotLeaderOrFollower) } else { Ok(()) }
    }

    /// Wakes the waiters for an append.
    fn wrote(&self) {
        match &*self.led.load() {
            None => self.waiters.wake(),
            Some(led) => led.appended(),
        }
    }

    /// Lock that keeps markers out between the check of a batch and its append.
    pub(crate) fn transactions(&self) -> &RwLock<u64> {
        &self.transactions
    }

    pub(crate) fn lane(&self) -> &AppendLane {
        &self.lane
    }

    pub(crate) fn waiters(&self) -> &Arc<Waiters> {
        &self.waiters
    }

    /// True if a line should be logged that a marker could not be written here.
    pub(crate) fn take_marker_warning(&self, now_ms: i64) -> bool {
        self.marker_warning.is_due(now_ms)
    }

    /// True if its topic has been deleted, or its replica has left this node.
    pub(crate) fn is_deleted(&self) -> bool {
        self.deleted.load(Ordering::Acquire)
    }

    /// Checks that the partition still exists, that the client's idea of its leader epoch (-1:
    /// none) is ours, and that this node leads it.
    pub(crate) fn check_leader(&self, known: i32) -> Result<(), ErrorCode> {
        if self.is_deleted() {
            return Err(self.absence());
        }
        self.leadership.load().check(known)?;
        if self.has_lease() { Ok(()) } else { Err(ErrorCode::NotLeaderOrFollower) }
    }

    /// True unless another node may have taken the leadership while this process was stopped.
    pub(crate) fn has_lease(&self) -> bool {
        self.lease.as_ref().is_none_or(|lease| lease.is_valid(clock::uptime_ms()))
    }

    /// The error for clients with a handle of a partition that is no longer served. A replica that
    /// has left this node had lost the leadership before.
    pub(crate) fn absence(&self) -> ErrorCode {
        if self.log.is_offline() {
            return ErrorCode::KafkaStorageError;
        }
        if self.leadership.load().is_leader() {
            ErrorCode::UnknownTopicOrPartition
        } else {
            ErrorCode::NotLeaderOrFollower
        }
    }
}

/// All partitions that this broker serves.
#[derive(Default)]
pub(crate) struct Partitions {
    tables: ArcSwap<Tables>,
    /// Number of changes of the tables, counted after each change.
    changes: AtomicU64,
}

#[derive(Default, Clone)]
struct Tables {
    by_name: HashMap<Arc<str>, Arc<Topic>>,
    by_id: HashMap<Uuid, Arc<Topic>>,
}

/// The served partitions of one topic.
type Topic = Vec<Arc<Partition>>;

impl Partitions {
    pub(crate) fn by_name(&self, topic: &str, index: i32) -> Option<Arc<Partition>> {
        pick(self.tables.load().by_name.get(topic)?, index)
    }

    pub(crate) fn by_id(&self, topic_id: Uuid, index: i32) -> Option<Arc<Partition>> {
        pick(self.tables.load().by_id.get(&topic_id)?, index)
    }

    /// Number of changes of the partitions that are served, and of outages of their storage.
    pub(super) fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire).wrapping_add(levada_log::outages())
    }

    fn change(&self, change: impl FnMut(&Arc<Tables>) -> Tables) {
        self.tables.rcu(change);
        self.changes.fetch_add(1, Ordering::Release);
    }

    /// Every partition, in no order.
    pub(crate) fn all(&self) -> Vec<Arc<Partition>> {
        self.tables.load().by_id.values().flat_map(|topic| topic.iter().cloned()).collect()
    }

    /// The partitions of a topic that are served: true if their storage works.
    pub(super) fn online(&self, topic_id: Uuid) -> impl Fn(i32) -> Option<bool> {
        let topic = self.tables.load().by_id.get(&topic_id).cloned();
        move |index| {
            let partition = topic.as_ref().and_then(|topic| pick(topic, index));
            partition.map(|partition| !partition.log().is_offline())
        }
    }

    /// Number of partitions that are offline because their storage has failed.
    pub(crate) fn offline(&self) -> usize {
        self.all().iter().filter(|partition| partition.log().is_offline()).count()
    }

    /// The partitions for which `is_meant` is true.
    pub(super) fn find(&self, is_meant: impl Fn(&Partition) -> bool) -> Vec<Arc<Partition>> {
        let tables = self.tables.load();
        let all = tables.by_id.values().flat_map(|topic| topic.iter());
        all.filter(|partition| is_meant(partition)).cloned().collect()
    }

    /// Number of partitions served.
    pub(crate) fn count(&self) -> usize {
        self.tables.load().by_id.values().map(|topic| topic.len()).sum()
    }

    /// Adds partitions.
    pub(crate) fn add(&self, new: Vec<Partition>) {
        let new: Vec<_> = new.into_iter().map(Arc::new).collect();
        self.change(|tables| {
            let mut tables = Tables::clone(tables);
            for partition in &new {
                let mut topic =
                    tables.by_id.get(&partition.topic_id).map_or_else(Topic::new, |topic| topic.to_vec());
                assert!(pick(&topic, partition.index).is_none(), "{} is served already", partition.name());
                topic.push(partition.clone());
                topic.sort_by_key(|partition| partition.index);
                let topic = Arc::new(topic);
                tables.by_id.insert(partition.topic_id, topic.clone());
                tables.by_name.insert(partition.topic.clone(), topic);
            }
            tables
        });
    }

    /// Removes a deleted topic's partitions from service and wakes their waiters.
    pub(crate) fn remove(&self, topic_id: Uuid) -> Arc<Topic> {
        let mut removed = Arc::default();
        self.change(|tables| {
            let mut tables = Tables::clone(tables);
            if let Some(topic) = tables.by_id.remove(&topic_id) {
                tables.by_name.retain(|_, named| !Arc::ptr_eq(named, &topic));
                removed = topic;
            }
            tables
        });
        removed.iter().for_each(|partition| partition.leave_service());
        removed
    }

    /// Removes one partition from service and wakes its waiters.
    pub(crate) fn remove_one(&self, topic_id: Uuid, index: i32) -> Option<Arc<Partition>> {
        let mut removed = None;
        self.change(|tables| {
            let mut tables = Tables::clone(tables);
            let Some(topic) = tables.by_id.get(&topic_id) else { return tables };
            removed = pick(topic, index);
            let mut left = topic.to_vec();
            left.retain(|partition| partition.index != index);
            let name = topic.first().map(|partition| partition.topic.clone());
            if left.is_empty() {
                tables.by_id.remove(&topic_id);
                name.and_then(|name| tables.by_name.remove(&name));
            } else if let Some(name) = name {
                let left = Arc::new(left);
                tables.by_id.insert(topic_id, left.clone());
                tables.by_name.insert(name, left);
            }
            tables
        });
        removed.iter().for_each(|partition| partition.leave_service());
        removed
    }
}

fn pick(topic: &Topic, index: i32) -> Option<Arc<Partition>> {
    let is_it = |partition: &&Arc<Partition>| partition.index == index;
    // At this place unless an earlier directory is offline.
    let likely = usize::try_from(index).ok().and_then(|at| topic.get(at)).filter(is_it);
    likely.or_else(|| topic.iter().find(is_it)).cloned()
}

#[cfg(test)]
mod tests;
