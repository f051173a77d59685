//! The share session of a request: opens it, continues it, or finds the one that it ends.

use std::collections::HashSet;
use std::sync::Arc;

use levada_wire::error_code::ErrorCode;
use levada_wire::messages::ShareFetchRequest;

use super::Sharing;
use crate::api::Context;
use crate::share_partitions::{FINAL_EPOCH, INITIAL_EPOCH, MemberKey, PartitionPlace, ShareConnection};

/// Begins the next step of the member's session.
pub(super) fn begin(
    context: &Context,
    (group, member): (&str, &str),
    request: &ShareFetchRequest,
) -> Result<Sharing, ErrorCode> {
    let room = context.broker().share_partitions();
    match request.share_session_epoch {
        INITIAL_EPOCH => open(context, (group, member), request),
        FINAL_EPOCH => {
            let found = room.sessions().member((group, member));
            let member = found.ok_or(ErrorCode::ShareSessionNotFound)?;
            Ok(Sharing { member, epoch: FINAL_EPOCH, partitions: Vec::new(), continued: None })
        }
        epoch => {
            let (added, forgotten) = (named(request), forgotten(request));
            let (member, session) = room.sessions().proceed((group, member), epoch, (&added, &forgotten))?;
            let mut partitions = session.lock().partitions();
            if let Some(turns) = usize::try_from(epoch).ok().filter(|_| !partitions.is_empty()) {
                let turns = turns % partitions.len();
                partitions.rotate_left(turns);
            }
            Ok(Sharing { member, epoch, partitions, continued: Some(session) })
        }
    }
}

fn open(
    context: &Context,
    (group, member): (&str, &str),
    request: &ShareFetchRequest,
) -> Result<Sharing, ErrorCode> {
    let mut named_partitions = request.topics.iter().flat_map(|topic| &topic.partitions);
    if named_partitions.any(|partition| !partition.acknowledgement_batches.is_empty()) {
        return Err(ErrorCode::InvalidRequest);
    }
    let room = context.broker().share_partitions();
    let connection = context.info.shares.get_or_init(|| Arc::new(ShareConnection::new(room)));
    let member = MemberKey { group: group.into(), member: member.into() };
    let owner = context.session().requester();
    let mut partitions = named(request);
    let (evicted, opened) = room.sessions().open(member.clone(), &partitions, (connection.number(), &owner));
    evicted.into_iter().for_each(|(member, partitions)| room.session_closed(member, partitions));
    opened?;
    let mut seen = HashSet::with_capacity(partitions.len());
    partitions.retain(|key| seen.insert(*key));
    Ok(Sharing { member, epoch: INITIAL_EPOCH, partitions, continued: None })
}

fn named(request: &ShareFetchRequest) -> Vec<PartitionPlace> {
    let partitions = request.topics.iter().flat_map(|topic| {
        topic.partitions.iter().map(|partition| (topic.topic_id, partition.partition_index))
    });
    partitions.collect()
}

fn forgotten(request: &ShareFetchRequest) -> Vec<PartitionPlace> {
    let partitions = request
        .forgotten_topics_data
        .iter()
        .flat_map(|topic| topic.partitions.iter().map(|index| (topic.topic_id, *index)));
    partitions.collect()
}
