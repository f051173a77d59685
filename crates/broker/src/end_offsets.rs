//! End offsets of partitions, as consumers see them: the high watermark. Leaders on other brokers
//! get a request, one for all their partitions.

use std::collections::BTreeMap;

use levada_metadata::image::Image;
use levada_wire::StrBytes;
use levada_wire::api::controller;
use levada_wire::error_code::ErrorCode;
use levada_wire::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use levada_wire::messages::{ListOffsetsRequest, ListOffsetsResponse};
use tokio::sync::oneshot;

use crate::peers::{Peer, PeerRequests, Subject};
use crate::replica::Replicas;

/// Partitions by topic, each once.
pub(crate) type TopicPartitions = BTreeMap<String, Vec<i32>>;

/// The end offset of each partition, or the reason why it is not known.
pub(crate) type EndOffsets = BTreeMap<(String, i32), Result<i64, ErrorCode>>;

/// Timestamp that stands for the end.
const LATEST: i64 = -1;

/// Timestamp that stands for the first offset.
pub(crate) const EARLIEST: i64 = -2;

/// The leader decides with the epoch that it has.
const ANY_EPOCH: i32 = -1;

/// The leaders of all partitions, as this broker knows them.
pub(crate) struct Leaders<'a> {
    pub(crate) image: &'a Image,
    pub(crate) node_id: i32,
    pub(crate) replicas: &'a Replicas,
    pub(crate) peers: &'a PeerRequests,
}

/// End offsets that are known, and requests for the others.
pub(crate) struct AskedEnds {
    known: EndOffsets,
    open: Vec<(TopicPartitions, oneshot::Receiver<Option<ListOffsetsResponse>>)>,
}

impl Leaders<'_> {
    /// Requests the end offsets from the leaders, over the connections of this subject. Each
    /// response arrives within the time limit of requests to other brokers. Does not block.
    pub(crate) fn ask(&self, subject: Subject, topics: TopicPartitions) -> AskedEnds {
        let (known, elsewhere) = self.sort(topics);
        let open = elsewhere.into_iter().map(|(node, topics)| {
            let (sender, response) = oneshot::channel();
            let request = list_offsets(&topics, LATEST);
            let call = move |peer: Option<Peer<'_>>| {
                let response = peer.and_then(|peer| peer.ask(controller::LIST_OFFSETS, |_| request));
                // The requesting task may have ended.
                let _ = sender.send(response);
            };
            self.peers.call(node, subject, Box::new(call));
            (topics, response)
        });
        AskedEnds { known, open: open.collect() }
    }

    /// The end offsets that this broker knows itself, and the other partitions by leader.
    fn sort(&self, topics: TopicPartitions) -> (EndOffsets, BTreeMap<i32, TopicPartitions>) {
        let (mut known, mut elsewhere) = (EndOffsets::new(), BTreeMap::<i32, TopicPartitions>::new());
        for (topic, indexes) in topics {
            let described = self.image.topic(&topic);
            for index in indexes {
                let partition = described.and_then(|topic| topic.partition(index));
                match partition.filter(|partition| partition.has_leader()).map(|partition| partition.leader) {
                    None => drop(known.insert((topic.clone(), index), Err(ErrorCode::LeaderNotAvailable))),
                    Some(leader) if leader == self.node_id => {
                        known.insert((topic.clone(), index), self.end_here(&topic, index));
                    }
                    Some(leader) => {
                        elsewhere.entry(leader).or_default().entry(topic.clone()).or_default().push(index);
                    }
                }
            }
        }
        (known, elsewhere)
    }

    /// The end offset of a partition that this broker leads.
    fn end_here(&self, topic: &str, index: i32) -> Result<i64, ErrorCode> {
        let partition = self.replicas.partition(topic, index)?;
        partition.check_leader(ANY_EPOCH)?;
        // After an election the leader does not have the high watermark of its predecessor yet.
        if partition.led().is_some_and(|led| led.is_before_epoch()) {
            return Err(ErrorCode::OffsetNotAvailable);
        }
        Ok(partition.log().high_watermark())
    }
}

impl AskedEnds {
    /// Waits for all responses.
    pub(crate) async fn all(self) -> EndOffsets {
        let Self { mut known, open } = self;
        for (topics, response) in open {
            read(topics, response.await.ok().flatten(), &mut known);
        }
        known
    }

    /// Same as [`Self::all`]. Blocks.
    pub(crate) fn wait(self) -> EndOffsets {
        let Self { mut known, open } = self;
        for (topics, response) in open {
            read(topics, response.blocking_recv().ok().flatten(), &mut known);
        }
        known
    }
}

/// Request for the offset of a timestamp in each partition.
pub(crate) fn list_offsets(topics: &TopicPartitions, timestamp: i64) -> ListOffsetsRequest {
    let topics = topics.iter().map(|(name, indexes)| {
        let partitions = indexes.iter().map(|index| {
            let mut partition = ListOffsetsPartition::default();
            (partition.partition_index, partition.timestamp) = (*index, timestamp);
            partition.current_leader_epoch = ANY_EPOCH;
            partition
        });
        let mut topic = ListOffsetsTopic::default();
        (topic.name, topic.partitions) = (StrBytes::from(name.as_str()), partitions.collect());
        topic
    });
    let mut request = ListOffsetsRequest::default();
    (request.replica_id, request.topics) = (-1, topics.collect());
    request
}

/// Adds the end offsets of a leader's response to the known ones. Without a response, the ends of
/// the leader's partitions are unknown; so is that of a partition without an offset.
fn read(topics: TopicPartitions, response: Option<ListOffsetsResponse>, known: &mut EndOffsets) {
    let missing = match response {
        Some(_) => ErrorCode::UnknownTopicOrPartition,
        None => ErrorCode::NetworkException,
    };
    let mut offsets = BTreeMap::new();
    for topic in response.iter().flat_map(|response| &response.topics) {
        for partition in &topic.partitions {
            let result = match partition.error_code {
                0 if partition.offset < 0 => Err(ErrorCode::OffsetNotAvailable),
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
