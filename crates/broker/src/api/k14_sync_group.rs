//! SyncGroup (key 14), versions 0–5.
//!
//! Version 3 has instance ids (KIP-345), 4 is flexible (KIP-482), and 5 has protocol type and name,
//! which must match the group (KIP-559).
//!
//! The leader sends the assignments of all members, and the other members wait for theirs; the
//! responses are sent once the assignment is in `__consumer_offsets`.

use levada_coordination::group::request::SyncRequest;
use levada_security::acl::{Operation, ResourceType};
use levada_wire::error_code::{ErrorCode, error_code};
use levada_wire::messages::{SyncGroupRequest, SyncGroupResponse};

use crate::api::{Context, own, text};

const PROTOCOL_VERSION_MIN: i16 = 5;

pub(crate) async fn answer(context: &Context, request: SyncGroupRequest) -> SyncGroupResponse {
    let named = context.version() >= PROTOCOL_VERSION_MIN;
    if named && (request.protocol_type.is_none() || request.protocol_name.is_none()) {
        return message!(SyncGroupResponse { error_code: ErrorCode::InconsistentGroupProtocol.code() });
    }
    if !context.may(Operation::Read, ResourceType::Group, request.group_id.as_str()) {
        return message!(SyncGroupResponse { error_code: ErrorCode::GroupAuthorizationFailed.code() });
    }
    let assignments = request.assignments.into_iter();
    let assignments = assignments.map(|one| (one.member_id.into_string(), own(&one.assignment)));
    let request = SyncRequest {
        group_id: request.group_id.into_string(),
        member_id: request.member_id.into_string(),
        group_instance_id: request.group_instance_id.map(|id| id.into_string()),
        generation: request.generation_id,
        protocol_type: request.protocol_type.map(|name| name.into_string()),
        protocol_name: request.protocol_name.map(|name| name.into_string()),
        assignments: assignments.collect(),
    };
    context.wait_for_others();
    let outcome = context.broker().coordinators().groups().ask(request).await;
    message!(SyncGroupResponse {
        error_code: error_code(outcome.error),
        protocol_type: outcome.protocol_type.filter(|_| named).map(text),
        protocol_name: outcome.protocol_name.filter(|_| named).map(text),
        assignment: outcome.assignment,
    })
}
