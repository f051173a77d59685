//! A classic consumer group: the members elect a protocol by vote, and one of them computes the
//! assignment.
//!
//! The behaviour is that of Apache Kafka 4.3 (KIP-62, 345, 394, 559, 800, 814), with one
//! difference: a request that is overtaken by another of the same member is answered instead of
//! being forgotten, so that every ticket gets its response.

mod join;
mod leave;
mod member;
mod migrate;
mod rebalance;
mod stored;
mod subscription;
mod sync;
mod view;

use std::collections::{BTreeMap, BTreeSet};

use self::member::Member;
pub(super) use self::migrate::Migrant;
use super::error::GroupError;
use super::event::{Outcome, Ticket};
use super::request::{HeartbeatRequest, JoinOutcome, JoinedMember, Protocol, SyncOutcome, TxnCommitRequest};
use super::timers::{Alarm, TimerKey};
use super::turn::{Continuation, PendingWrite, StepContext};

/// A classic group and its members.
///
/// Whole: a state machine. Joins, syncs, heartbeats, departures and commits change one state and
/// the same members.
#[derive(Debug)]
pub(super) struct ClassicGroup {
    id: String,
    state: State,
    previous: State,
    state_since_ms: Option<i64>,
    generation: i32,
    protocol_type: Option<String>,
    protocol_name: Option<String>,
    leader: Option<String>,
    members: BTreeMap<String, Member>,
    /// Instance id of each static member, and the member id it has now.
    static_members: BTreeMap<String, String>,
    /// Assigned ids of members that have not rejoined with them yet.
    pending: BTreeSet<String>,
    /// Members of the generation that have not requested their assignment yet.
    pending_sync: BTreeSet<String>,
    /// Number of members that wait for a response to their join.
    awaiting_join: usize,
    /// Number of members that support each protocol.
    supported: BTreeMap<String, usize>,
    /// Topics the members of a `consumer` group subscribe to, as far as they can be read.
    subscribed: Option<BTreeSet<String>>,
    /// True if a member joined during the initial delay.
    new_member_added: bool,
}

/// The states of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// No members; committed offsets may remain.
    Empty,
    /// The group waits for its members to join.
    PreparingRebalance,
    /// The members have joined; the group waits for the leader's assignment.
    CompletingRebalance,
    /// Every member has its assignment.
    Stable,
    /// The group does not exist.
    Dead,
}

impl State {
    /// True if a group may change to this state from `before`.
    fn may_follow(self, before: Self) -> bool {
        match self {
            Self::Empty | Self::CompletingRebalance => before == Self::PreparingRebalance,
            Self::PreparingRebalance => {
                matches!(before, Self::Empty | Self::CompletingRebalance | Self::Stable)
            }
            Self::Stable => before == Self::CompletingRebalance,
            Self::Dead => false,
        }
    }

    /// The name clients see.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Empty => "Empty",
            Self::PreparingRebalance => "PreparingRebalance",
            Self::CompletingRebalance => "CompletingRebalance",
            Self::Stable => "Stable",
            Self::Dead => "Dead",
        }
    }
}

impl ClassicGroup {
    /// A group without members, offsets or generations.
    pub(super) fn new(id: String, now_ms: i64) -> Self {
        Self {
            id,
            state: State::Empty,
            previous: State::Dead,
            state_since_ms: Some(now_ms),
            generation: 0,
            protocol_type: None,
            protocol_name: None,
            leader: None,
            members: BTreeMap::new(),
            static_members: BTreeMap::new(),
            pending: BTreeSet::new(),
            pending_sync: BTreeSet::new(),
            awaiting_join: 0,
            supported: BTreeMap::new(),
            subscribed: None,
            new_member_added: false,
        }
    }

    /// The group's id.
    pub(super) fn id(&self) -> &str {
        &self.id
    }

    /// True if the group has never had a member and none is joining: it only holds offsets.
    pub(super) fn is_simple(&self) -> bool {
        self.protocol_type.is_none() && self.state == State::Empty && self.pending.is_empty()
    }

    /// A heartbeat of a member.
    pub(super) fn heartbeat(
        &mut self,
        turn: &mut StepContext<'_>,
        request: &HeartbeatRequest,
    ) -> Result<(), GroupError> {
        self.validate(&request.member_id, request.group_instance_id.as_deref())?;
        if request.generation != self.generation {
            return Err(GroupError::IllegalGeneration);
        }
        self.renew_session(turn, &request.member_id);
        match self.state {
            State::PreparingRebalance => Err(GroupError::RebalanceInProgress),
            _ => Ok(()),
        }
    }

    /// Checks that a commit may be stored; a member's commit also renews its session.
    pub(super) fn commit(
        &mut self,
        turn: &mut StepContext<'_>,
        member_id: &str,
        group_instance_id: Option<&str>,
        generation: i32,
    ) -> Result<(), GroupError> {
        if generation < 0 && self.state == State::Empty {
            return Ok(());
        }
        if generation < 0 && member_id.is_empty() && group_instance_id.is_none() {
            return Err(GroupError::UnknownMemberId);
        }
        self.validate(member_id, group_instance_id)?;
        if generation != self.generation {
            return Err(GroupError::IllegalGeneration);
        }
        if self.state == State::CompletingRebalance {
            return Err(GroupError::RebalanceInProgress);
        }
        self.renew_session(turn, member_id);
        Ok(())
    }

    /// Checks that a commit inside a transaction may be stored.
    pub(super) fn commit_in_transaction(&self, request: &TxnCommitRequest) -> Result<(), GroupError> {
        if !request.names_member() || (request.generation < 0 && self.state == State::Empty) {
            return Ok(());
        }
        self.validate(&request.member_id, request.group_instance_id.as_deref())?;
        if request.generation == self.generation { Ok(()) } else { Err(GroupError::IllegalGeneration) }
    }

    /// True if the group has not had a generation yet.
    pub(super) fn is_unborn(&self) -> bool {
        self.generation == 0
    }

    /// Ends the group on this broker, for this reason, and responds to all waiting members.
    pub(super) fn dissolve(&mut self, turn: &mut StepContext<'_>, error: GroupError) {
        for (member_id, member) in &mut self.members {
            if let Some(ticket) = member.join.take() {
                turn.reply(ticket, Outcome::Join(JoinOutcome::error(member_id.clone(), error)));
            }
            if let Some(ticket) = member.sync.take() {
                turn.reply(ticket, Outcome::Sync(SyncOutcome::error(error)));
            }
        }
        self.awaiting_join = 0;
    }

    /// Cancels the alarms of a group that has been replaced.
    pub(super) fn forget_alarms(&self, turn: &mut StepContext<'_>) {
        turn.timers.cancel(&TimerKey::Join(self.id.clone()));
        turn.timers.cancel(&TimerKey::Sync(self.id.clone()));
        for member_id in self.members.keys().chain(&self.pending) {
            turn.timers.cancel(&self.session_key(member_id));
        }
    }

    /// Checks that the member exists and is not fenced by a successor.
    fn validate(&self, member_id: &str, group_instance_id: Option<&str>) -> Result<(), GroupError> {
        if let Some(instance) = group_instance_id {
            match self.static_members.get(instance) {
                None => return Err(GroupError::UnknownMemberId),
                Some(current) if current != member_id => return Err(GroupError::FencedInstanceId),
                Some(_) => {}
            }
        }
        if self.members.contains_key(member_id) { Ok(()) } else { Err(GroupError::UnknownMemberId) }
    }

    fn is_leader(&self, member_id: &str) -> bool {
        self.leader.as_deref() == Some(member_id)
    }

    fn has_all_joined(&self) -> bool {
        self.members.len() == self.awaiting_join && self.pending.is_empty()
    }

    fn transition(&mut self, state: State, now_ms: i64) {
        assert!(state.may_follow(self.state), "{:?} does not become {state:?}", self.state);
        self.previous = self.state;
        self.state = state;
        self.state_since_ms = Some(now_ms);
    }

    /// The longest time a member may take to join again.
    fn rebalance_timeout_ms(&self) -> i64 {
        self.members.values().map(|member| i64::from(member.rebalance_timeout_ms.max(0))).max().unwrap_or(0)
    }

    /// True if a member with these protocols could be part of the group.
    fn supports(&self, protocol_type: &str, protocols: &[Protocol]) -> bool {
        if self.state == State::Empty {
            return !protocol_type.is_empty() && !protocols.is_empty();
        }
        self.protocol_type.as_deref() == Some(protocol_type)
            && protocols.iter().any(|protocol| self.is_supported_by_all(&protocol.name))
    }

    fn is_supported_by_all(&self, protocol: &str) -> bool {
        self.supported.get(protocol).copied().unwrap_or(0) == self.members.len()
    }

    /// Adds a member that replaces no other.
    fn add(&mut self, member: Member, protocol_type: String) {
        if let Some(instance) = &member.group_instance_id {
            self.static_members.insert(instance.clone(), member.id.clone());
        }
        if self.members.is_empty() {
            self.protocol_type = Some(protocol_type);
        }
        if self.leader.is_none() {
            self.leader = Some(member.id.clone());
        }
        self.count_protocols(&member, true);
        self.awaiting_join += usize::from(member.join.is_some());
        self.pending.remove(&member.id);
        self.members.insert(member.id.clone(), member);
        debug_assert!(self.awaiting_join <= self.members.len(), "only members wait for a join");
    }

    /// Removes a member or a promised member, with its alarm and its waiting requests.
    fn remove(&mut self, turn: &mut StepContext<'_>, member_id: &str) {
        turn.timers.cancel(&TimerKey::Session(self.id.clone(), member_id.to_owned()));
        if let Some(member) = self.members.remove(member_id) {
            self.count_protocols(&member, false);
            self.awaiting_join -= usize::from(member.join.is_some());
            if let Some(instance) = &member.group_instance_id {
                self.static_members.remove(instance);
            }
            // A client that still waits may rejoin as a new member.
            if let Some(ticket) = member.join {
                turn.reply(ticket, Outcome::Join(JoinOutcome::error("", GroupError::UnknownMemberId)));
            }
            if let Some(ticket) = member.sync {
                turn.reply(ticket, Outcome::Sync(SyncOutcome::error(GroupError::UnknownMemberId)));
            }
        }
        if self.is_leader(member_id) {
            self.leader = self.members.keys().next().cloned();
        }
        self.pending.remove(member_id);
        self.pending_sync.remove(member_id);
    }

    fn count_protocols(&mut self, member: &Member, added: bool) {
        for name in member.protocol_names() {
            let count = self.supported.entry(name.to_owned()).or_default();
            *count = if added { *count + 1 } else { count.saturating_sub(1) };
            if *count == 0 {
                self.supported.remove(name);
            }
        }
    }

    /// Sets the time at which the member is removed without a heartbeat.
    fn renew_session(&self, turn: &mut StepContext<'_>, member_id: &str) {
        if let Some(member) = self.members.get(member_id) {
            let timeout_ms = i64::from(member.session_timeout_ms);
            turn.alarm_in(self.session_key(member_id), timeout_ms, Alarm::SessionOver);
        }
    }

    fn session_key(&self, member_id: &str) -> TimerKey {
        TimerKey::Session(self.id.clone(), member_id.to_owned())
    }

    fn answer_join(&mut self, turn: &mut StepContext<'_>, member_id: &str, outcome: JoinOutcome) {
        if let Some(ticket) = self.members.get_mut(member_id).and_then(|member| member.join.take()) {
            self.awaiting_join -= 1;
            turn.reply(ticket, Outcome::Join(outcome));
        }
    }

    /// The response that admits a member to the current generation.
    fn joined(&self, member_id: &str) -> JoinOutcome {
        JoinOutcome {
            error: None,
            generation: self.generation,
            protocol_type: self.protocol_type.clone(),
            protocol_name: self.protocol_name.clone(),
            leader: self.leader.clone().unwrap_or_default(),
            skip_assignment: false,
            member_id: member_id.to_owned(),
            members: if self.is_leader(member_id) { self.joined_members() } else { Vec::new() },
        }
    }

    fn joined_members(&self) -> Vec<JoinedMember> {
        let protocol = self.protocol_name.as_deref();
        let members = self.members.values().map(|member| JoinedMember {
            member_id: member.id.clone(),
            group_instance_id: member.group_instance_id.clone(),
            metadata: member.metadata(protocol),
        });
        members.collect()
    }

    /// Registers a waiting join; it replaces an earlier join of the same member.
    fn await_join(&mut self, turn: &mut StepContext<'_>, member_id: &str, ticket: Ticket) {
        let Some(member) = self.members.get_mut(member_id) else { return };
        match member.join.replace(ticket) {
            None => self.awaiting_join += 1,
            Some(overtaken) => {
                let outcome = JoinOutcome::error(member_id, GroupError::RebalanceInProgress);
                turn.reply(overtaken, Outcome::Join(outcome));
            }
        }
    }

    /// The group's record without members, as the coordinator writes it when it creates the group.
    pub(super) fn birth(&self) -> PendingWrite {
        PendingWrite { records: vec![self.empty_record()], then: Continuation::NewGroup(self.id.clone()) }
    }
}

#[cfg(test)]
mod tests;
