//! ListPartitionReassignments (key 46), version 0.
//!
//! With one broker nothing is ever on its way to another: the list is empty.

use levada_wire::messages::{ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponse};

use crate::api::Context;

pub(crate) async fn answer(
    _: &Context,
    _: ListPartitionReassignmentsRequest,
) -> ListPartitionReassignmentsResponse {
    message!(ListPartitionReassignmentsResponse { error_message: None })
}
