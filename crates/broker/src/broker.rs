//! The broker as all its threads share it: configuration, metadata, partitions, groups, counters.

use std::path::Path;
use std::sync::Arc;

use arc_swap::{ArcSwap, Guard};
use levada_io::residency::Warmer;
use levada_io::{Caps, Counters, Thresholds};
use levada_wire::Uuid;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{Semaphore, watch};

use crate::cleaner::Cleaner;
use crate::config::BrokerConfig;
use crate::error_code::ErrorCode;
use crate::fetch_session::Sessions;
use crate::groups::Groups;
use crate::metadata::controller::TOPIC_NAME_BYTES_MAX;
use crate::metadata::records::control::VoterEndpoint;
use crate::partition::{Partition, Partitions};
use crate::replay::Replays;
use crate::request_memory::RequestMemory;
use crate::stats::Stats;
use crate::tls::Tls;
use crate::txns::Txns;

mod access;
mod compaction;
mod configs;
mod coordinators;
pub(crate) mod data_dir;
mod discarded;
mod expiry;
mod features;
mod housekeeping;
mod metadata;
mod opening;
mod producer_ids;
mod quotas;
mod recovering;
mod retention;
mod rules;
mod searches;
mod signing_keys;
#[cfg(test)]
mod tests;
mod topics;
mod transactions;

pub(crate) use self::configs::ConfigChanges;
use self::data_dir::{Absence, DataDir, Unopened};
use self::discarded::Waiting;
use self::metadata::Metadata;
pub use self::opening::OpenError;
pub(crate) use self::opening::controller_endpoint;
use self::producer_ids::ProducerIds;
use self::quotas::QuotaBook;
pub use self::recovering::{Recovery, RecoveryProgress};
use self::searches::Searches;
use self::signing_keys::SigningKeys;
pub(crate) use self::transactions::Membership;

/// One broker.
pub(crate) struct Broker {
    config: ArcSwap<BrokerConfig>,
    node_id: i32,
    caps: Caps,
    thresholds: Thresholds,
    counters: Arc<Counters>,
    warmer: Warmer,
    replays: Arc<Replays>,
    stats: Stats,
    data_dir: DataDir,
    metadata: Metadata,
    producer_ids: ProducerIds,
    partitions: Partitions,
    request_memory: Arc<RequestMemory>,
    unopened: Mutex<Unopened>,
    recovery: Arc<Recovery>,
    groups: Groups,
    txns: Txns,
    fetch_sessions: Mutex<Sessions>,
    /// Turns for expanding large batches off the shards.
    expansions: Semaphore,
    searches: Searches,
    cleaner: Cleaner,
    /// Tells those who wait by a setting that the configuration has changed.
    config_changed: watch::Sender<()>,
    /// Held while the cleaner's checkpoint is written, so that no older one comes later.
    storing_checkpoint: Mutex<()>,
    waiting: Waiting,
    quota_book: QuotaBook,
    signing_keys: SigningKeys,
    tls: Tls,
}

impl Broker {
    /// The configuration in force; a dynamic change makes another one.
    pub(crate) fn config(&self) -> Guard<Arc<BrokerConfig>> {
        self.config.load()
    }

    /// Changes of the configuration from now on.
    pub(crate) fn config_changes(&self) -> watch::Receiver<()> {
        self.config_changed.subscribe()
    }

    /// A turn to expand, or compress anew, a batch that takes a thread's time and memory.
    pub(crate) fn expansions(&self) -> &Semaphore {
        &self.expansions
    }

    pub(crate) fn caps(&self) -> &Caps {
        &self.caps
    }

    /// The sizes that transfers turn on.
    pub(crate) fn thresholds(&self) -> Thresholds {
        self.thresholds
    }

    pub(crate) fn counters(&self) -> &Arc<Counters> {
        &self.counters
    }

    /// Those who wait for the disk in the place of shards.
    pub(crate) fn warmer(&self) -> &Warmer {
        &self.warmer
    }

    /// Whether old records stay in the page cache when they come from the disk.
    pub(crate) fn replays(&self) -> &Arc<Replays> {
        &self.replays
    }

    /// What the TLS listeners go by.
    pub(crate) fn tls(&self) -> &Tls {
        &self.tls
    }

    pub(crate) fn stats(&self) -> &Stats {
        &self.stats
    }

    pub(crate) fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// The memory of requests on their way.
    pub(crate) fn request_memory(&self) -> &Arc<RequestMemory> {
        &self.request_memory
    }

    pub(crate) fn partitions(&self) -> &Partitions {
        &self.partitions
    }

    /// A partition that is served.
    ///
    /// # Errors
    /// There is no such partition, or its log cannot be opened.
    pub(crate) fn partition(&self, topic: &str, index: i32) -> Result<Arc<Partition>, ErrorCode> {
        if topic.len() > TOPIC_NAME_BYTES_MAX {
            // No such topic can be: a request that names many of its partitions costs no hashing of the name.
            return Err(ErrorCode::UnknownTopicOrPartition);
        }
        self.partitions.by_name(topic, index).ok_or_else(|| self.not_served(topic, index))
    }

    /// Like [`Broker::partition`], by the topic's id.
    pub(crate) fn partition_by_id(&self, topic_id: Uuid, index: i32) -> Result<Arc<Partition>, ErrorCode> {
        let absent = || match self.metadata.image().topic_by_id(topic_id) {
            Some(topic) => self.not_served(topic.name(), index),
            None => ErrorCode::UnknownTopicId,
        };
        self.partitions.by_id(topic_id, index).ok_or_else(absent)
    }

    fn not_served(&self, topic: &str, index: i32) -> ErrorCode {
        match self.unopened.lock().absence(topic, index) {
            // What Kafka says of a partition that it does not lead yet: clients look for the leader again, and wait.
            Some(Absence::Recovering) => ErrorCode::NotLeaderOrFollower,
            Some(Absence::Failed) => ErrorCode::KafkaStorageError,
            // It never was there, or is going with its topic.
            None => ErrorCode::UnknownTopicOrPartition,
        }
    }

    /// Whether the metadata has such a partition, be it served or offline.
    pub(crate) fn has_partition(&self, topic: &str, index: i32) -> bool {
        topic.len() <= TOPIC_NAME_BYTES_MAX
            && self.metadata.image().topic(topic).is_some_and(|topic| topic.partition(index).is_some())
    }

    pub(crate) fn cleaner(&self) -> &Cleaner {
        &self.cleaner
    }

    pub(crate) fn groups(&self) -> &Groups {
        &self.groups
    }

    pub(crate) fn fetch_sessions(&self) -> MutexGuard<'_, Sessions> {
        self.fetch_sessions.lock()
    }

    /// The data directory, absolute.
    pub(crate) fn data_path(&self) -> &Path {
        self.data_dir.path()
    }

    /// Where the metadata says that this node's controller listens.
    pub(crate) fn controller_endpoint(&self) -> VoterEndpoint {
        controller_endpoint()
    }

    pub(crate) fn txns(&self) -> &Txns {
        &self.txns
    }

    pub(crate) fn node_id(&self) -> i32 {
        self.node_id
    }

    pub(crate) fn cluster_id(&self) -> &str {
        self.metadata.cluster_id()
    }

    /// Number of partitions that are offline after a failure of their storage.
    pub(crate) fn offline_partitions(&self) -> usize {
        self.unopened.lock().failed() + self.partitions.offline()
    }
}
