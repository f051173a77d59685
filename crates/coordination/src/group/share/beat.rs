//! ShareGroupHeartbeat of a member that joins or stays, and the departure of members.

use levada_base::Now;

use super::{STABLE, ShareDraft, ShareGroup, ShareMember};
use crate::group::config::ShareConfig;
use crate::group::error::GroupError;
use crate::group::records::{Partitions, Record, ShareCurrentValue, ShareMemberMetadata, ShareRecord};
use crate::group::request::ShareHeartbeatRequest;
use crate::group::topics::Topics;

/// Settings of a heartbeat, and its time.
pub(in crate::group) struct BeatLimits<'a> {
    /// Settings of all groups.
    pub(in crate::group) config: &'a ShareConfig,
    /// Time between two target assignments of this group.
    pub(in crate::group) assignment_interval_ms: i32,
    /// Time of the heartbeat.
    pub(in crate::group) now: Now,
}

/// Outcome of a heartbeat.
#[derive(Debug)]
pub(in crate::group) struct ShareBeatDraft {
    /// Changes; none if nothing changes.
    pub(in crate::group) draft: Option<ShareDraft>,
    /// The member's epoch from now on.
    pub(in crate::group) epoch: i32,
    /// Assignment of the member, if the response contains it.
    pub(in crate::group) assigned: Option<Partitions>,
    /// Partitions whose state is to be initialized.
    pub(in crate::group) initialize: Partitions,
}

impl ShareGroup {
    /// Processes the heartbeat of a member that joins or stays, after the checks of its fields.
    pub(in crate::group) fn heartbeat(
        &self,
        request: &ShareHeartbeatRequest,
        topics: &dyn Topics,
        limits: &BeatLimits<'_>,
    ) -> Result<ShareBeatDraft, GroupError> {
        let known = self.members.get(&request.member_id);
        if known.is_none() && self.members.len() >= limits.config.max_size {
            return Err(GroupError::GroupMaxSizeReached);
        }
        match known {
            None if request.member_epoch != 0 => return Err(GroupError::UnknownMemberId),
            None => {}
            Some(member) => check_epoch(member, request.member_epoch)?,
        }
        let before = known.cloned().unwrap_or_default();
        let retry_interval_ms = limits.config.initialize_retry_interval_ms;
        if known.is_some() && self.is_settled(&before, request) {
            let initialize = self.uninitialized(topics, limits.now.steady_ms, retry_interval_ms);
            if initialize.is_empty() {
                let same = &before.current;
                let assigned = told(request, same, same);
                let epoch = same.epoch;
                return Ok(ShareBeatDraft { draft: None, epoch, assigned, initialize: Partitions::new() });
            }
        }
        let mut draft = ShareDraft::of(self, limits.now.steady_ms);
        let resubscribed = draft.update(request, &before);
        let is_unassigned = self.target.epoch >= self.epoch && self.has_unassigned;
        let is_raised = draft.raise_epoch(resubscribed || is_unassigned, topics);
        draft.assign(topics, limits.assignment_interval_ms, limits.now.wall_ms);
        draft.reconcile(&request.member_id, is_raised, topics);
        let initialize = draft.group.uninitialized(topics, limits.now.steady_ms, retry_interval_ms);
        draft.begin_initializing(&initialize, topics);
        let after = draft.group.members.get(&request.member_id).ok_or(GroupError::UnknownMemberId)?;
        let (epoch, assigned) = (after.current.epoch, told(request, &before.current, &after.current));
        Ok(ShareBeatDraft { draft: Some(draft), epoch, assigned, initialize })
    }

    /// True if a heartbeat changes nothing: the member has its target assignment, and its
    /// subscription is unchanged.
    fn is_settled(&self, member: &ShareMember, request: &ShareHeartbeatRequest) -> bool {
        !self.stale
            && !self.has_unassigned
            && self.epoch <= self.target.epoch
            && member.is_reconciled(self.target.epoch)
            && wanted(member, request) == *member.metadata
    }

    /// Removes a member that leaves, or that an operator removes.
    ///
    /// # Errors
    /// The group has no such member.
    pub(in crate::group) fn leave(
        &self,
        member_id: &str,
        topics: &dyn Topics,
        steady_ms: i64,
    ) -> Result<ShareDraft, GroupError> {
        if !self.members.contains_key(member_id) {
            return Err(GroupError::UnknownMemberId);
        }
        let mut draft = ShareDraft::of(self, steady_ms);
        draft.write(ShareRecord::Current(member_id.to_owned(), None));
        draft.write(ShareRecord::Target(member_id.to_owned(), None));
        draft.write(ShareRecord::Member(member_id.to_owned(), None));
        let stale = draft.group.stale;
        draft.raise_epoch(true, topics);
        draft.group.stale = stale;
        Ok(draft)
    }

    /// The tombstones of a group without members.
    pub(in crate::group) fn tombstones(&self) -> Vec<Record> {
        let targets = self.targets.keys().map(|member_id| ShareRecord::Target(member_id.clone(), None));
        let ends = [ShareRecord::TargetEpoch(None), ShareRecord::State(None), ShareRecord::Epoch(None)];
        targets.chain(ends).map(|record| Record::Share(self.id.clone(), record)).collect()
    }
}

/// Checks the epoch of a member. The epoch before is accepted: the response with the newer one may
/// have been lost.
fn check_epoch(member: &ShareMember, epoch: i32) -> Result<(), GroupError> {
    let current = &member.current;
    let is_lost = epoch < current.epoch && epoch == current.previous_epoch;
    if epoch == 0 || epoch == current.epoch || is_lost {
        return Ok(());
    }
    Err(GroupError::fenced("share", epoch, current.epoch))
}

/// Subscription of the member with the request's changes; fields that the request lacks stay
/// unchanged.
fn wanted(member: &ShareMember, request: &ShareHeartbeatRequest) -> ShareMemberMetadata {
    let before = &member.metadata;
    let topics = request.topics.as_ref().map(|topics| topics.iter().cloned().collect());
    ShareMemberMetadata {
        rack_id: request.rack_id.clone().or_else(|| before.rack_id.clone()),
        client_id: request.client_id.clone(),
        client_host: request.client_host.clone(),
        topics: topics.unwrap_or_else(|| before.topics.clone()),
    }
}

/// The assignment that the response contains.
fn told(
    request: &ShareHeartbeatRequest,
    before: &ShareCurrentValue,
    after: &ShareCurrentValue,
) -> Option<Partitions> {
    let tell = request.member_epoch == 0 || request.topics.is_some() || before.assigned != after.assigned;
    tell.then(|| after.assigned.clone())
}

impl ShareDraft {
    /// Stores the member's subscription; true if its topics have changed.
    fn update(&mut self, request: &ShareHeartbeatRequest, before: &ShareMember) -> bool {
        let metadata = wanted(before, request);
        let resubscribed = metadata.topics != before.metadata.topics;
        let is_known = self.group.members.contains_key(&request.member_id);
        if !is_known || metadata != *before.metadata {
            self.write(ShareRecord::Member(request.member_id.clone(), Some(metadata)));
        }
        resubscribed
    }

    /// Gives the member its target assignment, of the topics to which it subscribes.
    fn reconcile(&mut self, member_id: &str, is_raised: bool, topics: &dyn Topics) {
        let group = &self.group;
        let Some(member) = group.members.get(member_id) else { return };
        let epoch = group.target.epoch;
        if !is_raised && member.is_reconciled(epoch) {
            return;
        }
        let mut assigned = group.targets.get(member_id).cloned().unwrap_or_default();
        assigned.retain(|id, _| {
            topics.by_id(*id).is_some_and(|(name, _)| member.metadata.topics.contains(&name))
        });
        let now = &member.current;
        let next = if now.epoch == epoch {
            ShareCurrentValue { assigned, ..now.clone() }
        } else {
            ShareCurrentValue { epoch, previous_epoch: now.epoch, state: STABLE, assigned }
        };
        if next != *now {
            self.write(ShareRecord::Current(member_id.to_owned(), Some(next)));
        }
    }
}
