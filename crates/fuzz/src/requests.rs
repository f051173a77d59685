//! An arbitrary frame as a request: header, then body by API and version. A decoded request means
//! the same after encoding.
//!
//! The list of APIs is the table's: a missing one here does not compile.

use bytes::{Bytes, BytesMut};
use levada_wire::messages::*;
use levada_wire::{ApiKey, RequestHeader, decode};

/// Checks one input.
pub fn run(frame: &[u8]) {
    let mut body = BytesMut::from(frame);
    let Ok(header) = RequestHeader::decode(&mut body) else { return };
    by_api(&header, body.freeze());
}

fn check<R: KafkaRequest + std::fmt::Debug>(header: &RequestHeader, body: Bytes) {
    assert_eq!(R::API_KEY.value(), header.api.wire(), "the list has another request for {}", header.api);
    let version = header.version;
    let Ok(message) = decode::<R>(body, version) else { return };
    let encode = |message: &R| message.encode_to_bytes(ApiVersion::new(version)).expect("a decoded message");
    let bytes = encode(&message);
    let again = decode::<R>(bytes.clone(), version).expect("an encoded message");
    // Bytes, because a float that is not a number differs from itself.
    assert_eq!(encode(&again), bytes, "{message:?}");
}

macro_rules! apis {
    ($($api:ident $message:ident)*) => {
        fn by_api(header: &RequestHeader, body: Bytes) {
            match header.api {
                $(ApiKey::$api => check::<$message>(header, body),)*
            }
        }
    };
}

apis! {
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
    WriteTxnMarkers WriteTxnMarkersRequest
    TxnOffsetCommit TxnOffsetCommitRequest
    DescribeAcls DescribeAclsRequest
    CreateAcls CreateAclsRequest
    DeleteAcls DeleteAclsRequest
    DescribeConfigs DescribeConfigsRequest
    AlterConfigs AlterConfigsRequest
    AlterReplicaLogDirs AlterReplicaLogDirsRequest
    DescribeLogDirs DescribeLogDirsRequest
    SaslAuthenticate SaslAuthenticateRequest
    CreatePartitions CreatePartitionsRequest
    CreateDelegationToken CreateDelegationTokenRequest
    RenewDelegationToken RenewDelegationTokenRequest
    ExpireDelegationToken ExpireDelegationTokenRequest
    DescribeDelegationToken DescribeDelegationTokenRequest
    DeleteGroups DeleteGroupsRequest
    ElectLeaders ElectLeadersRequest
    IncrementalAlterConfigs IncrementalAlterConfigsRequest
    AlterPartitionReassignments AlterPartitionReassignmentsRequest
    ListPartitionReassignments ListPartitionReassignmentsRequest
    OffsetDelete OffsetDeleteRequest
    DescribeClientQuotas DescribeClientQuotasRequest
    AlterClientQuotas AlterClientQuotasRequest
    DescribeUserScramCredentials DescribeUserScramCredentialsRequest
    AlterUserScramCredentials AlterUserScramCredentialsRequest
    DescribeQuorum DescribeQuorumRequest
    UpdateFeatures UpdateFeaturesRequest
    DescribeCluster DescribeClusterRequest
    DescribeProducers DescribeProducersRequest
    UnregisterBroker UnregisterBrokerRequest
    DescribeTransactions DescribeTransactionsRequest
    ListTransactions ListTransactionsRequest
    ConsumerGroupHeartbeat ConsumerGroupHeartbeatRequest
    ConsumerGroupDescribe ConsumerGroupDescribeRequest
    ListConfigResources ListConfigResourcesRequest
    DescribeTopicPartitions DescribeTopicPartitionsRequest
    ShareGroupHeartbeat ShareGroupHeartbeatRequest
    ShareGroupDescribe ShareGroupDescribeRequest
    ShareFetch ShareFetchRequest
    ShareAcknowledge ShareAcknowledgeRequest
    AddRaftVoter AddRaftVoterRequest
    RemoveRaftVoter RemoveRaftVoterRequest
    InitializeShareGroupState InitializeShareGroupStateRequest
    ReadShareGroupState ReadShareGroupStateRequest
    WriteShareGroupState WriteShareGroupStateRequest
    DeleteShareGroupState DeleteShareGroupStateRequest
    ReadShareGroupStateSummary ReadShareGroupStateSummaryRequest
    StreamsGroupHeartbeat StreamsGroupHeartbeatRequest
    StreamsGroupDescribe StreamsGroupDescribeRequest
    DescribeShareGroupOffsets DescribeShareGroupOffsetsRequest
    AlterShareGroupOffsets AlterShareGroupOffsetsRequest
    DeleteShareGroupOffsets DeleteShareGroupOffsetsRequest
}
