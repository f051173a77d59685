//! Access to a running broker for other parts of its process: the HTTP address, which another crate
//! serves. Requests of Kafka's protocol go through the [`Desk`]; this type has what no request can
//! return.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::thread::JoinHandle;

use arc_swap::Guard;
use levada_config::BrokerConfig;
use levada_coordination::txn::TopicPartition;
use levada_metadata::image::Image;
use levada_process::shutdown::Stop;
use levada_security::Session;
use levada_security::acl::{Operation, ResourceType};
use levada_security::oauth::KeySource;
use levada_security::oauth::jwks::Jwks;
use levada_telemetry::{Client, ClientRow};
use levada_wire::Uuid;

use super::connection_limits::{ConnectionLimits, OpenConnections};
use super::liveness::Liveness;
use crate::broker::Broker;
use crate::desk::Desk;
use crate::source::{LagSample, Source, TrafficTotals};

/// A handle on a running broker; clones share it.
#[derive(Clone)]
pub struct Door {
    broker: Arc<Broker>,
    stop: Stop,
    liveness: Arc<Liveness>,
    connections: Arc<ConnectionLimits>,
    kafka: SocketAddr,
}

/// Transactions that coordinators have not finished yet: producers and partitions of each
/// coordinator of this broker, none for one that is loading.
pub type Unfinished = Vec<Option<Vec<(i64, TopicPartition)>>>;

impl Door {
    pub(super) fn new(
        broker: Arc<Broker>,
        stop: Stop,
        (liveness, connections): (Arc<Liveness>, Arc<ConnectionLimits>),
        kafka: SocketAddr,
    ) -> Self {
        Self { broker, stop, liveness, connections, kafka }
    }

    /// The state of the broker.
    #[must_use]
    pub fn source(&self) -> &dyn Source {
        &*self.broker
    }

    /// Like [`Door::source`], as a shared pointer.
    #[must_use]
    pub fn shared_source(&self) -> Arc<dyn Source> {
        self.broker.clone()
    }

    /// The configuration in force.
    #[must_use]
    pub fn config(&self) -> Guard<Arc<BrokerConfig>> {
        self.broker.config()
    }

    /// The metadata in force.
    #[must_use]
    pub fn image(&self) -> Arc<Image> {
        self.broker.metadata().image()
    }

    /// The address for Kafka clients that responses name.
    #[must_use]
    pub fn kafka_address(&self) -> SocketAddr {
        self.kafka
    }

    /// Starts the thread of the desk, which ends with the broker.
    ///
    /// # Errors
    /// The thread or its runtime cannot be made.
    pub fn open_desk(&self) -> io::Result<(Desk, JoinHandle<()>)> {
        Desk::start(self.broker.clone(), self.stop.clone())
    }

    /// Waits until every thread that serves clients has run a task.
    ///
    /// # Errors
    /// One has not, for seconds: a sentence that names it.
    pub async fn wait_for_turns(&self) -> Result<(), String> {
        self.liveness.all_take_turns().await
    }

    /// The partition of `__consumer_offsets` for this group, if the topic exists.
    #[must_use]
    pub fn partition_of_group(&self, group: &str) -> Option<i32> {
        self.broker.coordinators().groups().partition_of(group)
    }

    /// The latest lags of a group, the oldest first.
    #[must_use]
    pub fn lags_of_group(&self, group: &str) -> Vec<LagSample> {
        self.broker.stats().lags().of(group)
    }

    /// Transactions of these producers that coordinators here will finish.
    #[must_use]
    pub fn unfinished(&self, producers: &BTreeSet<i64>) -> Unfinished {
        let look =
            |coordinator: &levada_coordination::txn::Coordinator| coordinator.unfinished(producers).ok();
        self.broker.coordinators().txns().view_all(look)
    }

    /// Topics and indexes of this broker's partitions in which an open transaction delays readers.
    #[must_use]
    pub fn partitions_held_open(&self) -> Vec<(String, i32)> {
        let partitions = self.broker.replicas().partitions().all();
        let held = partitions.iter().filter(|one| one.log().last_stable() < one.log().high_watermark());
        held.map(|one| (one.topic().to_owned(), one.index())).collect()
    }

    /// The traffic of a partition that is here.
    #[must_use]
    pub fn traffic(&self, topic: &str, index: i32) -> Option<TrafficTotals> {
        let partition = self.broker.replicas().partitions().by_name(topic, index)?;
        let mut totals = TrafficTotals::default();
        partition.traffic().add_to(&mut totals);
        Some(totals)
    }

    /// Clients that push metrics and have a name with this text, up to a limit, with the largest
    /// values of the given metrics. The client with the latest push comes first.
    #[must_use]
    pub fn telemetry_clients(&self, text: &str, max: usize, names: &[&str]) -> Vec<ClientRow> {
        self.broker.telemetry().rows(text, max, names)
    }

    /// The metrics that a client instance has pushed.
    #[must_use]
    pub fn telemetry_client(&self, instance_id: Uuid) -> Option<Client> {
        self.broker.telemetry().client(instance_id)
    }

    /// True if clients that connect are offered telemetry.
    #[must_use]
    pub fn is_telemetry_offered(&self) -> bool {
        self.broker.telemetry().is_offered()
    }

    /// The open connections of clients, with a limit of addresses.
    #[must_use]
    pub fn connections(&self, addresses_max: usize) -> OpenConnections {
        self.connections.open(addresses_max)
    }

    /// The keys that sign the tokens of this source.
    #[must_use]
    pub fn signing_keys(&self, source: &KeySource) -> Arc<Jwks> {
        self.broker.access().signing_keys().keys(source)
    }

    /// True if access control permits the operation to the client. The audit log gets no entry.
    #[must_use]
    pub fn permits(&self, session: &Session, wanted: (Operation, ResourceType, &str)) -> bool {
        self.broker.access().decide(session, wanted).is_none_or(|rule| rule.allows())
    }

    /// True if access control permits the operation to the client on at least one resource of that
    /// type, which need not exist. The audit log gets no entry.
    #[must_use]
    pub fn permits_some(&self, session: &Session, wanted: (Operation, ResourceType)) -> bool {
        self.broker.access().allows_some(session, wanted)
    }

    /// Counts a login and writes it to the audit log.
    pub fn logged_in(&self, session: &Session, listener: &str, mechanism: &'static str) {
        self.broker.stats().authentication(listener, mechanism, "success");
        self.broker.access().audit().entered(session, listener, mechanism);
    }

    /// Counts a refused login with a password and writes it to the audit log.
    pub fn refused_login(&self, user: &str, address: IpAddr, listener: &str, reason: &dyn Display) {
        self.broker.stats().authentication(listener, "PASSWORD", "failure");
        self.broker.access().audit_refusal(Some(user), address, listener, reason);
    }
}
