//! Connections to a cluster: the first broker that answers, and the leaders that its metadata names.

use std::{
    collections::BTreeMap,
    thread,
    time::{Duration, Instant},
};

use levada_wire::{
    Client, ClientError, ClientOptions, StrBytes, Uuid,
    messages::{
        KafkaRequest, ListOffsetsRequest, MetadataRequest, MetadataResponse, RequestResponsePair,
        list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic},
        metadata_request::MetadataRequestTopic,
    },
};

use crate::{failure::Failure, kafka_error};

/// Where to find a broker.
#[derive(Debug, clap::Args)]
pub(crate) struct BrokerArgs {
    /// Brokers to ask first, separated by commas
    #[arg(
        short,
        long,
        value_name = "HOST:PORT",
        env = "LEVADA_BROKERS",
        global = true,
        default_value = "127.0.0.1:9092"
    )]
    brokers: String,
}

/// How long a topic that was just created may take to get leaders.
const LEADER_WAIT: Duration = Duration::from_secs(10);
const LEADER_POLL: Duration = Duration::from_millis(25);
const UNKNOWN_TOPIC: i16 = 3;
const LEADER_NOT_AVAILABLE: i16 = 5;

/// Timestamp that asks ListOffsets for the end of the log.
pub(crate) const LATEST: i64 = -1;
/// Timestamp that asks ListOffsets for the start of the log.
pub(crate) const EARLIEST: i64 = -2;

/// A cluster that can be asked.
pub(crate) struct Cluster {
    first: Client,
    addresses: BTreeMap<i32, String>,
    leaders: BTreeMap<i32, Client>,
}

/// A topic as the metadata shows it.
#[derive(Clone, Debug)]
pub(crate) struct Topic {
    pub(crate) name: String,
    pub(crate) id: Uuid,
    /// Leader by partition.
    pub(crate) leaders: BTreeMap<i32, i32>,
}

impl Cluster {
    pub(crate) fn connect(args: &BrokerArgs) -> Result<Self, Failure> {
        let mut last = None;
        for address in args.brokers.split(',').map(str::trim).filter(|address| !address.is_empty()) {
            match Client::connect(&with_port(address), &options()) {
                Ok(first) => {
                    return Ok(Self { first, addresses: BTreeMap::new(), leaders: BTreeMap::new() });
                }
                Err(error) => last = Some(error),
            }
        }
        let nobody = || Failure::Usage("--brokers names no broker: expected host:port".to_owned());
        Err(last.map_or_else(nobody, Failure::from))
    }

    /// Asks the first broker.
    pub(crate) fn ask<R: RequestResponsePair>(&mut self, request: &R) -> Result<R::Response, ClientError> {
        self.first.request(request)
    }

    /// The best version of `R` at the first broker.
    pub(crate) fn version<R: KafkaRequest>(&self) -> Result<i16, ClientError> {
        self.first.best_version::<R>()
    }

    /// A connection to a broker that the metadata named.
    pub(crate) fn broker(&mut self, node: i32) -> Result<&mut Client, Failure> {
        let address = self
            .addresses
            .get(&node)
            .ok_or_else(|| Failure::new(format!("broker {node} is not in the cluster's metadata")))?;
        match self.leaders.entry(node) {
            std::collections::btree_map::Entry::Occupied(entry) => Ok(entry.into_mut()),
            std::collections::btree_map::Entry::Vacant(entry) => {
                Ok(entry.insert(Client::connect(address, &options())?))
            }
        }
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
        let address = |host: &str, port| match host.contains(':') {
            true => format!("[{host}]:{port}"),
            false => format!("{host}:{port}"),
        };
        let brokers = response.brokers.iter();
        self.addresses = brokers.map(|broker| (broker.node_id, address(&broker.host, broker.port))).collect();
        Ok(response)
    }

    /// A topic with a leader for every partition; waits for one that is being created.
    pub(crate) fn topic(&mut self, name: &str, create: bool) -> Result<Topic, Failure> {
        let started = Instant::now();
        loop {
            let response = self.metadata(Some(&[name]), create)?;
            let topic = response.topics.into_iter().next();
            let topic = topic.ok_or_else(|| Failure::new(format!("no metadata for topic {name}")))?;
            let code = match topic.error_code {
                0 => topic.partitions.iter().map(|one| one.error_code).find(|code| *code != 0).unwrap_or(0),
                code => code,
            };
            let coming = code == LEADER_NOT_AVAILABLE || (create && code == UNKNOWN_TOPIC);
            if coming && started.elapsed() < LEADER_WAIT {
                thread::sleep(LEADER_POLL);
                continue;
            }
            kafka_error::check(code, &format!("topic {name}"), None)?;
            let leaders = topic.partitions.iter().map(|one| (one.partition_index, one.leader_id)).collect();
            return Ok(Topic { name: name.to_owned(), id: topic.topic_id, leaders });
        }
    }

    /// The offset of each partition at its timestamp ([`LATEST`], [`EARLIEST`], or milliseconds); -1 if there is none.
    pub(crate) fn offsets(
        &mut self,
        topic: &Topic,
        timestamps: &BTreeMap<i32, i64>,
    ) -> Result<BTreeMap<i32, i64>, Failure> {
        let mut by_leader: BTreeMap<i32, Vec<ListOffsetsPartition>> = BTreeMap::new();
        for (partition, timestamp) in timestamps {
            let leader = topic.leader(*partition)?;
            let mut asked = ListOffsetsPartition::default();
            asked.partition_index = *partition;
            asked.current_leader_epoch = -1;
            asked.timestamp = *timestamp;
            by_leader.entry(leader).or_default().push(asked);
        }
        let mut offsets = BTreeMap::new();
        for (leader, partitions) in by_leader {
            let mut asked = ListOffsetsTopic::default();
            asked.name = StrBytes::from(topic.name.as_str());
            asked.partitions = partitions;
            let mut request = ListOffsetsRequest::default();
            request.replica_id = -1;
            request.topics = vec![asked];
            let response = self.broker(leader)?.request(&request)?;
            for found in response.topics.iter().flat_map(|topic| &topic.partitions) {
                let doing = format!("offsets of {}/{}", topic.name, found.partition_index);
                kafka_error::check(found.error_code, &doing, None)?;
                offsets.insert(found.partition_index, found.offset);
            }
        }
        Ok(offsets)
    }
}

impl Topic {
    /// The broker that leads a partition.
    pub(crate) fn leader(&self, partition: i32) -> Result<i32, Failure> {
        let missing = || {
            let (name, count) = (&self.name, self.leaders.len());
            Failure::Usage(format!("{name} has no partition {partition}; it has {count}, numbered from 0"))
        };
        self.leaders.get(&partition).copied().ok_or_else(missing)
    }
}

fn named(name: &str) -> MetadataRequestTopic {
    let mut topic = MetadataRequestTopic::default();
    topic.name = Some(StrBytes::from(name));
    topic
}

fn options() -> ClientOptions {
    ClientOptions { client_id: "levada-cli".to_owned(), ..ClientOptions::default() }
}

/// Kafka's port where none is given.
fn with_port(address: &str) -> String {
    let has_port = match address.rsplit_once(']') {
        Some((_, rest)) => rest.starts_with(':'),
        None => address.contains(':'),
    };
    if has_port { address.to_owned() } else { format!("{address}:9092") }
}
