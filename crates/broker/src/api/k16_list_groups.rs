//! ListGroups (key 16), versions 0–5.
//!
//! All groups of this broker, filtered by state (version 4) and by type (version 5). Until the
//! first request for a coordinator there is no `__consumer_offsets`, and no group.

use levada_wire::messages::list_groups_response::ListedGroup;
use levada_wire::messages::{ListGroupsRequest, ListGroupsResponse};

use crate::api::{Context, text};
use crate::error_code::error_code;
use crate::group::coordinator::ListFilter;
use crate::security::acl::{Operation, ResourceType};

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
    for listed in context.broker().coordinators().groups().view_all(|coordinator| coordinator.list(&filter)) {
        match listed {
            Ok(groups) => {
                response.groups.extend(groups.into_iter().filter(|one| visible(&one.group_id)).map(|group| {
                    let mut shown = message!(ListedGroup {
                        group_id: text(group.group_id),
                        protocol_type: text(group.protocol_type),
                    });
                    if context.version() >= STATE_VERSION_MIN {
                        shown.group_state = group.state.into();
                    }
                    if context.version() >= TYPE_VERSION_MIN {
                        shown.group_type = group.group_type.into();
                    }
                    shown
                }))
            }
            Err(error) => response.error_code = error_code(Some(error)),
        }
    }
    response
}
