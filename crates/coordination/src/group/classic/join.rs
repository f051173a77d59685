//! JoinGroup: new, returning and known members.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::member::Member;
use super::{ClassicGroup, State};
use crate::group::error::GroupError;
use crate::group::event::{Outcome, Ticket};
use crate::group::request::{JoinOutcome, JoinRequest, Protocol};
use crate::group::timers::Alarm;
use crate::group::turn::{Continuation, PendingWrite, Returned, StepContext};

/// The first version in which a new member must rejoin with its assigned id (KIP-394).
const REQUIRES_MEMBER_ID: i16 = 4;
/// The first version in which a returning static leader can skip the assignment (KIP-814).
const CAN_SKIP_ASSIGNMENT: i16 = 9;

/// Protocols that the members of a group offer on average, at most, if its record is as large as
/// can be.
const OFFERS_MAX: usize = 4;

/// Memory of a protocol besides its texts.
const PROTOCOL_BYTES: usize = 64;

/// Memory of the protocols that a member offers.
fn offered_bytes(protocols: &[Protocol]) -> usize {
    protocols.iter().map(|one| one.name.len() + one.metadata.len() + PROTOCOL_BYTES).sum()
}

impl ClassicGroup {
    /// Processes the join of a member to the next generation.
    pub(in crate::group) fn join(
        &mut self,
        turn: &mut StepContext<'_>,
        ticket: Ticket,
        request: JoinRequest,
    ) -> Option<PendingWrite> {
        let refuse = |turn: &mut StepContext<'_>, member_id: &str, error| {
            turn.reply(ticket, Outcome::Join(JoinOutcome::error(member_id, error)));
            None
        };
        if !self.has_room(turn.config.max_size, &request.member_id) {
            self.remove(turn, &request.member_id);
            return refuse(turn, "", GroupError::GroupMaxSizeReached);
        }
        if !self.supports(&request.protocol_type, &request.protocols) {
            return refuse(turn, &request.member_id, GroupError::InconsistentGroupProtocol);
        }
        if !self.can_store(&request) {
            return refuse(turn, &request.member_id, GroupError::UnknownServerError);
        }
        if request.member_id.is_empty() {
            return self.join_new(turn, ticket, request);
        }
        if self.pending.contains(&request.member_id) {
            // Only dynamic members are promised an id.
            if request.group_instance_id.is_some() {
                return refuse(turn, "", GroupError::UnknownServerError);
            }
            let member_id = request.member_id.clone();
            return self.add_and_rebalance(turn, ticket, member_id, request);
        }
        if let Err(error) = self.validate(&request.member_id, request.group_instance_id.as_deref()) {
            return refuse(turn, &request.member_id, error);
        }
        self.join_again(turn, ticket, request)
    }

    /// True if the member may join. During a rebalance the waiting members count, not the stored
    /// ones: if the limit was lowered, the last members to rejoin are refused.
    fn has_room(&self, max_size: usize, member_id: &str) -> bool {
        let member = self.members.get(member_id);
        match self.state {
            State::Empty | State::Dead => true,
            State::PreparingRebalance => {
                member.is_some_and(|member| member.join.is_some()) || self.awaiting_join < max_size
            }
            State::CompletingRebalance | State::Stable => member.is_some() || self.members.len() < max_size,
        }
    }

    /// True if the group's record could contain the protocols of the member and of the others. The
    /// record has one protocol of each member, but memory holds all offered protocols during their
    /// sessions.
    fn can_store(&self, request: &JoinRequest) -> bool {
        let others = self.members.iter().filter(|(id, _)| **id != request.member_id);
        let others: usize = others.map(|(_, member)| offered_bytes(&member.protocols)).sum();
        let own = offered_bytes(&request.protocols);
        own <= request.record_bytes_max && others + own <= OFFERS_MAX * request.record_bytes_max
    }

    fn join_new(
        &mut self,
        turn: &mut StepContext<'_>,
        ticket: Ticket,
        request: JoinRequest,
    ) -> Option<PendingWrite> {
        let name = request.group_instance_id.as_deref().unwrap_or(&request.client_id);
        let member_id = format!("{name}-{}", uuid::Uuid::from_u128(request.nonce));
        if let Some(instance) = &request.group_instance_id {
            return match self.static_members.get(instance).cloned() {
                Some(old) => self.replace_and_rebalance(turn, ticket, old, member_id, request),
                None => self.add_and_rebalance(turn, ticket, member_id, request),
            };
        }
        if request.api_version < REQUIRES_MEMBER_ID {
            return self.add_and_rebalance(turn, ticket, member_id, request);
        }
        let timeout_ms = i64::from(request.session_timeout_ms);
        turn.alarm_in(self.session_key(&member_id), timeout_ms, Alarm::SessionOver);
        self.pending.insert(member_id.clone());
        let outcome = JoinOutcome::error(member_id, GroupError::MemberIdRequired);
        turn.reply(ticket, Outcome::Join(outcome));
        None
    }

    /// A member that is in the group joins again.
    fn join_again(
        &mut self,
        turn: &mut StepContext<'_>,
        ticket: Ticket,
        request: JoinRequest,
    ) -> Option<PendingWrite> {
        let changed =
            self.members.get(&request.member_id).is_some_and(|member| member.protocols != request.protocols);
        let rebalance = match self.state {
            State::PreparingRebalance => true,
            // The member may have missed the response only; its generation exists.
            State::CompletingRebalance => changed,
            // A leader joins again because something that only it can see has changed.
            State::Stable => changed || self.is_leader(&request.member_id),
            State::Empty | State::Dead => {
                let outcome = JoinOutcome::error(request.member_id, GroupError::UnknownMemberId);
                turn.reply(ticket, Outcome::Join(outcome));
                return None;
            }
        };
        if rebalance {
            let member_id = request.member_id.clone();
            self.update(turn, ticket, &member_id, request);
            return self.rebalance_or_complete(turn);
        }
        turn.reply(ticket, Outcome::Join(self.joined(&request.member_id)));
        None
    }

    fn add_and_rebalance(
        &mut self,
        turn: &mut StepContext<'_>,
        ticket: Ticket,
        member_id: String,
        mut request: JoinRequest,
    ) -> Option<PendingWrite> {
        if self.state == State::PreparingRebalance && self.previous == State::Empty {
            self.new_member_added = true;
        }
        // The client cannot send heartbeats without an id, and a parked join hides a lost
        // connection; so the wait is limited, and a client that is still connected retries.
        let timeout_ms = turn.config.new_member_join_timeout_ms;
        turn.alarm_in(self.session_key(&member_id), timeout_ms, Alarm::SessionOver);
        let member = Member::new(member_id, &mut request, ticket);
        self.add(member, request.protocol_type);
        self.rebalance_or_complete(turn)
    }

    /// Replaces the protocols and timeouts of the member by those of the request, and registers its
    /// waiting join.
    fn update(&mut self, turn: &mut StepContext<'_>, ticket: Ticket, member_id: &str, request: JoinRequest) {
        if let Some(mut member) = self.members.remove(member_id) {
            self.count_protocols(&member, false);
            member.protocols = request.protocols;
            member.rebalance_timeout_ms = request.rebalance_timeout_ms;
            member.session_timeout_ms = request.session_timeout_ms;
            self.count_protocols(&member, true);
            self.members.insert(member_id.to_owned(), member);
        }
        self.await_join(turn, member_id, ticket);
    }

    /// Replaces a static member that has rejoined with a new id, and rebalances.
    fn replace_and_rebalance(
        &mut self,
        turn: &mut StepContext<'_>,
        ticket: Ticket,
        old_member_id: String,
        member_id: String,
        request: JoinRequest,
    ) -> Option<PendingWrite> {
        let old_leader = self.leader.clone();
        let group_instance_id = request.group_instance_id.clone().unwrap_or_default();
        self.replace(turn, &group_instance_id, &old_member_id, &member_id);
        self.renew_session(turn, &member_id);
        let member = self.members.get(&member_id)?;
        let returned = Returned {
            group_id: self.id.clone(),
            ticket,
            group_instance_id,
            member_id: member_id.clone(),
            old_member_id,
            old_leader,
            old_protocols: member.protocols.clone(),
            old_rebalance_timeout_ms: member.rebalance_timeout_ms,
            old_session_timeout_ms: member.session_timeout_ms,
            can_skip_assignment: request.api_version >= CAN_SKIP_ASSIGNMENT,
        };
        self.update(turn, ticket, &member_id, request);
        match self.state {
            State::Stable if self.protocol_name.as_deref() == self.elect_protocol().as_deref() => {
                // Nothing changes for the other members: the coordinator only stores the new id.
                let assignments: BTreeMap<String, Bytes> = self
                    .members
                    .values()
                    .map(|member| (member.id.clone(), member.assignment.clone()))
                    .collect();
                let records = vec![self.record(&assignments)];
                Some(PendingWrite { records, then: Continuation::Returned(Box::new(returned)) })
            }
            State::Stable => self.rebalance_or_complete(turn),
            // The leader may be assigning to the old id already: start over.
            State::CompletingRebalance => self.prepare_rebalance(turn),
            State::PreparingRebalance | State::Empty | State::Dead => self.complete_if_all_joined(turn),
        }
    }

    /// Gives a static member a new id. A client that still uses the old one is fenced.
    fn replace(&mut self, turn: &mut StepContext<'_>, instance: &str, old_member_id: &str, member_id: &str) {
        let fenced = GroupError::FencedInstanceId;
        self.answer_join(turn, old_member_id, JoinOutcome::error(old_member_id, fenced));
        self.answer_sync(turn, old_member_id, Err(fenced));
        turn.timers.cancel(&self.session_key(old_member_id));
        let Some(mut member) = self.members.remove(old_member_id) else { return };
        member.id = member_id.to_owned();
        member.is_new = false;
        self.members.insert(member_id.to_owned(), member);
        if self.is_leader(old_member_id) {
            self.leader = Some(member_id.to_owned());
        }
        self.static_members.insert(instance.to_owned(), member_id.to_owned());
    }

    /// Handles the end of the write of a static member's new id.
    pub(in crate::group) fn returned(
        &mut self,
        turn: &mut StepContext<'_>,
        returned: Returned,
        error: Option<GroupError>,
    ) {
        let waits = |member: &Member| member.join == Some(returned.ticket);
        if !self.members.get(&returned.member_id).is_some_and(waits) {
            return; // Answered meanwhile: it was fenced, has left, or a rebalance has overtaken it.
        }
        match error {
            None if self.state == State::PreparingRebalance => {}
            None => {
                let mut outcome = self.joined(&returned.member_id);
                outcome.skip_assignment = returned.can_skip_assignment && self.is_leader(&returned.member_id);
                if !returned.can_skip_assignment {
                    // The member must not act as the leader, or it would assign again.
                    outcome.leader = returned.old_leader.unwrap_or_default();
                    outcome.members.clear();
                }
                self.answer_join(turn, &returned.member_id, outcome);
            }
            Some(error) => self.revert_returned(turn, returned, error),
        }
    }

    fn revert_returned(&mut self, turn: &mut StepContext<'_>, returned: Returned, error: GroupError) {
        let mut outcome = self.joined(&returned.member_id);
        outcome.error = Some(error);
        outcome.member_id.clear();
        outcome.members.clear();
        outcome.leader = returned.old_leader.unwrap_or_default();
        self.answer_join(turn, &returned.member_id, outcome);
        if let Some(mut member) = self.members.remove(&returned.member_id) {
            self.count_protocols(&member, false);
            member.protocols = returned.old_protocols;
            member.rebalance_timeout_ms = returned.old_rebalance_timeout_ms;
            member.session_timeout_ms = returned.old_session_timeout_ms;
            self.count_protocols(&member, true);
            self.members.insert(returned.member_id.clone(), member);
        }
        self.replace(turn, &returned.group_instance_id, &returned.member_id, &returned.old_member_id);
        self.renew_session(turn, &returned.old_member_id);
    }
}
