//! InitializeShareGroupState (key 83), version 0.
//!
//! The group coordinator creates the state of partitions that a group begins to share (KIP-932).
//! See `share_state` for the checks of all requests about the state.

use levada_coordination::share_state::request::InitializePart;
use levada_wire::messages::initialize_share_group_state_response::{InitializeStateResult, PartitionResult};
use levada_wire::messages::{InitializeShareGroupStateRequest, InitializeShareGroupStateResponse};

use crate::api::Context;
use crate::api::share_state::{self, changed};

pub(crate) async fn answer(
    context: &Context,
    request: InitializeShareGroupStateRequest,
) -> InitializeShareGroupStateResponse {
    let topics = request.topics.into_iter().map(|topic| {
        let parts = topic.partitions.into_iter().map(|part| InitializePart {
            topic_id: topic.topic_id,
            partition: part.partition,
            state_epoch: part.state_epoch,
            start_offset: part.start_offset,
        });
        (topic.topic_id, parts.collect())
    });
    let responses = share_state::ask(context, request.group_id.as_str(), topics.collect()).await;
    changed!(responses => InitializeShareGroupStateResponse, InitializeStateResult, PartitionResult)
}
