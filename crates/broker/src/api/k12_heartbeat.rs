//! Heartbeat (key 12), versions 0–4.
//!
//! Version 3 has instance ids (KIP-345), and 4 is flexible (KIP-482).
//!
//! Extends the session of a member of a classic group, and reports a rebalance of the group.

use levada_coordination::group::request;
use levada_security::acl::{Operation, ResourceType};
use levada_wire::error_code::{ErrorCode, error_code};
use levada_wire::messages::{HeartbeatRequest, HeartbeatResponse};

use crate::api::Context;

pub(crate) async fn answer(context: &Context, request: HeartbeatRequest) -> HeartbeatResponse {
    if !context.may(Operation::Read, ResourceType::Group, request.group_id.as_str()) {
        return message!(HeartbeatResponse { error_code: ErrorCode::GroupAuthorizationFailed.code() });
    }
    let question = request::HeartbeatRequest {
        group_id: request.group_id.into_string(),
        member_id: request.member_id.into_string(),
        group_instance_id: request.group_instance_id.map(|id| id.into_string()),
        generation: request.generation_id,
    };
    let outcome = context.broker().coordinators().groups().ask(question).await;
    message!(HeartbeatResponse { error_code: error_code(outcome.err()) })
}
