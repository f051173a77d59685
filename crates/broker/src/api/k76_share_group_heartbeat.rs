//! ShareGroupHeartbeat (key 76), version 1.
//!
//! A member of a share group (KIP-932) joins under an id that it has generated, names its topics,
//! gets its assignment, and leaves. Several members may have the same partition.
//!
//! Checks Read on the group and Describe on each named topic. With the feature `share.version` at
//! level 0, the response is `UNSUPPORTED_VERSION`.
//!
//! Racks are stored and shown, but do not influence the assignment, as in Kafka.

use levada_coordination::group::records::Partitions;
use levada_coordination::group::request::ShareHeartbeatRequest;
use levada_security::acl::{Operation, ResourceType};
use levada_wire::error_code::{ErrorCode, error_code};
use levada_wire::messages::share_group_heartbeat_response::{Assignment, TopicPartitions};
use levada_wire::messages::{ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse};

use crate::api::heartbeats::Refused;
use crate::api::{Context, text};
use crate::share_partitions::are_permitted;

/// Maximum number of characters of a member's id, as Java counts them: those of a UUID.
const MEMBER_ID_CHARS_MAX: usize = 36;

pub(crate) async fn answer(
    context: &Context,
    request: ShareGroupHeartbeatRequest,
) -> ShareGroupHeartbeatResponse {
    if let Err((error, message)) = permit(context, &request) {
        return message!(ShareGroupHeartbeatResponse {
            error_code: error.code(),
            error_message: message.map(Into::into),
        });
    }
    let (group, member) = (request.group_id.clone(), request.member_id.clone());
    let members_max = context.broker().config().groups.share_max_size;
    context.give_turn_back();
    match context.broker().coordinators().groups().ask(heartbeat(context, request)).await {
        Ok(beat) => message!(ShareGroupHeartbeatResponse {
            member_id: Some(text(beat.member_id)),
            member_epoch: beat.member_epoch,
            heartbeat_interval_ms: beat.heartbeat_interval_ms,
            assignment: beat.assigned.map(assignment),
        }),
        Err(error) => message!(ShareGroupHeartbeatResponse {
            error_code: error_code(Some(error)),
            error_message: {
                let (kind, instance) = ("share", None);
                let refused = Refused { kind, group: &group, member: &member, instance, members_max };
                refused.explanation(error).map(text)
            },
        }),
    }
}

/// True if share groups are served: by the level of the feature `share.version`.
pub(super) fn are_served(context: &Context) -> bool {
    are_permitted(&context.broker().metadata().image())
}

/// True if a member may have this id.
pub(super) fn is_member_id(id: &str) -> bool {
    !id.is_empty() && id.encode_utf16().take(MEMBER_ID_CHARS_MAX + 1).count() <= MEMBER_ID_CHARS_MAX
}

fn permit(
    context: &Context,
    request: &ShareGroupHeartbeatRequest,
) -> Result<(), (ErrorCode, Option<&'static str>)> {
    if !are_served(context) {
        return Err((ErrorCode::UnsupportedVersion, None));
    }
    if !context.may(Operation::Read, ResourceType::Group, request.group_id.as_str()) {
        return Err((ErrorCode::GroupAuthorizationFailed, None));
    }
    if !is_member_id(request.member_id.as_str()) {
        return Err((ErrorCode::InvalidRequest, Some("Invalid member id in the request.")));
    }
    let mut names = request.subscribed_topic_names.iter().flatten();
    if names.all(|name| context.may(Operation::Describe, ResourceType::Topic, name.as_str())) {
        Ok(())
    } else {
        Err((ErrorCode::TopicAuthorizationFailed, None))
    }
}

fn heartbeat(context: &Context, request: ShareGroupHeartbeatRequest) -> ShareHeartbeatRequest {
    let names = request.subscribed_topic_names;
    ShareHeartbeatRequest {
        group_id: request.group_id.into_string(),
        member_id: request.member_id.into_string(),
        member_epoch: request.member_epoch,
        rack_id: request.rack_id.map(|id| id.into_string()),
        client_id: context.client_id().to_owned(),
        client_host: format!("/{}", context.info.peer.ip().to_canonical()),
        topics: names.map(|names| names.into_iter().map(|name| name.into_string()).collect()),
    }
}

fn assignment(assigned: Partitions) -> Assignment {
    let topics = assigned.into_iter().map(|(topic, partitions)| {
        message!(TopicPartitions { topic_id: topic, partitions: partitions.into_iter().collect() })
    });
    message!(Assignment { topic_partitions: topics.collect() })
}
