//! DescribeGroups (key 15), versions 0–6.
//!
//! Version 3 returns authorized operations (KIP-430), 4 instance ids (KIP-345), 5 is flexible
//! (KIP-482), and 6 has an error for missing groups (KIP-1043).
//!
//! State, protocol and members of classic groups. A group that does not exist is `Dead`; from
//! version 6 on that is `GROUP_ID_NOT_FOUND` as well. A group that is named more than once is
//! described once.

use std::collections::HashSet;

use levada_coordination::group::{GroupError, coordinator};
use levada_security::acl::{Operation, ResourceType};
use levada_wire::error_code::{ErrorCode, error_code, sentence};
use levada_wire::messages::describe_groups_response::{DescribedGroup, DescribedGroupMember};
use levada_wire::messages::{DescribeGroupsRequest, DescribeGroupsResponse, StrBytes};

use crate::api::group_order::in_kafkas_order;
use crate::api::{Context, text};

const NOT_FOUND_VERSION_MIN: i16 = 6;

pub(crate) async fn answer(context: &Context, request: DescribeGroupsRequest) -> DescribeGroupsResponse {
    let may = |id: &StrBytes| context.may(Operation::Describe, ResourceType::Group, id.as_str());
    let mut named = HashSet::new();
    let named = request.groups.into_iter().filter(|id| named.insert(id.clone()));
    let (permitted, forbidden): (Vec<_>, Vec<_>) = named.partition(may);
    let refuse = |id| {
        message!(DescribedGroup { group_id: id, error_code: ErrorCode::GroupAuthorizationFailed.code() })
    };
    let groups = context.broker().coordinators().groups();
    let permitted = in_kafkas_order(context, permitted);
    let described = permitted.into_iter().map(|id| {
        let found = groups.view(id.as_str(), |coordinator| coordinator.describe(id.as_str()));
        let mut group = match found {
            Some(found) => show(context, found),
            None => message!(DescribedGroup {
                group_id: id.clone(),
                error_code: ErrorCode::NotCoordinator.code(),
            }),
        };
        if request.include_authorized_operations && group.error_code == 0 {
            group.authorized_operations = context.operations(ResourceType::Group, id.as_str());
        }
        group
    });
    message!(DescribeGroupsResponse { groups: forbidden.into_iter().map(refuse).chain(described).collect() })
}

fn show(context: &Context, found: coordinator::DescribedGroup) -> DescribedGroup {
    let hidden =
        found.error == Some(GroupError::GroupIdNotFound) && context.version() < NOT_FOUND_VERSION_MIN;
    let error = found.error.filter(|_| !hidden);
    let mut shown = message!(DescribedGroup {
        error_code: error_code(error),
        group_id: text(found.group_id),
        group_state: found.state.into(),
        protocol_type: text(found.protocol_type),
        protocol_data: text(found.protocol_data),
    });
    if error == Some(GroupError::GroupIdNotFound) {
        let what = if found.is_consumer { "is not a classic group" } else { "not found" };
        shown.error_message = Some(text(sentence(format!("Group {} {what}.", shown.group_id.as_str()))));
    }
    for member in found.members {
        shown.members.push(message!(DescribedGroupMember {
            member_id: text(member.member_id),
            group_instance_id: member.group_instance_id.filter(|_| context.version() >= 4).map(text),
            client_id: text(member.client_id),
            client_host: text(member.client_host),
            member_metadata: member.metadata,
            member_assignment: member.assignment,
        }));
    }
    shown
}
