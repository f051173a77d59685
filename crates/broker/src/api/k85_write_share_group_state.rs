//! WriteShareGroupState (key 85), versions 0–1.
//!
//! Version 1 has the number of offsets whose delivery is complete (KIP-1226); the API is that of
//! KIP-932.
//!
//! The leader of a partition stores the delivery states of its records for a group. See
//! `share_state` for the checks of all requests about the state.
//!
//! A request may have several writes of one partition. If one of them fails, the response reports
//! the failure for each, because Kafka's leaders take the first result of a partition for all of
//! them.

use std::collections::BTreeMap;

use levada_coordination::share_state::StateBatch;
use levada_coordination::share_state::request::WritePart;
use levada_wire::Uuid;
use levada_wire::messages::write_share_group_state_request::PartitionData;
use levada_wire::messages::write_share_group_state_response::{PartitionResult, WriteStateResult};
use levada_wire::messages::{WriteShareGroupStateRequest, WriteShareGroupStateResponse};

use crate::api::Context;
use crate::api::share_state::{self, PartResponse, changed};

pub(crate) async fn answer(
    context: &Context,
    request: WriteShareGroupStateRequest,
) -> WriteShareGroupStateResponse {
    let topics = request.topics.into_iter().map(|topic| {
        let parts = topic.partitions.into_iter().map(|part| write_part(topic.topic_id, part));
        (topic.topic_id, parts.collect())
    });
    let mut responses = share_state::ask(context, request.group_id.as_str(), topics.collect()).await;
    share_failures(&mut responses);
    changed!(responses => WriteShareGroupStateResponse, WriteStateResult, PartitionResult)
}

/// Responses about partitions of a topic.
type TopicResponses = (Uuid, Vec<(i32, PartResponse<()>)>);

/// Sets the error of one failed write of a partition for all its writes.
fn share_failures(responses: &mut [TopicResponses]) {
    let mut failures: BTreeMap<(Uuid, i32), PartResponse<()>> = BTreeMap::new();
    for (topic_id, partitions) in &*responses {
        for (partition, response) in partitions.iter().filter(|(_, response)| response.is_err()) {
            failures.insert((*topic_id, *partition), response.clone());
        }
    }
    if failures.is_empty() {
        return;
    }
    for (topic_id, partitions) in responses {
        for (partition, response) in partitions {
            if let Some(failure) = failures.get(&(*topic_id, *partition)) {
                *response = failure.clone();
            }
        }
    }
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

#[cfg(test)]
mod tests {
    use levada_wire::Uuid;

    use super::share_failures;

    #[test]
    fn writes_of_a_partition_fail_together() {
        let (one, other) = (Uuid::from_bytes([1; 16]), Uuid::from_bytes([2; 16]));
        let failure = || Err((16, None));
        let mut responses = vec![
            (one, vec![(0, Ok(())), (1, Ok(())), (0, failure())]),
            (other, vec![(0, Ok(()))]),
            (one, vec![(0, Ok(()))]),
        ];
        share_failures(&mut responses);
        let expected = vec![
            (one, vec![(0, failure()), (1, Ok(())), (0, failure())]),
            (other, vec![(0, Ok(()))]),
            (one, vec![(0, failure())]),
        ];
        assert_eq!(responses, expected);
    }
}
