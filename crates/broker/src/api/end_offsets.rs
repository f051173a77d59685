//! End offsets of partitions, as consumers see them: the high watermark. Leaders on other brokers
//! get a request, one for all their partitions.

use std::collections::BTreeMap;
use std::sync::Arc;

use levada_wire::StrBytes;
use levada_wire::api::controller;
use levada_wire::error_code::ErrorCode;
use levada_wire::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use levada_wire::messages::{ListOffsetsRequest, ListOffsetsResponse};
use tokio::sync::oneshot;

use crate::broker::Broker;
use crate::peers::{Peer, Subject};

/// Partitions by topic, each once.
pub(super) type TopicPartitions = BTreeMap<String, Vec<i32>>;

/// The end offset of each partition, or the reason why it is not known.
pub(super) type EndOffsets = BTreeMap<(String, i32), Result<i64, ErrorCode>>;

/// Timestamp that stands for the end.
const LATEST: i64 = -1;

/// The leader decides with the epoch that it has.
const ANY_EPOCH: i32 = -1;

/// Requests the end offsets from the leaders. Each response arrives within the time limit of
/// requests to other brokers.
pub(super) async fn request(broker: &Arc<Broker>, topics: TopicPartitions) -> EndOffsets {
    let (mut known, mut elsewhere) = (EndOffsets::new(), BTreeMap::<i32, TopicPartitions>::new());
    let image = broker.metadata().image();
    for (topic, indexes) in topics {
        let described = image.topic(&topic);
        for index in indexes {
            let partition = described.and_then(|topic| topic.partition(index));
            match partition.filter(|partition| partition.has_leader()).map(|partition| partition.leader) {
                None => drop(known.insert((topic.clone(), index), Err(ErrorCode::LeaderNotAvailable))),
                Some(leader) if leader == broker.node_id() => {
                    known.insert((topic.clone(), index), end_here(broker, &topic, index));
                }
                Some(leader) => {
                    elsewhere.entry(leader).or_default().entry(topic.clone()).or_default().push(index);
                }
            }
        }
    }
    let responses = elsewhere.into_iter().map(|(node, topics)| {
        let (sender, response) = oneshot::channel();
        let request = list_offsets(&topics);
        let call = move |peer: Option<Peer<'_>>| {
            let response = peer.and_then(|peer| peer.ask(controller::LIST_OFFSETS, |_| request));
            // The connection of the client may have closed.
            let _ = sender.send(response);
        };
        broker.peers().call(node, Subject::EndOffsets, Box::new(call));
        (topics, response)
    });
    let responses: Vec<_> = responses.collect();
    for (topics, response) in responses {
        read(topics, response.await.ok().flatten(), &mut known);
    }
    known
}

/// The end offset of a partition that this broker leads.
fn end_here(broker: &Broker, topic: &str, index: i32) -> Result<i64, ErrorCode> {
    let partition = broker.replicas().partition(topic, index)?;
    partition.check_leader(ANY_EPOCH)?;
    // After an election the leader does not have the high watermark of its predecessor yet.
    if partition.led().is_some_and(|led| led.is_before_epoch()) {
        return Err(ErrorCode::OffsetNotAvailable);
    }
    Ok(partition.log().high_watermark())
}

fn list_offsets(topics: &TopicPartitions) -> ListOffsetsRequest {
    let topics = topics.iter().map(|(name, indexes)| {
        let partitions = indexes.iter().map(|index| {
            message!(ListOffsetsPartition {
                partition_index: *index,
                current_leader_epoch: ANY_EPOCH,
                timestamp: LATEST,
            })
        });
        message!(ListOffsetsTopic { name: StrBytes::from(name.as_str()), partitions: partitions.collect() })
    });
    message!(ListOffsetsRequest { replica_id: -1, topics: topics.collect() })
}

/// Adds the end offsets of a leader's response to the known ones. Without a response, the ends of
/// the leader's partitions are unknown.
fn read(topics: TopicPartitions, response: Option<ListOffsetsResponse>, known: &mut EndOffsets) {
    let missing = match response {
        Some(_) => ErrorCode::UnknownTopicOrPartition,
        None => ErrorCode::NetworkException,
    };
    let mut offsets = BTreeMap::new();
    for topic in response.iter().flat_map(|response| &response.topics) {
        for partition in &topic.partitions {
            let result = match partition.error_code {
                0 => Ok(partition.offset),
                code => Err(ErrorCode::of_code(code).unwrap_or(ErrorCode::UnknownServerError)),
            };
            offsets.insert((topic.name.as_str(), partition.partition_index), result);
        }
    }
    for (topic, indexes) in topics {
        for index in indexes {
            let result = offsets.get(&(topic.as_str(), index)).copied().unwrap_or(Err(missing));
            known.insert((topic.clone(), index), result);
        }
    }
}

#[cfg(test)]
mod tests;
