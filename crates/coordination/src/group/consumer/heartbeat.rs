//! ConsumerGroupHeartbeat of a member that joins or stays.

use std::collections::BTreeSet;

use super::reconcile::{Goal, next};
use super::regexes::check;
use super::{AssignmentPace, ConsumerGroup, Draft, LEFT_FOR_A_WHILE, Member};
use crate::group::error::GroupError;
use crate::group::records::{ConsumerRecord, CurrentValue, Partitions};
use crate::group::request::ConsumerHeartbeatRequest;
use crate::group::topics::Topics;

/// Outcome of a heartbeat.
#[derive(Debug)]
pub(in crate::group) struct Beat {
    /// Changes; none if nothing changes.
    pub(in crate::group) draft: Option<Draft>,
    /// Epoch of the member from now on.
    pub(in crate::group) epoch: i32,
    /// Assignment of the member, if the response contains it.
    pub(in crate::group) assigned: Option<Partitions>,
    /// True if expressions must be matched after the response to the member: its own, or all of the
    /// group.
    pub(in crate::group) awaits_matches: bool,
}

impl ConsumerGroup {
    /// Processes the heartbeat of a member that joins or stays, after the checks of its fields.
    pub(in crate::group) fn heartbeat(
        &self,
        request: &ConsumerHeartbeatRequest,
        topics: &dyn Topics,
        max_size: usize,
        pace: AssignmentPace,
    ) -> Result<Beat, GroupError> {
        if self.members.len() >= max_size && !self.members.contains_key(&request.member_id) {
            return Err(GroupError::GroupMaxSizeReached);
        }
        let member = self.find(request)?;
        if let Some(member) = member
            && self.is_settled(member, request)
        {
            return Ok(beat(None, &member.current, &member.current, request));
        }
        let mut draft = Draft::of(self);
        let before = draft.seat(request, member);
        let resubscribed = draft.update(request, &before)?;
        draft.forget_regexes();
        let stale = draft.group.stale && draft.group.rematch.is_empty();
        if resubscribed || stale {
            draft.raise_epoch(resubscribed, topics);
        }
        draft.assign(topics, pace);
        draft.reconcile(&request.member_id, request.owned.as_ref(), resubscribed, topics)?;
        let after = draft.group.members.get(&request.member_id).ok_or(GroupError::UnknownMemberId)?.clone();
        let awaits_matches = draft.group.awaits_matches(&after) || !draft.group.rematch.is_empty();
        Ok(Beat { awaits_matches, ..beat(Some(draft), &before.current, &after.current, request) })
    }

    /// The member in its present state; `None` if it is new.
    fn find(&self, request: &ConsumerHeartbeatRequest) -> Result<Option<&Member>, GroupError> {
        let joins = request.member_epoch == 0;
        let Some(instance) = &request.instance_id else {
            let member = self.members.get(&request.member_id);
            return match member {
                None if joins => Ok(None),
                None => Err(GroupError::UnknownMemberId),
                Some(member) => check_epoch(member, request).map(|()| Some(member)),
            };
        };
        let Some(current_id) = self.static_members.get(instance) else {
            return if joins { Ok(None) } else { Err(GroupError::UnknownMemberId) };
        };
        let member = self.members.get(current_id).ok_or(GroupError::UnknownMemberId)?;
        if joins {
            let released = member.current.epoch == LEFT_FOR_A_WHILE || member.metadata.classic.is_some();
            return if released { Ok(Some(member)) } else { Err(GroupError::UnreleasedInstanceId) };
        }
        if *current_id != request.member_id {
            return Err(GroupError::FencedInstanceId);
        }
        check_epoch(member, request).map(|()| Some(member))
    }

    /// True if a heartbeat changes nothing: the member has its target assignment, and its
    /// subscription is unchanged.
    fn is_settled(&self, member: &Member, request: &ConsumerHeartbeatRequest) -> bool {
        !self.stale
            && self.rematch.is_empty()
            && self.epoch <= self.target_epoch
            && request.member_epoch != 0
            && member.is_reconciled(self.target_epoch)
            && !self.awaits_matches(member)
            && wanted(member, request) == *member.metadata
    }
}

/// Checks the epoch of a member that does not join. The previous epoch is accepted if the response
/// with the newer one may have been lost.
fn check_epoch(member: &Member, request: &ConsumerHeartbeatRequest) -> Result<(), GroupError> {
    let (said, current) = (request.member_epoch, &member.current);
    if said == 0 || said == current.epoch {
        return Ok(());
    }
    let owned = request.owned.as_ref();
    let subset = owned.is_some_and(|owned| {
        owned.iter().all(|(topic, partitions)| {
            let assigned = current.assigned.get(topic);
            assigned.is_some_and(|assigned| partitions.iter().all(|index| assigned.contains_key(index)))
        })
    });
    if said < current.epoch && said == current.previous_epoch && subset {
        return Ok(());
    }
    Err(GroupError::fenced("consumer", said, current.epoch))
}

/// Subscription of the member with the request's changes; fields that the request lacks stay
/// unchanged.
fn wanted(member: &Member, request: &ConsumerHeartbeatRequest) -> crate::group::records::MemberMetadata {
    let mut metadata = (*member.metadata).clone();
    let keep = |new: &Option<String>, old: Option<String>| new.clone().or(old);
    metadata.instance_id = keep(&request.instance_id, metadata.instance_id);
    metadata.rack_id = keep(&request.rack_id, metadata.rack_id);
    metadata.assignor = keep(&request.assignor, metadata.assignor);
    metadata.regex = keep(&request.regex, metadata.regex);
    if let Some(topics) = &request.topics {
        metadata.topics = topics.iter().cloned().collect::<BTreeSet<String>>();
    }
    if request.rebalance_timeout_ms != -1 {
        metadata.rebalance_timeout_ms = request.rebalance_timeout_ms;
    }
    metadata.client_id.clone_from(&request.client_id);
    metadata.client_host.clone_from(&request.client_host);
    metadata.classic = None;
    metadata
}

fn beat(
    draft: Option<Draft>,
    before: &CurrentValue,
    after: &CurrentValue,
    request: &ConsumerHeartbeatRequest,
) -> Beat {
    let told_all = request.rebalance_timeout_ms != -1
        && (request.topics.is_some() || request.regex.is_some())
        && request.owned.is_some();
    let assigned = |current: &CurrentValue| -> Partitions {
        let topics = current.assigned.iter();
        topics.map(|(topic, partitions)| (*topic, partitions.keys().copied().collect())).collect()
    };
    let tell = request.member_epoch == 0 || told_all || assigned(before) != assigned(after);
    Beat { draft, epoch: after.epoch, assigned: tell.then(|| assigned(after)), awaits_matches: false }
}

impl Draft {
    /// Finds the member of the request: the member itself, its predecessor, or a new one. Returns
    /// the previous value.
    fn seat(&mut self, request: &ConsumerHeartbeatRequest, member: Option<&Member>) -> Member {
        let predecessor = request
            .instance_id
            .as_ref()
            .and_then(|instance| self.group.static_members.get(instance))
            .cloned();
        match (predecessor, member) {
            (Some(old_id), Some(member)) if request.member_epoch == 0 => {
                self.replace(&old_id, &request.member_id, member)
            }
            (_, Some(member)) => member.clone(),
            (_, None) => Member::default(),
        }
    }

    /// Replaces a static member that has returned, possibly with a new id: it inherits the state of
    /// its predecessor.
    pub(super) fn replace(&mut self, old_id: &str, member_id: &str, member: &Member) -> Member {
        let target = self.group.targets.get(old_id).cloned().unwrap_or_default();
        let mut member = member.clone();
        (member.current.epoch, member.current.previous_epoch) = (0, 0);
        self.remove(old_id);
        self.write(ConsumerRecord::Member(member_id.to_owned(), Some((*member.metadata).clone())));
        self.write(ConsumerRecord::Target(member_id.to_owned(), Some(target)));
        self.write(ConsumerRecord::Current(member_id.to_owned(), Some(member.current.clone())));
        member
    }

    /// Stores the member's subscription; true if its topics have changed. The topics of a new
    /// expression are not known yet.
    fn update(&mut self, request: &ConsumerHeartbeatRequest, before: &Member) -> Result<bool, GroupError> {
        let metadata = wanted(before, request);
        let regex = |metadata: &crate::group::records::MemberMetadata| {
            metadata.regex.clone().filter(|regex| !regex.is_empty())
        };
        let (old_regex, new_regex) = (regex(&before.metadata), regex(&metadata));
        if let Some(pattern) = &new_regex
            && old_regex != new_regex
        {
            check(pattern)?;
        }
        let known = self.group.members.contains_key(&request.member_id);
        let is_known = new_regex.as_ref().is_none_or(|regex| self.group.regexes.contains_key(regex));
        let resubscribed = metadata.topics != before.metadata.topics || (old_regex != new_regex && is_known);
        if !known || metadata != *before.metadata {
            self.write(ConsumerRecord::Member(request.member_id.clone(), Some(metadata)));
        }
        Ok(resubscribed)
    }

    /// Moves the member as close to its target as is possible now.
    pub(super) fn reconcile(
        &mut self,
        member_id: &str,
        owned: Option<&Partitions>,
        resubscribed: bool,
        topics: &dyn Topics,
    ) -> Result<(), GroupError> {
        let group = &self.group;
        let Some(member) = group.members.get(member_id) else { return Ok(()) };
        if !resubscribed && member.is_reconciled(group.target_epoch) {
            return Ok(());
        }
        let none = Partitions::new();
        let subscribed = group.subscribed_ids(member, topics);
        let target = group.targets.get(member_id).unwrap_or(&none);
        let goal = Goal { epoch: group.target_epoch, target, subscribed: &subscribed, resubscribed, owned };
        let taken = |topic, index| group.owners.contains_key(&(topic, index));
        let known = member.current.epoch;
        let next = next(&member.current, &goal, taken)
            .ok_or_else(|| GroupError::fenced("consumer", known, known))?;
        if next != member.current {
            self.write(ConsumerRecord::Current(member_id.to_owned(), Some(next)));
        }
        Ok(())
    }
}
