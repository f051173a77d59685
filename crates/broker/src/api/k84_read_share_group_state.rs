//! ReadShareGroupState (key 84), version 0.
//!
//! The leader of a partition reads the state that a group has for it (KIP-932). See `share_state`
//! for the checks of all requests about the state.

use levada_coordination::share_state::request::{ReadPart, StoredState};
use levada_wire::messages::read_share_group_state_response::{PartitionResult, ReadStateResult, StateBatch};
use levada_wire::messages::{ReadShareGroupStateRequest, ReadShareGroupStateResponse};

use crate::api::Context;
use crate::api::share_state::{self, PartResponse};

pub(crate) async fn answer(
    context: &Context,
    request: ReadShareGroupStateRequest,
) -> ReadShareGroupStateResponse {
    let topics = request.topics.into_iter().map(|topic| {
        let parts = topic.partitions.into_iter().map(|part| ReadPart {
            topic_id: topic.topic_id,
            partition: part.partition,
            leader_epoch: part.leader_epoch,
        });
        (topic.topic_id, parts.collect())
    });
    let responses = share_state::ask(context, request.group_id.as_str(), topics.collect()).await;
    let results = responses.into_iter().map(|(topic_id, partitions)| {
        let partitions = partitions.into_iter().map(|(partition, response)| show(partition, response));
        message!(ReadStateResult { topic_id: topic_id, partitions: partitions.collect() })
    });
    message!(ReadShareGroupStateResponse { results: results.collect() })
}

fn show(partition: i32, response: PartResponse<StoredState>) -> PartitionResult {
    match response {
        Ok(state) => {
            let batches = state.batches.into_iter().map(|batch| {
                message!(StateBatch {
                    first_offset: batch.first_offset,
                    last_offset: batch.last_offset,
                    delivery_state: batch.delivery_state,
                    delivery_count: batch.delivery_count,
                })
            });
            message!(PartitionResult {
                partition: partition,
                state_epoch: state.state_epoch,
                start_offset: state.start_offset,
                state_batches: batches.collect(),
            })
        }
        Err((error_code, error_message)) => message!(PartitionResult {
            partition: partition,
            error_code: error_code,
            error_message: error_message,
        }),
    }
}
