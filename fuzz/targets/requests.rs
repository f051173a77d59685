//! Any frame as a request: header, then body by API and version. What decodes means the same after encoding.

#![no_main]

use bytes::{Bytes, BytesMut};
use levada_wire::messages::*;
use levada_wire::{ApiKey, RequestHeader, decode};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|frame: &[u8]| {
    let mut body = BytesMut::from(frame);
    let Ok(header) = RequestHeader::decode(&mut body) else { return };
    by_api(&header, body.freeze());
});

fn check<R: KafkaMessage + PartialEq + std::fmt::Debug>(version: i16, body: Bytes) {
    let Ok(message) = decode::<R>(body, version) else { return };
    let again = message.encode_to_bytes(ApiVersion::new(version)).expect("what was decoded can be encoded");
    assert_eq!(decode::<R>(again, version).expect("what was encoded can be decoded"), message);
}

macro_rules! apis {
    ($($api:ident $message:ident)*) => {
        fn by_api(header: &RequestHeader, body: Bytes) {
            match header.api {
                $(ApiKey::$api => check::<$message>(header.version, body),)*
                _ => {}
            }
        }
    };
}

apis! {
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
    SaslHandshake SaslHandshakeRequest
    ApiVersions ApiVersionsRequest
    CreateTopics CreateTopicsRequest
    DeleteTopics DeleteTopicsRequest
    DeleteRecords DeleteRecordsRequest
    InitProducerId InitProducerIdRequest
    OffsetForLeaderEpoch OffsetForLeaderEpochRequest
    AddPartitionsToTxn AddPartitionsToTxnRequest
    AddOffsetsToTxn AddOffsetsToTxnRequest
    EndTxn EndTxnRequest
    TxnOffsetCommit TxnOffsetCommitRequest
    DescribeConfigs DescribeConfigsRequest
    AlterConfigs AlterConfigsRequest
    SaslAuthenticate SaslAuthenticateRequest
    CreatePartitions CreatePartitionsRequest
    DeleteGroups DeleteGroupsRequest
    IncrementalAlterConfigs IncrementalAlterConfigsRequest
    DescribeCluster DescribeClusterRequest
    ConsumerGroupHeartbeat ConsumerGroupHeartbeatRequest
    ConsumerGroupDescribe ConsumerGroupDescribeRequest
    DescribeTopicPartitions DescribeTopicPartitionsRequest
}
