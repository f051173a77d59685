//! Connections to a cluster: the first broker that answers, and the leaders that its metadata
//! names.

mod controller;
mod coordinator;
mod login;
mod offsets;
mod outage;

use std::collections::BTreeMap;
use std::net::TcpStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use std::{env, thread};

use clap::Subcommand;
use levada_client::{Connection, ConnectionError, ConnectionOptions};
use levada_wire::error_code::ErrorCode;
use levada_wire::messages::metadata_request::MetadataRequestTopic;
use levada_wire::messages::metadata_response::{MetadataResponsePartition, MetadataResponseTopic};
use levada_wire::messages::{KafkaRequest, MetadataRequest, MetadataResponse, RequestResponsePair};
use levada_wire::{StrBytes, Uuid};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

pub(crate) use self::coordinator::Coordinated;
use self::login::Login;
pub(crate) use self::offsets::{
    EARLIEST, FoundOffset, Isolation, LATEST, MAX_TIMESTAMP, OffsetQuery, TopicPartition,
};
pub(crate) use self::outage::{Outage, passes};
use crate::kafka_error;
use crate::profile::Profiles;
use levada_terminal::failure::Failure;
use levada_terminal::output::counted;

// Arguments of a noun whose verbs all need a cluster: the verb, and the cluster. Not a doc comment:
// clap would print it in place of the help of the noun.
#[derive(Debug, clap::Args)]
pub(crate) struct ClusterCommand<V: Subcommand> {
    #[command(flatten)]
    pub(crate) brokers: BrokerArgs,
    #[command(subcommand)]
    pub(crate) verb: V,
}

/// Address of a broker.
#[derive(Debug, clap::Args)]
pub(crate) struct BrokerArgs {
    /// Brokers to contact first, separated by commas [env: LEVADA_BROKERS] [default: the profile's,
    /// else 127.0.0.1:9092]
    #[arg(
        short,
        long,
        value_name = "HOST:PORT",
        alias = "bootstrap-server",
        global = true,
        display_order = 101
    )]
    brokers: Option<String>,
    /// File with Kafka's client properties, such as sasl.jaas.config [env: LEVADA_COMMAND_CONFIG]
    #[arg(long, value_name = "FILE", global = true, display_order = 102)]
    command_config: Option<PathBuf>,
    /// Profile with brokers and client properties (levada profile) [env: LEVADA_PROFILE]
    #[arg(long, value_name = "NAME", global = true, display_order = 103)]
    profile: Option<String>,
}

/// Address of the broker by default.
const DEFAULT_BROKER: &str = "127.0.0.1:9092";

impl BrokerArgs {
    /// The brokers, and the login there.
    fn target(&self) -> Result<(String, Login), Failure> {
        let variable = |name: &str| env::var_os(name).filter(|value| !value.is_empty());
        if let Some(name) = &self.profile {
            return self.of_profile(name, &Profiles::load()?);
        }
        // A caller who names brokers or a login does not mean those of the current profile:
        // they are not mixed.
        let brokers = self.brokers.clone();
        let brokers = brokers.or_else(|| Some(variable("LEVADA_BROKERS")?.to_string_lossy().into_owned()));
        let config = self.command_config.clone().or_else(|| Some(variable("LEVADA_COMMAND_CONFIG")?.into()));
        if brokers.is_none() && config.is_none() {
            let named = variable("LEVADA_PROFILE").map(|name| name.to_string_lossy().into_owned());
            let profiles = Profiles::load()?;
            if let Some(name) = named.as_deref().or(profiles.current()) {
                return self.of_profile(name, &profiles);
            }
        }
        let login = config.as_deref().map(Login::load).transpose()?.unwrap_or_default();
        Ok((brokers.unwrap_or_else(|| DEFAULT_BROKER.to_owned()), login))
    }

    /// True if an option names brokers or a login.
    pub(crate) fn names_any(&self) -> bool {
        self.brokers.is_some() || self.command_config.is_some() || self.profile.is_some()
    }

    /// Brokers and login of a profile, except values that an option overrides.
    fn of_profile(&self, name: &str, profiles: &Profiles) -> Result<(String, Login), Failure> {
        let profile = profiles.profile(name)?;
        let login = match &self.command_config {
            Some(file) => Login::load(file)?,
            None => {
                let value = |key: &str| profile.properties.get(key).map(String::as_str);
                Login::of(&format!("profile {name}"), value)?
            }
        };
        Ok((self.brokers.clone().unwrap_or_else(|| profile.brokers.clone()), login))
    }
}

/// Longest wait for a state that is about to be reached, such as leaders for a new topic.
const COMING_WAIT: Duration = Duration::from_secs(10);
const COMING_POLL: Duration = Duration::from_millis(25);

/// A cluster that answers requests.
pub(crate) struct Cluster {
    login: Login,
    /// Addresses of --brokers.
    bootstrap: Vec<String>,
    first: Connection,
    addresses: BTreeMap<i32, String>,
    /// A connection to each leader, and a handle of its socket.
    leaders: BTreeMap<i32, (Connection, TcpStream)>,
}

/// A topic as the metadata shows it.
#[derive(Clone, Debug)]
pub(crate) struct Topic {
    pub(crate) name: String,
    pub(crate) id: Uuid,
    /// Leader by partition; [`NO_LEADER`] if the partition has none.
    pub(crate) leaders: BTreeMap<i32, i32>,
}

/// In place of the leader of a partition that has none.
pub(crate) const NO_LEADER: i32 = -1;

/// Partitions of a topic that a command needs leaders of.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Led<'a> {
    Every,
    /// A list, as far as its partitions exist; of an empty list, any partition: the command waits
    /// for the others itself.
    These(&'a [i32]),
}

impl Cluster {
    pub(crate) fn connect(args: &BrokerArgs) -> Result<Self, Failure> {
        let (brokers, login) = args.target()?;
        let bootstrap = brokers.split(',').map(str::trim).filter(|address| !address.is_empty());
        let bootstrap: Vec<String> = bootstrap.map(with_port).collect();
        let first = dial(&login, bootstrap.iter())?;
        Ok(Self { login, bootstrap, first, addresses: BTreeMap::new(), leaders: BTreeMap::new() })
    }

    /// Replaces every connection by a new one to the first broker that answers.
    fn reconnect(&mut self) -> Result<(), Failure> {
        self.first = dial(&self.login, self.bootstrap.iter().chain(self.addresses.values()))?;
        self.leaders.clear();
        self.addresses.clear();
        Ok(())
    }

    /// Sends a request to the first broker.
    pub(crate) fn ask<R: RequestResponsePair>(
        &mut self,
        request: &R,
    ) -> Result<R::Response, ConnectionError> {
        self.first.request(request)
    }

    /// The best version of `R` at the first broker.
    pub(crate) fn version<R: KafkaRequest>(&self) -> Result<i16, ConnectionError> {
        self.first.best_version::<R>()
    }

    /// The connection to this broker, or to the first.
    pub(crate) fn client(&mut self, node: Option<i32>) -> Result<&mut Connection, Failure> {
        match node {
            Some(node) => self.broker(node),
            None => Ok(&mut self.first),
        }
    }

    /// A connection to a broker of the cluster.
    pub(crate) fn broker(&mut self, node: i32) -> Result<&mut Connection, Failure> {
        let address = self.address(node)?;
        let (client, _) = match self.leaders.entry(node) {
            std::collections::btree_map::Entry::Occupied(entry) => entry.into_mut(),
            std::collections::btree_map::Entry::Vacant(entry) => {
                entry.insert(self.login.connect_with_socket(&address, &options())?)
            }
        };
        Ok(client)
    }

    /// The same; a new connection if the broker has closed the present one, as it does after a time
    /// without requests. For requests that are not sent twice.
    pub(crate) fn open_broker(&mut self, node: i32) -> Result<&mut Connection, Failure> {
        if self.leaders.get(&node).is_some_and(|(_, socket)| is_closed(socket)) {
            self.leaders.remove(&node);
        }
        self.broker(node)
    }

    /// A new connection to a broker of the cluster, for the caller alone, and a handle of its
    /// socket to wait by.
    pub(crate) fn separate(&mut self, node: i32) -> Result<(Connection, TcpStream), Failure> {
        let address = self.address(node)?;
        self.login.connect_with_socket(&address, &options())
    }

    fn address(&mut self, node: i32) -> Result<String, Failure> {
        if !self.addresses.contains_key(&node) {
            self.metadata(Some(&[]), false)?;
        }
        let missing = || {
            let known: Vec<String> = self.addresses.keys().map(i32::to_string).collect();
            Failure::with_next(
                format!("the cluster has no broker {node}"),
                format!("one of its brokers: {}", known.join(", ")),
            )
        };
        self.addresses.get(&node).cloned().ok_or_else(missing)
    }

    /// Metadata of these topics, or of all.
    pub(crate) fn metadata(
        &mut self,
        topics: Option<&[&str]>,
        create: bool,
    ) -> Result<MetadataResponse, Failure> {
        let mut request = MetadataRequest::default();
        request.topics = topics.map(|topics| topics.iter().map(|name| named(name)).collect());
        request.allow_auto_topic_creation = create;
        let response = self.first.request(&request)?;
        let brokers = response.brokers.iter();
        self.addresses = brokers.map(|broker| (broker.node_id, address(&broker.host, broker.port))).collect();
        Ok(response)
    }

    /// The brokers of the cluster.
    pub(crate) fn brokers(&mut self) -> Result<Vec<i32>, Failure> {
        self.metadata(Some(&[]), false)?;
        Ok(self.addresses.keys().copied().collect())
    }

    /// Existing topics among `names`, or all except internal topics, by name.
    pub(crate) fn topics(&mut self, names: Option<&[&str]>) -> Result<BTreeMap<String, Topic>, Failure> {
        let response = self.metadata(names, false)?;
        let wanted = response.topics.into_iter().filter(|one| names.is_some() || !one.is_internal);
        let mut topics = BTreeMap::new();
        for topic in wanted.filter(|topic| topic.error_code != ErrorCode::UnknownTopicOrPartition.code()) {
            let name = topic.name.as_deref().unwrap_or_default().to_owned();
            let checked = kafka_error::check(topic.error_code, &format!("topic {name}"), None);
            kafka_error::needing(checked, "describe", &format!("--topic {name}"))?;
            topics.insert(name.clone(), Topic::of(name, &topic));
        }
        Ok(topics)
    }

    /// A topic as it is now, perhaps with partitions without a leader.
    pub(crate) fn present_topic(&mut self, name: &str) -> Result<Topic, Failure> {
        let found = self.topics(Some(&[name]))?.remove(name);
        let missing =
            || kafka_error::check(ErrorCode::UnknownTopicOrPartition.code(), &format!("topic {name}"), None);
        found.map_or_else(|| Err(missing().expect_err("the code is not 0")), Ok)
    }

    /// A topic with leaders for the needed partitions; waits for a topic that is being created.
    pub(crate) fn topic(&mut self, name: &str, create: bool, led: Led<'_>) -> Result<Topic, Failure> {
        let started = Instant::now();
        loop {
            let response = self.metadata(Some(&[name]), create)?;
            let topic = response.topics.into_iter().next();
            let topic = topic.ok_or_else(|| Failure::new(format!("no metadata for topic {name}")))?;
            let (code, what) = fault(name, &topic, led);
            let coming = code == ErrorCode::LeaderNotAvailable.code()
                || (create && code == ErrorCode::UnknownTopicOrPartition.code());
            if coming && started.elapsed() < COMING_WAIT {
                thread::sleep(COMING_POLL);
                continue;
            }
            let checked = kafka_error::check(code, &what, None);
            kafka_error::needing(checked, "describe", &format!("--topic {name}"))?;
            return Ok(Topic::of(name.to_owned(), &topic));
        }
    }
}

/// The error code of a topic, or of the first needed partition without a leader, and the name of
/// either.
fn fault(name: &str, topic: &MetadataResponseTopic, led: Led<'_>) -> (i16, String) {
    let mut faulty: Vec<_> = topic.partitions.iter().filter(|one| leader_of(one) == NO_LEADER).collect();
    match led {
        Led::These(needed) if !needed.is_empty() => {
            faulty.retain(|one| needed.contains(&one.partition_index));
        }
        Led::These(_) if faulty.len() < topic.partitions.len() => faulty.clear(),
        Led::These(_) | Led::Every => {}
    }
    match (topic.error_code, faulty.as_slice()) {
        (0, [first, others @ ..]) => {
            let others = match others.len() {
                0 => String::new(),
                count => format!(" and {}", counted(count as u64, "other partition", "other partitions")),
            };
            let code =
                if first.error_code == 0 { ErrorCode::LeaderNotAvailable.code() } else { first.error_code };
            (code, format!("{name}/{}{others}", first.partition_index))
        }
        (code, _) => (code, format!("topic {name}")),
    }
}

/// The leader of a partition that can be asked.
fn leader_of(partition: &MetadataResponsePartition) -> i32 {
    if partition.error_code == 0 { partition.leader_id.max(NO_LEADER) } else { NO_LEADER }
}

impl Topic {
    fn of(name: String, topic: &MetadataResponseTopic) -> Self {
        let leaders = topic.partitions.iter().map(|one| (one.partition_index, leader_of(one))).collect();
        Self { name, id: topic.topic_id, leaders }
    }

    /// The broker that leads a partition, or [`NO_LEADER`].
    pub(crate) fn leader(&self, partition: i32) -> Result<i32, Failure> {
        let missing = || {
            let (name, count) = (&self.name, self.leaders.len());
            Failure::Usage(format!("{name} has no partition {partition}; it has {count}, numbered from 0"))
        };
        self.leaders.get(&partition).copied().ok_or_else(missing)
    }

    /// The broker that leads a partition; fails if there is none at the moment.
    pub(crate) fn present_leader(&self, partition: i32) -> Result<i32, Failure> {
        let leader = self.leader(partition)?;
        if leader == NO_LEADER {
            kafka_error::check(
                ErrorCode::LeaderNotAvailable.code(),
                &format!("{}/{partition}", self.name),
                None,
            )?;
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

/// A connection to the first of these addresses that answers.
fn dial<'a>(login: &Login, addresses: impl Iterator<Item = &'a String>) -> Result<Connection, Failure> {
    let mut last = Failure::Usage("--brokers names no broker: expected host:port".to_owned());
    for address in addresses {
        match login.connect(address, &options()) {
            Ok(client) => return Ok(client),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn named(name: &str) -> MetadataRequestTopic {
    let mut topic = MetadataRequestTopic::default();
    topic.name = Some(StrBytes::from(name));
    topic
}

fn options() -> ConnectionOptions {
    ConnectionOptions { client_id: "levada-cli".to_owned(), ..ConnectionOptions::default() }
}

/// An address as --brokers takes it.
pub(crate) fn address(host: &str, port: i32) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

/// Kafka's port where none is given.
fn with_port(address: &str) -> String {
    let has_port = match address.rsplit_once(']') {
        Some((_, rest)) => rest.starts_with(':'),
        None => address.contains(':'),
    };
    if has_port { address.to_owned() } else { format!("{address}:9092") }
}

#[cfg(test)]
mod tests {
    use levada_wire::messages::metadata_response::MetadataResponsePartition;

    use super::*;

    #[test]
    fn a_partition_without_a_leader_is_named() {
        fn check(topic: i16, partitions: &[i16], led: Led<'_>, expected: (i16, &str)) {
            let mut answer = MetadataResponseTopic::default();
            answer.error_code = topic;
            for (index, code) in (0..).zip(partitions) {
                let mut partition = MetadataResponsePartition::default();
                (partition.partition_index, partition.error_code) = (index, *code);
                answer.partitions.push(partition);
            }
            let (code, what) = fault("pay", &answer, led);
            assert_eq!((code, what.as_str()), expected, "{led:?}");
        }
        check(0, &[0, 0], Led::Every, (0, "topic pay"));
        check(0, &[0, 5], Led::Every, (5, "pay/1"));
        check(0, &[0, 5, 5, 5], Led::Every, (5, "pay/1 and 2 other partitions"));
        check(3, &[], Led::Every, (3, "topic pay"));
        check(0, &[0, 5], Led::These(&[]), (0, "topic pay"));
        check(0, &[5, 5], Led::These(&[]), (5, "pay/0 and 1 other partition"));
        check(0, &[0, 5], Led::These(&[0]), (0, "topic pay"));
        check(0, &[0, 5], Led::These(&[1]), (5, "pay/1"));
        check(0, &[0, 5], Led::These(&[7]), (0, "topic pay"));
        check(3, &[], Led::These(&[]), (3, "topic pay"));
    }
}
