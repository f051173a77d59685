//! The transition from one generation to the next: joining members, election of leader and
//! protocol, timeouts.

use std::collections::BTreeMap;

use super::{ClassicGroup, State};
use crate::group::timers::{Alarm, TimerKey};
use crate::group::turn::{Continuation, PendingWrite, Rebalance, StepContext};

impl ClassicGroup {
    /// Starts a rebalance, or ends the present one if all members have joined.
    pub(super) fn rebalance_or_complete(&mut self, turn: &mut StepContext<'_>) -> Option<PendingWrite> {
        match self.state {
            State::PreparingRebalance | State::Dead => self.complete_if_all_joined(turn),
            State::Empty | State::CompletingRebalance | State::Stable => self.prepare_rebalance(turn),
        }
    }

    /// Makes all members rejoin, and waits for them.
    pub(in crate::group) fn prepare_rebalance(&mut self, turn: &mut StepContext<'_>) -> Option<PendingWrite> {
        if self.state == State::CompletingRebalance {
            self.cancel_assignment(turn, crate::group::error::GroupError::RebalanceInProgress);
        }
        self.pending_sync.clear();
        turn.timers.cancel(&TimerKey::Sync(self.id.clone()));
        let initial = self.state == State::Empty;
        self.transition(State::PreparingRebalance, turn.now_ms);
        if initial {
            // More members are likely to come soon: give them time.
            let delay_ms = turn.config.initial_rebalance_delay_ms;
            let remaining_ms = (self.rebalance_timeout_ms() - delay_ms).max(0);
            self.wait_for_more(turn, delay_ms, remaining_ms);
            return None;
        }
        if self.has_all_joined() {
            return self.complete_join(turn);
        }
        self.wait_for_joins(turn);
        None
    }

    /// Starts the generation if every member has joined and this is not the group's first one,
    /// which waits for its delay.
    pub(super) fn complete_if_all_joined(&mut self, turn: &mut StepContext<'_>) -> Option<PendingWrite> {
        let waits = self.state == State::PreparingRebalance && self.previous != State::Empty;
        if waits && self.has_all_joined() { self.complete_join(turn) } else { None }
    }

    /// Ends the time to join.
    pub(in crate::group) fn join_over(&mut self, turn: &mut StepContext<'_>) -> Option<PendingWrite> {
        if self.state == State::PreparingRebalance { self.complete_join(turn) } else { None }
    }

    /// Ends the time to wait for more members.
    pub(in crate::group) fn initial_delay_over(
        &mut self,
        turn: &mut StepContext<'_>,
        delay_ms: i64,
        remaining_ms: i64,
    ) -> Option<PendingWrite> {
        if !self.new_member_added || remaining_ms == 0 {
            return self.join_over(turn);
        }
        self.new_member_added = false;
        let next_delay_ms = turn.config.initial_rebalance_delay_ms.min(remaining_ms);
        self.wait_for_more(turn, next_delay_ms, (remaining_ms - delay_ms).max(0));
        None
    }

    /// Removes the members without a SyncGroup, whose time has passed.
    pub(in crate::group) fn sync_over(
        &mut self,
        turn: &mut StepContext<'_>,
        generation: i32,
    ) -> Option<PendingWrite> {
        let settled = matches!(self.state, State::CompletingRebalance | State::Stable);
        if generation != self.generation || !settled || self.pending_sync.is_empty() {
            return None;
        }
        for member_id in std::mem::take(&mut self.pending_sync) {
            self.remove(turn, &member_id);
        }
        self.prepare_rebalance(turn)
    }

    /// Removes a member that has sent no heartbeat for its session timeout.
    pub(in crate::group) fn session_over(
        &mut self,
        turn: &mut StepContext<'_>,
        member_id: &str,
    ) -> Option<PendingWrite> {
        let promised = self.pending.contains(member_id);
        let silent = self.members.get(member_id).is_some_and(|member| !member.is_excused());
        if !promised && !silent {
            return None;
        }
        self.remove(turn, member_id);
        match self.state {
            State::Stable | State::CompletingRebalance if silent => self.prepare_rebalance(turn),
            State::PreparingRebalance if self.has_all_joined() => self.complete_join(turn),
            _ => None,
        }
    }

    /// Starts the next generation with the members that have joined. Static members stay even if
    /// they have not: they are expected to return.
    fn complete_join(&mut self, turn: &mut StepContext<'_>) -> Option<PendingWrite> {
        turn.timers.cancel(&TimerKey::Join(self.id.clone()));
        let missing = self
            .members
            .values()
            .filter(|member| member.join.is_none() && member.group_instance_id.is_none());
        let missing: Vec<String> = missing.map(|member| member.id.clone()).collect();
        for member_id in missing {
            self.remove(turn, &member_id);
        }
        if self.members.is_empty() {
            self.generation = self.generation.wrapping_add(1);
            self.protocol_name = None;
            self.transition(State::Empty, turn.now_ms);
            self.subscribed = self.read_subscriptions();
            turn.rebalances.push(self.rebalance());
            return Some(PendingWrite {
                records: vec![self.record(&BTreeMap::new())],
                then: Continuation::Nothing,
            });
        }
        if !self.elect_joined_leader() {
            // Only static members, none of them back: their sessions decide.
            self.wait_for_joins(turn);
            return None;
        }
        self.start_generation(turn);
        None
    }

    /// The rebalance that led to the present generation.
    fn rebalance(&self) -> Rebalance {
        let (group_id, members) = (self.id.clone(), self.members.len());
        Rebalance { group_id, generation: self.generation, members }
    }

    fn start_generation(&mut self, turn: &mut StepContext<'_>) {
        self.generation = self.generation.wrapping_add(1);
        turn.rebalances.push(self.rebalance());
        self.protocol_name = self.elect_protocol();
        self.transition(State::CompletingRebalance, turn.now_ms);
        self.subscribed = self.read_subscriptions();
        self.pending_sync = self.members.keys().cloned().collect();
        for member_id in self.pending_sync.clone() {
            let outcome = self.joined(&member_id);
            self.answer_join(turn, &member_id, outcome);
            if let Some(member) = self.members.get_mut(&member_id) {
                member.is_new = false;
            }
            self.renew_session(turn, &member_id);
        }
        let alarm = Alarm::SyncOver { generation: self.generation };
        turn.alarm_in(TimerKey::Sync(self.id.clone()), self.rebalance_timeout_ms(), alarm);
    }

    /// Ensures that the leader is a member that has joined; false if none has.
    fn elect_joined_leader(&mut self) -> bool {
        let leader = self.leader.as_ref().and_then(|leader| self.members.get(leader));
        if leader.is_some_and(|leader| leader.join.is_some()) {
            return true;
        }
        let joined = self.members.values().find(|member| member.join.is_some());
        match joined {
            Some(member) => {
                self.leader = Some(member.id.clone());
                true
            }
            None => false,
        }
    }

    /// The protocol with the most votes among those that all members support. The leader's vote
    /// decides a draw.
    pub(super) fn elect_protocol(&self) -> Option<String> {
        let acceptable = |name: &str| self.is_supported_by_all(name);
        let mut votes: BTreeMap<&str, (usize, bool)> = BTreeMap::new();
        for member in self.members.values() {
            if let Some(name) = member.vote(acceptable) {
                let (count, leads) = votes.entry(name).or_default();
                *count += 1;
                *leads |= self.is_leader(&member.id);
            }
        }
        votes.into_iter().max_by_key(|(_, votes)| *votes).map(|(name, _)| name.to_owned())
    }

    fn wait_for_joins(&self, turn: &mut StepContext<'_>) {
        turn.alarm_in(TimerKey::Join(self.id.clone()), self.rebalance_timeout_ms(), Alarm::JoinOver);
    }

    fn wait_for_more(&self, turn: &mut StepContext<'_>, delay_ms: i64, remaining_ms: i64) {
        let alarm = Alarm::InitialDelayOver { delay_ms, remaining_ms };
        turn.alarm_in(TimerKey::Join(self.id.clone()), delay_ms, alarm);
    }
}
