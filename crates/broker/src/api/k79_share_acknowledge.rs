//! ShareAcknowledge (key 79), versions 1–2.
//!
//! Version 2 can renew locks (KIP-1222).
//!
//! A member of a share group (KIP-932) reports the result of records that it has acquired:
//! accepted, released, rejected, or (from version 2 on) still in work, which renews its locks. The
//! response comes once the new states are stored. The request is one of the member's share session,
//! and may end it: then all other records of the member are released.
//!
//! Checks Read on the group and on each topic. With the feature `share.version` at level 0, the
//! response is `UNSUPPORTED_VERSION`.

use levada_wire::error_code::ErrorCode;
use levada_wire::messages::share_acknowledge_response::{
    LeaderIdAndEpoch, NodeEndpoint, PartitionData, ShareAcknowledgeTopicResponse,
};
use levada_wire::messages::{ShareAcknowledgeRequest, ShareAcknowledgeResponse};

use crate::api::leaders::Leaders;
use crate::api::share_acks::{AckResult, PartitionAcks, acknowledge, close, of_acknowledge, permit, results};
use crate::api::{Context, text};
use crate::share_partitions::{FINAL_EPOCH, INITIAL_EPOCH, MemberKey};
use crate::time_slice::TimeSlice;

pub(crate) async fn answer(context: &Context, request: ShareAcknowledgeRequest) -> ShareAcknowledgeResponse {
    let member = match begin(context, &request) {
        Ok(member) => member,
        Err(error) => return message!(ShareAcknowledgeResponse { error_code: error.code() }),
    };
    let acks = request.topics.iter().flat_map(|topic| {
        topic.partitions.iter().map(|partition| PartitionAcks {
            key: (topic.topic_id, partition.partition_index),
            batches: of_acknowledge(partition),
        })
    });
    let acks = (acks.collect(), request.is_renew_ack);
    let mut slice = TimeSlice::begin();
    let pending = acknowledge(context, &member, acks, &mut slice).await;
    context.give_turn_back();
    let results = results(pending).await;
    if request.share_session_epoch == FINAL_EPOCH {
        close(context, &member);
    }
    show(context, &member, results)
}

/// Begins the next step of the member's session.
fn begin(context: &Context, request: &ShareAcknowledgeRequest) -> Result<MemberKey, ErrorCode> {
    let (group, member) = permit(context, request.group_id.as_ref(), request.member_id.as_ref())?;
    let mut sessions = context.broker().share_partitions().sessions();
    match request.share_session_epoch {
        INITIAL_EPOCH => Err(ErrorCode::InvalidShareSessionEpoch),
        FINAL_EPOCH => sessions.member((group, member)).ok_or(ErrorCode::ShareSessionNotFound),
        epoch => Ok(sessions.proceed((group, member), epoch, (&[], &[]))?.0),
    }
}

fn show(context: &Context, member: &MemberKey, results: Vec<AckResult>) -> ShareAcknowledgeResponse {
    let mut leaders = Leaders::default();
    let mut topics: Vec<ShareAcknowledgeTopicResponse> = Vec::new();
    for result in results {
        let (topic_id, index) = result.key;
        let error_code = result.error.map_or(0, ErrorCode::code);
        let mut partition = message!(PartitionData {
            partition_index: index,
            error_code: error_code,
            error_message: result.message.map(text),
        });
        if let Some(leader) = leaders.of_share(context, (topic_id, index), error_code) {
            partition.current_leader =
                message!(LeaderIdAndEpoch { leader_id: leader.leader_id, leader_epoch: leader.leader_epoch });
        }
        match topics.last_mut().filter(|topic| topic.topic_id == topic_id) {
            Some(topic) => topic.partitions.push(partition),
            None => topics.push(message!(ShareAcknowledgeTopicResponse {
                topic_id: topic_id,
                partitions: vec![partition]
            })),
        }
    }
    let nodes = leaders.into_nodes().into_iter().map(|node| {
        message!(NodeEndpoint { node_id: node.node_id, host: node.host, port: node.port, rack: node.rack })
    });
    let group = context.broker().share_partitions().group(&member.group);
    message!(ShareAcknowledgeResponse {
        acquisition_lock_timeout_ms: i32::try_from(group.limits.lock_duration_ms).unwrap_or(i32::MAX),
        responses: topics,
        node_endpoints: nodes.collect(),
    })
}
