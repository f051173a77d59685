//! The broker as all its threads share it: a list of rooms, each with the state and the methods of
//! one subject. The operations that concern all rooms are here as well: opening, a round of
//! housekeeping, closing.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::Guard;
use levada_base::log_pace::LogPace;
use levada_config::BrokerConfig;
use levada_metadata::Metadata;
use parking_lot::{Mutex, MutexGuard};

use crate::access::Access;
use crate::cluster::ClusterMembership;
use crate::controller::Controller;
use crate::coordinator::Coordinators;
use crate::encoded_topics::EncodedTopics;
use crate::end_offsets::{AskedEnds, Leaders, TopicPartitions};
use crate::fetch_session::Sessions;
use crate::live_config::LiveConfig;
use crate::peers::{PeerRequests, Subject};
use crate::publishing::Publisher;
use crate::quota::QuotaBook;
use crate::remote_reads::RemoteReads;
use crate::replica::Replicas;
use crate::request_memory::RequestMemory;
use crate::share_partitions::SharePartitions;
use crate::stats::Stats;
use crate::streams_topics::StreamsTopics;
use crate::telemetry::ClientTelemetry;
use crate::tiered::Tiers;
use crate::tls::Tls;
use crate::transaction::Transactions;
use crate::transfers::Transfers;
use crate::turns::WorkTurns;

mod heap;
mod housekeeping;
mod member;
mod opening;
mod outages;
#[cfg(test)]
pub(crate) mod tests;

use self::heap::Heap;
pub(crate) use self::member::Following;
pub use self::opening::OpenError;
pub(crate) use self::opening::store_options;
use self::outages::Outages;

/// One broker.
pub(crate) struct Broker {
    config: Arc<LiveConfig>,
    metadata: Arc<Metadata>,
    replicas: Arc<Replicas>,
    coordinators: Arc<Coordinators>,
    publisher: Arc<Publisher>,
    controller: Arc<Controller>,
    transactions: Arc<Transactions>,
    tiers: Arc<Tiers>,
    access: Access,
    tls: Arc<Tls>,
    quotas: Arc<QuotaBook>,
    fetch_sessions: Mutex<Sessions>,
    share_partitions: Arc<SharePartitions>,
    streams_topics: StreamsTopics,
    telemetry: Arc<ClientTelemetry>,
    encoded_topics: EncodedTopics,
    request_memory: Arc<RequestMemory>,
    turns: WorkTurns,
    transfers: Transfers,
    stats: Stats,
    change_log: LogPace,
    stopping: AtomicBool,
    membership: Option<Arc<ClusterMembership>>,
    outages: Outages,
    heap: Heap,
    remote_reads: Option<Arc<RemoteReads>>,
}

impl Broker {
    /// The configuration in force; a dynamic change replaces it.
    pub(crate) fn config(&self) -> Guard<Arc<BrokerConfig>> {
        self.config.load()
    }

    /// The configuration with its changes.
    pub(crate) fn live_config(&self) -> &LiveConfig {
        &self.config
    }

    /// The metadata log and its published image.
    pub(crate) fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// The partitions of which this broker has a replica.
    pub(crate) fn replicas(&self) -> &Arc<Replicas> {
        &self.replicas
    }

    /// The coordinators of groups and transactions.
    pub(crate) fn coordinators(&self) -> &Arc<Coordinators> {
        &self.coordinators
    }

    /// Applies changes of the metadata and of the configuration.
    pub(crate) fn publisher(&self) -> &Publisher {
        &self.publisher
    }

    /// The component that changes the metadata.
    pub(crate) fn controller(&self) -> &Arc<Controller> {
        &self.controller
    }

    /// Transactions in the partitions of this broker.
    pub(crate) fn transactions(&self) -> &Arc<Transactions> {
        &self.transactions
    }

    /// Tiered storage.
    pub(crate) fn tiers(&self) -> &Arc<Tiers> {
        &self.tiers
    }

    /// Requests to other brokers.
    pub(crate) fn peers(&self) -> &PeerRequests {
        self.transactions.peers()
    }

    /// Requests the end offsets of partitions from their leaders.
    pub(crate) fn ask_ends(&self, subject: Subject, topics: TopicPartitions) -> AskedEnds {
        let (image, peers) = (self.metadata.image(), self.peers());
        let leaders = Leaders { image: &image, node_id: self.node_id(), replicas: &self.replicas, peers };
        leaders.ask(subject, topics)
    }

    /// Access control, and the keys of tokens.
    pub(crate) fn access(&self) -> &Access {
        &self.access
    }

    /// TLS settings of the listeners.
    pub(crate) fn tls(&self) -> &Tls {
        &self.tls
    }

    /// The membership in a cluster; none if the broker is its own controller.
    pub(crate) fn membership(&self) -> Option<&Arc<ClusterMembership>> {
        self.membership.as_ref()
    }

    /// Quotas: measured usage of clients and its limits.
    pub(crate) fn quotas(&self) -> &Arc<QuotaBook> {
        &self.quotas
    }

    /// The fetch sessions, locked.
    pub(crate) fn fetch_sessions(&self) -> MutexGuard<'_, Sessions> {
        self.fetch_sessions.lock()
    }

    /// Share groups in the partitions that this broker leads.
    pub(crate) fn share_partitions(&self) -> &Arc<SharePartitions> {
        &self.share_partitions
    }

    /// Topics encoded for responses to Metadata.
    pub(crate) fn encoded_topics(&self) -> &EncodedTopics {
        &self.encoded_topics
    }

    /// Client telemetry.
    pub(crate) fn telemetry(&self) -> &Arc<ClientTelemetry> {
        &self.telemetry
    }

    /// Internal topics of streams applications that are being created.
    pub(crate) fn streams_topics(&self) -> &StreamsTopics {
        &self.streams_topics
    }

    /// The memory of requests on their way.
    pub(crate) fn request_memory(&self) -> &Arc<RequestMemory> {
        &self.request_memory
    }

    /// The queues of clients.
    pub(crate) fn turns(&self) -> &WorkTurns {
        &self.turns
    }

    /// The means of the transfer engine.
    pub(crate) fn transfers(&self) -> &Transfers {
        &self.transfers
    }

    /// Reads of remote storage; none while `remote.log.storage.system.enable` is off.
    pub(crate) fn remote_reads(&self) -> Option<&Arc<RemoteReads>> {
        self.remote_reads.as_ref()
    }

    /// Counts since the start.
    pub(crate) fn stats(&self) -> &Stats {
        &self.stats
    }

    /// The pace of lines in the log about changes that clients make.
    pub(crate) fn change_log(&self) -> &LogPace {
        &self.change_log
    }

    /// Stops all fetches and requests to other brokers. Blocks until the last fetch response is
    /// processed.
    pub(crate) fn stop_following(&self) {
        self.transactions.stop();
        self.publisher.fetchers.iter().for_each(|fetchers| fetchers.stop());
    }

    /// Begins to stop the broker.
    pub(crate) fn begin_stop(&self) {
        self.stopping.store(true, Ordering::Relaxed);
    }

    /// True once the broker has begun to stop.
    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }

    /// Id of this node.
    pub(crate) fn node_id(&self) -> i32 {
        self.config.load().node_id
    }
}
