//! Requests and answers, without a connection.

use levada_coordination::group::Producer;
use levada_coordination::group::request::EndTxnRequest;
use levada_coordination::txn::TopicPartition;
use levada_coordination::txn::destinations::MarkerTicket;
use levada_wire::messages::WriteTxnMarkersResponse;
use levada_wire::messages::write_txn_markers_response::{
    WritableTxnMarkerPartitionResult, WritableTxnMarkerResult, WritableTxnMarkerTopicResult,
};

use super::{codes, encode, grouped};

fn end(id: i64, epoch: i16) -> EndTxnRequest {
    let producer = Producer { id, epoch };
    EndTxnRequest { producer, coordinator_epoch: 4, commit: true, transaction_version: 2 }
}

fn marker(ticket: u64, end: EndTxnRequest, topic: &str) -> (MarkerTicket, EndTxnRequest, TopicPartition) {
    let partition = i32::try_from(ticket).unwrap();
    (MarkerTicket(ticket), end, TopicPartition { topic: topic.to_owned(), partition })
}

#[test]
fn markers_request_has_one_decision_per_producer() {
    let markers = [
        marker(1, end(7, 0), "a"),
        marker(2, end(8, 3), "a"),
        marker(3, end(7, 0), "b"),
        marker(4, end(7, 1), "a"),
        marker(5, end(7, 0), "a"),
    ];
    let groups = grouped(markers.into_iter());
    let request = encode(&groups, 2);
    let [first, second] = &request.markers[..] else { panic!("{request:?}") };
    assert_eq!((first.producer_id, first.producer_epoch, first.coordinator_epoch), (7, 0, 4));
    assert!(first.transaction_result && first.transaction_version == 2);
    let topics: Vec<_> =
        first.topics.iter().map(|topic| (topic.name.as_str(), topic.partition_indexes.clone())).collect();
    assert_eq!(topics, [("a", vec![1, 5]), ("b", vec![3])]);
    assert_eq!((second.producer_id, second.producer_epoch), (8, 3));
    assert!(encode(&groups, 1).markers.iter().all(|marker| marker.transaction_version == 0));
}

#[test]
fn marker_response_counts_only_named_markers() {
    let markers = [marker(1, end(7, 0), "a"), marker(2, end(8, 0), "a"), marker(3, end(7, 0), "b")];
    let groups = grouped(markers.into_iter());
    let mut partition = WritableTxnMarkerPartitionResult::default();
    (partition.partition_index, partition.error_code) = (1, 6);
    let mut topic = WritableTxnMarkerTopicResult::default();
    (topic.name, topic.partitions) = ("a".into(), vec![partition]);
    let mut result = WritableTxnMarkerResult::default();
    (result.producer_id, result.topics) = (7, vec![topic]);
    let mut answer = WriteTxnMarkersResponse::default();
    answer.markers = vec![result];
    assert_eq!(codes(&groups, &answer), [(MarkerTicket(1), 6)]);
}
