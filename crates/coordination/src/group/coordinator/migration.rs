//! Members of the classic protocol in consumer groups, and groups that change their kind (KIP-848's
//! online migration).
//!
//! A classic group with members becomes a consumer group when the first member that speaks the
//! consumer protocol joins; a consumer group becomes a classic group when the last such member has
//! left.

use super::Coordinator;
use super::consumers::{DraftedGroup, GroupDraft};
use crate::group::consumer::{ConsumerGroup, Draft};
use crate::group::error::GroupError;
use crate::group::event::{Outcome, Ticket};
use crate::group::records::Record;
use crate::group::request::{
    HeartbeatRequest, JoinOutcome, JoinRequest, LeaveRequest, SyncOutcome, SyncRequest,
};
use crate::group::timers::{Alarm, TimerKey};

/// The first version in which a new member must rejoin with its assigned id (KIP-394).
const REQUIRES_MEMBER_ID: i16 = 4;
/// Protocol type of classic groups that a consumer group can replace.
const PROTOCOL_TYPE: &str = "consumer";

impl Coordinator {
    pub(super) fn join_consumer_group(&mut self, ticket: Ticket, request: &JoinRequest, now_ms: i64) {
        if let Err(error) = self.try_join_consumer_group(ticket, request, now_ms) {
            self.reply(ticket, Outcome::Join(JoinOutcome::error("", error)));
        }
    }

    fn try_join_consumer_group(
        &mut self,
        ticket: Ticket,
        request: &JoinRequest,
        now_ms: i64,
    ) -> Result<(), GroupError> {
        let new = request.member_id.is_empty();
        let member_id =
            if new { uuid::Uuid::from_u128(request.nonce).to_string() } else { request.member_id.clone() };
        let group = self.consumers.get(&request.group_id).ok_or(GroupError::UnknownMemberId)?;
        if self.config.consumer.keeps_kinds_apart() {
            return Err(GroupError::InconsistentGroupProtocol);
        }
        group.admit(request, self.config.consumer.max_size)?;
        if new && request.group_instance_id.is_none() && request.api_version >= REQUIRES_MEMBER_ID {
            let outcome = JoinOutcome::error(member_id, GroupError::MemberIdRequired);
            self.reply(ticket, Outcome::Join(outcome));
            return Ok(());
        }
        let topics = self.topics.clone();
        let replaces = group.has_instance(request.group_instance_id.as_deref());
        let seated =
            group.join(&member_id, request, &*topics, self.assignment_pace(&request.group_id, now_ms))?;
        let outcome = JoinOutcome {
            error: None,
            generation: seated.generation,
            protocol_type: Some(PROTOCOL_TYPE.to_owned()),
            protocol_name: request.protocols.first().map(|protocol| protocol.name.clone()),
            leader: String::new(),
            skip_assignment: false,
            member_id: member_id.clone(),
            members: Vec::new(),
        };
        let (becomes, records) = if replaces && self.shall_downgrade(&seated.draft) {
            self.downgrade(seated.draft, seated.resubscribed, now_ms)
        } else {
            (DraftedGroup::Consumer(Box::new(seated.draft.group)), seated.draft.records)
        };
        let draft = GroupDraft {
            answer: Some((ticket, Outcome::Join(outcome))),
            renewed: Some(member_id),
            matches: Some(request.visible.clone()),
            ..GroupDraft::of(becomes, topics)
        };
        self.write_draft(records, draft, now_ms);
        Ok(())
    }

    /// Converts a consumer group of which all members are classic to a classic group.
    pub(super) fn downgrade(
        &self,
        draft: Draft,
        rebalance: bool,
        now_ms: i64,
    ) -> (DraftedGroup, Vec<Record>) {
        // The epoch before the change, as in Kafka: the next generation follows when all have
        // joined.
        let generation =
            self.consumers.get(draft.group.id()).map_or(draft.group.epoch(), ConsumerGroup::epoch);
        let (classic, records) = draft.into_classic(generation, &*self.topics, now_ms);
        (DraftedGroup::Classic(Box::new(classic), rebalance), records)
    }

    /// The draft unchanged, or as a classic group if its last member of the consumer protocol has
    /// left.
    pub(super) fn after_departure(&self, draft: Draft, now_ms: i64) -> (DraftedGroup, Vec<Record>) {
        if self.shall_downgrade(&draft) {
            return self.downgrade(draft, true, now_ms);
        }
        (DraftedGroup::Consumer(Box::new(draft.group)), draft.records)
    }

    fn shall_downgrade(&self, draft: &Draft) -> bool {
        let fits = draft.group.size() <= self.config.max_size;
        self.config.consumer.downgrades && fits && draft.group.is_all_classic()
    }

    /// Converts a classic group with members to a consumer group.
    pub(super) fn upgrade(&self, group_id: &str) -> Result<Draft, GroupError> {
        if !self.config.consumer.upgrades {
            return Err(GroupError::NoUpgrade("online upgrade is disabled"));
        }
        let classic = self.groups.get(group_id).ok_or(GroupError::GroupIdNotFound)?;
        ConsumerGroup::from_classic(classic, &*self.topics, self.config.consumer.max_size)
    }

    pub(super) fn sync_consumer_group(&mut self, ticket: Ticket, request: &SyncRequest) {
        let group = self.consumers.get(&request.group_id).ok_or(GroupError::UnknownMemberId);
        let outcome = match group.and_then(|group| group.sync(request, &*self.topics)) {
            Ok(assignment) => {
                let member = (request.group_id.clone(), request.member_id.clone());
                self.timers.cancel(&TimerKey::MemberSync(member.0, member.1));
                self.watch_session(&request.group_id, &request.member_id);
                SyncOutcome {
                    error: None,
                    protocol_type: request.protocol_type.clone(),
                    protocol_name: request.protocol_name.clone(),
                    assignment,
                }
            }
            Err(error) => {
                self.expect_join(error, &request.group_id, &request.member_id);
                SyncOutcome::error(error)
            }
        };
        self.reply(ticket, Outcome::Sync(outcome));
    }

    pub(super) fn heartbeat_consumer_group(&mut self, ticket: Ticket, request: &HeartbeatRequest) {
        let group = self.consumers.get(&request.group_id).ok_or(GroupError::UnknownMemberId);
        let outcome = group.and_then(|group| group.classic_heartbeat(request));
        if matches!(outcome, Ok(()) | Err(GroupError::RebalanceInProgress)) {
            self.watch_session(&request.group_id, &request.member_id);
        }
        if let Err(error) = outcome {
            self.expect_join(error, &request.group_id, &request.member_id);
        }
        self.reply(ticket, Outcome::Heartbeat(outcome));
    }

    pub(super) fn leave_consumer_group(&mut self, ticket: Ticket, request: LeaveRequest, now_ms: i64) {
        let Some(group) = self.consumers.get(&request.group_id) else { return };
        let (left, draft, gone) = group.classic_leave(request.members, &*self.topics);
        let outcome = Outcome::Leave(Ok(left));
        if gone.is_empty() {
            return self.reply(ticket, outcome);
        }
        let (becomes, records) = self.after_departure(draft, now_ms);
        let answer = Some((ticket, outcome));
        let draft = GroupDraft { answer, gone, ..GroupDraft::of(becomes, self.topics.clone()) };
        self.write_draft(records, draft, now_ms);
    }

    /// Starts the rebalance timeout of a member that must rejoin.
    fn expect_join(&mut self, error: GroupError, group_id: &str, member_id: &str) {
        let group = self.consumers.get(group_id).filter(|_| error == GroupError::RebalanceInProgress);
        let timeouts = group.and_then(|group| group.classic_timeouts(member_id));
        let key = TimerKey::MemberJoin(group_id.to_owned(), member_id.to_owned());
        if let Some((_, rebalance_ms)) = timeouts
            && !self.timers.is_set(&key)
        {
            self.timers.set_in(key, rebalance_ms.into(), Alarm::SessionOver);
        }
    }

    /// Starts the rebalance timeout of a classic member that has joined and must request its
    /// assignment.
    pub(super) fn expect_sync(&mut self, group_id: &str, member_id: &str) {
        let group = self.consumers.get(group_id);
        let Some((_, rebalance_ms)) = group.and_then(|group| group.classic_timeouts(member_id)) else {
            return;
        };
        self.timers.cancel(&TimerKey::MemberJoin(group_id.to_owned(), member_id.to_owned()));
        let key = TimerKey::MemberSync(group_id.to_owned(), member_id.to_owned());
        self.timers.set_in(key, rebalance_ms.into(), Alarm::SessionOver);
    }
}
