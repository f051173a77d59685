//! ListPartitionReassignments (key 46), version 0.
//!
//! With one broker there is never a move to another one: the list is empty.

use levada_security::acl::Operation;
use levada_wire::error_code::ErrorCode;
use levada_wire::messages::{ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponse};

use crate::api::access::forbidden;
use crate::api::{Context, text};

pub(crate) async fn answer(
    context: &Context,
    _: ListPartitionReassignmentsRequest,
) -> ListPartitionReassignmentsResponse {
    if context.may_cluster(Operation::Describe) {
        return message!(ListPartitionReassignmentsResponse { error_message: None });
    }
    let forbidden = forbidden(ErrorCode::ClusterAuthorizationFailed);
    message!(ListPartitionReassignmentsResponse {
        error_code: forbidden.code.code(),
        error_message: forbidden.message.map(text),
    })
}
