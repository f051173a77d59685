//! Recorded frames decode, and encode to the same bytes again.

use super::*;
use crate::golden;

fn check<R: RequestResponsePair>(header: &RequestHeader, request: Bytes, response: Bytes) {
    let RequestHeader { version, correlation_id, .. } = *header;
    let mut body = BytesMut::from(&request[..]);
    RequestHeader::decode(&mut body).unwrap();
    let message = decode::<R>(body.freeze(), version).unwrap();
    let client_id = header.client_id.as_deref();
    let again = encode_request(correlation_id, client_id, version, &message).unwrap();
    assert_eq!(again[4..], request, "{header:?}");

    let (received, message) = decode_response::<R::Response>(response.clone(), version).unwrap();
    assert_eq!(received, correlation_id);
    let again = encode_response(correlation_id, version, &message).unwrap();
    assert_eq!(again[4..], response, "{header:?}");
    assert_eq!(again[..4], (response.len() as u32).to_be_bytes());
}

macro_rules! by_api {
    ($header:expr, $request:expr, $response:expr, $($api:ident $message:ident)*) => {
        match $header.api {
            $(ApiKey::$api => check::<$message>(&$header, $request, $response),)*
            other => panic!("add {other} to this list"),
        }
    };
}

#[test]
fn recorded_frames_round_trip() {
    let exchanges = golden::exchanges();
    assert!(exchanges.len() > 100);
    for (header, request, response) in exchanges {
        by_api!(header, request, response,
            Produce ProduceRequest
            Fetch FetchRequest
            ListOffsets ListOffsetsRequest
            Metadata MetadataRequest
            OffsetCommit OffsetCommitRequest
            OffsetFetch OffsetFetchRequest
            FindCoordinator FindCoordinatorRequest
            JoinGroup JoinGroupRequest
            Heartbeat HeartbeatRequest
            LeaveGroup LeaveGroupRequest
            SyncGroup SyncGroupRequest
            DescribeGroups DescribeGroupsRequest
            ListGroups ListGroupsRequest
            ApiVersions ApiVersionsRequest
            CreateTopics CreateTopicsRequest
            DeleteTopics DeleteTopicsRequest
            DeleteRecords DeleteRecordsRequest
            InitProducerId InitProducerIdRequest
            OffsetForLeaderEpoch OffsetForLeaderEpochRequest
            AddPartitionsToTxn AddPartitionsToTxnRequest
            AddOffsetsToTxn AddOffsetsToTxnRequest
            EndTxn EndTxnRequest
            WriteTxnMarkers WriteTxnMarkersRequest
            TxnOffsetCommit TxnOffsetCommitRequest
            DescribeConfigs DescribeConfigsRequest
            CreatePartitions CreatePartitionsRequest
            DeleteGroups DeleteGroupsRequest
            ListPartitionReassignments ListPartitionReassignmentsRequest
            DescribeCluster DescribeClusterRequest
            ConsumerGroupHeartbeat ConsumerGroupHeartbeatRequest
            ConsumerGroupDescribe ConsumerGroupDescribeRequest
            DescribeTopicPartitions DescribeTopicPartitionsRequest
        );
    }
}
