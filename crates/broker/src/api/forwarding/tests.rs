//! Tests of `forwarding`: refusals of requests that no controller has answered.

use std::fmt::Debug;

use levada_wire::messages::alter_client_quotas_request::{EntityData, EntryData};
use levada_wire::messages::alter_partition_reassignments_request::{
    ReassignablePartition, ReassignableTopic,
};
use levada_wire::messages::alter_user_scram_credentials_request::{
    ScramCredentialDeletion, ScramCredentialUpsertion,
};
use levada_wire::messages::create_acls_request::AclCreation;
use levada_wire::messages::create_partitions_request::CreatePartitionsTopic;
use levada_wire::messages::create_topics_request::CreatableTopic;
use levada_wire::messages::delete_acls_request::DeleteAclsFilter;
use levada_wire::messages::delete_topics_request::DeleteTopicState;
use levada_wire::messages::elect_leaders_request::TopicPartitions;
use levada_wire::messages::*;

use super::*;

/// A request of each version with one entry is refused by a response that the version can carry,
/// and that tells the error.
#[track_caller]
fn check<R: Refusable + Clone + Debug>(api: ApiKey, request: impl Fn(i16) -> R) {
    assert!(depends_on_controller(api));
    let has_timeout = format!("{:?}", request(0)).contains(" timeout_ms: ");
    assert_eq!(R::TIMEOUT_MS.is_some(), has_timeout, "{api}");
    for version in api.versions() {
        let refused = request(version).refuse(version, &failure(ErrorCode::RequestTimedOut));
        let frame = levada_wire::encode_response(7, version, &refused);
        let frame = frame.unwrap_or_else(|error| panic!("{api} {version}: {error}"));
        let (_, decoded) = levada_wire::decode_response::<R::Answer>(frame.slice(4..), version).unwrap();
        let mut codes = Vec::new();
        decoded.each(|code| codes.push(code));
        assert!(!codes.is_empty() && codes.iter().all(|code| *code == 7), "{api} {version}: {codes:?}");
    }
}

#[test]
fn every_forwarded_version_can_carry_a_refusal() {
    check(ApiKey::CreateTopics, |_| {
        let topic = message!(CreatableTopic { name: "a".into() });
        message!(CreateTopicsRequest { topics: vec![topic] })
    });
    check(ApiKey::DeleteTopics, |version| {
        if version < 6 {
            return message!(DeleteTopicsRequest { topic_names: vec!["a".into()] });
        }
        let topic = message!(DeleteTopicState { name: Some("a".into()) });
        message!(DeleteTopicsRequest { topics: vec![topic] })
    });
    check(ApiKey::CreateAcls, |_| message!(CreateAclsRequest { creations: vec![AclCreation::default()] }));
    check(ApiKey::DeleteAcls, |_| message!(DeleteAclsRequest { filters: vec![DeleteAclsFilter::default()] }));
    check(ApiKey::CreatePartitions, |_| {
        message!(CreatePartitionsRequest { topics: vec![CreatePartitionsTopic::default()] })
    });
    check(ApiKey::ElectLeaders, |_| {
        let partitions = message!(TopicPartitions { topic: "a".into(), partitions: vec![0] });
        message!(ElectLeadersRequest { topic_partitions: Some(vec![partitions]) })
    });
    check(ApiKey::AlterPartitionReassignments, |_| {
        let topic = message!(ReassignableTopic {
            name: "a".into(),
            partitions: vec![ReassignablePartition::default()]
        });
        message!(AlterPartitionReassignmentsRequest { topics: vec![topic] })
    });
    check(ApiKey::ListPartitionReassignments, |_| ListPartitionReassignmentsRequest::default());
    check(ApiKey::AlterClientQuotas, |_| {
        let part = message!(EntityData { entity_type: "user".into() });
        message!(AlterClientQuotasRequest { entries: vec![message!(EntryData { entity: vec![part] })] })
    });
    check(ApiKey::AlterUserScramCredentials, |_| {
        let (gone, set) =
            (message!(ScramCredentialDeletion { name: "a".into() }), ScramCredentialUpsertion::default());
        message!(AlterUserScramCredentialsRequest { deletions: vec![gone], upsertions: vec![set] })
    });
    check(ApiKey::CreateDelegationToken, |_| CreateDelegationTokenRequest::default());
    check(ApiKey::RenewDelegationToken, |_| RenewDelegationTokenRequest::default());
    check(ApiKey::ExpireDelegationToken, |_| ExpireDelegationTokenRequest::default());
    check(ApiKey::DescribeQuorum, |_| DescribeQuorumRequest::default());
    check(ApiKey::UpdateFeatures, |_| UpdateFeaturesRequest::default());
    check(ApiKey::UnregisterBroker, |_| UnregisterBrokerRequest::default());
    check(ApiKey::AddRaftVoter, |_| AddRaftVoterRequest::default());
    check(ApiKey::RemoveRaftVoter, |_| RemoveRaftVoterRequest::default());
    check(ApiKey::UnregisterController, |_| UnregisterControllerRequest::default());
}

#[test]
fn timeouts_of_small_requests_are_read() {
    let body = |version, topics| {
        let topic = message!(CreatableTopic { name: "a".into(), num_partitions: 1, replication_factor: 1 });
        let request = message!(CreateTopicsRequest { topics: vec![topic; topics], timeout_ms: 5_000 });
        let frame = levada_wire::encode_request(7, None, version, &request).unwrap();
        let mut frame = BytesMut::from(&frame[SIZE_BYTES..]);
        levada_wire::RequestHeader::decode(&mut frame).unwrap();
        frame.freeze()
    };
    for version in ApiKey::CreateTopics.versions() {
        assert_eq!(timeout_ms(ApiKey::CreateTopics, version, &body(version, 1)), Some(5_000), "{version}");
    }
    let large = body(7, LARGE_BYTES);
    assert_eq!(timeout_ms(ApiKey::CreateTopics, 7, &large), None);
    assert_eq!(timeout_ms(ApiKey::CreateTopics, 7, &large.slice(..9)), None, "malformed");
    assert_eq!(timeout_ms(ApiKey::AlterClientQuotas, 1, &body(7, 1)), None, "the API has no timeout");
}

#[test]
fn requests_with_local_checks_are_decoded_before_forwarding() {
    for api in [
        ApiKey::AlterConfigs,
        ApiKey::IncrementalAlterConfigs,
        ApiKey::CreateDelegationToken,
        ApiKey::RenewDelegationToken,
        ApiKey::ExpireDelegationToken,
    ] {
        assert!(!is_forwarded(api) && depends_on_controller(api), "{api}");
    }
    for api in
        [ApiKey::Metadata, ApiKey::DescribeConfigs, ApiKey::DescribeCluster, ApiKey::DescribeDelegationToken]
    {
        assert!(!is_forwarded(api) && !depends_on_controller(api), "{api}");
    }
}
