//! Tests of sizes that are incomplete.

use levada_wire::StrBytes;
use levada_wire::messages::describe_log_dirs_response::{
    DescribeLogDirsPartition, DescribeLogDirsResult, DescribeLogDirsTopic,
};
use levada_wire::messages::metadata_response::MetadataResponsePartition;

use super::*;

fn topic(name: &str, nodes: &[i32]) -> MetadataResponseTopic {
    let mut partition = MetadataResponsePartition::default();
    partition.replica_nodes = nodes.to_vec();
    let mut topic = MetadataResponseTopic::default();
    topic.name = Some(StrBytes::from(name));
    topic.partitions = vec![partition];
    topic
}

/// An answer of a broker that holds this many bytes of a topic.
fn answer(name: &str, size: i64) -> DescribeLogDirsResponse {
    let mut partition = DescribeLogDirsPartition::default();
    partition.partition_size = size;
    let mut topic = DescribeLogDirsTopic::default();
    topic.name = StrBytes::from(name);
    topic.partitions = vec![partition];
    let mut directory = DescribeLogDirsResult::default();
    directory.topics = vec![topic];
    let mut response = DescribeLogDirsResponse::default();
    response.results = vec![directory];
    response
}

#[test]
fn a_topic_has_a_size_if_all_brokers_with_replicas_answered() {
    let mut sizes = TopicSizes::default();
    sizes.add(&answer("clicks", 10));
    sizes.add(&answer("clicks", 10));
    sizes.add(&answer("views", 7));
    assert_eq!(sizes.total(), Some(27));
    sizes.silent.insert(3);
    assert_eq!(sizes.of(&topic("clicks", &[1, 2])), Some(20));
    assert_eq!(sizes.of(&topic("new", &[1])), Some(0));
    assert_eq!(sizes.of(&topic("views", &[1, 3])), None);
    assert_eq!(sizes.total(), None);
}
