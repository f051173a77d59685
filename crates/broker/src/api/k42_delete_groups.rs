//! DeleteGroups (key 42), versions 0–3.
//!
//! Version 1 clients are muted after the response (KIP-219), version 2 is flexible (KIP-482), and 3
//! has an error message for each group (Kafka 4.4).
//!
//! Deletes groups without members, and their positions with them.

use std::collections::HashSet;

use levada_coordination::group::request::DeleteRequest;
use levada_security::acl::{Operation, ResourceType};
use levada_wire::error_code::{ErrorCode, error_code};
use levada_wire::messages::delete_groups_response::DeletableGroupResult;
use levada_wire::messages::{DeleteGroupsRequest, DeleteGroupsResponse, StrBytes};

use crate::api::changes::log_change;
use crate::api::group_order::in_kafkas_order;
use crate::api::{Context, text};

pub(crate) async fn answer(context: &Context, request: DeleteGroupsRequest) -> DeleteGroupsResponse {
    let groups = context.broker().coordinators().groups();
    let mut seen = HashSet::new();
    let asked = request.groups_names.into_iter().filter(|group_id| seen.insert(group_id.clone()));
    let may = |group_id: &StrBytes| context.may(Operation::Delete, ResourceType::Group, group_id.as_str());
    let (permitted, forbidden): (Vec<_>, Vec<_>) = asked.partition(may);
    let mut response = DeleteGroupsResponse::default();
    context.give_turn_back();
    for group_id in in_kafkas_order(context, permitted) {
        let request = DeleteRequest { group_ids: vec![group_id.into_string()] };
        for (group_id, error) in groups.ask(request).await {
            if error.is_none() {
                log_change!(context, "group deleted", group = group_id.as_str(),);
            }
            response.results.push(message!(DeletableGroupResult {
                group_id: text(group_id),
                error_code: error_code(error),
            }));
        }
    }
    let error_code = ErrorCode::GroupAuthorizationFailed.code();
    let refuse = |group_id| message!(DeletableGroupResult { group_id: group_id, error_code: error_code });
    response.results.extend(forbidden.into_iter().map(refuse));
    response
}
