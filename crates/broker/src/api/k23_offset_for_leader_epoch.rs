//! OffsetForLeaderEpoch (key 23), versions 2–4.
//!
//! Version 2 has the client's leader epoch (KIP-320), 3 the replica id (KIP-392), and 4 is flexible
//! (KIP-482).
//!
//! The end offset of a leader epoch in this broker's log, by which a consumer detects that its
//! position was truncated.

use levada_security::acl::{Operation, ResourceType};
use levada_wire::error_code::ErrorCode;
use levada_wire::messages::offset_for_leader_epoch_request::OffsetForLeaderPartition;
use levada_wire::messages::offset_for_leader_epoch_response::{EpochEndOffset, OffsetForLeaderTopicResult};
use levada_wire::messages::{OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse};

use crate::api::Context;

pub(crate) async fn answer(
    context: &Context,
    request: OffsetForLeaderEpochRequest,
) -> OffsetForLeaderEpochResponse {
    let replica = context.might_cluster(Operation::ClusterAction);
    let topics = request.topics.into_iter().map(|topic| {
        let name = topic.topic.as_str();
        let may = replica || context.may(Operation::Describe, ResourceType::Topic, name);
        let partitions = topic.partitions.iter().map(|asked| {
            let found =
                if may { look_up(context, name, asked) } else { Err(ErrorCode::TopicAuthorizationFailed) };
            found.unwrap_or_else(|error| {
                message!(EpochEndOffset { partition: asked.partition, error_code: error.code() })
            })
        });
        message!(OffsetForLeaderTopicResult { topic: topic.topic.clone(), partitions: partitions.collect() })
    });
    message!(OffsetForLeaderEpochResponse { topics: topics.collect() })
}

fn look_up(
    context: &Context,
    topic: &str,
    asked: &OffsetForLeaderPartition,
) -> Result<EpochEndOffset, ErrorCode> {
    let partition = context.broker().replicas().partition(topic, asked.partition)?;
    partition.check_leader(asked.current_leader_epoch)?;
    let (leader_epoch, end_offset) = partition.log().epoch_end_offset(asked.leader_epoch);
    Ok(message!(EpochEndOffset {
        partition: asked.partition,
        leader_epoch: leader_epoch,
        end_offset: end_offset,
    }))
}
