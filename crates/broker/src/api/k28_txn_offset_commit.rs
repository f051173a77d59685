//! TxnOffsetCommit (key 28), versions 0–6.
//!
//! Version 2 has leader epochs (KIP-320), 3 member id, generation and instance id (KIP-447), 4 may
//! return TRANSACTION_ABORTABLE, 5 adds the group's partition to the transaction (both KIP-890),
//! and 6 has topic ids (KIP-1319).
//!
//! Stores a group's positions as part of a producer's transaction: they count once it commits.
//! Partitions that do not exist are refused one by one; the rest goes to the group's coordinator.
//!
//! Up to version 4 the group's partition of `__consumer_offsets` must already be part of the
//! transaction (AddOffsetsToTxn); from version 5 on this request adds it.
//!
//! The commit does not wait for records of its group that are being appended. It is checked against
//! the members that are in the log, and is appended before a marker can end the transaction.
//!
//! From version 6 on topics are named by their ids (KIP-1319).
//!
//! Below version 2 clients do not handle `COORDINATOR_LOAD_IN_PROGRESS`, and get
//! `COORDINATOR_NOT_AVAILABLE` instead, as in Kafka.

use std::sync::Arc;

use levada_coordination::group::request::{CommitPartition, CommitTopic, TxnCommitRequest};
use levada_coordination::group::{GroupError, Producer};
use levada_coordination::txn::TxnError;
use levada_coordination::txn::request::{ProducerIdentity, Protocol};
use levada_security::acl::{Operation, ResourceType};
use levada_wire::Uuid;
use levada_wire::error_code::ErrorCode;
use levada_wire::messages::txn_offset_commit_request::TxnOffsetCommitRequestTopic;
use levada_wire::messages::txn_offset_commit_response::{
    TxnOffsetCommitResponsePartition, TxnOffsetCommitResponseTopic,
};
use levada_wire::messages::{TxnOffsetCommitRequest, TxnOffsetCommitResponse};

use crate::api::merged::merge;
use crate::api::{Context, commits};
use crate::replica::{OFFSETS_TOPIC, Partition};
use crate::transaction::Membership;

/// First version whose clients retry while the coordinator loads.
const LOADING_VERSION_MIN: i16 = 2;
/// First version in which a commit adds the group's partition to the transaction.
const EPOCH_BUMP_VERSION_MIN: i16 = 5;
/// First version whose clients abort the transaction after TRANSACTION_ABORTABLE.
const ABORTABLE_VERSION_MIN: i16 = 4;
const TOPIC_ID_VERSION_MIN: i16 = 6;

pub(crate) async fn answer(
    context: &Context,
    mut request: TxnOffsetCommitRequest,
) -> TxnOffsetCommitResponse {
    let (mut refused, mut answered, mut commits) = (Vec::new(), Vec::new(), Vec::new());
    let (id, group) = (request.transactional_id.as_str(), request.group_id.as_str());
    let forbidden = if !context.may(Operation::Write, ResourceType::TransactionalId, id) {
        Some(ErrorCode::TransactionalIdAuthorizationFailed)
    } else {
        let may = context.may(Operation::Read, ResourceType::Group, group);
        (!may).then_some(ErrorCode::GroupAuthorizationFailed)
    };
    for topic in std::mem::take(&mut request.topics) {
        let (here, missing, commit) = sort_out(context, topic, forbidden);
        refused.extend(Some(missing).filter(|topic| !topic.partitions.is_empty()));
        answered.extend(Some(here).filter(|topic| !topic.partitions.is_empty()));
        commits.extend(commit);
    }
    if !commits.is_empty() {
        let codes = commit(context, request, commits).await;
        let partitions = answered.iter_mut().flat_map(|topic| &mut topic.partitions);
        partitions.zip(codes).for_each(|(partition, code)| partition.error_code = code);
    }
    let key = |topic: &TxnOffsetCommitResponseTopic| (topic.name.clone(), topic.topic_id);
    let topics = merge(refused, answered, key, |one, other| one.partitions.extend(other.partitions));
    message!(TxnOffsetCommitResponse { topics: topics })
}

/// The codes of the partitions to commit, in their order.
async fn commit(context: &Context, request: TxnOffsetCommitRequest, commits: Vec<CommitTopic>) -> Vec<i16> {
    let count = commits.iter().map(|topic| topic.partitions.len()).sum();
    let refuse = |error: ErrorCode| vec![error.code(); count];
    if request.group_id.is_empty() {
        return refuse(ErrorCode::InvalidGroupId);
    }
    if let Err(error) = commits::check_size(request.group_id.as_str(), &commits) {
        return refuse(error);
    }
    let claim = Membership {
        transactional_id: request.transactional_id.as_str(),
        producer: ProducerIdentity {
            producer_id: request.producer_id,
            producer_epoch: request.producer_epoch,
        },
        protocol: match context.version() {
            EPOCH_BUMP_VERSION_MIN.. => Protocol::EpochBump,
            _ => Protocol::Classic,
        },
    };
    let partition = offsets_partition(context, request.group_id.as_str());
    let _held = match &partition {
        Some(partition) => match context.broker().transactions().hold(partition, claim).await {
            Ok(held) => held,
            Err(error) => return refuse(refusal(context.version(), error)),
        },
        None => return refuse(ErrorCode::CoordinatorNotAvailable),
    };
    let question = TxnCommitRequest {
        api_version: context.version(),
        group_id: request.group_id.into_string(),
        member_id: request.member_id.into_string(),
        group_instance_id: request.group_instance_id.map(|id| id.into_string()),
        generation: request.generation_id_or_member_epoch,
        producer: Producer { id: request.producer_id, epoch: request.producer_epoch },
        topics: commits,
    };
    context.give_turn_back();
    let committed = context.broker().coordinators().groups().ask(question).await;
    let code = |error: Option<GroupError>| {
        let error = error.map_or(ErrorCode::None, ErrorCode::from);
        let hidden = error == ErrorCode::CoordinatorLoadInProgress && context.version() < LOADING_VERSION_MIN;
        if hidden { ErrorCode::CoordinatorNotAvailable.code() } else { error.code() }
    };
    commits::codes(committed, count, code)
}

/// The partition of `__consumer_offsets` that stores the group's offsets.
fn offsets_partition(context: &Context, group_id: &str) -> Option<Arc<Partition>> {
    let broker = context.broker();
    broker
        .replicas()
        .partitions()
        .by_name(OFFSETS_TOPIC, broker.coordinators().groups().partition_of(group_id)?)
}

/// Error code, for a client of this version, for a transaction without the group's partition.
fn refusal(version: i16, error: TxnError) -> ErrorCode {
    match error.before_fencing() {
        TxnError::ConcurrentTransactions
        | TxnError::CoordinatorLoadInProgress
        | TxnError::CoordinatorNotAvailable
        | TxnError::NotCoordinator
            if version < EPOCH_BUMP_VERSION_MIN =>
        {
            ErrorCode::CoordinatorNotAvailable
        }
        TxnError::TransactionAbortable if version < ABORTABLE_VERSION_MIN => ErrorCode::InvalidTxnState,
        error => error.into(),
    }
}

/// Splits a topic into the partitions to commit, in the order of the response, and those that must
/// be refused.
fn sort_out(
    context: &Context,
    topic: TxnOffsetCommitRequestTopic,
    forbidden: Option<ErrorCode>,
) -> (TxnOffsetCommitResponseTopic, TxnOffsetCommitResponseTopic, Option<CommitTopic>) {
    let by_id = context.version() >= TOPIC_ID_VERSION_MIN;
    let topic_id = if by_id { topic.topic_id } else { Uuid::ZERO };
    let named = || message!(TxnOffsetCommitResponseTopic { topic_id: topic_id, name: topic.name.clone() });
    let (mut here, mut missing) = (named(), named());
    let name = context.topic_name(by_id, &topic.name, topic.topic_id);
    let mut partitions = Vec::new();
    let unknown = if name.is_none() { ErrorCode::UnknownTopicId } else { ErrorCode::UnknownTopicOrPartition };
    let name = name.unwrap_or_default();
    let forbidden = forbidden.or_else(|| {
        let may = name.is_empty() || context.may(Operation::Read, ResourceType::Topic, &name);
        (!may).then_some(ErrorCode::TopicAuthorizationFailed)
    });
    for partition in topic.partitions {
        let index = partition.partition_index;
        let known = forbidden.is_none() && context.broker().metadata().has_partition(&name, index);
        let error = forbidden.or((!known).then_some(unknown));
        let answered = if error.is_none() { &mut here } else { &mut missing };
        answered.partitions.push(message!(TxnOffsetCommitResponsePartition {
            partition_index: index,
            error_code: error.map_or(0, |error| error.code()),
        }));
        if known {
            partitions.push(CommitPartition {
                index,
                offset: partition.committed_offset,
                leader_epoch: partition.committed_leader_epoch,
                metadata: partition.committed_metadata.map(|metadata| metadata.into_string()),
            });
        }
    }
    let commit = CommitTopic { name, topic_id, partitions };
    (here, missing, Some(commit).filter(|commit| !commit.partitions.is_empty()))
}
