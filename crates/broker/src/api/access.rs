//! The authorization checks of the APIs, and the one table of all checks, from which
//! `docs/operating/authorization.md` is generated.
//!
//! Catalogue: one entry per question.

use levada_coordination::group::Visible;
use levada_security::Session;
use levada_security::acl::{CLUSTER_NAME, Operation, ResourceType};
use levada_security::audit::{Attempt, Weight};
use levada_security::authorizer::Rule;
use levada_wire::error_code::{ErrorCode, Failure};
use levada_wire::messages::StrBytes;
use levada_wire::{ApiKey, Uuid};

use crate::api::{Context, TOPIC_ID_VERSION_MIN};

/// An authorization check of an API.
pub(crate) struct Question {
    pub(crate) api: ApiKey,
    pub(crate) operation: Operation,
    pub(crate) resource: ResourceType,
    /// Condition under which the API makes this check; empty for always.
    #[cfg_attr(not(test), expect(dead_code, reason = "for the documentation, which a test makes"))]
    pub(crate) when: &'static str,
    /// Consequence of a refusal.
    #[cfg_attr(not(test), expect(dead_code, reason = "for the documentation, which a test makes"))]
    pub(crate) refusal: &'static str,
}

macro_rules! questions {
    ($($api:ident $operation:ident $resource:ident, $when:literal => $refusal:literal;)*) => {
        /// All questions of all APIs, in the order of the keys.
        pub(crate) const QUESTIONS: &[Question] = &[$(Question {
            api: ApiKey::$api,
            operation: Operation::$operation,
            resource: ResourceType::$resource,
            when: $when,
            refusal: $refusal,
        },)*];
    };
}

questions! {
    Produce Write TransactionalId, "transactional records" => "TRANSACTIONAL_ID_AUTHORIZATION_FAILED for all partitions";
    Produce Write Topic, "" => "TOPIC_AUTHORIZATION_FAILED for its partitions";
    Fetch Read Topic, "" => "TOPIC_AUTHORIZATION_FAILED for its partitions";
    Fetch ClusterAction Cluster, "by a replica" => "TOPIC_AUTHORIZATION_FAILED for all partitions";
    ListOffsets Describe Topic, "" => "TOPIC_AUTHORIZATION_FAILED for its partitions";
    Metadata Describe Topic, "" => "TOPIC_AUTHORIZATION_FAILED; hidden in a list of all";
    Metadata Create Cluster, "a topic to be created" => "the check of the next row";
    Metadata Create Topic, "a topic to be created, without Create on the cluster" => "TOPIC_AUTHORIZATION_FAILED";
    Metadata Describe Cluster, "the request asks for the cluster's operations" => "no operations";
    OffsetCommit Read Group, "" => "GROUP_AUTHORIZATION_FAILED for all partitions";
    OffsetCommit Read Topic, "" => "TOPIC_AUTHORIZATION_FAILED for its partitions";
    OffsetFetch Describe Group, "" => "GROUP_AUTHORIZATION_FAILED";
    OffsetFetch Describe Topic, "" => "TOPIC_AUTHORIZATION_FAILED; hidden in a list of all";
    FindCoordinator Describe Group, "of a group" => "GROUP_AUTHORIZATION_FAILED";
    FindCoordinator Describe TransactionalId, "of a transaction" => "TRANSACTIONAL_ID_AUTHORIZATION_FAILED";
    FindCoordinator ClusterAction Cluster, "of a share group" => "CLUSTER_AUTHORIZATION_FAILED";
    JoinGroup Read Group, "" => "GROUP_AUTHORIZATION_FAILED";
    JoinGroup Describe Topic, "matched by an expression of the group" => "hidden";
    Heartbeat Read Group, "" => "GROUP_AUTHORIZATION_FAILED";
    LeaveGroup Read Group, "" => "GROUP_AUTHORIZATION_FAILED";
    SyncGroup Read Group, "" => "GROUP_AUTHORIZATION_FAILED";
    DescribeGroups Describe Group, "" => "GROUP_AUTHORIZATION_FAILED";
    ListGroups Describe Cluster, "" => "the check of the next row";
    ListGroups Describe Group, "without Describe on the cluster" => "hidden";
    CreateTopics Create Cluster, "" => "the check of the next row";
    CreateTopics Create Topic, "without Create on the cluster" => "TOPIC_AUTHORIZATION_FAILED";
    CreateTopics DescribeConfigs Topic, "" => "TOPIC_AUTHORIZATION_FAILED in the place of its configuration";
    DeleteTopics Delete Cluster, "" => "the checks of the next rows";
    DeleteTopics Describe Topic, "without Delete on the cluster" => "TOPIC_AUTHORIZATION_FAILED, without a name if the request has an id";
    DeleteTopics Delete Topic, "without Delete on the cluster" => "TOPIC_AUTHORIZATION_FAILED";
    DeleteRecords Delete Topic, "" => "TOPIC_AUTHORIZATION_FAILED for its partitions";
    InitProducerId Write TransactionalId, "with a transactional id" => "TRANSACTIONAL_ID_AUTHORIZATION_FAILED";
    InitProducerId TwoPhaseCommit TransactionalId, "for two-phase commits" => "TRANSACTIONAL_ID_AUTHORIZATION_FAILED";
    InitProducerId IdempotentWrite Cluster, "without a transactional id" => "the check of the next row";
    InitProducerId Write Topic, "any topic, without IdempotentWrite" => "CLUSTER_AUTHORIZATION_FAILED";
    OffsetForLeaderEpoch ClusterAction Cluster, "" => "the check of the next row";
    OffsetForLeaderEpoch Describe Topic, "without ClusterAction" => "TOPIC_AUTHORIZATION_FAILED for its partitions";
    AddPartitionsToTxn ClusterAction Cluster, "version 4 and up" => "CLUSTER_AUTHORIZATION_FAILED";
    AddPartitionsToTxn Write TransactionalId, "up to version 3" => "TRANSACTIONAL_ID_AUTHORIZATION_FAILED";
    AddPartitionsToTxn Write Topic, "up to version 3" => "TOPIC_AUTHORIZATION_FAILED; OPERATION_NOT_ATTEMPTED for the others";
    AddOffsetsToTxn Write TransactionalId, "" => "TRANSACTIONAL_ID_AUTHORIZATION_FAILED";
    AddOffsetsToTxn Read Group, "" => "GROUP_AUTHORIZATION_FAILED";
    EndTxn Write TransactionalId, "" => "TRANSACTIONAL_ID_AUTHORIZATION_FAILED";
    WriteTxnMarkers Alter Cluster, "" => "the check of the next row";
    WriteTxnMarkers ClusterAction Cluster, "without Alter" => "CLUSTER_AUTHORIZATION_FAILED for all partitions";
    TxnOffsetCommit Write TransactionalId, "" => "TRANSACTIONAL_ID_AUTHORIZATION_FAILED for all partitions";
    TxnOffsetCommit Read Group, "" => "GROUP_AUTHORIZATION_FAILED for all partitions";
    TxnOffsetCommit Read Topic, "" => "TOPIC_AUTHORIZATION_FAILED for its partitions";
    DescribeAcls Describe Cluster, "" => "CLUSTER_AUTHORIZATION_FAILED";
    CreateAcls Alter Cluster, "" => "CLUSTER_AUTHORIZATION_FAILED for each entry";
    DeleteAcls Alter Cluster, "" => "CLUSTER_AUTHORIZATION_FAILED for each filter";
    DescribeConfigs DescribeConfigs Cluster, "of brokers and client metrics" => "CLUSTER_AUTHORIZATION_FAILED";
    DescribeConfigs DescribeConfigs Topic, "of topics" => "TOPIC_AUTHORIZATION_FAILED";
    DescribeConfigs DescribeConfigs Group, "of groups" => "GROUP_AUTHORIZATION_FAILED";
    AlterConfigs AlterConfigs Cluster, "of brokers and client metrics" => "CLUSTER_AUTHORIZATION_FAILED";
    AlterConfigs AlterConfigs Topic, "of topics" => "TOPIC_AUTHORIZATION_FAILED";
    AlterConfigs AlterConfigs Group, "of groups" => "GROUP_AUTHORIZATION_FAILED";
    AlterReplicaLogDirs Alter Cluster, "" => "CLUSTER_AUTHORIZATION_FAILED for all partitions";
    DescribeLogDirs Describe Cluster, "" => "CLUSTER_AUTHORIZATION_FAILED from version 3 on, no error before";
    CreatePartitions Alter Topic, "" => "TOPIC_AUTHORIZATION_FAILED";
    CreateDelegationToken CreateTokens User, "for another owner" => "DELEGATION_TOKEN_AUTHORIZATION_FAILED";
    DescribeDelegationToken Describe DelegationToken, "of a token that does not name the client" => "the check of the next row";
    DescribeDelegationToken DescribeTokens User, "without Describe on the token, for its owner" => "hidden";
    DeleteGroups Delete Group, "" => "GROUP_AUTHORIZATION_FAILED";
    ElectLeaders Alter Cluster, "" => "CLUSTER_AUTHORIZATION_FAILED for all partitions";
    IncrementalAlterConfigs AlterConfigs Cluster, "of brokers and client metrics" => "CLUSTER_AUTHORIZATION_FAILED";
    IncrementalAlterConfigs AlterConfigs Topic, "of topics" => "TOPIC_AUTHORIZATION_FAILED";
    IncrementalAlterConfigs AlterConfigs Group, "of groups" => "GROUP_AUTHORIZATION_FAILED";
    AlterPartitionReassignments Alter Cluster, "" => "CLUSTER_AUTHORIZATION_FAILED";
    ListPartitionReassignments Describe Cluster, "" => "CLUSTER_AUTHORIZATION_FAILED";
    OffsetDelete Delete Group, "" => "GROUP_AUTHORIZATION_FAILED";
    OffsetDelete Read Topic, "" => "TOPIC_AUTHORIZATION_FAILED for its partitions";
    DescribeClientQuotas DescribeConfigs Cluster, "" => "CLUSTER_AUTHORIZATION_FAILED";
    AlterClientQuotas AlterConfigs Cluster, "" => "CLUSTER_AUTHORIZATION_FAILED for each entity";
    DescribeUserScramCredentials Describe Cluster, "" => "CLUSTER_AUTHORIZATION_FAILED";
    AlterUserScramCredentials Alter Cluster, "" => "CLUSTER_AUTHORIZATION_FAILED for each user";
    DescribeQuorum Describe Cluster, "" => "CLUSTER_AUTHORIZATION_FAILED";
    UpdateFeatures Alter Cluster, "" => "CLUSTER_AUTHORIZATION_FAILED";
    DescribeCluster Describe Cluster, "the request asks for the cluster's operations" => "no operations";
    DescribeProducers Read Topic, "" => "TOPIC_AUTHORIZATION_FAILED for its partitions";
    UnregisterBroker Alter Cluster, "" => "CLUSTER_AUTHORIZATION_FAILED";
    DescribeTransactions Describe TransactionalId, "" => "TRANSACTIONAL_ID_AUTHORIZATION_FAILED";
    DescribeTransactions Describe Topic, "" => "hidden";
    ListTransactions Describe TransactionalId, "" => "hidden";
    ConsumerGroupHeartbeat Read Group, "" => "GROUP_AUTHORIZATION_FAILED";
    ConsumerGroupHeartbeat Describe Topic, "subscribed by name" => "TOPIC_AUTHORIZATION_FAILED";
    ConsumerGroupHeartbeat Describe Topic, "matched by an expression" => "hidden";
    ConsumerGroupDescribe Describe Group, "" => "GROUP_AUTHORIZATION_FAILED";
    ConsumerGroupDescribe Describe Topic, "subscribed or assigned" => "TOPIC_AUTHORIZATION_FAILED for the group";
    ListConfigResources DescribeConfigs Cluster, "" => "CLUSTER_AUTHORIZATION_FAILED";
    DescribeTopicPartitions Describe Topic, "" => "TOPIC_AUTHORIZATION_FAILED; hidden in a list of all";
    ShareGroupHeartbeat Read Group, "" => "GROUP_AUTHORIZATION_FAILED";
    ShareGroupHeartbeat Describe Topic, "subscribed" => "TOPIC_AUTHORIZATION_FAILED";
    ShareGroupDescribe Describe Group, "" => "GROUP_AUTHORIZATION_FAILED";
    ShareGroupDescribe Describe Topic, "assigned" => "TOPIC_AUTHORIZATION_FAILED for the group";
    ShareFetch Read Group, "" => "GROUP_AUTHORIZATION_FAILED";
    ShareFetch Read Topic, "" => "TOPIC_AUTHORIZATION_FAILED for its partitions";
    ShareAcknowledge Read Group, "" => "GROUP_AUTHORIZATION_FAILED";
    ShareAcknowledge Read Topic, "" => "TOPIC_AUTHORIZATION_FAILED for its partitions";
    AddRaftVoter Alter Cluster, "" => "CLUSTER_AUTHORIZATION_FAILED";
    RemoveRaftVoter Alter Cluster, "" => "CLUSTER_AUTHORIZATION_FAILED";
    InitializeShareGroupState ClusterAction Cluster, "" => "CLUSTER_AUTHORIZATION_FAILED for all partitions";
    ReadShareGroupState ClusterAction Cluster, "" => "CLUSTER_AUTHORIZATION_FAILED for all partitions";
    WriteShareGroupState ClusterAction Cluster, "" => "CLUSTER_AUTHORIZATION_FAILED for all partitions";
    DeleteShareGroupState ClusterAction Cluster, "" => "CLUSTER_AUTHORIZATION_FAILED for all partitions";
    ReadShareGroupStateSummary ClusterAction Cluster, "" => "CLUSTER_AUTHORIZATION_FAILED for all partitions";
    StreamsGroupHeartbeat Read Group, "" => "GROUP_AUTHORIZATION_FAILED";
    StreamsGroupHeartbeat Describe Topic, "in the topology" => "TOPIC_AUTHORIZATION_FAILED";
    StreamsGroupHeartbeat Create Cluster, "missing internal topics" => "the check of the next row";
    StreamsGroupHeartbeat Create Topic, "missing internal topics, without Create on the cluster" => "a sentence in the status";
    StreamsGroupDescribe Describe Group, "" => "GROUP_AUTHORIZATION_FAILED";
    StreamsGroupDescribe Describe Topic, "in the topology" => "TOPIC_AUTHORIZATION_FAILED for the group";
    DescribeShareGroupOffsets Describe Group, "" => "GROUP_AUTHORIZATION_FAILED";
    DescribeShareGroupOffsets Describe Topic, "" => "TOPIC_AUTHORIZATION_FAILED for its partitions; hidden in a list of all";
    AlterShareGroupOffsets Read Group, "" => "GROUP_AUTHORIZATION_FAILED";
    AlterShareGroupOffsets Read Topic, "" => "TOPIC_AUTHORIZATION_FAILED for its partitions";
    DeleteShareGroupOffsets Delete Group, "" => "GROUP_AUTHORIZATION_FAILED";
    DeleteShareGroupOffsets Read Topic, "" => "TOPIC_AUTHORIZATION_FAILED";
    StreamsGroupTopologyDescriptionUpdate Read Group, "" => "GROUP_AUTHORIZATION_FAILED";
    UnregisterController Alter Cluster, "" => "CLUSTER_AUTHORIZATION_FAILED";
}

/// A refusal with Kafka's error message, where the response has a field for it.
pub(crate) fn forbidden(code: ErrorCode) -> Failure {
    let sentence = match code {
        ErrorCode::TopicAuthorizationFailed => "Topic authorization failed.",
        ErrorCode::GroupAuthorizationFailed => "Group authorization failed.",
        ErrorCode::TransactionalIdAuthorizationFailed => "Transactional Id authorization failed.",
        _ => "Cluster authorization failed.",
    };
    Failure::new(code, sentence)
}

impl Context {
    /// True if the client has this permission for the named resources.
    pub(crate) fn may(&self, operation: Operation, kind: ResourceType, name: &str) -> bool {
        self.ask((operation, kind, name), Weight::Attempt)
    }

    /// True if the client may see or do that with a resource that it has not named; a refusal is
    /// then not audited as an attempt.
    pub(crate) fn might(&self, operation: Operation, kind: ResourceType, name: &str) -> bool {
        self.ask((operation, kind, name), Weight::Filter)
    }

    /// True if the client may do that with the cluster.
    pub(crate) fn may_cluster(&self, operation: Operation) -> bool {
        self.may(operation, ResourceType::Cluster, CLUSTER_NAME)
    }

    /// True if the client may do that with the cluster; a refusal is not audited, because another
    /// check follows it.
    pub(crate) fn might_cluster(&self, operation: Operation) -> bool {
        self.might(operation, ResourceType::Cluster, CLUSTER_NAME)
    }

    /// Writes a decision of the controller of a cluster to the audit log, as [`Context::may`]
    /// writes this broker's. The rule is this broker's, unless the controller uses newer
    /// entries.
    pub(crate) fn audit_decision(&self, wanted: (Operation, ResourceType, &str), allows: bool) {
        let Some(rule) = self.broker().access().decide(&self.session, wanted) else { return };
        self.debug_declared(wanted.0, wanted.1);
        let rule = if rule.allows() == allows { rule } else { Rule::Default { allows } };
        let (operation, kind, name) = wanted;
        let attempt = Attempt { operation, kind, name, weight: Weight::Attempt };
        self.broker().access().audit().decided(&self.session, self.header.api, attempt, &rule);
    }

    /// True if the client may do this to at least one resource of that type, existing or not.
    pub(crate) fn may_some(&self, operation: Operation, kind: ResourceType) -> bool {
        self.debug_declared(operation, kind);
        self.broker().access().allows_some(&self.session, (operation, kind))
    }

    /// True if the entries of this broker permit some request of the API to the client.
    pub(crate) fn is_permitted_some(&self) -> bool {
        let permits = |question: &Question| match question.resource {
            ResourceType::Cluster => {
                let wanted = (question.operation, question.resource, CLUSTER_NAME);
                self.broker().access().decide(&self.session, wanted).is_none_or(|rule| rule.allows())
            }
            kind => self.broker().access().allows_some(&self.session, (question.operation, kind)),
        };
        QUESTIONS.iter().filter(|question| question.api == self.header.api).any(permits)
    }

    /// Checks that the client may do `operation` on a topic of a Produce or Fetch request, which
    /// name it by id from version 13 on. The error for a client without the right does not reveal
    /// if the topic exists.
    pub(crate) fn permit_topic(
        &self,
        operation: Operation,
        (name, topic_id): (&StrBytes, Uuid),
    ) -> Result<(), ErrorCode> {
        if !self.broker().access().has_authorizer() {
            return Ok(());
        }
        let by_id = self.version() >= TOPIC_ID_VERSION_MIN;
        let name = self.topic_name(by_id, name, topic_id).ok_or(ErrorCode::UnknownTopicId)?;
        if self.may(operation, ResourceType::Topic, &name) {
            Ok(())
        } else {
            Err(ErrorCode::TopicAuthorizationFailed)
        }
    }

    /// The topics that the client may describe, in a form that later code can query.
    pub(crate) fn visible_topics(&self) -> Visible {
        if !self.broker().access().has_authorizer() {
            return Visible::all(self.session().requester());
        }
        self.debug_declared(Operation::Describe, ResourceType::Topic);
        let (broker, session, api) = (self.broker().clone(), Session::clone(&self.session), self.header.api);
        Visible::by(self.session.requester(), move |name| {
            let wanted = (Operation::Describe, ResourceType::Topic, name);
            let Some(rule) = broker.access().decide(&session, wanted) else { return true };
            let (operation, kind, name) = wanted;
            let attempt = Attempt { operation, kind, name, weight: Weight::Filter };
            broker.access().audit().decided(&session, api, attempt, &rule);
            rule.allows()
        })
    }

    /// Permitted operations on a resource, one bit per operation number.
    pub(crate) fn operations(&self, kind: ResourceType, name: &str) -> i32 {
        let allowed = |operation: &&Operation| {
            let rule = self.broker().access().decide(&self.session, (**operation, kind, name));
            rule.is_none_or(|rule| rule.allows())
        };
        kind.operations().iter().filter(allowed).fold(0, |bits, operation| bits | 1 << operation.code())
    }

    /// Permitted operations on the cluster, if the client may see them.
    pub(crate) fn cluster_operations(&self) -> i32 {
        if self.may_cluster(Operation::Describe) {
            self.operations(ResourceType::Cluster, CLUSTER_NAME)
        } else {
            0
        }
    }

    fn ask(&self, wanted: (Operation, ResourceType, &str), weight: Weight) -> bool {
        let Some(rule) = self.broker().access().decide(&self.session, wanted) else { return true };
        self.debug_declared(wanted.0, wanted.1);
        let (operation, kind, name) = wanted;
        let attempt = Attempt { operation, kind, name, weight };
        self.broker().access().audit().decided(&self.session, self.header.api, attempt, &rule);
        rule.allows()
    }

    /// The table contains every check: operators read it.
    fn debug_declared(&self, operation: Operation, kind: ResourceType) {
        debug_assert!(
            QUESTIONS
                .iter()
                .any(|one| (one.api, one.operation, one.resource) == (self.header.api, operation, kind)),
            "{} asks for {operation} on {kind}, which QUESTIONS does not have",
            self.header.api
        );
    }
}
