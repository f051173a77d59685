//! AlterShareGroupOffsets (key 91), version 0.
//!
//! Sets the start offsets of a share group, which must be empty; a group that does not exist is
//! created. Partitions that do not exist are refused one by one. The records from the new start
//! offset on are delivered again: deliveries so far are forgotten.
//!
//! Checks Read on the group and on each topic. With the feature `share.version` at level 0, the
//! response is `UNSUPPORTED_VERSION`.
//!
//! Unlike in Kafka, the response has no topic id for a topic that the client may not read: it would
//! show that the topic exists.

use levada_coordination::group::GroupError;
use levada_coordination::group::request::{AlterShareOffsetsRequest, StartOffsetTopic};
use levada_security::acl::{Operation, ResourceType};
use levada_wire::Uuid;
use levada_wire::error_code::{ErrorCode, Failure, error_code, sentence};
use levada_wire::messages::alter_share_group_offsets_request::AlterShareGroupOffsetsRequestTopic;
use levada_wire::messages::alter_share_group_offsets_response::{
    AlterShareGroupOffsetsResponsePartition, AlterShareGroupOffsetsResponseTopic,
};
use levada_wire::messages::{AlterShareGroupOffsetsRequest, AlterShareGroupOffsetsResponse, StrBytes};

use crate::api::access::forbidden;
use crate::api::changes::log_change;
use crate::api::errors::NOT_HOSTED;
use crate::api::k76_share_group_heartbeat::are_served;
use crate::api::merged::merge;
use crate::api::{Context, Sentences, text};

pub(crate) async fn answer(
    context: &Context,
    request: AlterShareGroupOffsetsRequest,
) -> AlterShareGroupOffsetsResponse {
    if !are_served(context) {
        return refused(not_served());
    }
    let group_id = request.group_id.into_string();
    if !context.may(Operation::Read, ResourceType::Group, &group_id) {
        return refused(forbidden(ErrorCode::GroupAuthorizationFailed));
    }
    if group_id.is_empty() {
        return refused(Failure::new(ErrorCode::InvalidGroupId, "The group id is empty."));
    }
    let (mut failed, mut topics, mut sentences) = (Vec::new(), Vec::new(), Sentences::default());
    for topic in request.topics {
        match permit(context, topic.topic_name.as_str()) {
            Ok(()) => topics.push(wanted(topic)),
            Err(failure) => failed.push(refused_topic(topic, failure, &mut sentences)),
        }
    }
    context.give_turn_back();
    let question = AlterShareOffsetsRequest { group_id: group_id.clone(), topics };
    let altered = match context.broker().coordinators().groups().ask(question).await {
        Ok(altered) => altered,
        Err(error) => return refused(of_group(&group_id, error)),
    };
    if altered.iter().flat_map(|topic| &topic.partitions).any(|(_, error)| error.is_none()) {
        log_change!(context, "start offsets of a share group set", group = group_id.as_str(),);
    }
    let altered = altered.into_iter().map(|topic| {
        let partitions = topic.partitions.into_iter().map(|(index, error)| {
            message!(AlterShareGroupOffsetsResponsePartition {
                partition_index: index,
                error_code: error_code(error),
                error_message: sentences.tell(explained(error).as_ref()),
            })
        });
        message!(AlterShareGroupOffsetsResponseTopic {
            topic_name: text(topic.name),
            topic_id: topic.topic_id,
            partitions: partitions.collect(),
        })
    });
    let key = |topic: &AlterShareGroupOffsetsResponseTopic| topic.topic_name.clone();
    let responses =
        merge(failed, altered.collect(), key, |one, other| one.partitions.extend(other.partitions));
    message!(AlterShareGroupOffsetsResponse { responses: responses })
}

/// The message of an error about a topic or a partition; Kafka has one for each.
pub(super) fn explained(error: Option<GroupError>) -> Option<StrBytes> {
    Some(text(match error? {
        GroupError::UnknownTopicOrPartition | GroupError::NoShareOffsets => NOT_HOSTED.into(),
        other => sentence(other.to_string()),
    }))
}

/// An error about the whole group, in Kafka's words.
pub(super) fn of_group(group_id: &str, error: GroupError) -> Failure {
    let message = match error {
        GroupError::GroupIdNotFound => sentence(format!("Group {group_id} not found.")),
        GroupError::NonEmptyGroup => "The group is not empty.".into(),
        other => sentence(other.to_string()),
    };
    Failure::new(error.into(), message)
}

/// The failure of requests while share groups are not enabled.
pub(super) fn not_served() -> Failure {
    let message = "Share groups are not enabled: the feature share.version is at level 0.";
    Failure::new(ErrorCode::UnsupportedVersion, message)
}

fn permit(context: &Context, topic: &str) -> Result<(), Failure> {
    if !context.may(Operation::Read, ResourceType::Topic, topic) {
        return Err(forbidden(ErrorCode::TopicAuthorizationFailed));
    }
    if context.topic_id(topic) == Uuid::ZERO {
        return Err(Failure::new(ErrorCode::UnknownTopicOrPartition, "The topic does not exist."));
    }
    Ok(())
}

fn wanted(topic: AlterShareGroupOffsetsRequestTopic) -> StartOffsetTopic {
    let partitions = topic.partitions.iter().map(|one| (one.partition_index, one.start_offset)).collect();
    StartOffsetTopic { name: topic.topic_name.into_string(), partitions }
}

fn refused(failure: Failure) -> AlterShareGroupOffsetsResponse {
    message!(AlterShareGroupOffsetsResponse {
        error_code: failure.code.code(),
        error_message: failure.message.map(text),
    })
}

fn refused_topic(
    topic: AlterShareGroupOffsetsRequestTopic,
    failure: Failure,
    sentences: &mut Sentences,
) -> AlterShareGroupOffsetsResponseTopic {
    let (code, message) = (failure.code.code(), failure.message.map(text));
    let partitions = topic.partitions.into_iter().map(|partition| {
        message!(AlterShareGroupOffsetsResponsePartition {
            partition_index: partition.partition_index,
            error_code: code,
            error_message: sentences.tell(message.as_ref()),
        })
    });
    message!(AlterShareGroupOffsetsResponseTopic {
        topic_name: topic.topic_name,
        partitions: partitions.collect(),
    })
}
