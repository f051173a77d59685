//! Refusals of forwarded requests to which no controller has responded: each entry gets the same
//! error, as in Kafka.
//!
//! Catalogue: one function for each forwarded API.

use levada_security::Session;
use levada_wire::error_code::Failure;
use levada_wire::messages::alter_client_quotas_response::{EntityData, EntryData};
use levada_wire::messages::alter_partition_reassignments_response::{
    ReassignablePartitionResponse, ReassignableTopicResponse,
};
use levada_wire::messages::alter_user_scram_credentials_response::AlterUserScramCredentialsResult;
use levada_wire::messages::create_acls_response::AclCreationResult;
use levada_wire::messages::create_partitions_response::CreatePartitionsTopicResult;
use levada_wire::messages::create_topics_response::CreatableTopicResult;
use levada_wire::messages::delete_acls_response::DeleteAclsFilterResult;
use levada_wire::messages::delete_topics_response::DeletableTopicResult;
use levada_wire::messages::elect_leaders_response::{PartitionResult, ReplicaElectionResult};
use levada_wire::messages::*;

use crate::api::forwarding::Refusable;
use crate::api::tokens::Principal;
use crate::api::{k38_create_delegation_token, text};

/// First version in which the response to ElectLeaders has an error for all partitions.
const ELECTION_ERROR_VERSION_MIN: i16 = 1;

/// The code and the sentence of an entry.
fn told(failure: &Failure) -> (i16, Option<StrBytes>) {
    (failure.code.code(), failure.message.clone().map(text))
}

/// APIs whose response has one error for the whole request.
macro_rules! whole {
    ($($request:ident => $answer:ident $(by $timeout_ms:ident)?,)*) => {
        $(impl Refusable for $request {
            type Answer = $answer;

            $(const TIMEOUT_MS: Option<fn(&Self) -> i32> = Some(|request| request.$timeout_ms);)?

            fn refuse(self, _: i16, failure: &Failure) -> $answer {
                let (code, sentence) = told(failure);
                message!($answer { error_code: code, error_message: sentence })
            }
        })*
    };
}

whole! {
    ListPartitionReassignmentsRequest => ListPartitionReassignmentsResponse by timeout_ms,
    DescribeQuorumRequest => DescribeQuorumResponse,
    UpdateFeaturesRequest => UpdateFeaturesResponse by timeout_ms,
    UnregisterBrokerRequest => UnregisterBrokerResponse,
    AddRaftVoterRequest => AddRaftVoterResponse by timeout_ms,
    RemoveRaftVoterRequest => RemoveRaftVoterResponse,
    UnregisterControllerRequest => UnregisterControllerResponse,
}

impl Refusable for CreateTopicsRequest {
    type Answer = CreateTopicsResponse;

    const TIMEOUT_MS: Option<fn(&Self) -> i32> = Some(|request| request.timeout_ms);

    fn refuse(self, _: i16, failure: &Failure) -> CreateTopicsResponse {
        let (code, sentence) = told(failure);
        let topics = self.topics.into_iter().map(|topic| {
            message!(CreatableTopicResult {
                name: topic.name,
                error_code: code,
                error_message: sentence.clone(),
            })
        });
        message!(CreateTopicsResponse { topics: topics.collect() })
    }
}

impl Refusable for DeleteTopicsRequest {
    type Answer = DeleteTopicsResponse;

    const TIMEOUT_MS: Option<fn(&Self) -> i32> = Some(|request| request.timeout_ms);

    fn refuse(self, _: i16, failure: &Failure) -> DeleteTopicsResponse {
        let (code, sentence) = told(failure);
        let result = |name, topic_id| {
            message!(DeletableTopicResult {
                name: name,
                topic_id: topic_id,
                error_code: code,
                error_message: sentence.clone(),
            })
        };
        let named = self.topic_names.into_iter().map(|name| result(Some(name), levada_wire::Uuid::ZERO));
        let topics = self.topics.into_iter().map(|topic| result(topic.name, topic.topic_id));
        message!(DeleteTopicsResponse { responses: named.chain(topics).collect() })
    }
}

impl Refusable for CreateAclsRequest {
    type Answer = CreateAclsResponse;

    fn refuse(self, _: i16, failure: &Failure) -> CreateAclsResponse {
        let (code, sentence) = told(failure);
        let refused = message!(AclCreationResult { error_code: code, error_message: sentence });
        message!(CreateAclsResponse { results: vec![refused; self.creations.len()] })
    }
}

impl Refusable for DeleteAclsRequest {
    type Answer = DeleteAclsResponse;

    fn refuse(self, _: i16, failure: &Failure) -> DeleteAclsResponse {
        let (code, sentence) = told(failure);
        let refused = message!(DeleteAclsFilterResult { error_code: code, error_message: sentence });
        message!(DeleteAclsResponse { filter_results: vec![refused; self.filters.len()] })
    }
}

impl Refusable for CreatePartitionsRequest {
    type Answer = CreatePartitionsResponse;

    const TIMEOUT_MS: Option<fn(&Self) -> i32> = Some(|request| request.timeout_ms);

    fn refuse(self, _: i16, failure: &Failure) -> CreatePartitionsResponse {
        let (code, sentence) = told(failure);
        let results = self.topics.into_iter().map(|topic| {
            message!(CreatePartitionsTopicResult {
                name: topic.name,
                error_code: code,
                error_message: sentence.clone(),
            })
        });
        message!(CreatePartitionsResponse { results: results.collect() })
    }
}

impl Refusable for ElectLeadersRequest {
    type Answer = ElectLeadersResponse;

    const TIMEOUT_MS: Option<fn(&Self) -> i32> = Some(|request| request.timeout_ms);

    fn refuse(self, version: i16, failure: &Failure) -> ElectLeadersResponse {
        let (code, sentence) = told(failure);
        let results = self.topic_partitions.unwrap_or_default().into_iter().map(|asked| {
            let partitions = asked.partitions.iter().map(|index| {
                message!(PartitionResult {
                    partition_id: *index,
                    error_code: code,
                    error_message: sentence.clone(),
                })
            });
            let partitions = partitions.collect();
            message!(ReplicaElectionResult { topic: asked.topic, partition_result: partitions })
        });
        let mut response = message!(ElectLeadersResponse { replica_election_results: results.collect() });
        if version >= ELECTION_ERROR_VERSION_MIN {
            response.error_code = code;
        }
        response
    }
}

impl Refusable for AlterPartitionReassignmentsRequest {
    type Answer = AlterPartitionReassignmentsResponse;

    const TIMEOUT_MS: Option<fn(&Self) -> i32> = Some(|request| request.timeout_ms);

    fn refuse(self, _: i16, failure: &Failure) -> AlterPartitionReassignmentsResponse {
        let (code, sentence) = told(failure);
        let topics = self.topics.into_iter().map(|topic| {
            let partitions = topic.partitions.iter().map(|asked| {
                message!(ReassignablePartitionResponse {
                    partition_index: asked.partition_index,
                    error_code: code,
                    error_message: sentence.clone(),
                })
            });
            let partitions = partitions.collect();
            message!(ReassignableTopicResponse { name: topic.name, partitions: partitions })
        });
        message!(AlterPartitionReassignmentsResponse {
            error_code: code,
            error_message: sentence.clone(),
            responses: topics.collect(),
        })
    }
}

impl Refusable for CreateDelegationTokenRequest {
    type Answer = CreateDelegationTokenResponse;

    fn refuse(self, version: i16, failure: &Failure) -> CreateDelegationTokenResponse {
        let nobody = || Principal::user(Session::ANONYMOUS);
        let error = (failure.code, k38_create_delegation_token::NO_TIME);
        k38_create_delegation_token::refused(version, error, (nobody(), nobody()))
    }
}

impl Refusable for RenewDelegationTokenRequest {
    type Answer = RenewDelegationTokenResponse;

    fn refuse(self, _: i16, failure: &Failure) -> RenewDelegationTokenResponse {
        message!(RenewDelegationTokenResponse { error_code: failure.code.code() })
    }
}

impl Refusable for ExpireDelegationTokenRequest {
    type Answer = ExpireDelegationTokenResponse;

    fn refuse(self, _: i16, failure: &Failure) -> ExpireDelegationTokenResponse {
        message!(ExpireDelegationTokenResponse { error_code: failure.code.code() })
    }
}

impl Refusable for AlterClientQuotasRequest {
    type Answer = AlterClientQuotasResponse;

    fn refuse(self, _: i16, failure: &Failure) -> AlterClientQuotasResponse {
        let (code, sentence) = told(failure);
        let entries = self.entries.into_iter().map(|entry| {
            let entity = entry.entity.into_iter().map(|part| {
                message!(EntityData { entity_type: part.entity_type, entity_name: part.entity_name })
            });
            message!(EntryData {
                entity: entity.collect(),
                error_code: code,
                error_message: sentence.clone(),
            })
        });
        message!(AlterClientQuotasResponse { entries: entries.collect() })
    }
}

impl Refusable for AlterUserScramCredentialsRequest {
    type Answer = AlterUserScramCredentialsResponse;

    fn refuse(self, _: i16, failure: &Failure) -> AlterUserScramCredentialsResponse {
        let (code, sentence) = told(failure);
        let users = self.deletions.into_iter().map(|one| one.name);
        let mut users: Vec<StrBytes> = users.chain(self.upsertions.into_iter().map(|one| one.name)).collect();
        users.sort_unstable();
        users.dedup();
        let results = users.into_iter().map(|user| {
            message!(AlterUserScramCredentialsResult {
                user: user,
                error_code: code,
                error_message: sentence.clone(),
            })
        });
        message!(AlterUserScramCredentialsResponse { results: results.collect() })
    }
}
