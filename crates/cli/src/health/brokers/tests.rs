//! Rows of brokers from a description and the metadata of a cluster with several brokers.

use levada_wire::messages::metadata_response::{MetadataResponsePartition, MetadataResponseTopic};

use super::*;

fn broker(id: i32, fenced: bool) -> DescribeClusterBroker {
    let mut broker = DescribeClusterBroker::default();
    (broker.broker_id, broker.port, broker.is_fenced) = (id, 9092, fenced);
    broker.host = format!("broker-{id}").as_str().into();
    broker
}

fn metadata(partitions: &[(i32, &[i32])]) -> MetadataResponse {
    let partition = |(leader, replicas): &(i32, &[i32])| {
        let mut partition = MetadataResponsePartition::default();
        (partition.leader_id, partition.replica_nodes) = (*leader, replicas.to_vec());
        partition
    };
    let mut topic = MetadataResponseTopic::default();
    topic.partitions = partitions.iter().map(partition).collect();
    let mut metadata = MetadataResponse::default();
    metadata.topics = vec![topic];
    metadata
}

#[test]
fn a_row_counts_the_partitions_of_its_broker() {
    let metadata = metadata(&[(1, &[1, 2]), (1, &[2, 1]), (-1, &[3])]);
    let rows = rows(&[broker(3, true), broker(1, false), broker(2, false)], &metadata, true);
    let counts: Vec<_> = rows.iter().map(|row| (row.id, row.fenced, row.leaders, row.replicas)).collect();
    let expected = [(1, Some(false), 2, 2), (2, Some(false), 0, 2), (3, Some(true), 0, 1)];
    assert_eq!(counts, expected);
    assert_eq!(rows[2].cells(), ["3", "broker-3:9092", "-", "fenced", "0", "1"]);
}

#[test]
fn a_broker_of_an_older_kafka_does_not_tell_which_brokers_are_fenced() {
    let rows = rows(&[broker(1, false)], &metadata(&[]), false);
    assert_eq!(rows[0].fenced, None);
    assert_eq!(rows[0].cells()[3], "-");
}
