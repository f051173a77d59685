//! ListGroups (key 16), versions 0–5.
//!
//! Version 3 is flexible (KIP-482), 4 has states (KIP-518), and 5 types (KIP-848).
//!
//! All groups of this broker, filtered by state (version 4) and by type (version 5), in Kafka's
//! order. Until the first request for a coordinator there is no `__consumer_offsets`, and no group.

use levada_coordination::group::coordinator::{ListFilter, ListedGroup as FoundGroup};
use levada_security::acl::{Operation, ResourceType};
use levada_wire::error_code::error_code;
use levada_wire::messages::list_groups_response::ListedGroup;
use levada_wire::messages::{ListGroupsRequest, ListGroupsResponse};

use crate::api::group_order::list_in_kafkas_order;
use crate::api::{Context, text};

const STATE_VERSION_MIN: i16 = 4;
const TYPE_VERSION_MIN: i16 = 5;

pub(crate) async fn answer(context: &Context, request: ListGroupsRequest) -> ListGroupsResponse {
    let filter = ListFilter::of(
        request.states_filter.iter().map(|state| state.as_str()),
        request.types_filter.iter().map(|kind| kind.as_str()),
    );
    let mut response = ListGroupsResponse::default();
    let all = context.might_cluster(Operation::Describe);
    let visible = |id: &str| all || context.might(Operation::Describe, ResourceType::Group, id);
    let all_groups = context.broker().coordinators().groups();
    let listed = all_groups.view_all(|coordinator| (coordinator.list(&filter), coordinator.group_count()));
    let (coordinators, mut groups) = (listed.len(), Vec::new());
    for (listed, count) in listed {
        match listed {
            Ok(listed) => groups
                .extend(listed.into_iter().filter(|one| visible(&one.group_id)).map(|group| (group, count))),
            Err(error) => response.error_code = error_code(Some(error)),
        }
    }
    list_in_kafkas_order(&mut groups, coordinators, |group| {
        (all_groups.partition_of(&group.group_id).unwrap_or_default(), group.group_id.as_str())
    });
    response.groups = groups.into_iter().map(|(group, _)| show(context, group)).collect();
    response
}

fn show(context: &Context, group: FoundGroup) -> ListedGroup {
    let mut shown =
        message!(ListedGroup { group_id: text(group.group_id), protocol_type: text(group.protocol_type) });
    if context.version() >= STATE_VERSION_MIN {
        shown.group_state = group.state.into();
    }
    if context.version() >= TYPE_VERSION_MIN {
        shown.group_type = group.group_type.into();
    }
    shown
}
