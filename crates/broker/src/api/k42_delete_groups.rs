//! DeleteGroups (key 42), versions 0–2.
//!
//! Deletes groups without members, and their positions with them.

use levada_wire::messages::delete_groups_response::DeletableGroupResult;
use levada_wire::messages::{DeleteGroupsRequest, DeleteGroupsResponse};

use crate::api::{Context, text};
use crate::error_code::{ErrorCode, error_code};
use crate::group::request::DeleteRequest;
use crate::security::acl::{Operation, ResourceType};

pub(crate) async fn answer(context: &Context, request: DeleteGroupsRequest) -> DeleteGroupsResponse {
    let mut response = DeleteGroupsResponse::default();
    for group_id in request.groups_names {
        if !context.may(Operation::Delete, ResourceType::Group, group_id.as_str()) {
            let error_code = ErrorCode::GroupAuthorizationFailed.code();
            response.results.push(message!(DeletableGroupResult { group_id: group_id, error_code: error_code }));
            continue;
        }
        let request = DeleteRequest { group_ids: vec![group_id.into_string()] };
        for (group_id, error) in context.broker().groups().ask(request).await {
            response.results.push(message!(DeletableGroupResult {
                group_id: text(group_id),
                error_code: error_code(error),
            }));
        }
    }
    response
}
