//! Share groups: dispatch of requests and alarms, one at a time for each group, and their records.

use std::sync::Arc;

use levada_base::Now;

use super::held::HeldEvents;
use super::share_work::AfterWrite;
use super::{Coordinator, ListFilter};
use crate::group::error::GroupError;
use crate::group::event::{Outcome, Ticket};
use crate::group::records::{Partitions, Record, ShareRecord};
use crate::group::request::{ShareBeat, ShareHeartbeatRequest};
use crate::group::share::{BeatLimits, ShareDraft, ShareGroup};
use crate::group::timers::{Alarm, TimerKey};
use crate::group::topics::Topics;
use crate::group::turn::{Continuation, PendingWrite, Rebalance};

/// A share group that is being written.
#[derive(Debug)]
pub(in crate::group) struct ShareWrite {
    /// The group that holds once the records are in the log.
    pub(super) group: ShareGroup,
    /// The ticket of the waiting request, and its response.
    pub(super) answer: Option<(Ticket, Outcome)>,
    /// Member whose session begins again with this write.
    pub(super) renewed: Option<String>,
    /// The member that leaves the group with it.
    pub(super) gone: Option<String>,
    /// The topics it was made with.
    pub(super) topics: Arc<dyn Topics>,
    /// Work that follows the write.
    pub(super) next: Option<AfterWrite>,
}

impl ShareWrite {
    /// Removes and returns the ticket of the waiting request, and its response.
    pub(super) fn take_answer(&mut self) -> Option<(Ticket, Outcome)> {
        self.answer.take()
    }

    /// The waiting requests, and the responses that refuse them.
    pub(super) fn refused(self, error: GroupError) -> Vec<(Ticket, Outcome)> {
        let answer = self.answer.map(|(ticket, outcome)| (ticket, outcome.failed(error)));
        let next = self.next.and_then(|next| next.refused(error));
        answer.into_iter().chain(next).collect()
    }
}

/// The error of a heartbeat that does not depend on the state of its group.
pub(super) fn invalid(request: &ShareHeartbeatRequest) -> Option<GroupError> {
    let blank = |text: &str| text.trim().is_empty();
    let what = if blank(&request.member_id) {
        "MemberId can't be empty."
    } else if blank(&request.group_id) {
        "GroupId can't be empty."
    } else if request.rack_id.as_deref().is_some_and(blank) {
        "RackId can't be empty."
    } else if request.member_epoch == 0 && request.topics.as_ref().is_none_or(Vec::is_empty) {
        "SubscribedTopicNames must be set in first request."
    } else if request.member_epoch < -1 {
        "MemberEpoch is invalid."
    } else {
        return None;
    };
    Some(GroupError::InvalidRequest(what))
}

impl Coordinator {
    pub(super) fn share_heartbeat(&mut self, ticket: Ticket, request: ShareHeartbeatRequest, now_ms: i64) {
        let done = if request.member_epoch < 0 {
            self.share_leave(ticket, &request, now_ms)
        } else {
            self.try_share_heartbeat(ticket, &request, now_ms)
        };
        if let Err(error) = done {
            self.reply(ticket, Outcome::ShareHeartbeat(Err(error)));
        }
    }

    fn try_share_heartbeat(
        &mut self,
        ticket: Ticket,
        request: &ShareHeartbeatRequest,
        now_ms: i64,
    ) -> Result<(), GroupError> {
        let (group_id, member_id) = (&request.group_id, &request.member_id);
        let founded = if request.member_epoch == 0 { self.found_share(group_id)? } else { None };
        let group = founded.as_ref().or_else(|| self.shares.get(group_id));
        let group = group.ok_or(GroupError::GroupIdNotFound)?;
        let limits = BeatLimits {
            config: &self.config.share,
            assignment_interval_ms: self.assignment_interval_ms(group_id),
            now: Now { wall_ms: now_ms, steady_ms: self.timers.now_ms() },
        };
        let beat = group.heartbeat(request, &*self.topics, &limits)?;
        let outcome = Outcome::ShareHeartbeat(Ok(ShareBeat {
            member_id: member_id.clone(),
            member_epoch: beat.epoch,
            heartbeat_interval_ms: self.share_heartbeat_interval_ms(group_id),
            assigned: beat.assigned,
        }));
        let Some(ShareDraft { group, records, .. }) = beat.draft else {
            self.watch_share_session(group_id, member_id);
            self.reply(ticket, outcome);
            return Ok(());
        };
        let next = (!beat.initialize.is_empty()).then_some(AfterWrite::Initialize(beat.initialize));
        let write = ShareWrite {
            answer: Some((ticket, outcome)),
            renewed: Some(member_id.clone()),
            next,
            ..self.share_write(group)
        };
        self.write_share(records, write, now_ms);
        Ok(())
    }

    /// Creates a share group for an unused name; none if the group exists already.
    ///
    /// # Errors
    /// If a group of another kind has the name, or had it until a removal that is not in the log
    /// yet.
    pub(super) fn found_share(&self, group_id: &str) -> Result<Option<ShareGroup>, GroupError> {
        if self.shares.contains_key(group_id) {
            return Ok(None);
        }
        if self.knows(group_id) {
            return Err(GroupError::GroupIdNotFound);
        }
        if self.appends.is_removing(group_id) {
            return Err(GroupError::CoordinatorNotAvailable);
        }
        Ok(Some(ShareGroup::new(group_id.to_owned())))
    }

    fn share_leave(
        &mut self,
        ticket: Ticket,
        request: &ShareHeartbeatRequest,
        now_ms: i64,
    ) -> Result<(), GroupError> {
        let group = self.shares.get(&request.group_id).ok_or(GroupError::GroupIdNotFound)?;
        let ShareDraft { group, records, .. } =
            group.leave(&request.member_id, &*self.topics, self.timers.now_ms())?;
        let outcome = Outcome::ShareHeartbeat(Ok(ShareBeat {
            member_id: request.member_id.clone(),
            member_epoch: request.member_epoch,
            heartbeat_interval_ms: 0,
            assigned: None,
        }));
        let write = ShareWrite {
            answer: Some((ticket, outcome)),
            gone: Some(request.member_id.clone()),
            ..self.share_write(group)
        };
        self.write_share(records, write, now_ms);
        Ok(())
    }

    /// Removes a member that has been silent for too long.
    pub(super) fn put_out_of_share(&mut self, group_id: &str, member_id: &str, now_ms: i64) {
        let Some(group) = self.shares.get(group_id) else { return };
        let left = group.leave(member_id, &*self.topics, self.timers.now_ms());
        let Ok(ShareDraft { group, records, .. }) = left else { return };
        let write = ShareWrite { gone: Some(member_id.to_owned()), ..self.share_write(group) };
        self.write_share(records, write, now_ms);
    }

    /// A write of a group that nothing follows.
    pub(super) fn share_write(&self, group: ShareGroup) -> ShareWrite {
        let topics = self.topics.clone();
        ShareWrite { group, answer: None, renewed: None, gone: None, topics, next: None }
    }

    pub(super) fn write_share(&mut self, records: Vec<Record>, write: ShareWrite, now_ms: i64) {
        if records.is_empty() {
            return self.apply_share_write(write, now_ms);
        }
        let before = self.writing.insert(write.group.id().to_owned(), HeldEvents::of_share());
        assert!(before.is_none(), "a group has one write");
        self.append(PendingWrite { records, then: Continuation::Share(Box::new(write)) }, now_ms);
    }

    /// Handles the end of a write of the group's records, and then processes the held events.
    pub(super) fn share_written(&mut self, write: ShareWrite, error: Option<GroupError>, now_ms: i64) {
        let group_id = write.group.id().to_owned();
        let held = self.writing.remove(&group_id).unwrap_or_default();
        match error {
            None => self.apply_share_write(write, now_ms),
            Some(error) => self.drop_share_write(write, error, now_ms),
        }
        self.resume(&group_id, held, now_ms);
    }

    fn apply_share_write(&mut self, write: ShareWrite, now_ms: i64) {
        let ShareWrite { mut group, answer, renewed, gone, topics, next } = write;
        let group_id = group.id().to_owned();
        if Arc::ptr_eq(&topics, &self.topics) {
            group.settle(&*self.topics);
        } else {
            // The topics have changed while the group was being written.
            group.topics_changed(&*self.topics);
        }
        let (members, generation) = group.counts();
        let before = self.shares.insert(group_id.clone(), group);
        debug_assert!(before.as_ref().is_none_or(|before| before.epoch() <= generation), "epochs only rise");
        if before.is_none_or(|before| before.epoch() != generation) {
            self.rebalances.push(Rebalance { group_id: group_id.clone(), generation, members });
        }
        if let Some(gone) = gone {
            self.forget_alarms(&group_id, &gone);
        }
        if let Some(renewed) = renewed {
            self.watch_share_session(&group_id, &renewed);
        }
        if let Some((ticket, outcome)) = answer {
            self.reply(ticket, outcome);
        }
        if let Some(next) = next {
            self.after_share_write(&group_id, next, now_ms);
        }
    }

    /// Drops a write that failed: the group stays unchanged. A member that should have been removed
    /// is checked again later.
    fn drop_share_write(&mut self, write: ShareWrite, error: GroupError, now_ms: i64) {
        let ShareWrite { group, answer, gone, next, .. } = write;
        match (answer, gone) {
            (Some((ticket, outcome)), _) => self.reply(ticket, outcome.failed(error)),
            (None, Some(gone)) => self.watch_share_session(group.id(), &gone),
            (None, None) => {}
        }
        if let Some(next) = next {
            self.share_write_failed(group.id(), next, error, now_ms);
        }
    }

    /// Sets the time at which the member is removed without a heartbeat.
    fn watch_share_session(&mut self, group_id: &str, member_id: &str) {
        let own = self.own_settings.of(group_id, |own| own.share_session_timeout_ms);
        let timeout_ms = own.unwrap_or(self.config.share.session_timeout_ms);
        let key = TimerKey::Session(group_id.to_owned(), member_id.to_owned());
        self.timers.set_in(key, timeout_ms.into(), Alarm::SessionOver);
    }

    fn share_heartbeat_interval_ms(&self, group_id: &str) -> i32 {
        let own = self.own_settings.of(group_id, |own| own.share_heartbeat_interval_ms);
        own.unwrap_or(self.config.share.heartbeat_interval_ms)
    }

    fn assignment_interval_ms(&self, group_id: &str) -> i32 {
        let own = self.own_settings.of(group_id, |own| own.share_assignment_interval_ms);
        let of_all = self.own_settings.share_assignment_interval_ms;
        own.or(of_all).unwrap_or(self.config.share.assignment_interval_ms)
    }

    /// Completes the load of the log: the sessions of members begin now.
    pub(super) fn shares_loaded(&mut self) {
        let steady_ms = self.timers.now_ms();
        let topics = self.topics.clone();
        self.shares.values_mut().for_each(|group| group.loaded(&*topics, steady_ms));
        let members = self.shares.iter().flat_map(|(group_id, group)| {
            group.member_ids().map(move |member_id| (group_id.clone(), member_id.clone()))
        });
        let members: Vec<(String, String)> = members.collect();
        for (group_id, member_id) in members {
            self.watch_share_session(&group_id, &member_id);
        }
    }

    /// Applies a record of a share group while the log is read. Skips records of a group whose name
    /// another group has: no broker writes them.
    pub(super) fn apply_share(&mut self, group_id: String, record: ShareRecord) {
        if record == ShareRecord::Epoch(None) {
            self.shares.remove(&group_id);
            return;
        }
        if !self.shares.contains_key(&group_id) {
            if record.is_tombstone() {
                return;
            }
            self.displace_simple(&group_id);
            if self.knows(&group_id) {
                tracing::warn!(
                    group = group_id,
                    "skipped a record of a share group: a group of another type has this id"
                );
                return;
            }
        }
        let new = || ShareGroup::new(group_id.clone());
        self.shares.entry(group_id.clone()).or_insert_with(new).apply(record);
    }

    pub(super) fn listed_shares(&self, filter: &ListFilter) -> Vec<super::ListedGroup> {
        let listed = self.shares.values().map(ShareGroup::listed);
        listed.filter(|group| filter.lets_through(group)).collect()
    }

    /// The assignable partitions of a share group, by topic: those whose start offsets an
    /// administrator may request. A group that does not exist has none.
    ///
    /// # Errors
    /// Same as [`Coordinator::list`].
    pub fn initialized_share_partitions(&self, group_id: &str) -> Result<Partitions, GroupError> {
        self.serving()?;
        Ok(self.shares.get(group_id).map(ShareGroup::initialized_partitions).unwrap_or_default())
    }
}
