//! Producers in the state of partition leaders, with or without an open transaction.

use std::collections::BTreeMap;

use levada_client::{Cluster, Topic};
use levada_wire::StrBytes;
use levada_wire::messages::DescribeProducersRequest;
use levada_wire::messages::describe_producers_request::TopicRequest;

use crate::kafka_error;
use levada_terminal::failure::Failure;

/// A transaction that is open in a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Open {
    pub(super) topic: String,
    pub(super) partition: i32,
    pub(super) leader: i32,
    pub(super) producer_id: i64,
    pub(super) producer_epoch: i16,
    /// -1 if the producer has never ended a transaction here.
    pub(super) coordinator_epoch: i32,
    pub(super) start_offset: i64,
    /// Time of the producer's last write here.
    pub(super) last_ms: i64,
}

/// The open transactions in partitions of these topics, as the partitions' leaders see them.
pub(super) fn open<'a>(
    cluster: &mut Cluster,
    topics: impl IntoIterator<Item = &'a Topic>,
) -> Result<Vec<Open>, Failure> {
    let mut by_leader: BTreeMap<i32, BTreeMap<&str, Vec<i32>>> = BTreeMap::new();
    for topic in topics {
        for (partition, leader) in topic.leaders.iter().filter(|(_, leader)| **leader >= 0) {
            by_leader.entry(*leader).or_default().entry(&topic.name).or_default().push(*partition);
        }
    }
    let mut found = Vec::new();
    for (leader, topics) in by_leader {
        let topic = |(name, partitions): (&str, Vec<i32>)| {
            let mut topic = TopicRequest::default();
            topic.name = StrBytes::from(name);
            topic.partition_indexes = partitions;
            topic
        };
        let mut request = DescribeProducersRequest::default();
        request.topics = topics.into_iter().map(topic).collect();
        let response = cluster.broker(leader)?.request(&request)?;
        for topic in &response.topics {
            let name = topic.name.as_str();
            for partition in &topic.partitions {
                let doing = format!("producers of {name}/{}", partition.partition_index);
                let checked =
                    kafka_error::check(partition.error_code, &doing, partition.error_message.as_deref());
                kafka_error::needing(checked, "read", &format!("--topic {name}"))?;
                let open = partition.active_producers.iter().filter(|one| one.current_txn_start_offset >= 0);
                found.extend(open.map(|one| Open {
                    topic: name.to_owned(),
                    partition: partition.partition_index,
                    leader,
                    producer_id: one.producer_id,
                    // The response has 32 bits; batches have 16.
                    producer_epoch: one.producer_epoch as i16,
                    coordinator_epoch: one.coordinator_epoch,
                    start_offset: one.current_txn_start_offset,
                    last_ms: one.last_timestamp,
                }));
            }
        }
    }
    Ok(found)
}
