//! Every message in every version: what the codec crate encodes becomes JSON and the same bytes
//! again, which neither an error in the table nor one in the code would survive.

use kafka_wire::*;
use kafka_wire_core::{ApiVersion, KafkaEncode};
use serde_json::json;

use super::*;
use crate::messages::{KafkaMessage, UnregisterControllerRequest, UnregisterControllerResponse};
use crate::samples::samples;

fn check<M: KafkaMessage>(layout: &Layout) {
    let (versions, flexible) = (M::SUPPORTED_VERSIONS, M::FLEXIBLE_VERSIONS);
    // The codec crate is of a later Kafka, some of whose requests have one version more.
    let (least, most) = (layout.versions.min, layout.versions.max);
    assert_eq!(least, versions.min().value(), "{}", M::NAME);
    assert!(most <= versions.max().value(), "{}", M::NAME);
    assert_eq!(flexible.map(|range| range.min().value()), first_flexible(layout), "{}", M::NAME);
    for version in least..=most {
        let found = samples::<M>(version, 4);
        assert!(!found.is_empty(), "no samples of {} {version}", M::NAME);
        for (message, _) in found {
            let bytes = message.encode_to_bytes(ApiVersion::new(version)).unwrap();
            let value = read::body(layout, version, &bytes);
            let value = value.unwrap_or_else(|error| panic!("{} {version}: {error}", M::NAME));
            let text = serde_json::to_string(&value).unwrap();
            let again = write::body(layout, version, &serde_json::from_str(&text).unwrap());
            let again = again.unwrap_or_else(|error| panic!("{} {version}: {error} in {text}", M::NAME));
            // NaN has no form in JSON.
            if !text.contains("\"Values\":") && !text.contains("\"Ops\":") {
                assert_eq!(again, bytes, "{} {version}: {text}", M::NAME);
            }
        }
    }
}

fn first_flexible(layout: &Layout) -> Option<i16> {
    let Layout { versions, flexible, .. } = layout;
    Some(flexible.min.max(versions.min)).filter(|first| flexible.contains(*first))
}

macro_rules! same_bytes {
    ($($name:ident $request:ident $response:ident;)*) => {
        $(#[test]
        fn $name() {
            let api = JsonApi::named(stringify!($request).trim_end_matches("Request")).expect("a layout");
            assert_eq!(api.request.key, api.response.key);
            check::<$request>(&api.request);
            check::<$response>(&api.response);
        })*

        #[test]
        fn every_layout_is_checked() {
            let checked = [$(stringify!($request)),*];
            let names: Vec<_> = JsonApi::all().iter().map(|api| format!("{}Request", api.name())).collect();
            assert_eq!(names, checked);
        }
    };
}

same_bytes! {
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
    alter_replica_log_dirs AlterReplicaLogDirsRequest AlterReplicaLogDirsResponse;
    describe_log_dirs DescribeLogDirsRequest DescribeLogDirsResponse;
    sasl_authenticate SaslAuthenticateRequest SaslAuthenticateResponse;
    create_partitions CreatePartitionsRequest CreatePartitionsResponse;
    create_delegation_token CreateDelegationTokenRequest CreateDelegationTokenResponse;
    renew_delegation_token RenewDelegationTokenRequest RenewDelegationTokenResponse;
    expire_delegation_token ExpireDelegationTokenRequest ExpireDelegationTokenResponse;
    describe_delegation_token DescribeDelegationTokenRequest DescribeDelegationTokenResponse;
    delete_groups DeleteGroupsRequest DeleteGroupsResponse;
    elect_leaders ElectLeadersRequest ElectLeadersResponse;
    incremental_alter_configs IncrementalAlterConfigsRequest IncrementalAlterConfigsResponse;
    alter_partition_reassignments AlterPartitionReassignmentsRequest AlterPartitionReassignmentsResponse;
    list_partition_reassignments ListPartitionReassignmentsRequest ListPartitionReassignmentsResponse;
    offset_delete OffsetDeleteRequest OffsetDeleteResponse;
    describe_client_quotas DescribeClientQuotasRequest DescribeClientQuotasResponse;
    alter_client_quotas AlterClientQuotasRequest AlterClientQuotasResponse;
    describe_user_scram_credentials DescribeUserScramCredentialsRequest DescribeUserScramCredentialsResponse;
    alter_user_scram_credentials AlterUserScramCredentialsRequest AlterUserScramCredentialsResponse;
    vote VoteRequest VoteResponse;
    begin_quorum_epoch BeginQuorumEpochRequest BeginQuorumEpochResponse;
    end_quorum_epoch EndQuorumEpochRequest EndQuorumEpochResponse;
    describe_quorum DescribeQuorumRequest DescribeQuorumResponse;
    alter_partition AlterPartitionRequest AlterPartitionResponse;
    update_features UpdateFeaturesRequest UpdateFeaturesResponse;
    envelope EnvelopeRequest EnvelopeResponse;
    fetch_snapshot FetchSnapshotRequest FetchSnapshotResponse;
    describe_cluster DescribeClusterRequest DescribeClusterResponse;
    describe_producers DescribeProducersRequest DescribeProducersResponse;
    broker_registration BrokerRegistrationRequest BrokerRegistrationResponse;
    broker_heartbeat BrokerHeartbeatRequest BrokerHeartbeatResponse;
    unregister_broker UnregisterBrokerRequest UnregisterBrokerResponse;
    describe_transactions DescribeTransactionsRequest DescribeTransactionsResponse;
    list_transactions ListTransactionsRequest ListTransactionsResponse;
    allocate_producer_ids AllocateProducerIdsRequest AllocateProducerIdsResponse;
    consumer_group_heartbeat ConsumerGroupHeartbeatRequest ConsumerGroupHeartbeatResponse;
    consumer_group_describe ConsumerGroupDescribeRequest ConsumerGroupDescribeResponse;
    controller_registration ControllerRegistrationRequest ControllerRegistrationResponse;
    get_telemetry_subscriptions GetTelemetrySubscriptionsRequest GetTelemetrySubscriptionsResponse;
    push_telemetry PushTelemetryRequest PushTelemetryResponse;
    assign_replicas_to_dirs AssignReplicasToDirsRequest AssignReplicasToDirsResponse;
    list_config_resources ListConfigResourcesRequest ListConfigResourcesResponse;
    describe_topic_partitions DescribeTopicPartitionsRequest DescribeTopicPartitionsResponse;
    share_group_heartbeat ShareGroupHeartbeatRequest ShareGroupHeartbeatResponse;
    share_group_describe ShareGroupDescribeRequest ShareGroupDescribeResponse;
    share_fetch ShareFetchRequest ShareFetchResponse;
    share_acknowledge ShareAcknowledgeRequest ShareAcknowledgeResponse;
    add_raft_voter AddRaftVoterRequest AddRaftVoterResponse;
    remove_raft_voter RemoveRaftVoterRequest RemoveRaftVoterResponse;
    update_raft_voter UpdateRaftVoterRequest UpdateRaftVoterResponse;
    initialize_share_group_state InitializeShareGroupStateRequest InitializeShareGroupStateResponse;
    read_share_group_state ReadShareGroupStateRequest ReadShareGroupStateResponse;
    write_share_group_state WriteShareGroupStateRequest WriteShareGroupStateResponse;
    delete_share_group_state DeleteShareGroupStateRequest DeleteShareGroupStateResponse;
    read_share_group_state_summary ReadShareGroupStateSummaryRequest ReadShareGroupStateSummaryResponse;
    streams_group_heartbeat StreamsGroupHeartbeatRequest StreamsGroupHeartbeatResponse;
    streams_group_describe StreamsGroupDescribeRequest StreamsGroupDescribeResponse;
    describe_share_group_offsets DescribeShareGroupOffsetsRequest DescribeShareGroupOffsetsResponse;
    alter_share_group_offsets AlterShareGroupOffsetsRequest AlterShareGroupOffsetsResponse;
    delete_share_group_offsets DeleteShareGroupOffsetsRequest DeleteShareGroupOffsetsResponse;
    streams_group_topology_description_update StreamsGroupTopologyDescriptionUpdateRequest
        StreamsGroupTopologyDescriptionUpdateResponse;
    unregister_controller UnregisterControllerRequest UnregisterControllerResponse;
}

#[test]
fn json_request_encodes_like_the_codec() {
    let api = JsonApi::named("metadata").unwrap();
    for version in [0, 8, 9, 13] {
        let mut request = MetadataRequest::default();
        request.topics = if version == 0 { Some(Vec::new()) } else { None };
        let topics = if version == 0 { json!([]) } else { json!(null) };
        let frame = api.encode(version, (7, "me"), &json!({ "topics": topics })).unwrap();
        assert_eq!(frame, crate::encode_request(7, Some("me"), version, &request).unwrap(), "{version}");
    }
}

#[test]
fn json_null_strings_encode_like_the_codec() {
    let api = JsonApi::named("InitProducerId").unwrap();
    // The first flexible version is 2.
    for version in [1, 2] {
        let mut request = InitProducerIdRequest::default();
        request.transactional_id = None;
        let frame = api.encode(version, (7, "me"), &json!({ "TransactionalId": null })).unwrap();
        assert_eq!(frame, crate::encode_request(7, Some("me"), version, &request).unwrap(), "{version}");
    }
}

/// The samples have short texts, whose lengths are varints of one byte.
#[test]
fn long_json_texts_round_trip() {
    let layout = &JsonApi::named("Heartbeat").unwrap().request;
    for len in [126, 127, 128, 255, 16_382, 16_383, 16_384] {
        let mut request = HeartbeatRequest::default();
        request.group_id = "g".repeat(len).as_str().into();
        let bytes = request.encode_to_bytes(ApiVersion::new(4)).unwrap();
        let value = read::body(layout, 4, &bytes).unwrap();
        assert_eq!(value["GroupId"].as_str().map(str::len), Some(len));
        assert_eq!(write::body(layout, 4, &value).unwrap(), bytes, "{len}");
    }
}

#[test]
fn json_type_errors_name_the_field() {
    fn check(name: &str, version: i16, request: &Value, expected: &str) {
        let error = JsonApi::named(name).unwrap().encode(version, (1, ""), request).unwrap_err();
        assert_eq!(error.to_string(), expected);
    }
    check("Metadata", 12, &json!([]), "Metadata: expected an object with fields");
    check(
        "Heartbeat",
        4,
        &json!({"Group": "g"}),
        "Heartbeat: no field Group in version 4; there are: GroupId, GenerationId, MemberId, GroupInstanceId",
    );
    check("Metadata", 0, &json!({"Topics": null}), "Metadata.Topics: must not be null");
    check(
        "Metadata",
        9,
        &json!({"Topics": [{"Name": "a", "TopicId": "x"}]}),
        "Metadata.Topics[0]: TopicId is in versions from 10 on, and this is 9",
    );
    check("Metadata", 12, &json!({"Topics": [{"Name": 5}]}), "Metadata.Topics[0].Name: expected a string");
    check("Fetch", 4, &json!({"MinBytes": 1e3}), "Fetch.MinBytes: expected a whole number");
    check(
        "Fetch",
        4,
        &json!({"IsolationLevel": 300}),
        "Fetch.IsolationLevel: 300 is out of the field's range",
    );
    check(
        "Metadata",
        13,
        &json!({"Topics": [{"TopicId": "x"}]}),
        "Metadata.Topics[0].TopicId: expected an id of 22 letters",
    );
}

#[test]
fn every_json_template_encodes() {
    for api in JsonApi::all() {
        for version in api.versions().0..=api.versions().1 {
            let template = api.template(version);
            let frame = api.encode(version, (1, "levada"), &template);
            assert!(frame.is_ok(), "{} {version}: {frame:?} of {template}", api.name());
        }
    }
}

#[test]
fn damaged_responses_never_panic_the_json_decoder() {
    let api = JsonApi::named("Metadata").unwrap();
    for (_, bytes) in samples::<MetadataResponse>(12, 4) {
        let frame = [&[0, 0, 0, 1, 0], &bytes[..]].concat();
        assert_eq!(api.decode(12, &frame).unwrap().0, 1);
        for at in 0..frame.len() {
            assert!(api.decode(12, &frame[..at]).is_err(), "cut at {at}");
            let mut flipped = frame.clone();
            flipped[at] ^= 0xff;
            let _ = api.decode(12, &flipped);
        }
    }
}

#[test]
fn claimed_lengths_reserve_nothing() {
    let api = JsonApi::named("Heartbeat").unwrap();
    assert!(api.decode(4, b"\0\0\0\x01\xff\xff\xff\xff\x0f").is_err());
    let api = JsonApi::named("ListGroups").unwrap();
    let claimed = b"\0\0\0\x01\0\0\x7f\xff\xff\xff";
    let error = api.decode(0, claimed).unwrap_err();
    assert_eq!(error.to_string(), "the response is malformed at byte 10: more than 262144 elements");
}
