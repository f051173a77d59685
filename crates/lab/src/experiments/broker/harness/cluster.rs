//! A cluster of one Kafka controller with brokers of both systems. A variant consists of three
//! brokers: of Kafka, of Levada, or of both. While one variant is measured, the brokers of the
//! others are paused.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Read};
use std::time::{Duration, Instant};

use levada_wire::messages::alter_partition_reassignments_request::{
    ReassignablePartition, ReassignableTopic,
};
use levada_wire::messages::create_topics_request::{CreatableReplicaAssignment, CreatableTopic};
use levada_wire::messages::metadata_request::MetadataRequestTopic;
use levada_wire::messages::metadata_response::MetadataResponsePartition;
use levada_wire::messages::{AlterPartitionReassignmentsRequest, MetadataRequest, StrBytes};

use crate::error::LabError;
use crate::experiments::broker::Systems;
use crate::experiments::broker::harness::frames::TopicPartition;
use crate::experiments::broker::harness::node::{Node, System};
use crate::experiments::broker::harness::topic;
use crate::harness::bench::Bench;
use crate::harness::pace::joined;
use crate::harness::process::{Paused, Spent};
use crate::machine::interrupt::Interrupt;

/// Number of brokers of a variant, and of replicas of its topics.
pub(crate) const REPLICAS: usize = 3;

/// Name in tables and ids of three brokers. The first broker leads partitions with a single leader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Variant {
    pub(crate) name: &'static str,
    pub(crate) brokers: [i32; REPLICAS],
}

/// Smallest id of a Levada broker; lower ids are Kafka's.
const LEVADA: i32 = 20;

/// Variants in table order. Kafka is first, because the tables compare the others with it.
pub(crate) const VARIANTS: [Variant; 3] = [
    Variant { name: "kafka", brokers: [11, 12, 13] },
    Variant { name: "mixed", brokers: [11, 21, 22] },
    Variant { name: "levada", brokers: [21, 22, 23] },
];

/// Settings that let a paused broker keep its session and its replicas in sync.
const PATIENT: [(&str, &str); 3] = [
    ("broker.session.timeout.ms", "3600000"),
    ("replica.lag.time.max.ms", "3600000"),
    ("replica.socket.timeout.ms", "3600000"),
];

/// Limit for a change of replicas without data, during which either end of a connection may have to
/// connect again.
const LIMIT: Duration = Duration::from_secs(120);

/// Interval between two metadata requests.
const LOOK: Duration = Duration::from_millis(5);

/// Bytes of a file that one comparison reads.
const CHUNK: usize = 1 << 20;

/// The controller and all brokers, none of which is bound to one processor.
#[derive(Debug)]
pub(crate) struct Cluster {
    /// Brokers by id. The declaration precedes the controller's, so that the controller stops last.
    brokers: BTreeMap<i32, Node>,
    _controller: Node,
}

impl Cluster {
    pub(crate) fn start(bench: &Bench, systems: &Systems) -> Result<Self, LabError> {
        let controller = Node::new(bench, systems, System::Kafka)?.anywhere();
        let voters = format!("1@{}", controller.address());
        let listener = format!("CONTROLLER://{}", controller.address());
        let controller = controller.with("process.roles", "controller").with("listeners", &listener);
        let mut controller = patient(controller.with("controller.quorum.voters", &voters));
        controller.start(bench)?;
        let ids: BTreeSet<i32> = VARIANTS.iter().flat_map(|variant| variant.brokers).collect();
        // A Java virtual machine needs seconds to start, so all brokers start in parallel.
        let brokers = std::thread::scope(|scope| {
            let start = |id: i32| {
                let voters = voters.as_str();
                (id, scope.spawn(move || broker(bench, systems, (id, voters))))
            };
            let starting: Vec<_> = ids.into_iter().map(start).collect();
            let started = starting.into_iter().map(|(id, node)| Ok((id, joined(node.join())?)));
            started.collect::<Result<BTreeMap<i32, Node>, LabError>>()
        })?;
        Ok(Self { brokers, _controller: controller })
    }

    /// Brokers of a variant.
    pub(crate) fn nodes(&self, variant: &Variant) -> Vec<&Node> {
        variant.brokers.iter().filter_map(|id| self.brokers.get(id)).collect()
    }

    /// Pauses the brokers of other variants until the caller drops the returned value.
    pub(crate) fn alone(&self, variant: &Variant) -> Vec<Paused> {
        let others = self.brokers.iter().filter(|(id, _)| !variant.brokers.contains(id));
        let paused = others.map(|(_, node)| node.pause()).collect();
        std::thread::sleep(super::super::CATCH_UP);
        paused
    }

    /// Creates a topic with these replicas for each partition. Returns once all replicas are in
    /// sync and the leaders serve their partitions.
    pub(crate) fn create(
        &self,
        variant: &Variant,
        (name, assignment): (&str, &[Vec<i32>]),
        config: &[(&str, &str)],
    ) -> Result<(), LabError> {
        let mut topic = CreatableTopic::default();
        topic.num_partitions = -1;
        topic.replication_factor = -1;
        let partition = |(index, replicas): (i32, &Vec<i32>)| {
            let mut assignment = CreatableReplicaAssignment::default();
            assignment.partition_index = index;
            assignment.broker_ids.clone_from(replicas);
            assignment
        };
        topic.assignments = (0..).zip(assignment).map(partition).collect();
        let nodes = self.nodes(variant);
        topic::request(nodes[0], name, topic, config)?;
        for (partition, replicas) in (0..).zip(assignment) {
            let place = TopicPartition { topic: name.to_owned(), partition };
            self.await_replicas(variant, (&place, replicas), LIMIT)?;
            let leader = &self.brokers[&replicas[0]];
            topic::await_served(leader, &mut topic::client(leader.address())?, &place)?;
        }
        Ok(())
    }

    /// Requests other replicas for a partition. The cluster moves the data after the call has
    /// returned.
    pub(crate) fn reassign(
        &self,
        variant: &Variant,
        place: &TopicPartition,
        replicas: &[i32],
    ) -> Result<(), LabError> {
        let mut partition = ReassignablePartition::default();
        partition.partition_index = place.partition;
        partition.replicas = Some(replicas.to_vec());
        let mut moved = ReassignableTopic::default();
        moved.name = StrBytes::from(place.topic.as_str());
        moved.partitions = vec![partition];
        let mut request = AlterPartitionReassignmentsRequest::default();
        request.topics = vec![moved];
        let node = self.nodes(variant)[0];
        let response = topic::client(node.address())?.request(&request);
        let response = response.map_err(topic::failed("cannot change the replicas of a partition"))?;
        let of_partition = response.responses.iter().flat_map(|topic| &topic.partitions);
        let codes = of_partition.map(|partition| partition.error_code).chain([response.error_code]);
        match codes.into_iter().find(|code| *code != 0) {
            None => Ok(()),
            Some(code) => {
                let cause = io::Error::other(format!("Kafka's error code {code}"));
                Err(LabError::step("the cluster refused other replicas of a partition")(cause))
            }
        }
    }

    /// Waits until a partition has exactly these replicas and all of them are in sync.
    pub(crate) fn await_replicas(
        &self,
        variant: &Variant,
        (place, replicas): (&TopicPartition, &[i32]),
        limit: Duration,
    ) -> Result<(), LabError> {
        let sorted = |ids: &[i32]| {
            let mut ids = ids.to_vec();
            ids.sort_unstable();
            ids
        };
        let wanted = sorted(replicas);
        let node = self.nodes(variant)[0];
        let mut client = topic::client(node.address())?;
        let start = Instant::now();
        loop {
            let mut named = MetadataRequestTopic::default();
            named.name = Some(StrBytes::from(place.topic.as_str()));
            let mut request = MetadataRequest::default();
            request.topics = Some(vec![named]);
            request.allow_auto_topic_creation = false;
            let response = client
                .request(&request)
                .map_err(topic::failed("cannot request the replicas of a partition"))?;
            let is_whole = |partition: &MetadataResponsePartition| {
                partition.partition_index == place.partition
                    && sorted(&partition.replica_nodes) == wanted
                    && sorted(&partition.isr_nodes) == wanted
            };
            if response.topics.iter().flat_map(|topic| &topic.partitions).any(is_whole) {
                return Ok(());
            }
            if start.elapsed() > limit {
                return Err(node.failed(&format!("does not have all replicas of {} in sync", place.topic)));
            }
            if Interrupt::asked() {
                return Err(LabError::Interrupted);
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Processor time of a variant's brokers so far, with their process ids.
    pub(crate) fn spent(&self, variant: &Variant) -> Vec<(u32, Spent)> {
        self.nodes(variant).iter().map(|node| (node.pid(), Spent::of(node.pid()))).collect()
    }

    /// True if the logs of these replicas contain the same bytes and have the expected length.
    pub(crate) fn replicas_are_equal(
        &self,
        (place, replicas): (&TopicPartition, &[i32]),
        bytes: u64,
    ) -> Result<bool, LabError> {
        let open = |id: &i32| {
            let mut log: Box<dyn Read> = Box::new(io::empty());
            for path in topic::segments(&self.brokers[id], place)? {
                let file = File::open(&path).map_err(LabError::file("cannot open", &path))?;
                log = Box::new(log.chain(file));
            }
            Ok(log.take(bytes))
        };
        let mut logs = replicas.iter().map(open).collect::<Result<Vec<_>, LabError>>()?;
        let Some((first, others)) = logs.split_first_mut() else { return Ok(false) };
        let mut compared = 0;
        while compared < bytes {
            let mut chunk = vec![0; CHUNK.min(usize::try_from(bytes - compared).unwrap_or(CHUNK))];
            let mut other = vec![0; chunk.len()];
            if first.read_exact(&mut chunk).is_err() {
                return Ok(false);
            }
            for log in &mut *others {
                if log.read_exact(&mut other).is_err() || other != chunk {
                    return Ok(false);
                }
            }
            compared += chunk.len() as u64;
        }
        Ok(true)
    }
}

/// Processor time of all processes since the earlier reading.
pub(crate) fn spent_since(before: &[(u32, Spent)]) -> Duration {
    before.iter().map(|(pid, before)| Spent::since(*pid, before)).sum()
}

/// Starts a broker that joins the cluster.
fn broker(bench: &Bench, systems: &Systems, (id, voters): (i32, &str)) -> Result<Node, LabError> {
    let system = if id < LEVADA { System::Kafka } else { System::Levada };
    let node = Node::new(bench, systems, system)?.anywhere();
    let listener = format!("PLAINTEXT://{}", node.address());
    let node = node
        .with("process.roles", "broker")
        .with("node.id", &id.to_string())
        .with("listeners", &listener)
        .with("controller.listener.names", "CONTROLLER")
        .with("controller.quorum.voters", voters);
    let mut node = patient(node);
    node.prepare()?;
    node.start(bench)?;
    Ok(node)
}

fn patient(node: Node) -> Node {
    PATIENT.iter().fold(node, |node, (key, value)| node.with(key, value))
}
