//! Moves that the controller carries out: their list, their start and their end.

use std::collections::BTreeMap;

use levada_client::{Cluster, TopicPartition};
use levada_terminal::failure::Failure;
use levada_wire::StrBytes;
use levada_wire::messages::alter_partition_reassignments_request::{
    ReassignablePartition, ReassignableTopic,
};
use levada_wire::messages::list_partition_reassignments_response::OngoingPartitionReassignment;
use levada_wire::messages::{AlterPartitionReassignmentsRequest, ListPartitionReassignmentsRequest};

use super::Move;
use crate::kafka_error;

/// Time for the controller, in ms.
const TIMEOUT_MS: i32 = 60_000;

/// Number of partitions of one request. Kafka's controller writes the records of a request in one
/// batch, and limits their number.
const PER_REQUEST: usize = 1_000;

/// A partition that is being moved to other brokers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ongoing {
    /// All replicas; those of the target come first.
    pub(crate) replicas: Vec<i32>,
    pub(crate) adding: Vec<i32>,
    pub(crate) removing: Vec<i32>,
}

impl Ongoing {
    fn of(partition: &OngoingPartitionReassignment) -> Self {
        Self {
            replicas: partition.replicas.clone(),
            adding: partition.adding_replicas.clone(),
            removing: partition.removing_replicas.clone(),
        }
    }

    /// The replicas after the move.
    pub(crate) fn target(&self) -> Vec<i32> {
        self.replicas.iter().copied().filter(|id| !self.removing.contains(id)).collect()
    }

    /// The replicas before the move, in an order that may differ from the former one.
    pub(crate) fn origin(&self) -> Vec<i32> {
        self.replicas.iter().copied().filter(|id| !self.adding.contains(id)).collect()
    }
}

/// All partitions that move.
pub(crate) fn ongoing(cluster: &mut Cluster) -> Result<BTreeMap<TopicPartition, Ongoing>, Failure> {
    let mut request = ListPartitionReassignmentsRequest::default();
    (request.timeout_ms, request.topics) = (TIMEOUT_MS, None);
    let response = cluster.ask_controller(&request, |response| response.error_code).map_err(Failure::from)?;
    let doing = "list moves of partitions";
    let checked = kafka_error::check(response.error_code, doing, response.error_message.as_deref());
    kafka_error::needing(checked, "describe", "--cluster")?;
    let mut found = BTreeMap::new();
    for topic in &response.topics {
        for partition in &topic.partitions {
            let place = (topic.name.as_str().to_owned(), partition.partition_index);
            found.insert(place, Ongoing::of(partition));
        }
    }
    Ok(found)
}

/// Starts moves; returns those that the controller accepted, and the failures of the others.
pub(super) fn start(cluster: &mut Cluster, moves: &[Move]) -> (Vec<Move>, Vec<Failure>) {
    let asked: Vec<(TopicPartition, Option<Vec<i32>>)> =
        moves.iter().map(|one| (one.place(), Some(one.to.clone()))).collect();
    let (mut started, mut failures) = (Vec::new(), Vec::new());
    for (one, done) in moves.iter().zip(alter(cluster, &asked)) {
        match done {
            Ok(()) => started.push(one.clone()),
            Err(failure) => failures.push(failure),
        }
    }
    (started, failures)
}

/// Cancels moves: the replicas that are being added are removed. Returns one result per partition.
pub(crate) fn cancel(cluster: &mut Cluster, places: &[TopicPartition]) -> Vec<Result<(), Failure>> {
    let asked: Vec<_> = places.iter().map(|place| (place.clone(), None)).collect();
    alter(cluster, &asked)
}

/// One result for each partition, in their order. Without a target, a move is cancelled.
fn alter(cluster: &mut Cluster, asked: &[(TopicPartition, Option<Vec<i32>>)]) -> Vec<Result<(), Failure>> {
    let mut results = Vec::new();
    for asked in asked.chunks(PER_REQUEST) {
        match alter_some(cluster, asked) {
            Ok(done) => results.extend(done),
            Err(failure) => {
                // The others are not tried: they would fail in the same way.
                results.push(Err(failure));
                return results;
            }
        }
    }
    results
}

fn alter_some(
    cluster: &mut Cluster,
    asked: &[(TopicPartition, Option<Vec<i32>>)],
) -> Result<Vec<Result<(), Failure>>, Failure> {
    let mut topics: BTreeMap<&str, Vec<ReassignablePartition>> = BTreeMap::new();
    for ((topic, partition), replicas) in asked {
        let mut one = ReassignablePartition::default();
        (one.partition_index, one.replicas) = (*partition, replicas.clone());
        topics.entry(topic).or_default().push(one);
    }
    let mut request = AlterPartitionReassignmentsRequest::default();
    request.timeout_ms = TIMEOUT_MS;
    let topic = |(name, partitions): (&str, Vec<ReassignablePartition>)| {
        let mut topic = ReassignableTopic::default();
        (topic.name, topic.partitions) = (StrBytes::from(name), partitions);
        topic
    };
    request.topics = topics.into_iter().map(topic).collect();
    let response = cluster.ask_controller(&request, |response| response.error_code)?;
    let checked =
        kafka_error::check(response.error_code, "move partitions", response.error_message.as_deref());
    kafka_error::needing(checked, "alter", "--cluster")?;
    let mut answers = BTreeMap::new();
    for topic in &response.responses {
        for one in &topic.partitions {
            answers.insert((topic.name.as_str().to_owned(), one.partition_index), one);
        }
    }
    let result = |(place, _): &(TopicPartition, Option<Vec<i32>>)| {
        let doing = format!("move {}/{}", place.0, place.1);
        let Some(answer) = answers.get(place) else {
            return Err(Failure::new(format!("{doing}: the broker did not respond")));
        };
        kafka_error::check(answer.error_code, &doing, answer.error_message.as_deref())
    };
    Ok(asked.iter().map(result).collect())
}
