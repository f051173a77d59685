//! Members of the classic protocol in a consumer group, during the migration of clients: JoinGroup
//! reconciles, SyncGroup returns the assignment, an error in response to Heartbeat makes the member
//! rejoin.

use std::collections::{BTreeSet, HashSet};

use bytes::Bytes;

use super::reconcile::{STABLE, UNRELEASED, UNREVOKED};
use super::{AssignmentPace, ConsumerGroup, Draft, Member};
use crate::group::embedded::{self, Subscription};
use crate::group::error::GroupError;
use crate::group::records::{ClassicMember, ConsumerRecord, Partitions};
use crate::group::request::{
    HeartbeatRequest, JoinRequest, LeavingMember, LeftMember, Protocol, SyncRequest,
};
use crate::group::topics::Topics;

/// The only kind of classic group that consumer groups understand.
const CONSUMER: &str = "consumer";

/// Outcome of a classic join.
#[derive(Debug)]
pub(in crate::group) struct Seated {
    /// The group with the member in it.
    pub(in crate::group) draft: Draft,
    /// The member's epoch, which it takes for a generation.
    pub(in crate::group) generation: i32,
    /// True if the subscription has changed.
    pub(in crate::group) resubscribed: bool,
}

impl ConsumerGroup {
    /// Checks that a classic member may join: it must share a protocol with all others.
    pub(in crate::group) fn admit(&self, request: &JoinRequest, max_size: usize) -> Result<(), GroupError> {
        if self.members.len() >= max_size && !self.members.contains_key(&request.member_id) {
            return Err(GroupError::GroupMaxSizeReached);
        }
        let names = |protocols| <[Protocol]>::iter(protocols).map(|protocol| protocol.name.as_str());
        // Sets: one request may offer a hundred thousand protocols.
        let mut shared: HashSet<&str> = names(&request.protocols).collect();
        for other in self.members.values().filter_map(|member| member.metadata.classic.as_ref()) {
            shared = names(&other.protocols).filter(|name| shared.contains(name)).collect();
        }
        if request.protocol_type == CONSUMER && !shared.is_empty() {
            Ok(())
        } else {
            Err(GroupError::InconsistentGroupProtocol)
        }
    }

    /// Processes the join of a classic member, new or again, under the id `member_id`.
    pub(in crate::group) fn join(
        &self,
        member_id: &str,
        request: &JoinRequest,
        topics: &dyn Topics,
        pace: AssignmentPace,
    ) -> Result<Seated, GroupError> {
        let first = request.protocols.first().ok_or(GroupError::InconsistentGroupProtocol)?;
        let subscription =
            embedded::subscription(&first.metadata).ok_or(GroupError::InconsistentGroupProtocol)?;
        let mut draft = Draft::of(self);
        let before = draft.seat_classic(member_id, request)?;
        let resubscribed = draft.update_classic(member_id, request, &subscription, &before);
        let forgotten = draft.forget_regexes();
        draft.raise_epoch(resubscribed || forgotten, topics);
        draft.assign(topics, pace);
        let owned = subscription.owned_ids(topics);
        draft.reconcile(member_id, Some(&owned), resubscribed, topics)?;
        let generation = draft.group.members.get(member_id).map_or(-1, |member| member.current.epoch);
        Ok(Seated { draft, generation, resubscribed })
    }

    /// A classic member's assignment.
    pub(in crate::group) fn sync(
        &self,
        request: &SyncRequest,
        topics: &dyn Topics,
    ) -> Result<Bytes, GroupError> {
        let (member, classic) = self.classic(&request.member_id, request.group_instance_id.as_deref())?;
        if request.generation != member.current.epoch {
            return Err(GroupError::IllegalGeneration);
        }
        let first = classic.protocols.first().ok_or(GroupError::InconsistentGroupProtocol)?;
        let other_type = request.protocol_type.as_deref().is_some_and(|kind| kind != CONSUMER);
        if other_type || request.protocol_name.as_ref().is_some_and(|name| *name != first.name) {
            return Err(GroupError::InconsistentGroupProtocol);
        }
        if self.target_epoch > member.current.epoch && member.current.state != UNREVOKED {
            return Err(GroupError::RebalanceInProgress);
        }
        let assigned = member.current.assigned.iter();
        let assigned: Partitions =
            assigned.map(|(topic, held)| (*topic, held.keys().copied().collect())).collect();
        Ok(embedded::assignment(&assigned, topics, &first.metadata))
    }

    /// Epoch for which classic members rejoin: the epoch of the target assignment, as in Kafka. The
    /// next heartbeat of a consumer computes an assignment for the group's epoch; if all members
    /// are classic, only their joins do.
    fn due_epoch(&self) -> i32 {
        if self.is_all_classic() { self.epoch } else { self.target_epoch }
    }

    /// A heartbeat of a classic member; an error makes it rejoin.
    pub(in crate::group) fn classic_heartbeat(&self, request: &HeartbeatRequest) -> Result<(), GroupError> {
        let (member, _) = self.classic(&request.member_id, request.group_instance_id.as_deref())?;
        let current = &member.current;
        if request.generation != current.epoch {
            return Err(GroupError::IllegalGeneration);
        }
        let lags = current.epoch < self.due_epoch();
        let can_go_on = match current.state {
            STABLE => false,
            UNRELEASED => !self.waits_for_others(&request.member_id, member),
            _ => true,
        };
        if lags || can_go_on { Err(GroupError::RebalanceInProgress) } else { Ok(()) }
    }

    /// Removes members that leave or that an operator removes. The instance id alone may name a
    /// static member of either protocol, and several entries may name one member. Returns the group
    /// without the members that exist.
    pub(in crate::group) fn classic_leave(
        &self,
        members: Vec<LeavingMember>,
        topics: &dyn Topics,
    ) -> (Vec<LeftMember>, Draft, Vec<String>) {
        let (mut draft, mut gone) = (Draft::of(self), BTreeSet::new());
        let left = members.into_iter().map(|LeavingMember { member_id, group_instance_id }| {
            let member = self.leaving(&member_id, group_instance_id.as_deref());
            let error = member.map(|member_id| gone.insert(member_id)).err();
            LeftMember { member_id, group_instance_id, error }
        });
        let left = left.collect();
        for member_id in &gone {
            draft.remove(member_id);
        }
        if !gone.is_empty() {
            draft.settle_departure(topics);
        }
        (left, draft, gone.into_iter().collect())
    }

    fn leaving(&self, member_id: &str, instance: Option<&str>) -> Result<String, GroupError> {
        let member_id = match instance {
            None => member_id,
            Some(instance) => {
                let current = self.static_members.get(instance).ok_or(GroupError::UnknownMemberId)?;
                if !member_id.is_empty() && current != member_id {
                    return Err(GroupError::FencedInstanceId);
                }
                current
            }
        };
        let known = self.members.contains_key(member_id);
        known.then(|| member_id.to_owned()).ok_or(GroupError::UnknownMemberId)
    }

    fn classic(
        &self,
        member_id: &str,
        instance: Option<&str>,
    ) -> Result<(&Member, &ClassicMember), GroupError> {
        if let Some(instance) = instance {
            let current = self.static_members.get(instance).ok_or(GroupError::UnknownMemberId)?;
            if current != member_id {
                return Err(GroupError::FencedInstanceId);
            }
        }
        let member = self.members.get(member_id).ok_or(GroupError::UnknownMemberId)?;
        let classic = member.metadata.classic.as_ref().ok_or(GroupError::UnknownMemberId)?;
        Ok((member, classic))
    }

    /// A member's session and rebalance timeouts, if it speaks the classic protocol.
    pub(in crate::group) fn classic_timeouts(&self, member_id: &str) -> Option<(i32, i32)> {
        let metadata = &self.members.get(member_id)?.metadata;
        Some((metadata.classic.as_ref()?.session_timeout_ms, metadata.rebalance_timeout_ms))
    }

    /// True if a partition of the member's target assignment still belongs to another member.
    fn waits_for_others(&self, member_id: &str, member: &Member) -> bool {
        let missing = self.targets.get(member_id).into_iter().flatten().flat_map(|(topic, partitions)| {
            let has = member.current.assigned.get(topic);
            let missing =
                partitions.iter().filter(move |index| has.is_none_or(|has| !has.contains_key(index)));
            missing.map(|index| (*topic, *index))
        });
        let mut missing = missing;
        missing.any(|partition| self.owners.contains_key(&partition))
    }
}

impl Draft {
    fn seat_classic(&mut self, member_id: &str, request: &JoinRequest) -> Result<Member, GroupError> {
        let known = self.group.members.get(member_id).cloned();
        let Some(instance) = &request.group_instance_id else { return Ok(known.unwrap_or_default()) };
        match self.group.static_members.get(instance).cloned() {
            None if request.member_id.is_empty() => Ok(Member::default()),
            None => Err(GroupError::UnknownMemberId),
            Some(old_id) if request.member_id.is_empty() => {
                let member = self.group.members.get(&old_id).cloned().unwrap_or_default();
                Ok(self.replace(&old_id, member_id, &member))
            }
            Some(current) if current != member_id => Err(GroupError::FencedInstanceId),
            Some(_) => known.ok_or(GroupError::UnknownMemberId),
        }
    }

    fn update_classic(
        &mut self,
        member_id: &str,
        request: &JoinRequest,
        subscription: &Subscription,
        before: &Member,
    ) -> bool {
        let mut metadata = (*before.metadata).clone();
        metadata.instance_id = request.group_instance_id.clone().or(metadata.instance_id);
        metadata.rack_id = subscription.rack_id.clone().or(metadata.rack_id);
        metadata.rebalance_timeout_ms = request.rebalance_timeout_ms;
        metadata.topics = subscription.topics.iter().cloned().collect::<BTreeSet<String>>();
        metadata.regex = Some(String::new());
        metadata.client_id.clone_from(&request.client_id);
        metadata.client_host.clone_from(&request.client_host);
        metadata.classic = Some(ClassicMember {
            session_timeout_ms: request.session_timeout_ms,
            protocols: request.protocols.clone(),
        });
        let resubscribed = metadata.topics != before.metadata.topics || before.regex().is_some();
        if !self.group.members.contains_key(member_id) || metadata != *before.metadata {
            self.write(ConsumerRecord::Member(member_id.to_owned(), Some(metadata)));
        }
        resubscribed
    }
}

#[cfg(test)]
mod tests;
