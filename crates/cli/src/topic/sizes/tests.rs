//! Tests of sizes that are incomplete.

use levada_wire::StrBytes;
use levada_wire::error_code::ErrorCode;
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

/// A response of a broker that holds this many bytes of a topic.
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
fn topic_size_needs_responses_of_replica_brokers() {
    let mut sizes = TopicSizes::default();
    for (node, topic, size) in [(1, "clicks", 10), (2, "clicks", 10), (1, "views", 7)] {
        assert_eq!(sizes.add(node, &answer(topic, size)), None);
    }
    assert_eq!(sizes.total(), Some(27));
    sizes.incomplete.insert(3);
    assert_eq!(sizes.of(&topic("clicks", &[1, 2])), Some(20));
    assert_eq!(sizes.of(&topic("new", &[1])), Some(0));
    assert_eq!(sizes.of(&topic("views", &[1, 3])), None);
    assert_eq!(sizes.total(), None);
}

#[test]
fn moving_replica_counts_once_in_topic_size() {
    let mut sizes = TopicSizes::default();
    let (mut response, mut coming) = (answer("clicks", 10), answer("clicks", 4));
    coming.results[0].topics[0].partitions[0].is_future_key = true;
    response.results.append(&mut coming.results);
    assert_eq!(sizes.add(1, &response), None);
    assert_eq!((sizes.of(&topic("clicks", &[1])), sizes.total()), (Some(10), Some(10)));
}

#[test]
fn failed_directory_makes_topic_sizes_unknown() {
    let mut sizes = TopicSizes::default();
    let mut response = answer("clicks", 10);
    let mut failed = DescribeLogDirsResult::default();
    (failed.error_code, failed.log_dir) = (ErrorCode::KafkaStorageError.code(), StrBytes::from("/data/2"));
    response.results.push(failed);
    assert_eq!(sizes.add(1, &answer("clicks", 10)), None);
    assert_eq!(sizes.add(2, &response).as_deref(), Some("/data/2: KAFKA_STORAGE_ERROR"));
    assert_eq!(sizes.of(&topic("clicks", &[1, 2])), None);
    assert_eq!(sizes.of(&topic("views", &[2])), None);
    assert_eq!(sizes.of(&topic("new", &[1])), Some(0));
    assert_eq!(sizes.total(), None);
}
