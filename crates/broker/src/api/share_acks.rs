//! The code that ShareFetch and ShareAcknowledge share: conditions of a request of a member,
//! partitions by topic id, and acknowledgements.

use std::collections::HashMap;
use std::sync::Arc;

use levada_coordination::share_partition::{AckBatch, AckError};
use levada_security::acl::{Operation, ResourceType};
use levada_wire::Uuid;
use levada_wire::error_code::ErrorCode;
use levada_wire::messages::{StrBytes, share_acknowledge_request, share_fetch_request};
use tokio::sync::oneshot;

use crate::api::Context;
use crate::api::k76_share_group_heartbeat::{are_served, is_member_id};
use crate::replica::Partition;
use crate::share;
use crate::share_partitions::{Acknowledged, MemberKey, PartitionPlace, ShareGroup};
use crate::time_slice::TimeSlice;

/// Version from which on members may renew their locks.
pub(super) const RENEW_VERSION_MIN: i16 = 2;

/// Types of acknowledgements at most, without and with renewals.
const TYPE_MAX: i8 = 3;
const RENEW_TYPE: i8 = 4;

/// Group and member of a request that this broker may process.
pub(super) fn permit<'a>(
    context: &Context,
    group_id: Option<&'a StrBytes>,
    member_id: Option<&'a StrBytes>,
) -> Result<(&'a str, &'a str), ErrorCode> {
    if !are_served(context) {
        return Err(ErrorCode::UnsupportedVersion);
    }
    let group_id = group_id.ok_or(ErrorCode::InvalidRequest)?.as_str();
    if !context.may(Operation::Read, ResourceType::Group, group_id) {
        return Err(ErrorCode::GroupAuthorizationFailed);
    }
    let member_id = member_id.map_or("", |id| id.as_str());
    if is_member_id(member_id) { Ok((group_id, member_id)) } else { Err(ErrorCode::InvalidRequest) }
}

/// Decisions about the topics of one request.
#[derive(Default)]
pub(super) struct Topics {
    permitted: HashMap<Uuid, Result<(), ErrorCode>>,
}

impl Topics {
    /// Checks that the topic exists, and that the client may read it.
    pub(super) fn permit(&mut self, context: &Context, topic_id: Uuid) -> Result<(), ErrorCode> {
        *self.permitted.entry(topic_id).or_insert_with(|| {
            let image = context.broker().metadata().image();
            let topic = image.topic_by_id(topic_id).ok_or(ErrorCode::UnknownTopicId)?;
            if context.may(Operation::Read, ResourceType::Topic, topic.name()) {
                Ok(())
            } else {
                Err(ErrorCode::TopicAuthorizationFailed)
            }
        })
    }

    /// The partition, if the client may read it and this broker leads it.
    pub(super) fn led(
        &mut self,
        context: &Context,
        (topic_id, index): PartitionPlace,
    ) -> Result<Arc<Partition>, ErrorCode> {
        self.permit(context, topic_id)?;
        let partition = context.broker().replicas().partition_by_id(topic_id, index)?;
        partition.check_leader(-1)?;
        Ok(partition)
    }
}

/// The acknowledgements of a partition in a request.
pub(super) struct PartitionAcks<'a> {
    pub(super) key: PartitionPlace,
    pub(super) batches: Vec<AckBatch<'a>>,
}

/// The batches of a partition of a ShareFetch request.
pub(super) fn of_fetch(partition: &share_fetch_request::FetchPartition) -> Vec<AckBatch<'_>> {
    let batches = partition.acknowledgement_batches.iter().map(|batch| AckBatch {
        first: batch.first_offset,
        last: batch.last_offset,
        types: &batch.acknowledge_types,
    });
    batches.collect()
}

/// The batches of a partition of a ShareAcknowledge request.
pub(super) fn of_acknowledge(
    partition: &share_acknowledge_request::AcknowledgePartition,
) -> Vec<AckBatch<'_>> {
    let batches = partition.acknowledgement_batches.iter().map(|batch| AckBatch {
        first: batch.first_offset,
        last: batch.last_offset,
        types: &batch.acknowledge_types,
    });
    batches.collect()
}

/// The result of the acknowledgements of a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct AckResult {
    pub(super) key: PartitionPlace,
    pub(super) error: Option<ErrorCode>,
    pub(super) message: Option<&'static str>,
}

/// Acknowledgements that were applied, and whose changes are still to be stored.
pub(super) struct PendingAck {
    key: PartitionPlace,
    state: PendingState,
}

enum PendingState {
    Ended(Option<ErrorCode>, Option<&'static str>),
    Stored(oneshot::Receiver<Acknowledged>),
}

impl PendingAck {
    /// The result, once the changes are stored.
    async fn result(self) -> AckResult {
        let (error, message) = match self.state {
            PendingState::Ended(error, message) => (error, message),
            // The writing task has ended if the broker stops.
            PendingState::Stored(stored) => {
                (stored.await.unwrap_or(Err(ErrorCode::CoordinatorNotAvailable)).err(), None)
            }
        };
        AckResult { key: self.key, error, message }
    }
}

/// A request with acknowledgements.
struct Acking<'a> {
    context: &'a Context,
    member: &'a MemberKey,
    group: Arc<ShareGroup>,
    /// True if the request may renew locks.
    renews: bool,
    topics: Topics,
}

/// Applies the acknowledgements of a member. Of a partition that is named twice, the last entry
/// counts, as in Kafka. As there, partitions without acknowledgements are in the result if another
/// one has some.
pub(super) async fn acknowledge(
    context: &Context,
    member: &MemberKey,
    (acks, renews): (Vec<PartitionAcks<'_>>, bool),
    slice: &mut TimeSlice,
) -> Vec<PendingAck> {
    let group = context.broker().share_partitions().group(&member.group);
    let mut acking = Acking { context, member, group, renews, topics: Topics::default() };
    let mut last: HashMap<PartitionPlace, usize> = HashMap::new();
    if acks.len() > 1 {
        last = acks.iter().enumerate().map(|(at, acks)| (acks.key, at)).collect();
    }
    let mut pending = Vec::with_capacity(acks.len());
    let mut is_any_taken = false;
    for (at, acks) in acks.iter().enumerate() {
        if last.get(&acks.key).is_some_and(|last| *last != at) {
            continue;
        }
        let is_empty = acks.batches.is_empty();
        let state = match acking.check(acks) {
            Err((code, message)) => PendingState::Ended(Some(code), message),
            Ok(()) => {
                is_any_taken |= !is_empty;
                acking.apply(acks)
            }
        };
        let is_success = matches!(state, PendingState::Ended(None, _));
        pending.push((is_empty && is_success, PendingAck { key: acks.key, state }));
        slice.yield_if_over().await;
    }
    let is_told = |(is_empty, _): &(bool, PendingAck)| is_any_taken || !is_empty;
    pending.into_iter().filter(is_told).map(|(_, ack)| ack).collect()
}

impl Acking<'_> {
    /// Checks the form of acknowledgements, and that the client may make them here.
    fn check(&mut self, acks: &PartitionAcks<'_>) -> Result<(), (ErrorCode, Option<&'static str>)> {
        let (context, (topic_id, _)) = (self.context, acks.key);
        match self.topics.permit(context, topic_id) {
            Err(ErrorCode::UnknownTopicId) => return Err((ErrorCode::UnknownTopicId, None)),
            permitted => {
                check(&acks.batches, (context.version(), self.renews))
                    .map_err(|reason| (ErrorCode::InvalidRequest, Some(reason)))?;
                permitted.map_err(|code| (code, None))?;
            }
        }
        self.topics.led(context, acks.key).map(drop).map_err(|code| (code, None))
    }

    /// Applies checked acknowledgements.
    fn apply(&self, acks: &PartitionAcks<'_>) -> PendingState {
        if acks.batches.is_empty() {
            return PendingState::Ended(None, None);
        }
        let broker = self.context.broker();
        // Without a fetch before, the member has acquired nothing here.
        let Some(entry) = broker.share_partitions().entry(acks.key, &self.member.group) else {
            return PendingState::Ended(Some(ErrorCode::UnknownTopicOrPartition), None);
        };
        match entry.acknowledge(&self.member.member, &acks.batches, &self.group) {
            Ok((stored, demanded)) => {
                share::partitions::follow(broker, &entry, demanded);
                stored.map_or(PendingState::Ended(None, None), PendingState::Stored)
            }
            Err(error) => {
                let (code, reason) = refusal(error);
                PendingState::Ended(Some(code), Some(reason))
            }
        }
    }
}

fn refusal(error: AckError) -> (ErrorCode, &'static str) {
    match error {
        AckError::InvalidRequest => {
            (ErrorCode::InvalidRequest, "The acknowledgement names offsets that are not in flight.")
        }
        AckError::InvalidRecordState => (
            ErrorCode::InvalidRecordState,
            "The records are not acquired by this member, or an earlier acknowledgement is being stored.",
        ),
        AckError::TooManyEntries => (
            ErrorCode::UnknownServerError,
            "The broker tracks too many records one by one; acknowledge whole batches.",
        ),
        AckError::NotActive => {
            (ErrorCode::NotLeaderOrFollower, "The state of the shared partition is not loaded.")
        }
    }
}

/// Checks the form of acknowledgements, in Kafka's order.
fn check(batches: &[AckBatch<'_>], (version, renews): (i16, bool)) -> Result<(), &'static str> {
    let type_max = if version >= RENEW_VERSION_MIN { RENEW_TYPE } else { TYPE_MAX };
    let mut before = -1;
    for batch in batches {
        let count = i64::try_from(batch.types.len()).unwrap_or(i64::MAX);
        if batch.first > batch.last {
            return Err("The last offset of a batch is below its first offset.");
        }
        if batch.first < before {
            return Err("The batches are not in the order of their offsets.");
        }
        if batch.types.is_empty() {
            return Err("A batch has no acknowledge type.");
        }
        if count > 1 && batch.last.wrapping_sub(batch.first) != count - 1 {
            return Err("A batch has neither one acknowledge type nor one for each offset.");
        }
        if batch.types.iter().any(|kind| !(0..=type_max).contains(kind)) {
            return Err("A batch has an unknown acknowledge type.");
        }
        if batch.types.contains(&RENEW_TYPE) && !renews {
            return Err("A batch renews locks, but the request does not say so.");
        }
        before = batch.last;
    }
    Ok(())
}

/// The results of acknowledgements, once their changes are stored.
pub(super) async fn results(pending: Vec<PendingAck>) -> Vec<AckResult> {
    let mut results = Vec::with_capacity(pending.len());
    for ack in pending {
        results.push(ack.result().await);
    }
    results
}

/// Ends the session of a member, and releases its records.
pub(super) fn close(context: &Context, member: &MemberKey) {
    let room = context.broker().share_partitions();
    // Another request may have ended it.
    let closed = room.sessions().close(member);
    if let Ok((member, partitions)) = closed {
        share::partitions::release(context.broker(), &member, &partitions);
    }
}
