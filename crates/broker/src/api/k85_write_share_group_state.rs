//! WriteShareGroupState (key 85), versions 0–1.
//!
//! The leader of a partition stores which records a group is done with. Version 1 has the number
//! of offsets on whose delivery is complete. See `share_state` for what all requests about the
//! state check.

use levada_coordination::share_state::StateBatch;
use levada_coordination::share_state::request::WritePart;
use levada_wire::Uuid;
use levada_wire::messages::write_share_group_state_request::PartitionData;
use levada_wire::messages::write_share_group_state_response::{PartitionResult, WriteStateResult};
use levada_wire::messages::{WriteShareGroupStateRequest, WriteShareGroupStateResponse};

use crate::api::Context;
use crate::api::share_state::{self, changed};

pub(crate) async fn answer(
    context: &Context,
    request: WriteShareGroupStateRequest,
) -> WriteShareGroupStateResponse {
    let topics = request.topics.into_iter().map(|topic| {
        let parts = topic.partitions.into_iter().map(|part| write_part(topic.topic_id, part));
        (topic.topic_id, parts.collect())
    });
    let responses = share_state::ask(context, request.group_id.as_str(), topics.collect()).await;
    changed!(responses => WriteShareGroupStateResponse, WriteStateResult, PartitionResult)
}

fn write_part(topic_id: Uuid, part: PartitionData) -> WritePart {
    let batches = part.state_batches.into_iter().map(|batch| StateBatch {
        first_offset: batch.first_offset,
        last_offset: batch.last_offset,
        delivery_state: batch.delivery_state,
        delivery_count: batch.delivery_count,
    });
    WritePart {
        topic_id,
        partition: part.partition,
        state_epoch: part.state_epoch,
        leader_epoch: part.leader_epoch,
        start_offset: part.start_offset,
        delivery_complete_count: part.delivery_complete_count,
        batches: batches.collect(),
    }
}
