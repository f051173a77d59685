//! The response to a fetch: the partitions with their records, and the results of acknowledgements.

use std::collections::HashMap;

use levada_wire::error_code::ErrorCode;
use levada_wire::gather::HoleLen;
use levada_wire::share_fetch::{ShareFetchResponse, SharedPartition, SharedTopic};

use super::Sharing;
use super::fetching::Fetched;
use crate::api::leaders::Leaders;
use crate::api::records::Records;
use crate::api::share_acks::AckResult;
use crate::api::{Context, text};
use crate::share_partitions::PartitionPlace;

/// Errors of partitions at most that a response to a request of a session repeats, although the
/// request may not name the partitions.
const ERRORS_TOLD_MAX: usize = 1_000;

/// Builds the response, and records in the session which partitions the client has received.
///
/// # Errors
/// A later request of the session has come in the meantime.
pub(super) fn respond(
    context: &Context,
    sharing: &Sharing,
    fetched: Vec<(PartitionPlace, Fetched)>,
    acknowledged: Vec<AckResult>,
) -> Result<ShareFetchResponse<Records>, ErrorCode> {
    let mut leaders = Leaders::default();
    let mut partitions: Vec<(PartitionPlace, SharedPartition<Records>)> = Vec::with_capacity(fetched.len());
    for (key, result) in fetched {
        let partition = show(context, key, result, &mut leaders);
        partitions.push((key, partition));
    }
    prune(sharing, &mut partitions)?;
    let mut told: HashMap<PartitionPlace, usize> = HashMap::new();
    if !acknowledged.is_empty() {
        told = partitions.iter().enumerate().map(|(at, (key, _))| (*key, at)).collect();
    }
    for ack in acknowledged {
        let at = *told.entry(ack.key).or_insert(partitions.len());
        if at == partitions.len() {
            partitions.push((ack.key, SharedPartition::new(ack.key.1)));
        }
        let (_, partition) = &mut partitions[at];
        partition.acknowledge_error_code = ack.error.map_or(0, ErrorCode::code);
        partition.acknowledge_error_message = ack.message.map(text);
    }
    let group = context.broker().share_partitions().group(&sharing.member.group);
    Ok(ShareFetchResponse {
        acquisition_lock_timeout_ms: i32::try_from(group.limits.lock_duration_ms).unwrap_or(i32::MAX),
        topics: by_topic(partitions),
        node_endpoints: leaders.into_nodes(),
        ..ShareFetchResponse::of_error(0)
    })
}

fn show(
    context: &Context,
    (topic_id, index): PartitionPlace,
    result: Fetched,
    leaders: &mut Leaders,
) -> SharedPartition<Records> {
    let mut partition = SharedPartition::new(index);
    let served = context.broker().replicas().partitions().by_id(topic_id, index);
    match result {
        Ok(acquired) => {
            let bytes = acquired.records.as_ref().map_or(0, HoleLen::len);
            served.into_iter().for_each(|served| served.traffic().fetched(bytes));
            (partition.records, partition.acquired) = (acquired.records, acquired.ranges);
        }
        Err(error) => {
            served.into_iter().for_each(|served| served.traffic().fetch_failed());
            partition.error_code = error.code();
            let leader = leaders.of_share(context, (topic_id, index), error.code());
            partition.current_leader = leader.unwrap_or(partition.current_leader);
        }
    }
    partition
}

/// Omits the partitions that have nothing new for the client.
fn prune(
    sharing: &Sharing,
    partitions: &mut Vec<(PartitionPlace, SharedPartition<Records>)>,
) -> Result<(), ErrorCode> {
    let Some(session) = &sharing.continued else { return Ok(()) };
    let mut session = session.lock();
    if !session.is_at(sharing.epoch) {
        return Err(ErrorCode::InvalidShareSessionEpoch);
    }
    let mut errors = 0;
    partitions.retain(|(key, partition)| {
        let has_failed = partition.error_code != 0;
        errors += usize::from(has_failed);
        let is_told = session.tell(*key, partition.records.is_some(), has_failed);
        is_told && !(has_failed && errors > ERRORS_TOLD_MAX)
    });
    Ok(())
}

/// Partitions by topic, each topic once.
fn by_topic(partitions: Vec<(PartitionPlace, SharedPartition<Records>)>) -> Vec<SharedTopic<Records>> {
    let mut topics: Vec<SharedTopic<Records>> = Vec::new();
    let mut places = HashMap::new();
    for ((topic_id, _), partition) in partitions {
        let at = *places.entry(topic_id).or_insert(topics.len());
        if at == topics.len() {
            topics.push(SharedTopic { topic_id, partitions: Vec::new() });
        }
        topics[at].partitions.push(partition);
    }
    topics
}
