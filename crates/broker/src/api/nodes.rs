//! The brokers of the cluster in responses to a client: live brokers are registered and not fenced,
//! and each has the endpoint of the listener that accepted the client's connection.

use std::collections::HashMap;

use levada_metadata::image::{BrokerRegistration, Image, PartitionRegistration};
use levada_metadata::records::NO_LEADER;
use levada_metadata::uuid::LOST_DIRECTORY;
use levada_wire::Uuid;

use crate::api::Context;

/// Directories that a replica may have before its broker has chosen one: assigned before there were
/// directory ids (0), or not yet (1).
const UNDECIDED: [u8; 2] = [0, 1];

/// One live or fenced broker with its endpoint.
pub(crate) struct NodeEndpoint<'a> {
    pub(crate) broker: &'a BrokerRegistration,
    pub(crate) host: String,
    pub(crate) port: u16,
}

/// The brokers of one image, seen through the listener of one client.
pub(crate) struct Nodes<'a> {
    own: i32,
    /// Host and port of this broker for the client.
    advertised: (String, u16),
    listener: String,
    image: &'a Image,
    /// Every registered broker; true if it has the client's listener.
    brokers: HashMap<i32, (&'a BrokerRegistration, bool)>,
}

impl<'a> Nodes<'a> {
    /// The brokers as the client of a request sees them.
    pub(crate) fn of(context: &'a Context, image: &'a Image) -> Self {
        let own = (context.broker().node_id(), context.advertised());
        Self::new(own, endpoint_name(context), image)
    }

    /// The brokers through a listener; `own` is the id of this broker and its address for the
    /// client.
    fn new((own, advertised): (i32, (String, u16)), listener: String, image: &'a Image) -> Self {
        let has_listener = |broker: &BrokerRegistration| {
            broker.broker_id == own || broker.end_points.iter().any(|one| one.name == listener)
        };
        let brokers = image.brokers().iter().map(|broker| (broker.broker_id, (broker, has_listener(broker))));
        let brokers = brokers.collect();
        Self { own, advertised, listener, image, brokers }
    }

    /// The image that the brokers are of.
    pub(crate) fn image(&self) -> &'a Image {
        self.image
    }

    /// Name of the listener that the endpoints are of.
    pub(crate) fn listener(&self) -> &str {
        &self.listener
    }

    /// A registered broker and its endpoint, if it has the client's listener.
    pub(crate) fn endpoint(&self, node_id: i32) -> Option<NodeEndpoint<'a>> {
        let (broker, _) = *self.brokers.get(&node_id)?;
        if node_id == self.own {
            let (host, port) = self.advertised.clone();
            return Some(NodeEndpoint { broker, host, port });
        }
        let found = broker.end_points.iter().find(|one| one.name == self.listener)?;
        Some(NodeEndpoint { broker, host: found.host.clone(), port: found.port })
    }

    /// The endpoint of a broker that is not fenced.
    pub(crate) fn live(&self, node_id: i32) -> Option<NodeEndpoint<'a>> {
        self.endpoint(node_id).filter(|node| !node.broker.fenced)
    }

    /// Brokers with their endpoints in the order of their ids; fenced brokers on request.
    pub(crate) fn all(&self, fenced: bool) -> Vec<NodeEndpoint<'a>> {
        let mut ids: Vec<i32> = self.brokers.keys().copied().collect();
        ids.sort_unstable();
        ids.into_iter()
            .filter_map(|id| self.endpoint(id))
            .filter(|node| fenced || !node.broker.fenced)
            .collect()
    }

    /// Id of a live broker, chosen at random: the broker that clients take for the controller, as
    /// with Kafka. -1 if there is none.
    pub(crate) fn controller_id(&self) -> i32 {
        let live: Vec<i32> =
            self.brokers.iter().filter(|(_, (one, _))| !one.fenced).map(|(id, _)| *id).collect();
        if live.is_empty() { -1 } else { live[rand::random_range(0..live.len())] }
    }

    /// True if a broker is registered but does not have the client's listener.
    pub(crate) fn lacks_listener(&self, node_id: i32) -> bool {
        self.brokers.get(&node_id).is_some_and(|(_, has_listener)| !has_listener)
    }

    /// True if a broker is live and has the client's listener.
    pub(crate) fn is_reachable(&self, node_id: i32) -> bool {
        self.brokers.get(&node_id).is_some_and(|(broker, has_listener)| !broker.fenced && *has_listener)
    }

    /// The leader in responses to clients: none if the client's listener does not lead to it, or if
    /// it is this broker and the log of the partition is not open (`is_online`).
    pub(crate) fn leader(&self, partition: &PartitionRegistration, is_online: bool) -> i32 {
        let leader = partition.leader;
        let has_listener = self.brokers.get(&leader).is_some_and(|(_, has_listener)| *has_listener);
        let is_closed = leader == self.own && !is_online;
        if has_listener && !is_closed { leader } else { NO_LEADER }
    }

    /// Replicas that cannot serve. `is_online` is true if this broker's replica is open.
    pub(crate) fn offline(&self, partition: &PartitionRegistration, is_online: bool) -> Vec<i32> {
        let directories = partition.directories.iter().copied().map(Some).chain(std::iter::repeat(None));
        let replicas = partition.replicas.iter().copied().zip(directories);
        let is_offline = |(id, directory): &(i32, Option<Uuid>)| match self.brokers.get(id) {
            _ if !self.is_reachable(*id) => true,
            _ if *id == self.own => !is_online,
            Some((broker, _)) => directory.is_some_and(|directory| !has_directory(broker, directory)),
            None => true,
        };
        replicas.filter(is_offline).map(|(id, _)| id).collect()
    }
}

/// True if the directory of a replica is online, according to the last report of its broker.
fn has_directory(broker: &BrokerRegistration, directory: Uuid) -> bool {
    let is_undecided = UNDECIDED.iter().any(|id| directory == reserved(*id));
    is_undecided
        || directory != LOST_DIRECTORY && (broker.log_dirs.is_empty() || broker.log_dirs.contains(&directory))
}

fn reserved(id: u8) -> Uuid {
    let mut bytes = [0; 16];
    bytes[15] = id;
    Uuid::from_bytes(bytes)
}

/// Listener name of the endpoints in responses to the client: that of its own listener. For the
/// console, which is no listener of other brokers, the inter-broker listener.
fn endpoint_name(context: &Context) -> String {
    let (config, own) = (context.broker().config(), &context.info.listener.name);
    let is_listener = config.listeners.iter().any(|listener| listener.name == *own);
    let between_brokers = config.cluster.as_ref().filter(|_| !is_listener);
    between_brokers.map_or(own, |cluster| &cluster.brokers.name).clone()
}

#[cfg(test)]
mod tests;
