//! ReadShareGroupStateSummary (key 87), versions 0–1.
//!
//! Version 1 has the number of offsets whose delivery is complete (KIP-1226); the API is that of
//! KIP-932.
//!
//! The group coordinator reads a summary of the state that a group has for partitions, on behalf of
//! an administrator. See `share_state` for the checks of all requests about the state.

use levada_coordination::share_state::request::SummaryPart;
use levada_wire::messages::read_share_group_state_summary_response::{
    PartitionResult, ReadStateSummaryResult,
};
use levada_wire::messages::{ReadShareGroupStateSummaryRequest, ReadShareGroupStateSummaryResponse};

use crate::api::Context;
use crate::api::share_state;

const COMPLETE_COUNT_VERSION_MIN: i16 = 1;

pub(crate) async fn answer(
    context: &Context,
    request: ReadShareGroupStateSummaryRequest,
) -> ReadShareGroupStateSummaryResponse {
    let topics = request.topics.into_iter().map(|topic| {
        let partitions = topic.partitions.into_iter();
        let parts =
            partitions.map(|part| SummaryPart { topic_id: topic.topic_id, partition: part.partition });
        (topic.topic_id, parts.collect())
    });
    let responses = share_state::ask(context, request.group_id.as_str(), topics.collect()).await;
    let results = responses.into_iter().map(|(topic_id, partitions)| {
        let partitions = partitions.into_iter().map(|(partition, response)| match response {
            Ok(summary) => {
                let mut shown = message!(PartitionResult {
                    partition: partition,
                    state_epoch: summary.state_epoch,
                    leader_epoch: summary.leader_epoch,
                    start_offset: summary.start_offset,
                });
                if context.version() >= COMPLETE_COUNT_VERSION_MIN {
                    shown.delivery_complete_count = summary.delivery_complete_count;
                }
                shown
            }
            Err((error_code, error_message)) => message!(PartitionResult {
                partition: partition,
                error_code: error_code,
                error_message: error_message,
            }),
        });
        message!(ReadStateSummaryResult { topic_id: topic_id, partitions: partitions.collect() })
    });
    message!(ReadShareGroupStateSummaryResponse { results: results.collect() })
}
