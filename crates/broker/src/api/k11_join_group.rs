//! JoinGroup (key 11), versions 2–9 (0 and 1 are advertised, as Kafka does, and served the same
//! way).
//!
//! Version 4 makes new members join twice (KIP-394), 5 has instance ids (KIP-345), 7 returns the
//! protocol type (KIP-559), 8 has a reason (KIP-800), and 9 can make a static leader skip the
//! assignment (KIP-814).
//!
//! A member joins the next generation and waits for it: until every member has rejoined, or the
//! rebalance timeout. The rules are those of the classic group state machine. In a consumer group
//! (KIP-848) the broker assigns, and the response is sent immediately.
//!
//! A member whose protocols the group's record could not hold is refused with UNKNOWN_SERVER_ERROR,
//! the error that Kafka returns when it cannot write the record.
//!
//! Not done: the reason of a join (version 8) is only logged.

use levada_coordination::group::request::{JoinRequest, Protocol};
use levada_security::acl::{Operation, ResourceType};
use levada_wire::error_code::{ErrorCode, error_code};
use levada_wire::messages::join_group_response::JoinGroupResponseMember;
use levada_wire::messages::{JoinGroupRequest, JoinGroupResponse};

use crate::api::{Context, own, text};
use crate::replica::OFFSETS_TOPIC;

pub(crate) async fn answer(context: &Context, request: JoinGroupRequest) -> JoinGroupResponse {
    let version = context.version();
    if let Some(reason) = &request.reason {
        tracing::debug!(group = request.group_id.as_str(), reason = reason.as_str(), "member joins");
    }
    if !context.may(Operation::Read, ResourceType::Group, request.group_id.as_str()) {
        return message!(JoinGroupResponse {
            error_code: ErrorCode::GroupAuthorizationFailed.code(),
            generation_id: -1,
            protocol_name: (version < 7).then(|| "".into()),
        });
    }
    context.wait_for_others();
    let outcome = context.broker().coordinators().groups().ask(join(context, request)).await;
    let protocol_name = match outcome.protocol_name {
        None if version < 7 => Some("".into()),
        name => name.map(text),
    };
    let members = outcome.members.into_iter().map(|member| {
        message!(JoinGroupResponseMember {
            member_id: text(member.member_id),
            group_instance_id: member.group_instance_id.filter(|_| version >= 5).map(text),
            metadata: member.metadata,
        })
    });
    message!(JoinGroupResponse {
        error_code: error_code(outcome.error),
        generation_id: outcome.generation,
        protocol_type: outcome.protocol_type.filter(|_| version >= 7).map(text),
        protocol_name: protocol_name,
        leader: text(outcome.leader),
        skip_assignment: outcome.skip_assignment && version >= 9,
        member_id: text(outcome.member_id),
        members: members.collect(),
    })
}

/// Largest record in the partition of the group's coordinator; 0 if it has none here.
fn record_bytes_max(context: &Context, group_id: &str) -> usize {
    let index = context.broker().coordinators().groups().partition_of(group_id);
    let partition = index.and_then(|index| context.broker().replicas().partition(OFFSETS_TOPIC, index).ok());
    partition.map_or(0, |partition| partition.config().max_message_bytes as usize)
}

fn join(context: &Context, request: JoinGroupRequest) -> JoinRequest {
    let version = context.version();
    let protocol = |offered: levada_wire::messages::join_group_request::JoinGroupRequestProtocol| Protocol {
        name: offered.name.into_string(),
        metadata: own(&offered.metadata),
    };
    JoinRequest {
        api_version: version,
        record_bytes_max: record_bytes_max(context, request.group_id.as_str()),
        group_id: request.group_id.into_string(),
        member_id: request.member_id.into_string(),
        group_instance_id: request.group_instance_id.map(|id| id.into_string()),
        client_id: context.client_id().to_owned(),
        client_host: format!("/{}", context.info.peer.ip().to_canonical()),
        session_timeout_ms: request.session_timeout_ms,
        // Version 0 has only one timeout.
        rebalance_timeout_ms: if version == 0 {
            request.session_timeout_ms
        } else {
            request.rebalance_timeout_ms
        },
        protocol_type: request.protocol_type.into_string(),
        protocols: request.protocols.into_iter().map(protocol).collect(),
        nonce: uuid::Uuid::new_v4().as_u128(),
        visible: context.visible_topics(),
    }
}
