//! DeleteShareGroupState (key 86), version 0.
//!
//! The group coordinator removes the state that a group has for partitions (KIP-932). See
//! `share_state` for the checks of all requests about the state.

use levada_coordination::share_state::request::DeletePart;
use levada_wire::messages::delete_share_group_state_response::{DeleteStateResult, PartitionResult};
use levada_wire::messages::{DeleteShareGroupStateRequest, DeleteShareGroupStateResponse};

use crate::api::Context;
use crate::api::share_state::{self, changed};

pub(crate) async fn answer(
    context: &Context,
    request: DeleteShareGroupStateRequest,
) -> DeleteShareGroupStateResponse {
    let topics = request.topics.into_iter().map(|topic| {
        let partitions = topic.partitions.into_iter();
        let parts = partitions.map(|part| DeletePart { topic_id: topic.topic_id, partition: part.partition });
        (topic.topic_id, parts.collect())
    });
    let responses = share_state::ask(context, request.group_id.as_str(), topics.collect()).await;
    changed!(responses => DeleteShareGroupStateResponse, DeleteStateResult, PartitionResult)
}
