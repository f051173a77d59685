//! SyncGroup: the leader supplies the assignment, and each member gets its part.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::{ClassicGroup, State};
use crate::group::error::GroupError;
use crate::group::event::{Outcome, Ticket};
use crate::group::request::{SyncOutcome, SyncRequest};
use crate::group::timers::TimerKey;
use crate::group::turn::{Assignment, Continuation, PendingWrite, StepContext};

impl ClassicGroup {
    /// A member requests its assignment; a leader sends the assignment of every member.
    pub(in crate::group) fn sync(
        &mut self,
        turn: &mut StepContext<'_>,
        ticket: Ticket,
        request: SyncRequest,
    ) -> Option<PendingWrite> {
        if let Err(error) = self.validate_sync(&request) {
            turn.reply(ticket, Outcome::Sync(SyncOutcome::error(error)));
            return None;
        }
        self.pending_sync.remove(&request.member_id);
        if self.pending_sync.is_empty() {
            turn.timers.cancel(&TimerKey::Sync(self.id.clone()));
        }
        let leads = self.is_leader(&request.member_id);
        let member = self.members.get_mut(&request.member_id)?;
        if self.state == State::Stable {
            let assignment = member.assignment.clone();
            turn.reply(ticket, Outcome::Sync(self.synced(assignment)));
            return None;
        }
        if let Some(overtaken) = member.sync.replace(ticket) {
            let outcome = SyncOutcome::error(GroupError::RebalanceInProgress);
            turn.reply(overtaken, Outcome::Sync(outcome));
        }
        leads.then(|| self.store_assignment(request.assignments))
    }

    fn validate_sync(&self, request: &SyncRequest) -> Result<(), GroupError> {
        fn differs(asked: Option<&str>, ours: Option<&str>) -> bool {
            asked.is_some() && ours.is_some() && asked != ours
        }
        if self.state == State::Empty {
            return Err(GroupError::UnknownMemberId);
        }
        self.validate(&request.member_id, request.group_instance_id.as_deref())?;
        if request.generation != self.generation {
            return Err(GroupError::IllegalGeneration);
        }
        if differs(request.protocol_type.as_deref(), self.protocol_type.as_deref())
            || differs(request.protocol_name.as_deref(), self.protocol_name.as_deref())
        {
            return Err(GroupError::InconsistentGroupProtocol);
        }
        match self.state {
            State::PreparingRebalance => Err(GroupError::RebalanceInProgress),
            _ => Ok(()),
        }
    }

    /// Writes the leader's assignment, before any member gets it.
    fn store_assignment(&mut self, assigned: Vec<(String, Bytes)>) -> PendingWrite {
        let mut assignments: BTreeMap<String, Bytes> = assigned.into_iter().collect();
        assignments.retain(|member_id, _| self.members.contains_key(member_id));
        for member_id in self.members.keys() {
            assignments.entry(member_id.clone()).or_default();
        }
        let records = vec![self.record(&assignments)];
        let (group_id, generation) = (self.id.clone(), self.generation);
        PendingWrite { records, then: Continuation::Assign(Assignment { group_id, generation, assignments }) }
    }

    /// Handles the end of the write of the assignment, which counts only if the group has not
    /// changed since.
    pub(in crate::group) fn assigned(
        &mut self,
        turn: &mut StepContext<'_>,
        mut assignment: Assignment,
        error: Option<GroupError>,
    ) -> Option<PendingWrite> {
        // A deleted group of the same name may have had a generation of this number, but no member
        // of this group.
        let is_own = assignment.assignments.keys().any(|member_id| self.members.contains_key(member_id));
        if self.state != State::CompletingRebalance || assignment.generation != self.generation || !is_own {
            return None;
        }
        if let Some(error) = error {
            self.cancel_assignment(turn, error);
            return self.prepare_rebalance(turn);
        }
        for (member_id, member) in &mut self.members {
            member.assignment = assignment.assignments.remove(member_id).unwrap_or_default();
        }
        self.answer_syncs(turn, None);
        self.transition(State::Stable, turn.now_ms);
        None
    }

    /// Handles an assignment that takes too long to be stored. The waiting members may repeat their
    /// requests; the assignment takes effect once it is stored.
    pub(in crate::group) fn assignment_overdue(
        &mut self,
        turn: &mut StepContext<'_>,
        generation: i32,
        error: GroupError,
    ) {
        if self.state == State::CompletingRebalance && generation == self.generation {
            self.answer_syncs(turn, Some(error));
        }
    }

    /// Cancels the assignment: no member gets one, and waiting members get the error.
    pub(super) fn cancel_assignment(&mut self, turn: &mut StepContext<'_>, error: GroupError) {
        for member in self.members.values_mut() {
            member.assignment = Bytes::new();
        }
        self.answer_syncs(turn, Some(error));
    }

    fn answer_syncs(&mut self, turn: &mut StepContext<'_>, error: Option<GroupError>) {
        let waiting = self.members.values().filter(|member| member.sync.is_some());
        let waiting: Vec<(String, Bytes)> =
            waiting.map(|member| (member.id.clone(), member.assignment.clone())).collect();
        for (member_id, assignment) in waiting {
            self.answer_sync(turn, &member_id, error.map_or(Ok(assignment), Err));
            // During the wait, heartbeats were not required, and the alarm may have fired without
            // effect.
            self.renew_session(turn, &member_id);
        }
    }

    /// Responds to the waiting sync of a member, if there is one.
    pub(super) fn answer_sync(
        &mut self,
        turn: &mut StepContext<'_>,
        member_id: &str,
        result: Result<Bytes, GroupError>,
    ) {
        if let Some(ticket) = self.members.get_mut(member_id).and_then(|member| member.sync.take()) {
            let outcome = match result {
                Ok(assignment) => self.synced(assignment),
                Err(error) => SyncOutcome::error(error),
            };
            turn.reply(ticket, Outcome::Sync(outcome));
        }
    }

    fn synced(&self, assignment: Bytes) -> SyncOutcome {
        SyncOutcome {
            error: None,
            protocol_type: self.protocol_type.clone(),
            protocol_name: self.protocol_name.clone(),
            assignment,
        }
    }
}
