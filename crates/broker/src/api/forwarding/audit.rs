//! The audit log's entries about requests that the controller of a cluster has decided: those that
//! a broker without a cluster writes when it decides them itself. The values before a change are
//! those of this broker's image; the new ones are the request's, because the image may not have
//! them yet.
//!
//! Catalogue: one function for each forwarded API with resources of its own.

use std::collections::{BTreeSet, HashMap};

use levada_metadata::image::QuotaEntity;
use levada_security::acl::{Acl, CLUSTER_NAME, Operation, PatternType, Permission, ResourceType};
use levada_wire::ApiKey;
use levada_wire::error_code::ErrorCode;
use levada_wire::messages::alter_client_quotas_response;
use levada_wire::messages::delete_acls_response::DeleteAclsMatchingAcl;
use levada_wire::messages::*;

use crate::api::Context;
use crate::api::changes::{Before, log_change};
use crate::api::forwarding::Refusable;
use crate::api::{k30_create_acls, k49_alter_client_quotas};

/// A request whose decided entries are written.
pub(super) trait Audited: Refusable {
    /// True if [`Audited::audit`] writes audit entries.
    const IS_AUDITED: bool = true;

    /// Writes the changes that the controller has made, and its refusals.
    fn audit(self, context: &Context, before: &Before, answer: &Self::Answer);
}

/// The operation on the cluster that all entries of a request need.
fn cluster_operation(api: ApiKey) -> Option<Operation> {
    match api {
        ApiKey::CreateAcls
        | ApiKey::DeleteAcls
        | ApiKey::ElectLeaders
        | ApiKey::AlterPartitionReassignments
        | ApiKey::AlterUserScramCredentials
        | ApiKey::UpdateFeatures
        | ApiKey::UnregisterBroker
        | ApiKey::AddRaftVoter
        | ApiKey::RemoveRaftVoter
        | ApiKey::UnregisterController => Some(Operation::Alter),
        ApiKey::AlterClientQuotas => Some(Operation::AlterConfigs),
        ApiKey::ListPartitionReassignments | ApiKey::DescribeQuorum => Some(Operation::Describe),
        _ => None,
    }
}

/// Writes the controller's decision about the right that all entries of the request need, if the
/// response contains it.
pub(super) fn audit_right(context: &Context, (is_done, is_refused): (bool, bool)) {
    if let Some(operation) = cluster_operation(context.header.api)
        && (is_done || is_refused)
    {
        context.audit_decision((operation, ResourceType::Cluster, CLUSTER_NAME), !is_refused);
    }
}

fn is_done(code: i16) -> bool {
    code == ErrorCode::None.code()
}

fn is_refused(code: i16) -> bool {
    code == ErrorCode::TopicAuthorizationFailed.code()
}

/// Requests without resources of their own.
macro_rules! whole {
    ($($request:ident,)*) => {
        $(impl Audited for $request {
            const IS_AUDITED: bool = false;

            fn audit(self, _: &Context, _: &Before, _: &Self::Answer) {}
        })*
    };
}

whole! {
    ListPartitionReassignmentsRequest,
    DescribeQuorumRequest,
    UpdateFeaturesRequest,
    UnregisterControllerRequest,
}

impl Audited for ElectLeadersRequest {
    fn audit(self, context: &Context, _: &Before, answer: &ElectLeadersResponse) {
        let unclean = self.election_type != 0;
        for topic in &answer.replica_election_results {
            for one in topic.partition_result.iter().filter(|one| is_done(one.error_code)) {
                let (topic, partition) = (topic.topic.as_str(), one.partition_id);
                log_change!(context, "leader elected on request", topic, partition, unclean,);
            }
        }
    }
}

impl Audited for AlterPartitionReassignmentsRequest {
    fn audit(self, context: &Context, _: &Before, answer: &AlterPartitionReassignmentsResponse) {
        let done = answer.responses.iter().flat_map(|topic| {
            let done = topic.partitions.iter().filter(|one| is_done(one.error_code));
            done.map(|one| (topic.name.as_str(), one.partition_index))
        });
        let done: BTreeSet<(&str, i32)> = done.collect();
        for topic in &self.topics {
            let topic_name = topic.name.as_str();
            for one in topic.partitions.iter().filter(|one| done.contains(&(topic_name, one.partition_index)))
            {
                let (topic, partition) = (topic_name, one.partition_index);
                match &one.replicas {
                    Some(replicas) => {
                        log_change!(context, "partition moves to replicas", topic, partition, ?replicas,);
                    }
                    None => log_change!(context, "move of a partition cancelled", topic, partition,),
                }
            }
        }
    }
}

impl Audited for UnregisterBrokerRequest {
    fn audit(self, context: &Context, _: &Before, answer: &UnregisterBrokerResponse) {
        if is_done(answer.error_code) {
            log_change!(context, "broker unregistered", broker_id = self.broker_id,);
        }
    }
}

impl Audited for AddRaftVoterRequest {
    fn audit(self, context: &Context, _: &Before, answer: &AddRaftVoterResponse) {
        if is_done(answer.error_code) {
            log_change!(context, "controller added", controller_id = self.voter_id,);
        }
    }
}

impl Audited for RemoveRaftVoterRequest {
    fn audit(self, context: &Context, _: &Before, answer: &RemoveRaftVoterResponse) {
        if is_done(answer.error_code) {
            log_change!(context, "controller removed", controller_id = self.voter_id,);
        }
    }
}

impl Audited for CreateTopicsRequest {
    fn audit(self, context: &Context, _: &Before, answer: &CreateTopicsResponse) {
        let all = context.might_cluster(Operation::Create);
        for topic in &answer.topics {
            let (name, is_refused) = (topic.name.as_str(), is_refused(topic.error_code));
            if is_refused || !all {
                context.audit_decision((Operation::Create, ResourceType::Topic, name), !is_refused);
            }
            if is_done(topic.error_code) && !self.validate_only {
                log_change!(context, "topic created", topic = name, partitions = topic.num_partitions,);
            }
        }
    }
}

impl Audited for DeleteTopicsRequest {
    fn audit(self, context: &Context, before: &Before, answer: &DeleteTopicsResponse) {
        let all = context.might_cluster(Operation::Delete);
        for topic in &answer.responses {
            let known = before.image().topic_by_id(topic.topic_id).map(|topic| topic.name().to_string());
            let Some(name) = topic.name.as_ref().map(|name| name.as_str().to_owned()).or(known) else {
                continue;
            };
            let is_refused = is_refused(topic.error_code);
            if (is_refused || !all) && context.may(Operation::Describe, ResourceType::Topic, &name) {
                context.audit_decision((Operation::Delete, ResourceType::Topic, &name), !is_refused);
            }
            if is_done(topic.error_code) {
                log_change!(context, "topic deleted", topic = name,);
            }
        }
    }
}

impl Audited for CreatePartitionsRequest {
    fn audit(self, context: &Context, _: &Before, answer: &CreatePartitionsResponse) {
        let counts: HashMap<&str, i32> =
            self.topics.iter().map(|topic| (topic.name.as_str(), topic.count)).collect();
        for topic in &answer.results {
            let name = topic.name.as_str();
            let is_refused = is_refused(topic.error_code);
            context.audit_decision((Operation::Alter, ResourceType::Topic, name), !is_refused);
            if is_done(topic.error_code) && !self.validate_only {
                let partitions = counts.get(name);
                log_change!(context, "partitions added", topic = name, partitions,);
            }
        }
    }
}

impl Audited for CreateAclsRequest {
    fn audit(self, context: &Context, before: &Before, answer: &CreateAclsResponse) {
        let known = before.image().acls().index();
        let created = self.creations.iter().zip(&answer.results);
        let created = created.filter(|(_, result)| is_done(result.error_code));
        let created = created.filter_map(|(creation, _)| k30_create_acls::check(creation).ok());
        let created: BTreeSet<Acl> = created.filter(|acl| !known.contains(acl)).collect();
        Before::acls(context, created.iter(), true);
    }
}

impl Audited for DeleteAclsRequest {
    fn audit(self, context: &Context, _: &Before, answer: &DeleteAclsResponse) {
        let deleted = answer.filter_results.iter().flat_map(|result| &result.matching_acls);
        let deleted = deleted.filter(|matching| is_done(matching.error_code));
        let deleted: Vec<Acl> = deleted.filter_map(acl).collect();
        Before::acls(context, deleted.iter(), false);
    }
}

/// The entry; none of a kind that this broker does not know.
fn acl(matching: &DeleteAclsMatchingAcl) -> Option<Acl> {
    Some(Acl {
        resource_type: ResourceType::from_code(matching.resource_type)?,
        resource_name: matching.resource_name.as_str().to_owned(),
        pattern_type: PatternType::from_code(matching.pattern_type)?,
        principal: matching.principal.as_str().to_owned(),
        host: matching.host.as_str().to_owned(),
        operation: Operation::from_code(matching.operation)?,
        permission: Permission::from_code(matching.permission_type)?,
    })
}

impl Audited for AlterClientQuotasRequest {
    fn audit(self, context: &Context, before: &Before, answer: &AlterClientQuotasResponse) {
        if self.validate_only {
            return;
        }
        let done: Vec<QuotaEntity> =
            answer.entries.iter().filter(|entry| is_done(entry.error_code)).map(entity).collect();
        for one in self.entries.into_iter().map(k49_alter_client_quotas::alteration) {
            if done.contains(&one.entity) {
                before.decided_quotas(context, &one);
            }
        }
    }
}

fn entity(entry: &alter_client_quotas_response::EntryData) -> QuotaEntity {
    let parts = entry.entity.iter().map(|part| {
        let name = part.entity_name.as_ref().map(|name| name.as_str().to_owned());
        (part.entity_type.as_str().to_owned(), name)
    });
    parts.collect()
}

impl Audited for AlterUserScramCredentialsRequest {
    fn audit(self, context: &Context, before: &Before, answer: &AlterUserScramCredentialsResponse) {
        let codes: HashMap<&str, i16> =
            answer.results.iter().map(|result| (result.user.as_str(), result.error_code)).collect();
        let removed = self.deletions.iter().map(|one| (one.name.as_str(), one.mechanism, false));
        let set = self.upsertions.iter().map(|one| (one.name.as_str(), one.mechanism, true));
        for (user, mechanism, is_set) in removed.chain(set) {
            if codes.get(user).is_some_and(|code| is_done(*code)) {
                before.decided_credential(context, (user, mechanism), is_set);
            }
        }
    }
}
