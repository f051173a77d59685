//! Streams groups: dispatch of requests and alarms, one at a time for each group, and their
//! records. Writes are those of consumer groups.

use super::consumers::{DraftedGroup, GroupDraft};
use super::{Coordinator, ListFilter};
use crate::group::error::GroupError;
use crate::group::event::{Outcome, Ticket};
use crate::group::records::{Record, StreamsRecord};
use crate::group::request::{StreamsBeat, StreamsHeartbeatRequest};
use crate::group::streams::{StreamsDraft, StreamsGroup, StreamsLimits};
use crate::group::timers::{Alarm, TimerKey};
use crate::group::turn::Rebalance;

impl Coordinator {
    pub(super) fn streams_heartbeat(
        &mut self,
        ticket: Ticket,
        request: &StreamsHeartbeatRequest,
        now_ms: i64,
    ) {
        let done = if request.member_epoch < 0 {
            self.streams_leave(ticket, request, now_ms)
        } else {
            self.try_streams_heartbeat(ticket, request, now_ms)
        };
        if let Err(error) = done {
            self.reply(ticket, Outcome::StreamsHeartbeat(Err(error)));
        }
    }

    fn try_streams_heartbeat(
        &mut self,
        ticket: Ticket,
        request: &StreamsHeartbeatRequest,
        now_ms: i64,
    ) -> Result<(), GroupError> {
        let (group_id, member_id) = (&request.group_id, &request.member_id);
        let (founded, mut records) = self.found_streams(request)?;
        let group = founded.as_ref().or_else(|| self.streams.get(group_id));
        let group = group.ok_or(GroupError::GroupIdNotFound)?;
        let beat = group.heartbeat(request, &*self.topics, &self.streams_limits(group_id, now_ms))?;
        let outcome = Outcome::StreamsHeartbeat(Ok(self.timed(group_id, beat.beat)));
        let Some(StreamsDraft { group, records: of_group }) = beat.draft else {
            self.watch_session(group_id, member_id);
            self.reply(ticket, outcome);
            return Ok(());
        };
        records.extend(of_group);
        let draft = GroupDraft {
            answer: Some((ticket, outcome)),
            renewed: Some(member_id.clone()),
            delays: beat.delays,
            gone: beat.replaced.into_iter().collect(),
            ..self.streams_draft(group)
        };
        self.write_draft(records, draft, now_ms);
        Ok(())
    }

    /// A group for a member that joins a missing group, or a classic group without members.
    ///
    /// # Errors
    /// If another group has the name, or had it until a removal that is not in the log yet.
    fn found_streams(
        &self,
        request: &StreamsHeartbeatRequest,
    ) -> Result<(Option<StreamsGroup>, Vec<Record>), GroupError> {
        let group_id = &request.group_id;
        if self.streams.contains_key(group_id) {
            return Ok((None, Vec::new()));
        }
        let is_other = self.consumers.contains_key(group_id) || self.shares.contains_key(group_id);
        if request.member_epoch != 0 || is_other {
            return Err(GroupError::GroupIdNotFound);
        }
        if self.appends.is_removing(group_id) {
            return Err(GroupError::CoordinatorNotAvailable);
        }
        let records = match self.groups.get(group_id) {
            None => Vec::new(),
            Some(classic) if classic.validate_delete().is_ok() => {
                vec![Record::Group(group_id.clone(), None)]
            }
            Some(_) => return Err(GroupError::GroupIdNotFound),
        };
        Ok((Some(StreamsGroup::new(group_id.clone())), records))
    }

    /// The response with the intervals and the lag limit of the group.
    fn timed(&self, group_id: &str, beat: StreamsBeat) -> StreamsBeat {
        let (config, groups) = (&self.config.streams, &self.own_settings);
        StreamsBeat {
            heartbeat_interval_ms: groups
                .of(group_id, |own| own.streams.heartbeat_interval_ms)
                .unwrap_or(config.heartbeat_interval_ms),
            task_offset_interval_ms: groups
                .of(group_id, |own| own.streams.task_offset_interval_ms)
                .unwrap_or(config.task_offset_interval_ms),
            acceptable_recovery_lag: groups
                .of(group_id, |own| own.streams.acceptable_recovery_lag)
                .unwrap_or(config.acceptable_recovery_lag),
            ..beat
        }
    }

    fn streams_limits(&self, group_id: &str, now_ms: i64) -> StreamsLimits {
        let (config, groups) = (&self.config.streams, &self.own_settings);
        StreamsLimits {
            max_size: config.max_size,
            assignment_interval_ms: groups
                .of(group_id, |own| own.streams.assignment_interval_ms)
                .or(groups.streams_assignment_interval_ms)
                .unwrap_or(config.assignment_interval_ms),
            initial_delay_ms: groups
                .of(group_id, |own| own.streams.initial_rebalance_delay_ms)
                .unwrap_or(config.initial_rebalance_delay_ms),
            standby_replicas: groups
                .of(group_id, |own| own.streams.num_standby_replicas)
                .unwrap_or(config.num_standby_replicas),
            tags: groups.of(group_id, |own| own.streams.rack_aware_tags.clone()).unwrap_or_default(),
            is_delayed: self.timers.is_set(&TimerKey::Assignment(group_id.to_owned())),
            now_ms,
        }
    }

    fn streams_leave(
        &mut self,
        ticket: Ticket,
        request: &StreamsHeartbeatRequest,
        now_ms: i64,
    ) -> Result<(), GroupError> {
        let group = self.streams.get(&request.group_id).ok_or(GroupError::GroupIdNotFound)?;
        let (StreamsDraft { group, records }, is_gone) = group.depart(request)?;
        let outcome = Outcome::StreamsHeartbeat(Ok(StreamsBeat {
            member_id: request.member_id.clone(),
            member_epoch: request.member_epoch,
            heartbeat_interval_ms: 0,
            task_offset_interval_ms: 0,
            acceptable_recovery_lag: -1,
            status: Vec::new(),
            assigned: None,
            endpoint_epoch: 0,
            endpoints: None,
            missing_topics: Vec::new(),
        }));
        let draft = GroupDraft {
            answer: Some((ticket, outcome)),
            gone: is_gone.then(|| request.member_id.clone()).into_iter().collect(),
            ..self.streams_draft(group)
        };
        self.write_draft(records, draft, now_ms);
        Ok(())
    }

    /// A draft that nothing follows.
    fn streams_draft(&self, group: StreamsGroup) -> GroupDraft {
        GroupDraft::of(DraftedGroup::Streams(Box::new(group)), self.topics.clone())
    }

    /// An alarm of a streams group.
    pub(super) fn streams_alarm(&mut self, group_id: &str, member_id: &str, alarm: Alarm, now_ms: i64) {
        let Some(group) = self.streams.get(group_id) else { return };
        let (draft, gone) = match alarm {
            Alarm::SessionOver => (group.leave(member_id, false).ok(), vec![member_id.to_owned()]),
            Alarm::RevocationOver if group.is_revoking(member_id) => {
                (group.leave(member_id, false).ok(), vec![member_id.to_owned()])
            }
            Alarm::AssignmentDelayOver => (group.delay_over(now_ms), Vec::new()),
            _ => return,
        };
        let Some(StreamsDraft { group, records }) = draft else { return };
        let draft = GroupDraft { gone, ..self.streams_draft(group) };
        self.write_draft(records, draft, now_ms);
    }

    pub(super) fn install_streams(
        &mut self,
        mut group: StreamsGroup,
        renewed: Option<&str>,
        delays: bool,
        now_ms: i64,
    ) {
        let group_id = group.id().to_owned();
        group.stored();
        let (members, generation) = group.counts();
        if self.streams.get(&group_id).is_none_or(|before| before.epoch() != generation) {
            self.rebalances.push(Rebalance { group_id: group_id.clone(), generation, members });
        }
        if let Some(mut classic) = self.groups.remove(&group_id) {
            let (_, mut turn) = self.turn(now_ms);
            classic.dissolve(&mut turn, GroupError::RebalanceInProgress);
            classic.forget_alarms(&mut turn);
        }
        let before = self.streams.insert(group_id.clone(), group);
        debug_assert!(before.as_ref().is_none_or(|before| before.epoch() <= generation), "epochs only rise");
        let key = TimerKey::Assignment(group_id.clone());
        if delays && !self.timers.is_set(&key) {
            let delay_ms = self.streams_limits(&group_id, now_ms).initial_delay_ms;
            self.timers.set_in(key, delay_ms.into(), Alarm::AssignmentDelayOver);
        }
        let Some(member_id) = renewed else { return };
        self.watch_session(&group_id, member_id);
        let now = self.streams.get(&group_id);
        let stays = now.zip(before).is_some_and(|(now, before)| now.is_where(&before, member_id));
        if !stays {
            self.watch_revocation(&group_id, member_id);
        }
    }

    /// Completes the load of the log: the sessions of members begin now.
    pub(super) fn streams_loaded(&mut self) {
        let groups = self.streams.values_mut();
        groups.for_each(|group| {
            group.stored();
            group.topics_changed();
        });
        let watched = self.streams.iter().flat_map(|(group_id, group)| {
            group.watched().map(move |(id, revoking)| (group_id.clone(), id.to_owned(), revoking.is_some()))
        });
        self.watch_all(watched.collect());
    }

    /// Applies a record of a streams group while the log is read. Skips records of a group whose
    /// name another group has: no broker writes them.
    pub(super) fn apply_streams(&mut self, group_id: String, record: StreamsRecord) {
        // The end of the topology is the last record of a group.
        if record == StreamsRecord::Epoch(None) {
            self.streams.remove(&group_id);
            return;
        }
        if !self.streams.contains_key(&group_id) {
            if record.is_tombstone() {
                return;
            }
            self.displace_simple(&group_id);
            if self.knows(&group_id) {
                tracing::warn!(
                    group = group_id,
                    "skipped a record of a streams group: a group of another type has this id"
                );
                return;
            }
        }
        let new = || StreamsGroup::new(group_id.clone());
        self.streams.entry(group_id.clone()).or_insert_with(new).apply(record);
    }

    pub(super) fn listed_streams(&self, filter: &ListFilter) -> Vec<super::ListedGroup> {
        let listed = self.streams.values().map(StreamsGroup::listed);
        listed.filter(|group| filter.lets_through(group)).collect()
    }
}
