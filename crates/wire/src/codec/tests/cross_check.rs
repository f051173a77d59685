//! Every message of the APIs served, in every version that both codecs know: encoded here, decoded
//! and encoded again by `kafka-protocol`, the same bytes; decoded here, the same message.

use kafka_protocol::messages as other;
use kafka_protocol::protocol::{Decodable, Encodable, Message};

use super::*;
use crate::samples::samples;

fn check<M, O>()
where
    M: KafkaMessage + PartialEq + std::fmt::Debug,
    O: Message + Encodable + Decodable + std::fmt::Debug,
{
    let ours = M::SUPPORTED_VERSIONS;
    let mut versions = 0;
    for version in ours.min().value().max(O::VERSIONS.min)..=ours.max().value().min(O::VERSIONS.max) {
        let mut compared = 0;
        let found = samples::<M>(version, 16);
        for (message, _) in &found {
            let bytes = message.encode_to_bytes(ApiVersion::new(version)).unwrap();
            let context = || format!("{} version {version}: {message:?}\n{bytes:02x?}", M::NAME);
            let mut rest = bytes.clone();
            let theirs = match O::decode(&mut rest, version) {
                Ok(theirs) => theirs,
                // The crate refuses tags of later versions; Kafka and we keep them as unknown.
                Err(error) if error.to_string().contains("is not valid for version") => continue,
                Err(error) => panic!("{error} in {}", context()),
            };
            assert_eq!(rest.len(), 0, "left over: {}", context());
            let mut again = BytesMut::new();
            theirs.encode(&mut again, version).unwrap_or_else(|e| panic!("{e} in {}", context()));
            assert_eq!(again, bytes, "{}", context());
            assert_eq!(&decode::<M>(again.freeze(), version).unwrap(), message);
            compared += 1;
        }
        assert!(compared >= 5, "{} version {version}: only {compared} samples", M::NAME);
        versions += 1;
    }
    assert!(versions > 0);
}

macro_rules! cross_check {
    ($($name:ident $request:ident $response:ident;)*) => {
        $(#[test]
        fn $name() {
            check::<$request, other::$request>();
            check::<$response, other::$response>();
        })*
    };
}

cross_check! {
    produce ProduceRequest ProduceResponse;
    fetch FetchRequest FetchResponse;
    list_offsets ListOffsetsRequest ListOffsetsResponse;
    metadata MetadataRequest MetadataResponse;
    offset_commit OffsetCommitRequest OffsetCommitResponse;
    offset_fetch OffsetFetchRequest OffsetFetchResponse;
    find_coordinator FindCoordinatorRequest FindCoordinatorResponse;
    join_group JoinGroupRequest JoinGroupResponse;
    heartbeat HeartbeatRequest HeartbeatResponse;
    leave_group LeaveGroupRequest LeaveGroupResponse;
    sync_group SyncGroupRequest SyncGroupResponse;
    describe_groups DescribeGroupsRequest DescribeGroupsResponse;
    list_groups ListGroupsRequest ListGroupsResponse;
    sasl_handshake SaslHandshakeRequest SaslHandshakeResponse;
    api_versions ApiVersionsRequest ApiVersionsResponse;
    create_topics CreateTopicsRequest CreateTopicsResponse;
    delete_topics DeleteTopicsRequest DeleteTopicsResponse;
    delete_records DeleteRecordsRequest DeleteRecordsResponse;
    init_producer_id InitProducerIdRequest InitProducerIdResponse;
    offset_for_leader_epoch OffsetForLeaderEpochRequest OffsetForLeaderEpochResponse;
    add_partitions_to_txn AddPartitionsToTxnRequest AddPartitionsToTxnResponse;
    add_offsets_to_txn AddOffsetsToTxnRequest AddOffsetsToTxnResponse;
    end_txn EndTxnRequest EndTxnResponse;
    write_txn_markers WriteTxnMarkersRequest WriteTxnMarkersResponse;
    txn_offset_commit TxnOffsetCommitRequest TxnOffsetCommitResponse;
    describe_acls DescribeAclsRequest DescribeAclsResponse;
    create_acls CreateAclsRequest CreateAclsResponse;
    delete_acls DeleteAclsRequest DeleteAclsResponse;
    describe_configs DescribeConfigsRequest DescribeConfigsResponse;
    alter_configs AlterConfigsRequest AlterConfigsResponse;
    describe_log_dirs DescribeLogDirsRequest DescribeLogDirsResponse;
    sasl_authenticate SaslAuthenticateRequest SaslAuthenticateResponse;
    create_partitions CreatePartitionsRequest CreatePartitionsResponse;
    delete_groups DeleteGroupsRequest DeleteGroupsResponse;
    incremental_alter_configs IncrementalAlterConfigsRequest IncrementalAlterConfigsResponse;
    offset_delete OffsetDeleteRequest OffsetDeleteResponse;
    describe_cluster DescribeClusterRequest DescribeClusterResponse;
    describe_producers DescribeProducersRequest DescribeProducersResponse;
    describe_transactions DescribeTransactionsRequest DescribeTransactionsResponse;
    list_transactions ListTransactionsRequest ListTransactionsResponse;
    consumer_group_heartbeat ConsumerGroupHeartbeatRequest ConsumerGroupHeartbeatResponse;
    consumer_group_describe ConsumerGroupDescribeRequest ConsumerGroupDescribeResponse;
    describe_topic_partitions DescribeTopicPartitionsRequest DescribeTopicPartitionsResponse;
}
