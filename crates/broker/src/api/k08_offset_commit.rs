//! OffsetCommit (key 8), versions 2–10.
//!
//! Version 5 has no retention time (KIP-211), 6 has leader epochs (KIP-320), 7 instance ids
//! (KIP-345), 9 epochs of members of consumer groups, and 10 topic ids (both KIP-848).
//!
//! Stores a group's positions. Partitions that do not exist are refused one by one; the rest goes
//! to the group's coordinator. From version 10 on topics are named by id; the id is stored in any
//! case, so that a position in a deleted topic is not taken for one in its successor.
//!
//! Checks Read on the group and on each topic.
//!
//! As in Kafka, the record of the commit keeps the retention time of versions 2–4, by which the
//! offset expires.

use levada_coordination::group::request::{CommitPartition, CommitRequest, CommitTopic};
use levada_security::acl::{Operation, ResourceType};
use levada_wire::Uuid;
use levada_wire::error_code::{ErrorCode, error_code};
use levada_wire::messages::offset_commit_request::OffsetCommitRequestTopic;
use levada_wire::messages::offset_commit_response::{
    OffsetCommitResponsePartition, OffsetCommitResponseTopic,
};
use levada_wire::messages::{OffsetCommitRequest, OffsetCommitResponse};

use crate::api::merged::merge;
use crate::api::{Context, commits};

const TOPIC_ID_VERSION_MIN: i16 = 10;

pub(crate) async fn answer(context: &Context, request: OffsetCommitRequest) -> OffsetCommitResponse {
    let (mut refused, mut answered, mut commits) = (Vec::new(), Vec::new(), Vec::new());
    let may_read = context.may(Operation::Read, ResourceType::Group, request.group_id.as_str());
    for topic in request.topics {
        let (here, missing, commit) = sort_out(context, topic, may_read);
        refused.extend(Some(missing).filter(|topic| !topic.partitions.is_empty()));
        answered.extend(Some(here).filter(|topic| !topic.partitions.is_empty()));
        commits.extend(commit);
    }
    if !commits.is_empty() {
        let count = commits.iter().map(|topic| topic.partitions.len()).sum();
        let codes = match commits::check_size(request.group_id.as_str(), &commits) {
            Err(error) => vec![error.code(); count],
            Ok(()) => {
                let question = CommitRequest {
                    api_version: context.version(),
                    group_id: request.group_id.into_string(),
                    member_id: request.member_id.into_string(),
                    group_instance_id: request.group_instance_id.map(|id| id.into_string()),
                    generation: request.generation_id_or_member_epoch,
                    retention_ms: Some(request.retention_time_ms).filter(|retention_ms| *retention_ms >= 0),
                    topics: commits,
                };
                context.give_turn_back();
                commits::codes(
                    context.broker().coordinators().groups().ask(question).await,
                    count,
                    error_code,
                )
            }
        };
        set_codes(&mut answered, codes);
    }
    let key = |topic: &OffsetCommitResponseTopic| (topic.name.clone(), topic.topic_id);
    let topics = merge(refused, answered, key, |one, other| one.partitions.extend(other.partitions));
    message!(OffsetCommitResponse { topics: topics })
}

/// Splits a topic into the partitions to commit, in the order of the response, and those that must
/// be refused.
fn sort_out(
    context: &Context,
    topic: OffsetCommitRequestTopic,
    may_read: bool,
) -> (OffsetCommitResponseTopic, OffsetCommitResponseTopic, Option<CommitTopic>) {
    let by_id = context.version() >= TOPIC_ID_VERSION_MIN;
    let name = context.topic_name(by_id, &topic.name, topic.topic_id);
    let topic_id = if by_id { topic.topic_id } else { Uuid::ZERO };
    let named = || message!(OffsetCommitResponseTopic { topic_id: topic_id, name: topic.name.clone() });
    let (mut here, mut missing) = (named(), named());
    let stored_id = if by_id { topic_id } else { context.topic_id(topic.name.as_str()) };
    let mut commit =
        CommitTopic { name: name.clone().unwrap_or_default(), topic_id: stored_id, partitions: Vec::new() };
    let may_read_topic = |name: &str| context.may(Operation::Read, ResourceType::Topic, name);
    let forbidden = match &name {
        _ if !may_read => Some(ErrorCode::GroupAuthorizationFailed),
        Some(name) if !may_read_topic(name) => Some(ErrorCode::TopicAuthorizationFailed),
        _ => None,
    };
    for partition in topic.partitions {
        let index = partition.partition_index;
        let known =
            name.as_deref().is_some_and(|name| context.broker().metadata().has_partition(name, index));
        if known && forbidden.is_none() {
            commit.partitions.push(CommitPartition {
                index,
                offset: partition.committed_offset,
                leader_epoch: partition.committed_leader_epoch,
                metadata: partition.committed_metadata.map(|metadata| metadata.into_string()),
            });
        }
        let unknown = if by_id && name.is_none() {
            ErrorCode::UnknownTopicId
        } else {
            ErrorCode::UnknownTopicOrPartition
        };
        let error = forbidden.or((!known).then_some(unknown));
        let answered = if error.is_none() { &mut here } else { &mut missing };
        answered.partitions.push(message!(OffsetCommitResponsePartition {
            partition_index: index,
            error_code: error.map_or(0, |error| error.code()),
        }));
    }
    let commit = Some(commit).filter(|commit| !commit.partitions.is_empty());
    (here, missing, commit)
}

/// Sets the error codes of the partitions that were to be committed.
fn set_codes(topics: &mut [OffsetCommitResponseTopic], codes: Vec<i16>) {
    let partitions = topics.iter_mut().flat_map(|topic| &mut topic.partitions);
    for (partition, code) in partitions.zip(codes) {
        partition.error_code = code;
    }
}
