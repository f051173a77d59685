//! Requests of members, routed to their group.

use super::Coordinator;
use crate::group::classic::ClassicGroup;
use crate::group::config::GroupConfig;
use crate::group::error::GroupError;
use crate::group::event::{Event, Outcome, Ticket};
use crate::group::request::{
    HeartbeatRequest, JoinOutcome, JoinRequest, LeaveRequest, LeftMember, SyncOutcome, SyncRequest,
};
use crate::group::turn::{Continuation, PendingWrite};
use crate::machine::Keyed;

/// Validation of a request that does not depend on the state of its group.
pub(super) fn invalid(event: &Event, config: &GroupConfig) -> Option<GroupError> {
    let group_id = match event {
        Event::Join(_, request) => request.key(),
        Event::Sync(_, request) => request.key(),
        Event::Heartbeat(_, request) => request.key(),
        Event::Leave(_, request) => request.key(),
        Event::ConsumerHeartbeat(_, request) => return super::consumers::invalid(request),
        Event::ShareHeartbeat(_, request) => return super::shares::invalid(request),
        // The API has checked the rest of the request.
        Event::StreamsHeartbeat(_, request) => request.key(),
        Event::AlterShareOffsets(_, request) => request.key(),
        Event::DeleteShareOffsets(_, request) => request.key(),
        Event::TxnCommit(_, request) => request.key(),
        Event::OffsetDelete(_, request) => request.key(),
        // Consumers that only commit and fetch may do so in the group without a name.
        _ => return None,
    };
    if group_id.is_empty() {
        return Some(GroupError::InvalidGroupId);
    }
    let Event::Join(_, request) = event else { return None };
    let allowed = config.min_session_timeout_ms..=config.max_session_timeout_ms;
    (!allowed.contains(&request.session_timeout_ms)).then_some(GroupError::InvalidSessionTimeout)
}

impl Coordinator {
    pub(super) fn join(&mut self, ticket: Ticket, request: JoinRequest, now_ms: i64) {
        let consumer = self.consumers.get(&request.group_id);
        if consumer.is_some_and(|group| group.validate_delete().is_err()) {
            return self.join_consumer_group(ticket, &request, now_ms);
        }
        let streams = self.streams.get(&request.group_id);
        let is_busy = streams.is_some_and(|group| group.validate_delete().is_err());
        if is_busy || self.shares.contains_key(&request.group_id) {
            let outcome = JoinOutcome::error("", GroupError::InconsistentGroupProtocol);
            return self.reply(ticket, Outcome::Join(outcome));
        }
        let is_new = !self.groups.contains_key(&request.group_id);
        if is_new && !request.member_id.is_empty() {
            let outcome = JoinOutcome::error(request.member_id, GroupError::UnknownMemberId);
            return self.reply(ticket, Outcome::Join(outcome));
        }
        self.make_room_for_classic(&request.group_id, now_ms);
        let group_id = request.group_id.clone();
        let (groups, mut turn) = self.turn(now_ms);
        let group = groups.entry(group_id.clone()).or_insert_with(|| ClassicGroup::new(group_id, now_ms));
        let write = group.join(&mut turn, ticket, request);
        let write = if is_new { write.or_else(|| Some(group.birth())) } else { write };
        self.append_some(write, now_ms);
    }

    pub(super) fn sync(&mut self, ticket: Ticket, request: SyncRequest, now_ms: i64) {
        if self.consumers.contains_key(&request.group_id) {
            return self.sync_consumer_group(ticket, &request);
        }
        let (groups, mut turn) = self.turn(now_ms);
        let Some(group) = groups.get_mut(&request.group_id) else {
            let outcome = SyncOutcome::error(GroupError::UnknownMemberId);
            return self.reply(ticket, Outcome::Sync(outcome));
        };
        let write = group.sync(&mut turn, ticket, request);
        self.append_some(write, now_ms);
    }

    pub(super) fn heartbeat(&mut self, ticket: Ticket, request: &HeartbeatRequest, now_ms: i64) {
        if self.consumers.contains_key(&request.group_id) {
            return self.heartbeat_consumer_group(ticket, request);
        }
        let (groups, mut turn) = self.turn(now_ms);
        let outcome = match groups.get_mut(&request.group_id) {
            Some(group) => group.heartbeat(&mut turn, request),
            None => Err(GroupError::UnknownMemberId),
        };
        self.reply(ticket, Outcome::Heartbeat(outcome));
    }

    pub(super) fn leave(&mut self, ticket: Ticket, request: LeaveRequest, now_ms: i64) {
        if self.consumers.contains_key(&request.group_id) {
            return self.leave_consumer_group(ticket, request, now_ms);
        }
        let (groups, mut turn) = self.turn(now_ms);
        let Some(group) = groups.get_mut(&request.group_id) else {
            let error = Some(GroupError::UnknownMemberId);
            let members = request.members.into_iter().map(|member| LeftMember {
                member_id: member.member_id,
                group_instance_id: member.group_instance_id,
                error,
            });
            let outcome = Outcome::Leave(Ok(members.collect()));
            return self.reply(ticket, outcome);
        };
        let (left, write) = group.leave(&mut turn, request.members);
        let outcome = Outcome::Leave(Ok(left));
        match write {
            // The last member has left: the record must be in the log before the response.
            Some(write) => {
                self.append(PendingWrite { then: Continuation::Reply(ticket, outcome), ..write }, now_ms)
            }
            None => self.reply(ticket, outcome),
        }
    }
}
