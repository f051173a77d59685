//! Connections to a cluster: the first broker that responds, and the leaders that its metadata
//! names.

use std::collections::BTreeMap;
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use levada_wire::error_code::ErrorCode;
use levada_wire::messages::metadata_request::MetadataRequestTopic;
use levada_wire::messages::metadata_response::{MetadataResponsePartition, MetadataResponseTopic};
use levada_wire::messages::{KafkaRequest, MetadataRequest, MetadataResponse, RequestResponsePair};
use levada_wire::{StrBytes, Uuid};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

pub use self::offsets::{
    EARLIEST, EARLIEST_LOCAL, FoundOffset, Isolation, LATEST, LATEST_TIERED, MAX_TIMESTAMP, OffsetQuery,
    TopicPartition,
};
use crate::connection::{Connection, ConnectionError, ConnectionOptions};
use crate::error::ClientError;
use crate::login::Login;
use crate::refusal::{Operation, Refusal};

mod controller;
mod coordinator;
mod offsets;
#[cfg(test)]
mod tests;

/// Longest wait for a state that is about to be reached, such as leaders for a new topic.
const COMING_WAIT: Duration = Duration::from_secs(10);
const COMING_POLL: Duration = Duration::from_millis(25);

/// Kafka's port, where an address has none.
const DEFAULT_PORT: u16 = 9092;

/// A cluster that accepts requests. Every method blocks until the response, or until a timeout of
/// the connections.
#[derive(Debug)]
pub struct Cluster {
    login: Login,
    options: ConnectionOptions,
    /// Addresses that the caller has given, `host:port`.
    bootstrap: Vec<String>,
    first: Connection,
    addresses: BTreeMap<i32, String>,
    /// A connection to each leader, and a handle of its socket.
    leaders: BTreeMap<i32, (Connection, TcpStream)>,
}

/// A topic as the metadata shows it.
#[derive(Clone, Debug)]
pub struct Topic {
    /// Name of the topic.
    pub name: String,
    /// Id of the topic.
    pub id: Uuid,
    /// Leader by partition; [`NO_LEADER`] if the partition has none.
    pub leaders: BTreeMap<i32, i32>,
}

/// Broker id that stands for the missing leader of a partition.
pub const NO_LEADER: i32 = -1;

/// Partitions of a topic that a caller needs leaders of.
#[derive(Clone, Copy, Debug)]
pub enum Led<'a> {
    /// All partitions.
    Every,
    /// The listed partitions, as far as they exist; for an empty list, any partition: the caller
    /// waits for the others itself.
    These(&'a [i32]),
}

impl Cluster {
    /// Connects to the first of these brokers (`host:port` or `host`, separated by commas) that
    /// responds.
    ///
    /// # Errors
    /// The list is empty, or the last broker does not respond or refuses the login.
    pub fn connect(brokers: &str, login: Login, options: ConnectionOptions) -> Result<Self, ClientError> {
        let bootstrap = brokers.split(',').map(str::trim).filter(|address| !address.is_empty());
        let bootstrap: Vec<String> = bootstrap.map(with_port).collect();
        let first = dial(&login, &options, bootstrap.iter())?;
        Ok(Self { login, options, bootstrap, first, addresses: BTreeMap::new(), leaders: BTreeMap::new() })
    }

    /// Replaces every connection by a new one to the first broker that responds.
    pub(crate) fn reconnect(&mut self) -> Result<(), ClientError> {
        self.first = dial(&self.login, &self.options, self.bootstrap.iter().chain(self.addresses.values()))?;
        self.leaders.clear();
        self.addresses.clear();
        Ok(())
    }

    /// Sends a request to the first broker.
    ///
    /// # Errors
    /// Same as [`Connection::request`].
    pub fn ask<R: RequestResponsePair>(&mut self, request: &R) -> Result<R::Response, ConnectionError> {
        self.first.request(request)
    }

    /// The best version of `R` at the first broker.
    ///
    /// # Errors
    /// There is none.
    pub fn version<R: KafkaRequest>(&self) -> Result<i16, ConnectionError> {
        self.first.best_version::<R>()
    }

    /// The connection to this broker, or to the first.
    ///
    /// # Errors
    /// Same as [`Cluster::broker`].
    pub fn client(&mut self, node: Option<i32>) -> Result<&mut Connection, ClientError> {
        match node {
            Some(node) => self.broker(node),
            None => Ok(&mut self.first),
        }
    }

    /// A connection to a broker of the cluster, which is kept.
    ///
    /// # Errors
    /// The cluster has no such broker, or it does not respond.
    pub fn broker(&mut self, node: i32) -> Result<&mut Connection, ClientError> {
        let address = self.address(node)?;
        let (connection, _) = match self.leaders.entry(node) {
            std::collections::btree_map::Entry::Occupied(entry) => entry.into_mut(),
            std::collections::btree_map::Entry::Vacant(entry) => {
                entry.insert(self.login.connect_with_socket(&address, &self.options)?)
            }
        };
        Ok(connection)
    }

    /// Like [`Cluster::broker`], with a new connection if the broker has closed the present one, as
    /// it does after a time without requests. For requests that are not sent twice.
    ///
    /// # Errors
    /// Same as [`Cluster::broker`].
    pub fn open_broker(&mut self, node: i32) -> Result<&mut Connection, ClientError> {
        if self.leaders.get(&node).is_some_and(|(_, socket)| is_closed(socket)) {
            self.leaders.remove(&node);
        }
        self.broker(node)
    }

    /// A new connection to a broker of the cluster, for exclusive use, and a handle of its socket
    /// to wait on.
    ///
    /// # Errors
    /// Same as [`Cluster::broker`].
    pub fn separate(&mut self, node: i32) -> Result<(Connection, TcpStream), ClientError> {
        let address = self.address(node)?;
        Ok(self.login.connect_with_socket(&address, &self.options)?)
    }

    fn address(&mut self, node: i32) -> Result<String, ClientError> {
        if !self.addresses.contains_key(&node) {
            self.metadata(Some(&[]), false)?;
        }
        let missing = || ClientError::UnknownBroker { node, known: self.addresses.keys().copied().collect() };
        self.addresses.get(&node).cloned().ok_or_else(missing)
    }

    /// Metadata of these topics, or of all. `create` lets the broker create missing ones.
    ///
    /// # Errors
    /// The request gets no response. Errors of topics are in the response.
    pub fn metadata(
        &mut self,
        topics: Option<&[&str]>,
        create: bool,
    ) -> Result<MetadataResponse, ConnectionError> {
        let mut request = MetadataRequest::default();
        request.topics = topics.map(|topics| topics.iter().map(|name| named(name)).collect());
        request.allow_auto_topic_creation = create;
        let response = self.first.request(&request)?;
        let brokers = response.brokers.iter();
        self.addresses = brokers.map(|broker| (broker.node_id, address(&broker.host, broker.port))).collect();
        Ok(response)
    }

    /// The brokers of the cluster.
    ///
    /// # Errors
    /// Same as [`Cluster::metadata`].
    pub fn brokers(&mut self) -> Result<Vec<i32>, ConnectionError> {
        self.metadata(Some(&[]), false)?;
        Ok(self.addresses.keys().copied().collect())
    }

    /// Existing topics among `names`, or all except internal topics, by name.
    ///
    /// # Errors
    /// The request gets no response, or one of the topics is refused.
    pub fn topics(&mut self, names: Option<&[&str]>) -> Result<BTreeMap<String, Topic>, ClientError> {
        let response = self.metadata(names, false)?;
        let wanted = response.topics.into_iter().filter(|one| names.is_some() || !one.is_internal);
        let mut topics = BTreeMap::new();
        for topic in wanted.filter(|topic| topic.error_code != ErrorCode::UnknownTopicOrPartition.code()) {
            let name = topic.name.as_deref().unwrap_or_default().to_owned();
            Refusal::check(topic.error_code, None, || Operation::Topic { topic: name.clone() })?;
            topics.insert(name.clone(), Topic::of(name, &topic));
        }
        Ok(topics)
    }

    /// A topic as it is now, perhaps with partitions without a leader.
    ///
    /// # Errors
    /// Same as [`Cluster::topics`], and a topic that does not exist.
    pub fn present_topic(&mut self, name: &str) -> Result<Topic, ClientError> {
        let missing = || Refusal {
            operation: Operation::Topic { topic: name.to_owned() },
            code: ErrorCode::UnknownTopicOrPartition.code(),
            message: None,
        };
        self.topics(Some(&[name]))?.remove(name).ok_or_else(|| missing().into())
    }

    /// A topic with leaders for the needed partitions. Waits up to 10 s for a topic that is being
    /// created.
    ///
    /// # Errors
    /// The request gets no response, or the topic or one of the partitions is refused.
    pub fn topic(&mut self, name: &str, create: bool, led: Led<'_>) -> Result<Topic, ClientError> {
        let is_coming = |(_, code, _): &(_, i16, _)| {
            *code == ErrorCode::LeaderNotAvailable.code()
                || (create && *code == ErrorCode::UnknownTopicOrPartition.code())
        };
        let (topic, code, operation) = until_settled(is_coming, || {
            let topic = self.metadata(Some(&[name]), create)?.topics.into_iter().next();
            let topic = topic.ok_or_else(|| ClientError::NoMetadata { topic: name.to_owned() })?;
            let (code, operation) = fault(name, &topic, led);
            Ok((topic, code, operation))
        })?;
        Refusal::check(code, None, || operation)?;
        Ok(Topic::of(name.to_owned(), &topic))
    }
}

/// Repeats a request for up to 10 s while its response shows a state that is about to pass.
fn until_settled<T>(
    is_coming: impl Fn(&T) -> bool,
    mut send: impl FnMut() -> Result<T, ClientError>,
) -> Result<T, ClientError> {
    let started = Instant::now();
    loop {
        let response = send()?;
        if !is_coming(&response) || started.elapsed() >= COMING_WAIT {
            return Ok(response);
        }
        thread::sleep(COMING_POLL);
    }
}

/// The error code of a topic, or of the first needed partition without a leader, and the operation
/// that it refuses.
fn fault(name: &str, topic: &MetadataResponseTopic, led: Led<'_>) -> (i16, Operation) {
    let mut faulty: Vec<_> = topic.partitions.iter().filter(|one| leader_of(one) == NO_LEADER).collect();
    match led {
        Led::These(needed) if !needed.is_empty() => {
            faulty.retain(|one| needed.contains(&one.partition_index));
        }
        Led::These(_) if faulty.len() < topic.partitions.len() => faulty.clear(),
        Led::These(_) | Led::Every => {}
    }
    let topic_name = name.to_owned();
    match (topic.error_code, faulty.as_slice()) {
        (0, [first, others @ ..]) => {
            let code =
                if first.error_code == 0 { ErrorCode::LeaderNotAvailable.code() } else { first.error_code };
            let (partition, others) = (first.partition_index, others.len());
            (code, Operation::Leader { topic: topic_name, partition, others })
        }
        (code, _) => (code, Operation::Topic { topic: topic_name }),
    }
}

/// The leader of a partition that can receive requests.
fn leader_of(partition: &MetadataResponsePartition) -> i32 {
    if partition.error_code == 0 { partition.leader_id.max(NO_LEADER) } else { NO_LEADER }
}

impl Topic {
    fn of(name: String, topic: &MetadataResponseTopic) -> Self {
        let leaders = topic.partitions.iter().map(|one| (one.partition_index, leader_of(one))).collect();
        Self { name, id: topic.topic_id, leaders }
    }

    /// The broker that leads a partition, or [`NO_LEADER`].
    ///
    /// # Errors
    /// The topic has no such partition.
    pub fn leader(&self, partition: i32) -> Result<i32, ClientError> {
        let missing = || {
            let (topic, count) = (self.name.clone(), self.leaders.len());
            ClientError::NoPartition { topic, partition, count }
        };
        self.leaders.get(&partition).copied().ok_or_else(missing)
    }

    /// The broker that leads a partition.
    ///
    /// # Errors
    /// The topic has no such partition, or the partition has no leader at the moment.
    pub fn present_leader(&self, partition: i32) -> Result<i32, ClientError> {
        let leader = self.leader(partition)?;
        if leader == NO_LEADER {
            let operation = Operation::Leader { topic: self.name.clone(), partition, others: 0 };
            let code = ErrorCode::LeaderNotAvailable.code();
            return Err(Refusal { operation, code, message: None }.into());
        }
        Ok(leader)
    }
}

/// True if the broker has closed its side of the connection.
fn is_closed(socket: &TcpStream) -> bool {
    const AT_ONCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };
    let mut polled = [PollFd::new(socket, PollFlags::RDHUP)];
    poll(&mut polled, Some(&AT_ONCE)).is_ok_and(|count| count > 0)
}

/// A connection to the first of these addresses that responds.
fn dial<'a>(
    login: &Login,
    options: &ConnectionOptions,
    addresses: impl Iterator<Item = &'a String>,
) -> Result<Connection, ClientError> {
    let mut last = ClientError::NoAddress;
    for address in addresses {
        match login.connect(address, options) {
            Ok(connection) => return Ok(connection),
            Err(error) => last = error.into(),
        }
    }
    Err(last)
}

fn named(name: &str) -> MetadataRequestTopic {
    let mut topic = MetadataRequestTopic::default();
    topic.name = Some(StrBytes::from(name));
    topic
}

/// An address in the form that [`Cluster::connect`] takes.
#[must_use]
pub fn address(host: &str, port: i32) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

fn with_port(address: &str) -> String {
    let has_port = match address.rsplit_once(']') {
        Some((_, rest)) => rest.starts_with(':'),
        None => address.contains(':'),
    };
    if has_port { address.to_owned() } else { format!("{address}:{DEFAULT_PORT}") }
}
