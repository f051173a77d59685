//! Consumer groups: dispatch of requests and alarms, one at a time for each group.

use std::sync::Arc;

use super::held::HeldEvents;
use super::{Coordinator, ListFilter};
use crate::group::classic::ClassicGroup;
use crate::group::consumer::{ASSIGNORS, AssignmentPace, ConsumerGroup, Draft};
use crate::group::error::GroupError;
use crate::group::event::{Outcome, Ticket};
use crate::group::records::{ConsumerRecord, Record};
use crate::group::request::{ConsumerBeat, ConsumerHeartbeatRequest};
use crate::group::streams::StreamsGroup;
use crate::group::timers::{Alarm, TimerKey};
use crate::group::topics::{Topics, Visible};
use crate::group::turn::{Continuation, PendingWrite, Rebalance};

/// The draft of a consumer group that is being written.
#[derive(Debug)]
pub(in crate::group) struct GroupDraft {
    /// The group once the records are in the log.
    pub(super) becomes: DraftedGroup,
    /// The ticket of the waiting request, and its response.
    pub(super) answer: Option<(Ticket, Outcome)>,
    /// Member whose session restarts with this draft.
    pub(super) renewed: Option<String>,
    /// Members that leave the group with the draft.
    pub(super) gone: Vec<String>,
    /// The topics from which the draft was computed.
    pub(super) topics: Arc<dyn Topics>,
    /// Topics with which the group's expressions are compared after the write; none if no
    /// expression needs it.
    pub(super) matches: Option<Visible>,
    /// True if the first assignment of a streams group waits for more members.
    pub(super) delays: bool,
}

/// The group of a draft.
#[derive(Debug)]
pub(in crate::group) enum DraftedGroup {
    /// A consumer group.
    Consumer(Box<ConsumerGroup>),
    /// A classic group, whose members are to join again or not.
    Classic(Box<ClassicGroup>, bool),
    /// A streams group.
    Streams(Box<StreamsGroup>),
}

impl DraftedGroup {
    fn id(&self) -> &str {
        match self {
            Self::Consumer(group) => group.id(),
            Self::Classic(group, _) => group.id(),
            Self::Streams(group) => group.id(),
        }
    }
}

/// The error of a heartbeat that does not depend on the state of its group.
pub(super) fn invalid(request: &ConsumerHeartbeatRequest) -> Option<GroupError> {
    let blank = |text: &str| text.trim().is_empty();
    let what = |what| Some(GroupError::InvalidRequest(what));
    if blank(&request.member_id) {
        return what("MemberId can't be empty.");
    }
    if blank(&request.group_id) {
        return what("GroupId can't be empty.");
    }
    if request.instance_id.as_deref().is_some_and(blank) {
        return what("InstanceId can't be empty.");
    }
    if request.rack_id.as_deref().is_some_and(blank) {
        return what("RackId can't be empty.");
    }
    match request.member_epoch {
        0 if request.rebalance_timeout_ms == -1 => {
            return what("RebalanceTimeoutMs must be provided in first request.");
        }
        0 if request.owned.as_ref().is_none_or(|owned| !owned.is_empty()) => {
            return what("TopicPartitions must be empty when (re-)joining.");
        }
        0 if request.topics.is_none() && request.regex.is_none() => {
            return what(
                "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.",
            );
        }
        -2 if request.instance_id.is_none() => return what("InstanceId can't be null."),
        ..-2 => return what("MemberEpoch is invalid."),
        _ => {}
    }
    let known = request.assignor.as_ref().is_none_or(|assignor| ASSIGNORS.contains(&assignor.as_str()));
    (!known).then_some(GroupError::UnsupportedAssignor)
}

impl Coordinator {
    pub(super) fn consumer_heartbeat(
        &mut self,
        ticket: Ticket,
        request: ConsumerHeartbeatRequest,
        now_ms: i64,
    ) {
        if let Err(error) = self.try_consumer_heartbeat(ticket, request, now_ms) {
            self.reply(ticket, Outcome::ConsumerHeartbeat(Err(error)));
        }
    }

    /// Time of a target assignment of a consumer group, and the minimum time since the previous
    /// one.
    pub(super) fn assignment_pace(&self, group_id: &str, now_ms: i64) -> AssignmentPace {
        let own = self.own_settings.of(group_id, |own| own.consumer_assignment_interval_ms);
        let of_all = self.own_settings.consumer_assignment_interval_ms;
        let interval_ms = own.or(of_all).unwrap_or(self.config.consumer.assignment_interval_ms);
        AssignmentPace { interval_ms, now_ms }
    }

    fn try_consumer_heartbeat(
        &mut self,
        ticket: Ticket,
        request: ConsumerHeartbeatRequest,
        now_ms: i64,
    ) -> Result<(), GroupError> {
        let topics = self.topics.clone();
        if request.member_epoch < 0 {
            return self.consumer_leave(ticket, request, now_ms);
        }
        let (founded, mut records) = self.found(&request)?;
        let group = founded.as_ref().or_else(|| self.consumers.get(&request.group_id));
        let group = group.ok_or(GroupError::GroupIdNotFound)?;
        let pace = self.assignment_pace(&request.group_id, now_ms);
        let beat = group.heartbeat(&request, &*topics, self.config.consumer.max_size, pace)?;
        let member_id = request.member_id;
        let outcome = Outcome::ConsumerHeartbeat(Ok(ConsumerBeat {
            member_id: member_id.clone(),
            member_epoch: beat.epoch,
            heartbeat_interval_ms: self.heartbeat_interval_ms(&request.group_id),
            assigned: beat.assigned,
        }));
        let Some(draft) = beat.draft else {
            self.watch_session(&request.group_id, &member_id);
            self.reply(ticket, outcome);
            return Ok(());
        };
        records.extend(draft.records);
        let renewed = Some(member_id);
        let answer = Some((ticket, outcome));
        let becomes = DraftedGroup::Consumer(Box::new(draft.group));
        let matches = beat.awaits_matches.then_some(request.visible);
        let draft = GroupDraft { answer, renewed, matches, ..GroupDraft::of(becomes, topics) };
        self.write_draft(records, draft, now_ms);
        Ok(())
    }

    /// A group for a member that joins a missing group or a classic group.
    fn found(
        &self,
        request: &ConsumerHeartbeatRequest,
    ) -> Result<(Option<ConsumerGroup>, Vec<Record>), GroupError> {
        let group_id = &request.group_id;
        if self.consumers.contains_key(group_id) {
            return Ok((None, Vec::new()));
        }
        let is_other = self.shares.contains_key(group_id) || self.streams.contains_key(group_id);
        if request.member_epoch != 0 || is_other {
            return Err(GroupError::GroupIdNotFound);
        }
        let founded = ConsumerGroup::new(group_id.clone());
        match self.groups.get(group_id) {
            None => Ok((Some(founded), Vec::new())),
            Some(classic) if classic.validate_delete().is_ok() => {
                Ok((Some(founded), vec![Record::Group(group_id.clone(), None)]))
            }
            Some(_) => {
                let Draft { group, records } = self.upgrade(group_id)?;
                Ok((Some(group), records))
            }
        }
    }

    fn consumer_leave(
        &mut self,
        ticket: Ticket,
        request: ConsumerHeartbeatRequest,
        now_ms: i64,
    ) -> Result<(), GroupError> {
        let group = self.consumers.get(&request.group_id).ok_or(GroupError::GroupIdNotFound)?;
        let for_a_while = request.member_epoch == -2;
        let draft =
            group.leave(&request.member_id, request.instance_id.as_deref(), for_a_while, &*self.topics)?;
        let (becomes, records) = self.after_departure(draft, now_ms);
        let outcome = Outcome::ConsumerHeartbeat(Ok(ConsumerBeat {
            member_id: request.member_id.clone(),
            member_epoch: request.member_epoch,
            heartbeat_interval_ms: 0,
            assigned: None,
        }));
        let gone = if for_a_while { Vec::new() } else { vec![request.member_id] };
        let topics = self.topics.clone();
        let answer = Some((ticket, outcome));
        let draft = GroupDraft { answer, gone, ..GroupDraft::of(becomes, topics) };
        self.write_draft(records, draft, now_ms);
        Ok(())
    }

    /// Removes a member that has been silent, or has not revoked its partitions, for too long.
    pub(super) fn put_out(&mut self, group_id: &str, member_id: &str, now_ms: i64) {
        let Some(group) = self.consumers.get(group_id) else { return };
        let Some(draft) = group.without(member_id, &*self.topics) else { return };
        let (becomes, records) = self.after_departure(draft, now_ms);
        let gone = vec![member_id.to_owned()];
        let topics = self.topics.clone();
        let draft = GroupDraft { gone, ..GroupDraft::of(becomes, topics) };
        self.write_draft(records, draft, now_ms);
    }

    /// Ends the time to revoke partitions.
    pub(super) fn revocation_over(&mut self, group_id: &str, member_id: &str, now_ms: i64) {
        if self.consumers.get(group_id).is_some_and(|group| group.is_revoking(member_id)) {
            self.put_out(group_id, member_id, now_ms);
        }
    }

    pub(super) fn write_draft(&mut self, records: Vec<Record>, draft: GroupDraft, now_ms: i64) {
        if records.is_empty() {
            return self.apply_draft(draft, now_ms);
        }
        let before = self.writing.insert(draft.becomes.id().to_owned(), HeldEvents::default());
        assert!(before.is_none(), "a group has one draft");
        self.append(PendingWrite { records, then: Continuation::Draft(Box::new(draft)) }, now_ms);
    }

    /// Handles the end of a write of the group's records, and then processes the held events.
    pub(super) fn draft_written(&mut self, draft: GroupDraft, error: Option<GroupError>, now_ms: i64) {
        let group_id = draft.becomes.id().to_owned();
        let held = self.writing.remove(&group_id).unwrap_or_default();
        match error {
            None => self.apply_draft(draft, now_ms),
            Some(error) => self.drop_draft(draft, error),
        }
        self.resume(&group_id, held, now_ms);
    }

    fn apply_draft(&mut self, draft: GroupDraft, now_ms: i64) {
        let group_id = draft.becomes.id().to_owned();
        for gone in &draft.gone {
            self.forget_alarms(&group_id, gone);
        }
        match draft.becomes {
            DraftedGroup::Consumer(mut group) => {
                if !Arc::ptr_eq(&draft.topics, &self.topics) {
                    // The members have changed while the group was being written.
                    group.topics_changed();
                }
                self.install(*group, draft.renewed.as_deref(), now_ms);
            }
            DraftedGroup::Classic(group, rebalance) => self.reinstall(*group, rebalance, now_ms),
            DraftedGroup::Streams(mut group) => {
                if !Arc::ptr_eq(&draft.topics, &self.topics) {
                    group.topics_changed();
                }
                self.install_streams(*group, draft.renewed.as_deref(), draft.delays, now_ms);
            }
        }
        if let Some((ticket, outcome)) = draft.answer {
            self.reply(ticket, outcome);
        }
        if let Some(visible) = draft.matches {
            self.begin_matches(&group_id, visible);
        }
    }

    fn install(&mut self, group: ConsumerGroup, renewed: Option<&str>, now_ms: i64) {
        let group_id = group.id().to_owned();
        let (members, generation) = group.counts();
        if self.consumers.get(&group_id).is_none_or(|before| before.epoch() != generation) {
            self.rebalances.push(Rebalance { group_id: group_id.clone(), generation, members });
        }
        let upgraded = self.groups.remove(&group_id);
        if let Some(mut classic) = upgraded {
            let (_, mut turn) = self.turn(now_ms);
            classic.dissolve(&mut turn, GroupError::RebalanceInProgress);
            classic.forget_alarms(&mut turn);
            let members: Vec<String> = group.watched().map(|(id, ..)| id.to_owned()).collect();
            self.consumers.insert(group_id.clone(), group);
            members.iter().for_each(|member_id| self.watch_session(&group_id, member_id));
            return;
        }
        let epoch = group.epoch();
        let before = self.consumers.insert(group_id.clone(), group);
        debug_assert!(before.as_ref().is_none_or(|before| before.epoch() <= epoch), "epochs only rise");
        let Some(member_id) = renewed else { return };
        self.watch_session(&group_id, member_id);
        let now = self.consumers.get(&group_id);
        let stays = now.zip(before).is_some_and(|(now, before)| now.is_where(&before, member_id));
        if !stays {
            self.watch_revocation(&group_id, member_id);
        }
        self.expect_sync(&group_id, member_id);
    }

    /// A consumer group has become a classic one.
    fn reinstall(&mut self, mut group: ClassicGroup, rebalance: bool, now_ms: i64) {
        let group_id = group.id().to_owned();
        if let Some(before) = self.consumers.remove(&group_id) {
            before.watched().for_each(|(member_id, ..)| self.forget_alarms(&group_id, member_id));
        }
        let (groups, mut turn) = self.turn(now_ms);
        let write = group.begin(&mut turn, rebalance);
        groups.insert(group_id, group);
        self.append_some(write, now_ms);
    }

    pub(super) fn forget_alarms(&mut self, group_id: &str, member_id: &str) {
        let name = || (group_id.to_owned(), member_id.to_owned());
        for key in [TimerKey::Session, TimerKey::Revocation, TimerKey::MemberJoin, TimerKey::MemberSync] {
            let (group_id, member_id) = name();
            self.timers.cancel(&key(group_id, member_id));
        }
    }

    /// Drops a draft whose append failed: the group stays unchanged. Members that should have been
    /// removed are checked again later.
    fn drop_draft(&mut self, draft: GroupDraft, error: GroupError) {
        let GroupDraft { becomes, answer, gone, .. } = draft;
        match answer {
            Some((ticket, outcome)) => self.reply(ticket, outcome.failed(error)),
            None => gone.iter().for_each(|gone| self.watch_session(becomes.id(), gone)),
        }
    }

    /// Sets the time at which the member is removed without a heartbeat.
    pub(super) fn watch_session(&mut self, group_id: &str, member_id: &str) {
        let classic = self.consumers.get(group_id).and_then(|group| group.classic_timeouts(member_id));
        let timeout_ms =
            classic.map_or_else(|| self.session_timeout_ms(group_id), |(session_ms, _)| session_ms);
        let key = TimerKey::Session(group_id.to_owned(), member_id.to_owned());
        self.timers.set_in(key, timeout_ms.into(), Alarm::SessionOver);
    }

    /// Sets the time at which a member is removed if it keeps partitions that it must revoke. Each
    /// epoch has its own time.
    pub(super) fn watch_revocation(&mut self, group_id: &str, member_id: &str) {
        let consumers = self.consumers.get(group_id).into_iter().flat_map(ConsumerGroup::watched);
        let streams = self.streams.get(group_id).into_iter().flat_map(StreamsGroup::watched);
        let mut watched = consumers.chain(streams).filter(|(id, _)| *id == member_id);
        let revoking = watched.find_map(|(_, revoking)| revoking);
        let key = TimerKey::Revocation(group_id.to_owned(), member_id.to_owned());
        match revoking {
            Some(timeout_ms) => {
                self.timers.set_in(key, timeout_ms.into(), Alarm::RevocationOver);
            }
            None => self.timers.cancel(&key),
        }
    }

    /// Starts the session timers of all members, once the log has been read to its end.
    pub(super) fn consumers_loaded(&mut self) {
        self.consumers.values_mut().for_each(ConsumerGroup::topics_changed);
        let watched = self.consumers.iter().flat_map(|(group_id, group)| {
            group.watched().map(move |(id, revoking)| (group_id.clone(), id.to_owned(), revoking.is_some()))
        });
        self.watch_all(watched.collect());
    }

    /// Watches the sessions of members; true for members that must also revoke partitions or tasks.
    pub(super) fn watch_all(&mut self, watched: Vec<(String, String, bool)>) {
        for (group_id, member_id, revoking) in watched {
            self.watch_session(&group_id, &member_id);
            if revoking {
                self.watch_revocation(&group_id, &member_id);
            }
        }
    }

    /// Applies a record of a consumer group while the log is read.
    pub(super) fn apply_consumer(&mut self, group_id: String, record: ConsumerRecord) {
        match record {
            ConsumerRecord::Epoch(None) => {
                self.consumers.remove(&group_id);
            }
            record => {
                if !self.consumers.contains_key(&group_id) {
                    if record.is_tombstone() {
                        return;
                    }
                    self.displace_simple(&group_id);
                }
                let new = || ConsumerGroup::new(group_id.clone());
                self.consumers.entry(group_id.clone()).or_insert_with(new).apply(record);
            }
        }
    }

    /// Replaces a group that only holds offsets by a group of another type: offsets may precede the
    /// group in the log.
    pub(super) fn displace_simple(&mut self, group_id: &str) {
        if self.groups.get(group_id).is_some_and(ClassicGroup::is_simple) {
            self.groups.remove(group_id);
        }
    }

    fn session_timeout_ms(&self, group_id: &str) -> i32 {
        if self.streams.contains_key(group_id) {
            let own = self.own_settings.of(group_id, |own| own.streams.session_timeout_ms);
            return own.unwrap_or(self.config.streams.session_timeout_ms);
        }
        let own = self.own_settings.of(group_id, |own| own.session_timeout_ms);
        own.unwrap_or(self.config.consumer.session_timeout_ms)
    }

    fn heartbeat_interval_ms(&self, group_id: &str) -> i32 {
        let own = self.own_settings.of(group_id, |own| own.heartbeat_interval_ms);
        own.unwrap_or(self.config.consumer.heartbeat_interval_ms)
    }

    /// Converts a consumer group or a streams group without members to a classic one, because a
    /// classic member joins. No effect if there is no such group.
    pub(super) fn make_room_for_classic(&mut self, group_id: &str, now_ms: i64) {
        if !self.consumers.contains_key(group_id) && !self.streams.contains_key(group_id) {
            return;
        }
        let records = self.end_of(group_id);
        let gone = self.remove_group(group_id).into_iter().collect();
        self.append(PendingWrite { records, then: Continuation::Expired(gone) }, now_ms);
    }

    pub(super) fn listed_consumers(&self, filter: &ListFilter) -> Vec<super::ListedGroup> {
        self.consumers
            .values()
            .map(ConsumerGroup::listed)
            .filter(|group| filter.lets_through(group))
            .collect()
    }
}

impl GroupDraft {
    /// A draft that nothing follows.
    pub(super) fn of(becomes: DraftedGroup, topics: Arc<dyn Topics>) -> Self {
        let (answer, renewed, gone, matches) = Default::default();
        Self { becomes, answer, renewed, gone, topics, matches, delays: false }
    }

    /// Removes and returns the ticket of the waiting request, and its response.
    pub(super) fn take_answer(&mut self) -> Option<(Ticket, Outcome)> {
        self.answer.take()
    }
}
