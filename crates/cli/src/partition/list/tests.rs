//! Tests of the filters of the list.

use bytes::Bytes;
use clap::Parser;
use levada_client::fake_broker::{Asked, FakeBroker};
use levada_wire::messages::describe_configs_response::{
    DescribeConfigsResourceResult, DescribeConfigsResult,
};
use levada_wire::messages::list_partition_reassignments_response::{
    OngoingPartitionReassignment, OngoingTopicReassignment,
};
use levada_wire::messages::metadata_response::{
    MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
};
use levada_wire::messages::{
    DescribeClusterResponse, DescribeConfigsResponse, DescribeLogDirsResponse,
    ListPartitionReassignmentsResponse, MetadataResponse,
};
use levada_wire::{ApiKey, StrBytes};
use serde_json::Value;

use super::*;
use crate::cluster::BrokerArgs;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    brokers: BrokerArgs,
    #[command(flatten)]
    list: List,
}

/// Leader, replicas and replicas in sync of each partition of `clicks`.
const PARTITIONS: [(i32, &[i32], &[i32]); 5] = [
    (1, &[1, 2, 3], &[1, 2, 3]),
    (1, &[1, 2, 3], &[1, 2]),
    (1, &[1, 2, 3], &[1]),
    (-1, &[1], &[1]),
    // Broker 4 is being added.
    (1, &[1, 2, 4], &[1, 2]),
];

fn metadata(asked: &Asked) -> Option<Bytes> {
    let partitions = (0..).zip(PARTITIONS).map(|(index, (leader, replicas, in_sync))| {
        let mut partition = MetadataResponsePartition::default();
        (partition.partition_index, partition.leader_id) = (index, leader);
        (partition.replica_nodes, partition.isr_nodes) = (replicas.to_vec(), in_sync.to_vec());
        partition
    });
    let mut topic = MetadataResponseTopic::default();
    (topic.name, topic.partitions) = (Some(StrBytes::from("clicks")), partitions.collect());
    let mut broker = MetadataResponseBroker::default();
    (broker.node_id, broker.port) = (1, i32::from(asked.port()));
    broker.host = StrBytes::from("127.0.0.1");
    let mut response = MetadataResponse::default();
    (response.topics, response.brokers) = (vec![topic], vec![broker]);
    asked.answer(&response)
}

fn ongoing(asked: &Asked) -> Option<Bytes> {
    let mut one = OngoingPartitionReassignment::default();
    (one.partition_index, one.replicas) = (4, vec![4, 2, 1]);
    (one.adding_replicas, one.removing_replicas) = (vec![4], vec![1]);
    let mut topic = OngoingTopicReassignment::default();
    (topic.name, topic.partitions) = (StrBytes::from("clicks"), vec![one]);
    let mut response = ListPartitionReassignmentsResponse::default();
    response.topics = vec![topic];
    asked.answer(&response)
}

fn settings(asked: &Asked) -> Option<Bytes> {
    let mut setting = DescribeConfigsResourceResult::default();
    (setting.name, setting.value) = (StrBytes::from("min.insync.replicas"), Some(StrBytes::from("2")));
    let mut result = DescribeConfigsResult::default();
    (result.resource_name, result.configs) = (StrBytes::from("clicks"), vec![setting]);
    let mut response = DescribeConfigsResponse::default();
    response.results = vec![result];
    asked.answer(&response)
}

/// Numbers of the listed partitions.
fn listed(broker: &FakeBroker, filter: &str) -> Vec<i64> {
    let words = ["list", filter, "--output", "json", "-b", broker.address()];
    let line = Line::try_parse_from(words).unwrap();
    let mut out = Vec::new();
    line.list.run(&mut line.brokers.connect().unwrap(), &mut out).unwrap();
    let rows: Value = serde_json::from_slice(&out).unwrap();
    rows.as_array().unwrap().iter().map(|row| row["partition"].as_i64().unwrap()).collect()
}

#[test]
fn filters_find_partitions_with_missing_replicas() {
    let broker = FakeBroker::start(|asked| match asked.header.api {
        ApiKey::Metadata => metadata(asked),
        ApiKey::DescribeCluster => asked.answer(&DescribeClusterResponse::default()),
        ApiKey::ListPartitionReassignments => ongoing(asked),
        ApiKey::DescribeConfigs => settings(asked),
        _ => asked.answer(&DescribeLogDirsResponse::default()),
    });
    assert_eq!(listed(&broker, "--under-replicated"), [1, 2], "a new replica of a move is none");
    assert_eq!(listed(&broker, "--under-min-isr"), [2, 3], "without a leader, or below two");
    assert_eq!(listed(&broker, "--offline"), [3]);
}
