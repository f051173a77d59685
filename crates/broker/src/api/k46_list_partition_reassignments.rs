//! ListPartitionReassignments (key 46), version 0.
//!
//! With one broker nothing is ever on its way to another: the list is empty.

use levada_wire::messages::{ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponse};

use crate::api::Context;
use crate::error_code::ErrorCode;
use crate::security::acl::Operation;

pub(crate) async fn answer(
    context: &Context,
    _: ListPartitionReassignmentsRequest,
) -> ListPartitionReassignmentsResponse {
    let may = context.may_cluster(Operation::Describe);
    let error = if may { ErrorCode::None } else { ErrorCode::ClusterAuthorizationFailed };
    message!(ListPartitionReassignmentsResponse { error_code: error.code(), error_message: None })
}
