//! Tests of `share_fetch`.

use bytes::Bytes;
use kafka_wire::share_fetch_response;

use super::*;
use crate::codec;
use crate::gather::Piece;
use crate::samples::samples;

/// Our form of the codec crate's message.
fn response(message: share_fetch_response::ShareFetchResponse) -> ShareFetchResponse<Bytes> {
    let topic = |topic: share_fetch_response::ShareFetchableTopicResponse| SharedTopic {
        topic_id: topic.topic_id,
        partitions: topic.partitions.into_iter().map(partition).collect(),
    };
    let node = |node: share_fetch_response::NodeEndpoint| NodeEndpoint {
        node_id: node.node_id,
        host: node.host,
        port: node.port,
        rack: node.rack,
    };
    ShareFetchResponse {
        throttle_time_ms: message.throttle_time_ms,
        error_code: message.error_code,
        error_message: message.error_message,
        acquisition_lock_timeout_ms: message.acquisition_lock_timeout_ms,
        topics: message.responses.into_iter().map(topic).collect(),
        node_endpoints: message.node_endpoints.into_iter().map(node).collect(),
    }
}

fn partition(partition: share_fetch_response::PartitionData) -> SharedPartition<Bytes> {
    let range = |range: share_fetch_response::AcquiredRecords| AcquiredRange {
        first_offset: range.first_offset,
        last_offset: range.last_offset,
        delivery_count: range.delivery_count,
    };
    let leader = partition.current_leader;
    SharedPartition {
        index: partition.partition_index,
        error_code: partition.error_code,
        error_message: partition.error_message,
        acknowledge_error_code: partition.acknowledge_error_code,
        acknowledge_error_message: partition.acknowledge_error_message,
        current_leader: LeaderEpoch { leader_id: leader.leader_id, leader_epoch: leader.leader_epoch },
        records: Some(partition.records).filter(|records| !records.is_empty()),
        acquired: partition.acquired_records.into_iter().map(range).collect(),
    }
}

fn flatten(gather: Gather<Bytes>) -> Bytes {
    let pieces = gather.into_pieces().into_iter().flat_map(|piece| match piece {
        Piece::Bytes(bytes) | Piece::Hole(bytes) => bytes,
    });
    let bytes: Vec<u8> = pieces.collect();
    assert_eq!(bytes[..4], (bytes.len() as u32 - 4).to_be_bytes());
    bytes.into()
}

#[test]
fn responses_agree_with_the_codec() {
    for version in 1..=2 {
        for (message, _) in samples::<share_fetch_response::ShareFetchResponse>(version, 60) {
            let ours = response(message);
            let frame = flatten(ours.clone().encode(7, version).unwrap());
            let (correlation_id, theirs) = codec::decode_response(frame.slice(4..), version).unwrap();
            assert_eq!((correlation_id, response(theirs)), (7, ours), "version {version}");
        }
    }
}

#[test]
fn records_are_holes_before_the_acquired_ranges() {
    let acquired = AcquiredRange { first_offset: 3, last_offset: 4, delivery_count: 1 };
    let one = SharedPartition {
        records: Some(Bytes::from_static(b"records")),
        acquired: vec![acquired],
        ..SharedPartition::new(0)
    };
    let topics = vec![SharedTopic { topic_id: Uuid::ZERO, partitions: vec![one] }];
    let response = ShareFetchResponse { topics, ..ShareFetchResponse::of_error(0) };
    let pieces = response.encode(1, 2).unwrap().into_pieces();
    let holes: Vec<bool> = pieces.iter().map(|piece| matches!(piece, Piece::Hole(_))).collect();
    assert_eq!(holes, [false, true, false]);
}
