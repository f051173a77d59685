//! Work at the share coordinator that changes of share groups need: state of partitions is
//! initialized or deleted. A group writes that the work begins, the host does it, and the group
//! writes its end. The share coordinator accepts the same work again, so that a work whose end is
//! never heard of is done once more.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use levada_wire::{ErrorCode, Uuid};

use super::deletion::Deletion;
use super::held::Held;
use super::shares::ShareWrite;
use super::{Coordinator, MatchWork};
use crate::group::error::GroupError;
use crate::group::event::{Action, Outcome, Ticket};
use crate::group::records::Partitions;
use crate::group::request::{
    AlterShareOffsetsRequest, AlteredTopic, DeleteShareOffsetsRequest, DeletedTopic, StartOffsets,
};
use crate::group::share::{AlteredOffsets, DeletedOffsets, ShareDraft, ShareGroup};
use crate::group::topics::GoneTopic;

/// Value of a start offset that is not set.
const NO_OFFSET: i64 = -1;

/// Work outside the coordinator's partition.
#[derive(Clone, Debug, PartialEq)]
pub enum GroupWork {
    /// Expressions are to be compared with the names of topics.
    Match(MatchWork),
    /// State at the share coordinator is to be changed.
    ShareState(ShareStateWork),
}

/// A change of a share group's state at the share coordinator. The host does the works of a group
/// one by one, in the order of the actions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShareStateWork {
    /// Id of the work.
    pub id: ShareWorkId,
    /// Id of the group.
    pub group_id: String,
    /// The change.
    pub change: ShareStateChange,
}

/// The name of a work, unique in all terms of a coordinator; opaque to the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ShareWorkId {
    leader_epoch: i32,
    number: u64,
}

/// A change of state at the share coordinator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ShareStateChange {
    /// Initializes partitions by InitializeShareGroupState.
    Initialize {
        /// Epoch of the group.
        state_epoch: i32,
        /// The partitions and their start offsets.
        offsets: StartOffsets,
    },
    /// Deletes partitions by DeleteShareGroupState.
    Delete {
        /// Partitions to delete.
        partitions: Partitions,
    },
}

/// The end of a [`ShareStateWork`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShareStateEnd {
    /// Id of the work.
    pub id: ShareWorkId,
    /// Id of the group.
    pub group_id: String,
    /// The partitions that the share coordinator has refused: all others are done. An error: the
    /// work has failed as a whole.
    pub result: Result<RefusedPartitions, ErrorCode>,
}

/// Partitions that the share coordinator has refused to change.
pub type RefusedPartitions = BTreeMap<(Uuid, i32), ErrorCode>;

/// Works that the host has not reported yet, and deletions that wait for them.
#[derive(Debug, Default)]
pub(super) struct ShareWorks {
    leader_epoch: i32,
    begun: u64,
    under_way: BTreeMap<ShareWorkId, WorkUnderWay>,
    /// Deletions of groups, by number.
    pub(super) deletions: BTreeMap<u64, Deletion>,
}

#[derive(Debug)]
struct WorkUnderWay {
    group_id: String,
    after: AfterWork,
}

/// Work that follows once a share group's records are in the log.
#[derive(Debug)]
pub(in crate::group) enum AfterWrite {
    /// State of these partitions is initialized.
    Initialize(Partitions),
    /// Start offsets are set for a request.
    Alter(Ticket, StartOffsets, Vec<AlteredTopic>),
    /// State of these partitions is deleted for a request.
    DeleteOffsets(Ticket, Partitions, OffsetDeletion),
    /// State of these partitions is deleted, for the deletion of groups of this number.
    DeleteGroup(u64, Partitions),
}

/// Topics of a DeleteShareGroupOffsets.
#[derive(Debug)]
pub(in crate::group) struct OffsetDeletion {
    /// Topics with state of the group.
    topics: Vec<DeletedTopic>,
    /// Topics without state of the group.
    refused: Vec<DeletedTopic>,
}

/// Continuation of a work.
#[derive(Debug)]
enum AfterWork {
    /// Members may be assigned the partitions.
    Initialized(Partitions),
    /// Like [`AfterWork::Initialized`], for a request.
    Altered(Alteration),
    /// The share state of the topics is deleted.
    DeletedOffsets(Ticket, OffsetDeletion),
    /// The group may be deleted, by the deletion of this number.
    DeletedGroup(u64),
}

/// Start offsets that are being set.
#[derive(Debug)]
struct Alteration {
    ticket: Ticket,
    partitions: Partitions,
    topics: Vec<AlteredTopic>,
}

impl AfterWrite {
    /// The waiting request, and the response that refuses it. Deletions of groups wait in another
    /// list.
    pub(super) fn refused(self, error: GroupError) -> Option<(Ticket, Outcome)> {
        match self {
            Self::Alter(ticket, ..) => Some((ticket, Outcome::AlterShareOffsets(Err(error)))),
            Self::DeleteOffsets(ticket, ..) => Some((ticket, Outcome::DeleteShareOffsets(Err(error)))),
            Self::Initialize(_) | Self::DeleteGroup(..) => None,
        }
    }
}

impl ShareWorks {
    /// Names works of another term from now on.
    pub(super) fn set_term(&mut self, leader_epoch: i32) {
        self.leader_epoch = leader_epoch;
    }

    /// A number that no other work or deletion of the term has.
    pub(super) fn next_number(&mut self) -> u64 {
        self.begun += 1;
        self.begun
    }

    /// Orders a deletion of state after these initializations: when they end, they no longer change
    /// the deleted partitions.
    fn supersede(&mut self, group_id: &str, deleted: &Partitions) {
        for work in self.under_way.values_mut().filter(|work| work.group_id == group_id) {
            let begun = match &mut work.after {
                AfterWork::Initialized(partitions) => partitions,
                AfterWork::Altered(alteration) => &mut alteration.partitions,
                AfterWork::DeletedOffsets(..) | AfterWork::DeletedGroup(_) => continue,
            };
            for (id, indexes) in deleted {
                if let Some(begun) = begun.get_mut(id) {
                    begun.retain(|index| !indexes.contains(index));
                }
            }
        }
    }

    /// Drops the initializations of a group that no longer exists.
    pub(super) fn forget(&mut self, group_id: &str) {
        self.under_way
            .retain(|_, work| work.group_id != group_id || !matches!(work.after, AfterWork::Initialized(_)));
    }
}

impl Coordinator {
    pub(super) fn alter_share_offsets(
        &mut self,
        ticket: Ticket,
        request: &AlterShareOffsetsRequest,
        now_ms: i64,
    ) {
        match self.begin_alteration(request) {
            Ok(AlteredOffsets { draft, offsets, topics }) if offsets.is_empty() => {
                debug_assert!(draft.records.is_empty(), "nothing begins");
                self.reply(ticket, Outcome::AlterShareOffsets(Ok(topics)));
            }
            Ok(AlteredOffsets { draft: ShareDraft { group, records, .. }, offsets, topics }) => {
                let next = Some(AfterWrite::Alter(ticket, offsets, topics));
                let write = ShareWrite { next, ..self.share_write(group) };
                self.write_share(records, write, now_ms);
            }
            Err(error) => self.reply(ticket, Outcome::AlterShareOffsets(Err(error))),
        }
    }

    /// The group is made if its name is free.
    fn begin_alteration(&self, request: &AlterShareOffsetsRequest) -> Result<AlteredOffsets, GroupError> {
        let founded = self.found_share(&request.group_id)?;
        let group = founded.as_ref().or_else(|| self.shares.get(&request.group_id));
        let group = group.ok_or(GroupError::GroupIdNotFound)?;
        group.validate_delete()?;
        Ok(group.alter_offsets(&request.topics, &*self.topics, self.timers.now_ms()))
    }

    pub(super) fn delete_share_offsets(
        &mut self,
        ticket: Ticket,
        request: &DeleteShareOffsetsRequest,
        now_ms: i64,
    ) {
        let group = self.shares.get(&request.group_id).ok_or(GroupError::GroupIdNotFound);
        let group = group.and_then(|group| group.validate_delete().map(|()| group));
        let deleted = match group {
            Ok(group) => group.delete_offsets(&request.topics, &*self.topics, self.timers.now_ms()),
            Err(error) => return self.reply(ticket, Outcome::DeleteShareOffsets(Err(error))),
        };
        let DeletedOffsets { draft: ShareDraft { group, records, .. }, partitions, topics, refused } =
            deleted;
        let next = Some(AfterWrite::DeleteOffsets(ticket, partitions, OffsetDeletion { topics, refused }));
        let write = ShareWrite { next, ..self.share_write(group) };
        self.write_share(records, write, now_ms);
    }

    /// Starts the work that a share group's records announce, once they are in the log.
    pub(super) fn after_share_write(&mut self, group_id: &str, next: AfterWrite, now_ms: i64) {
        let state_epoch = self.shares.get(group_id).map_or(0, ShareGroup::epoch);
        let (change, after) = match next {
            AfterWrite::Initialize(partitions) => {
                let offsets = unset_offsets(&partitions);
                (ShareStateChange::Initialize { state_epoch, offsets }, AfterWork::Initialized(partitions))
            }
            AfterWrite::Alter(ticket, offsets, topics) => {
                let partitions = offsets.iter().map(|(id, of)| (*id, of.keys().copied().collect())).collect();
                let after = AfterWork::Altered(Alteration { ticket, partitions, topics });
                (ShareStateChange::Initialize { state_epoch, offsets }, after)
            }
            AfterWrite::DeleteOffsets(ticket, partitions, deletion) if partitions.is_empty() => {
                return self.reply(ticket, Outcome::DeleteShareOffsets(Ok(deletion.refused)));
            }
            AfterWrite::DeleteOffsets(ticket, partitions, deletion) => {
                (ShareStateChange::Delete { partitions }, AfterWork::DeletedOffsets(ticket, deletion))
            }
            AfterWrite::DeleteGroup(number, partitions) if partitions.is_empty() => {
                return self.deletion_step(number, group_id, None, now_ms);
            }
            AfterWrite::DeleteGroup(number, partitions) => {
                (ShareStateChange::Delete { partitions }, AfterWork::DeletedGroup(number))
            }
        };
        if let ShareStateChange::Delete { partitions } = &change {
            self.share_works.supersede(group_id, partitions);
        }
        let id = ShareWorkId {
            leader_epoch: self.share_works.leader_epoch,
            number: self.share_works.next_number(),
        };
        let group_id = group_id.to_owned();
        self.share_works.under_way.insert(id, WorkUnderWay { group_id: group_id.clone(), after });
        self.actions.push(Action::Work(GroupWork::ShareState(ShareStateWork { id, group_id, change })));
    }

    /// Handles share group records that could not be written; no work begins.
    pub(super) fn share_write_failed(
        &mut self,
        group_id: &str,
        next: AfterWrite,
        error: GroupError,
        now_ms: i64,
    ) {
        if let AfterWrite::DeleteGroup(number, _) = next {
            return self.deletion_step(number, group_id, Some(error), now_ms);
        }
        if let Some((ticket, outcome)) = next.refused(error) {
            self.reply(ticket, outcome);
        }
    }

    /// Applies the end of the host's work. Work of earlier terms, and of groups that no longer
    /// exist, has no effect.
    pub(super) fn share_state_done(&mut self, end: ShareStateEnd, now_ms: i64) {
        let Some(WorkUnderWay { group_id, after }) = self.share_works.under_way.remove(&end.id) else {
            return;
        };
        match after {
            AfterWork::Initialized(partitions) => {
                let is_done = end.result.is_ok_and(|refused| refused.is_empty());
                self.end_initialization(&group_id, &partitions, is_done, now_ms);
            }
            AfterWork::Altered(alteration) => {
                self.end_alteration(&group_id, alteration, end.result, now_ms);
            }
            AfterWork::DeletedOffsets(ticket, deletion) => {
                self.end_offset_deletion(&group_id, ticket, deletion, end.result, now_ms);
            }
            AfterWork::DeletedGroup(number) => {
                let error = match end.result {
                    Ok(refused) => refused.into_values().next(),
                    Err(error) => Some(error),
                };
                self.deletion_step(number, &group_id, error.map(refusal), now_ms);
            }
        }
    }

    /// Ends an initialization. If a partition was refused, the initialization of all partitions
    /// begins again with the next heartbeat.
    fn end_initialization(&mut self, group_id: &str, partitions: &Partitions, is_done: bool, now_ms: i64) {
        let Some(group) = self.shares.get(group_id) else { return };
        let steady_ms = self.timers.now_ms();
        let ShareDraft { group, records, .. } = if is_done {
            group.initialized(partitions, &*self.topics, steady_ms)
        } else {
            group.uninitialize(partitions, &*self.topics, steady_ms)
        };
        self.write_share(records, self.share_write(group), now_ms);
    }

    /// Ends an alteration. Refused partitions stay unchanged: their initialization begins again
    /// when the group has members.
    fn end_alteration(
        &mut self,
        group_id: &str,
        alteration: Alteration,
        result: Result<RefusedPartitions, ErrorCode>,
        now_ms: i64,
    ) {
        let Alteration { ticket, partitions, mut topics } = alteration;
        let refused = match result {
            Ok(refused) => refused,
            Err(error) => return self.reply(ticket, Outcome::AlterShareOffsets(Err(refusal(error)))),
        };
        for topic in &mut topics {
            for (index, error) in &mut topic.partitions {
                *error = error.or(refused.get(&(topic.topic_id, *index)).copied().map(refusal));
            }
        }
        let outcome = Outcome::AlterShareOffsets(Ok(topics));
        let Some(group) = self.shares.get(group_id).filter(|_| refused.is_empty()) else {
            return self.reply(ticket, outcome);
        };
        let draft = group.initialized(&partitions, &*self.topics, self.timers.now_ms());
        let write = ShareWrite { answer: Some((ticket, outcome)), ..self.share_write(draft.group) };
        self.write_share(draft.records, write, now_ms);
    }

    fn end_offset_deletion(
        &mut self,
        group_id: &str,
        ticket: Ticket,
        deletion: OffsetDeletion,
        result: Result<RefusedPartitions, ErrorCode>,
        now_ms: i64,
    ) {
        let OffsetDeletion { topics, refused: mut failed } = deletion;
        let refused = match result {
            Ok(refused) => refused,
            Err(error) => return self.reply(ticket, Outcome::DeleteShareOffsets(Err(refusal(error)))),
        };
        let mut deleted = Vec::new();
        for topic in topics {
            let of_topic = (topic.topic_id, i32::MIN)..=(topic.topic_id, i32::MAX);
            match refused.range(of_topic).next() {
                Some((_, error)) => failed.push(DeletedTopic { error: Some(refusal(*error)), ..topic }),
                None => deleted.push(topic),
            }
        }
        let group = self.shares.get(group_id).filter(|_| !deleted.is_empty());
        let draft = group.map(|group| group.deleted_offsets(&deleted, &*self.topics, self.timers.now_ms()));
        deleted.extend(failed);
        let outcome = Outcome::DeleteShareOffsets(Ok(deleted));
        let Some(ShareDraft { group, records, .. }) = draft else { return self.reply(ticket, outcome) };
        let write = ShareWrite { answer: Some((ticket, outcome)), ..self.share_write(group) };
        self.write_share(records, write, now_ms);
    }

    /// Removes the share state of deleted topics from the groups. The share coordinator deletes its
    /// own state independently.
    pub(super) fn forget_share_topics(&mut self, topics: &[GoneTopic], now_ms: i64) {
        let gone: Arc<BTreeSet<Uuid>> = Arc::new(topics.iter().map(|topic| topic.topic_id).collect());
        for held in self.writing.values_mut().filter(|held| held.is_share()) {
            held.push(Held::GoneTopics(gone.clone()));
        }
        let free = self.shares.keys().filter(|group_id| !self.writing.contains_key(*group_id));
        let free: Vec<String> = free.cloned().collect();
        free.iter().for_each(|group_id| self.forget_share_state(group_id, &gone, now_ms));
    }

    /// Like [`Coordinator::forget_share_topics`], for one group.
    pub(super) fn forget_share_state(&mut self, group_id: &str, gone: &BTreeSet<Uuid>, now_ms: i64) {
        if let Some(held) = self.writing.get_mut(group_id) {
            return held.push(Held::GoneTopics(Arc::new(gone.clone())));
        }
        let group = self.shares.get(group_id).filter(|group| group.has_state_of(gone));
        let Some(group) = group else { return };
        let draft = group.without_topics(gone, &*self.topics, self.timers.now_ms());
        self.write_share(draft.records, self.share_write(draft.group), now_ms);
    }

    /// Refuses the requests that wait for work of the host: the next coordinator finds in the log
    /// which work has begun.
    pub(super) fn abandon_share_works(&mut self, error: GroupError) {
        let works = std::mem::take(&mut self.share_works);
        for WorkUnderWay { after, .. } in works.under_way.into_values() {
            match after {
                AfterWork::Altered(Alteration { ticket, .. }) => {
                    self.reply(ticket, Outcome::AlterShareOffsets(Err(error)));
                }
                AfterWork::DeletedOffsets(ticket, _) => {
                    self.reply(ticket, Outcome::DeleteShareOffsets(Err(error)));
                }
                AfterWork::Initialized(_) | AfterWork::DeletedGroup(_) => {}
            }
        }
        for deletion in works.deletions.into_values() {
            let (ticket, outcome) = deletion.refused(error);
            self.reply(ticket, outcome);
        }
    }
}

/// Start offsets that are not set, for each partition: the group's own rule decides.
fn unset_offsets(partitions: &Partitions) -> StartOffsets {
    let topics = partitions.iter();
    topics.map(|(id, indexes)| (*id, indexes.iter().map(|index| (*index, NO_OFFSET)).collect())).collect()
}

/// An error of the share coordinator.
fn refusal(error: ErrorCode) -> GroupError {
    GroupError::ShareState(error.code())
}
