//! InitializeShareGroupState (key 83), version 0.
//!
//! The group coordinator gives partitions that a group has begun to share a new state. See
//! `share_state` for what all requests about the state check.

use levada_coordination::share_state::request::InitializePart;
use levada_wire::messages::initialize_share_group_state_response::{InitializeStateResult, PartitionResult};
use levada_wire::messages::{InitializeShareGroupStateRequest, InitializeShareGroupStateResponse};

use crate::api::Context;
use crate::api::share_state;

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
    let results = responses.into_iter().map(|(topic_id, partitions)| {
        let partitions = partitions.into_iter().map(|(partition, response)| {
            let (error_code, error_message) = response.err().unwrap_or_default();
            message!(PartitionResult {
                partition: partition,
                error_code: error_code,
                error_message: error_message,
            })
        });
        message!(InitializeStateResult { topic_id: topic_id, partitions: partitions.collect() })
    });
    message!(InitializeShareGroupStateResponse { results: results.collect() })
}
