//! LeaveGroup (key 13), versions 0–5.
//!
//! Version 3 removes several members, by member or instance id (KIP-345), 4 is flexible (KIP-482),
//! and 5 has a reason (KIP-800).
//!
//! Below version 3 one member leaves; from 3 on any number, static members by their instance id.

use levada_coordination::group::request::{LeaveRequest, LeavingMember};
use levada_security::acl::{Operation, ResourceType};
use levada_wire::error_code::{ErrorCode, error_code};
use levada_wire::messages::leave_group_response::MemberResponse;
use levada_wire::messages::{LeaveGroupRequest, LeaveGroupResponse};

use crate::api::{Context, text};

const BATCHED_VERSION_MIN: i16 = 3;

pub(crate) async fn answer(context: &Context, request: LeaveGroupRequest) -> LeaveGroupResponse {
    if !context.may(Operation::Read, ResourceType::Group, request.group_id.as_str()) {
        return message!(LeaveGroupResponse { error_code: ErrorCode::GroupAuthorizationFailed.code() });
    }
    let batched = context.version() >= BATCHED_VERSION_MIN;
    let members = if batched {
        let leaving = request.members.into_iter().map(|member| LeavingMember {
            member_id: member.member_id.into_string(),
            group_instance_id: member.group_instance_id.map(|id| id.into_string()),
        });
        leaving.collect()
    } else {
        vec![LeavingMember { member_id: request.member_id.into_string(), group_instance_id: None }]
    };
    let request = LeaveRequest { group_id: request.group_id.into_string(), members };
    context.give_turn_back();
    let left = match context.broker().coordinators().groups().ask(request).await {
        Ok(left) => left,
        Err(error) => return message!(LeaveGroupResponse { error_code: error_code(Some(error)) }),
    };
    if !batched {
        let error = left.into_iter().find_map(|member| member.error);
        return message!(LeaveGroupResponse { error_code: error_code(error) });
    }
    let members = left.into_iter().map(|member| {
        message!(MemberResponse {
            member_id: text(member.member_id),
            group_instance_id: member.group_instance_id.map(text),
            error_code: error_code(member.error),
        })
    });
    message!(LeaveGroupResponse { members: members.collect() })
}
