//! The message types that broker and tools may use: every API of the table, from the codec crate
//! if it has the API.
//!
//! Structs are `non_exhaustive`: start from `T::default()` and set fields. Byte and string fields
//! of a decoded message share the request's frame; copy what outlives the request. A response that
//! sets a field its version cannot carry is refused by the encoder unless Kafka's schema calls the
//! field ignorable; see `docs/decisions/2026-11-21-codec.md` for the list.

mod by_type;
mod streams_group_describe;
mod unregister_controller;

pub use self::streams_group_describe::{
    StreamsGroupDescribeRequest, StreamsGroupDescribeResponse, streams_group_describe_response,
};
#[cfg(test)]
pub(crate) use self::unregister_controller::UNREGISTER_CONTROLLER;
pub use self::unregister_controller::{UnregisterControllerRequest, UnregisterControllerResponse};

pub use kafka_wire::{
    AddOffsetsToTxnRequest, AddOffsetsToTxnResponse, AddPartitionsToTxnRequest, AddPartitionsToTxnResponse,
    AddRaftVoterRequest, AddRaftVoterResponse, AlterClientQuotasRequest, AlterClientQuotasResponse,
    AlterConfigsRequest, AlterConfigsResponse, AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse, AlterReplicaLogDirsRequest, AlterReplicaLogDirsResponse,
    AlterShareGroupOffsetsRequest, AlterShareGroupOffsetsResponse, AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse, ApiVersionsRequest, ApiVersionsResponse, ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse, ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse,
    CreateAclsRequest, CreateAclsResponse, CreateDelegationTokenRequest, CreateDelegationTokenResponse,
    CreatePartitionsRequest, CreatePartitionsResponse, CreateTopicsRequest, CreateTopicsResponse,
    DeleteAclsRequest, DeleteAclsResponse, DeleteGroupsRequest, DeleteGroupsResponse, DeleteRecordsRequest,
    DeleteRecordsResponse, DeleteShareGroupOffsetsRequest, DeleteShareGroupOffsetsResponse,
    DeleteShareGroupStateRequest, DeleteShareGroupStateResponse, DeleteTopicsRequest, DeleteTopicsResponse,
    DescribeAclsRequest, DescribeAclsResponse, DescribeClientQuotasRequest, DescribeClientQuotasResponse,
    DescribeClusterRequest, DescribeClusterResponse, DescribeConfigsRequest, DescribeConfigsResponse,
    DescribeDelegationTokenRequest, DescribeDelegationTokenResponse, DescribeGroupsRequest,
    DescribeGroupsResponse, DescribeLogDirsRequest, DescribeLogDirsResponse, DescribeProducersRequest,
    DescribeProducersResponse, DescribeQuorumRequest, DescribeQuorumResponse,
    DescribeShareGroupOffsetsRequest, DescribeShareGroupOffsetsResponse, DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse, DescribeTransactionsRequest, DescribeTransactionsResponse,
    DescribeUserScramCredentialsRequest, DescribeUserScramCredentialsResponse, ElectLeadersRequest,
    ElectLeadersResponse, EndTxnRequest, EndTxnResponse, ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse, FetchRequest, FetchResponse, FindCoordinatorRequest,
    FindCoordinatorResponse, GetTelemetrySubscriptionsRequest, GetTelemetrySubscriptionsResponse,
    HeartbeatRequest, HeartbeatResponse, IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse,
    InitProducerIdRequest, InitProducerIdResponse, InitializeShareGroupStateRequest,
    InitializeShareGroupStateResponse, JoinGroupRequest, JoinGroupResponse, LeaveGroupRequest,
    LeaveGroupResponse, ListConfigResourcesRequest, ListConfigResourcesResponse, ListGroupsRequest,
    ListGroupsResponse, ListOffsetsRequest, ListOffsetsResponse, ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse, ListTransactionsRequest, ListTransactionsResponse, MetadataRequest,
    MetadataResponse, OffsetCommitRequest, OffsetCommitResponse, OffsetDeleteRequest, OffsetDeleteResponse,
    OffsetFetchRequest, OffsetFetchResponse, OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse,
    ProduceRequest, ProduceResponse, PushTelemetryRequest, PushTelemetryResponse, ReadShareGroupStateRequest,
    ReadShareGroupStateResponse, ReadShareGroupStateSummaryRequest, ReadShareGroupStateSummaryResponse,
    RemoveRaftVoterRequest, RemoveRaftVoterResponse, RenewDelegationTokenRequest,
    RenewDelegationTokenResponse, SaslAuthenticateRequest, SaslAuthenticateResponse, SaslHandshakeRequest,
    SaslHandshakeResponse, ShareAcknowledgeRequest, ShareAcknowledgeResponse, ShareFetchRequest,
    ShareFetchResponse, ShareGroupDescribeRequest, ShareGroupDescribeResponse, ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse, StreamsGroupHeartbeatRequest, StreamsGroupHeartbeatResponse,
    StreamsGroupTopologyDescriptionUpdateRequest, StreamsGroupTopologyDescriptionUpdateResponse,
    SyncGroupRequest, SyncGroupResponse, TxnOffsetCommitRequest, TxnOffsetCommitResponse,
    UnregisterBrokerRequest, UnregisterBrokerResponse, UpdateFeaturesRequest, UpdateFeaturesResponse,
    WriteShareGroupStateRequest, WriteShareGroupStateResponse, WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
};
/// Requests to a controller. `AlterPartition`, `BrokerRegistration` and their kin are never served
/// by a broker.
pub use kafka_wire::{
    AllocateProducerIdsRequest, AllocateProducerIdsResponse, AlterPartitionRequest, AlterPartitionResponse,
    AssignReplicasToDirsRequest, AssignReplicasToDirsResponse, BrokerHeartbeatRequest,
    BrokerHeartbeatResponse, BrokerRegistrationRequest, BrokerRegistrationResponse, EnvelopeRequest,
    EnvelopeResponse, FetchSnapshotRequest, FetchSnapshotResponse, alter_partition_request,
    alter_partition_response, assign_replicas_to_dirs_request, assign_replicas_to_dirs_response,
    broker_registration_request, fetch_snapshot_request, fetch_snapshot_response,
};
pub use kafka_wire::{
    ConsumerProtocolAssignment, ConsumerProtocolSubscription, KafkaMessage, KafkaRequest, KafkaResponse,
    RequestResponsePair, consumer_protocol_assignment, consumer_protocol_subscription,
    decode_consumer_protocol_assignment, decode_consumer_protocol_subscription,
    encode_consumer_protocol_assignment, encode_consumer_protocol_subscription,
};
pub use kafka_wire::{
    add_offsets_to_txn_request, add_offsets_to_txn_response, add_partitions_to_txn_request,
    add_partitions_to_txn_response, add_raft_voter_request, add_raft_voter_response,
    alter_client_quotas_request, alter_client_quotas_response, alter_configs_request, alter_configs_response,
    alter_partition_reassignments_request, alter_partition_reassignments_response,
    alter_replica_log_dirs_request, alter_replica_log_dirs_response, alter_share_group_offsets_request,
    alter_share_group_offsets_response, alter_user_scram_credentials_request,
    alter_user_scram_credentials_response, api_versions_request, api_versions_response,
    consumer_group_describe_request, consumer_group_describe_response, consumer_group_heartbeat_request,
    consumer_group_heartbeat_response, create_acls_request, create_acls_response,
    create_delegation_token_request, create_delegation_token_response, create_partitions_request,
    create_partitions_response, create_topics_request, create_topics_response, delete_acls_request,
    delete_acls_response, delete_groups_request, delete_groups_response, delete_records_request,
    delete_records_response, delete_share_group_offsets_request, delete_share_group_offsets_response,
    delete_share_group_state_request, delete_share_group_state_response, delete_topics_request,
    delete_topics_response, describe_acls_request, describe_acls_response, describe_client_quotas_request,
    describe_client_quotas_response, describe_cluster_request, describe_cluster_response,
    describe_configs_request, describe_configs_response, describe_delegation_token_request,
    describe_delegation_token_response, describe_groups_request, describe_groups_response,
    describe_log_dirs_request, describe_log_dirs_response, describe_producers_request,
    describe_producers_response, describe_quorum_request, describe_quorum_response,
    describe_share_group_offsets_request, describe_share_group_offsets_response,
    describe_topic_partitions_request, describe_topic_partitions_response, describe_transactions_request,
    describe_transactions_response, describe_user_scram_credentials_request,
    describe_user_scram_credentials_response, elect_leaders_request, elect_leaders_response, end_txn_request,
    end_txn_response, expire_delegation_token_request, expire_delegation_token_response, fetch_request,
    fetch_response, find_coordinator_request, find_coordinator_response, heartbeat_request,
    heartbeat_response, incremental_alter_configs_request, incremental_alter_configs_response,
    init_producer_id_request, init_producer_id_response, initialize_share_group_state_request,
    initialize_share_group_state_response, join_group_request, join_group_response, leave_group_request,
    leave_group_response, list_config_resources_request, list_config_resources_response, list_groups_request,
    list_groups_response, list_offsets_request, list_offsets_response, list_partition_reassignments_request,
    list_partition_reassignments_response, list_transactions_request, list_transactions_response,
    metadata_request, metadata_response, offset_commit_request, offset_commit_response,
    offset_delete_request, offset_delete_response, offset_fetch_request, offset_fetch_response,
    offset_for_leader_epoch_request, offset_for_leader_epoch_response, produce_request, produce_response,
    read_share_group_state_request, read_share_group_state_response, read_share_group_state_summary_request,
    read_share_group_state_summary_response, remove_raft_voter_request, remove_raft_voter_response,
    renew_delegation_token_request, renew_delegation_token_response, sasl_authenticate_request,
    sasl_authenticate_response, sasl_handshake_request, sasl_handshake_response, share_acknowledge_request,
    share_acknowledge_response, share_fetch_request, share_fetch_response, share_group_describe_request,
    share_group_describe_response, share_group_heartbeat_request, share_group_heartbeat_response,
    streams_group_heartbeat_request, streams_group_heartbeat_response, sync_group_request,
    sync_group_response, txn_offset_commit_request, txn_offset_commit_response, unregister_broker_request,
    unregister_broker_response, update_features_request, update_features_response,
    write_share_group_state_request, write_share_group_state_response, write_txn_markers_request,
    write_txn_markers_response,
};
pub use kafka_wire_core::{
    ApiVersion, DecodeLimits, Decoder, Encoder, KafkaDecode, KafkaEncode, StrBytes, TaggedField,
    TaggedFields, Uuid,
};

/// Checks the version of a message that the codec does not have.
fn check_decoded<M: KafkaMessage>(version: ApiVersion) -> Result<(), kafka_wire_core::DecodeError> {
    if M::supports(version) {
        return Ok(());
    }
    let (message, supported) = (M::NAME, M::SUPPORTED_VERSIONS);
    Err(kafka_wire_core::DecodeError::UnsupportedVersion { message, version, supported })
}

/// Checks the version of a message that is to be encoded.
fn check_encoded<M: KafkaMessage>(version: ApiVersion) -> Result<(), kafka_wire_core::EncodeError> {
    if M::supports(version) {
        return Ok(());
    }
    let (message, supported) = (M::NAME, M::SUPPORTED_VERSIONS);
    Err(kafka_wire_core::EncodeError::UnsupportedVersion { message, version, supported })
}
