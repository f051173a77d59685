//! The coordinator of one partition of `__consumer_offsets`: the groups whose id hashes to it.
//!
//! A host makes a coordinator with [`Coordinator::new`], replays the partition's records through
//! [`Coordinator::replay`], and steps [`Event::Loaded`]. After that it steps every request, every
//! finished append and every due [`Coordinator::deadline`]. Until it is loaded, the coordinator
//! refuses every request with COORDINATOR_LOAD_IN_PROGRESS. It needs exclusive access: one task or
//! one lock each.

mod appends;
mod commits;
mod consumers;
mod deletion;
mod held;
mod matches;
mod membership;
mod migration;
mod share_work;
mod shares;
mod streams;
mod view;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;

pub(in crate::group) use self::consumers::GroupDraft;
pub(in crate::group) use self::shares::ShareWrite;

use levada_base::Now;
use levada_base::log_pace::LogPace;

use self::appends::{Appends, HeldFetch};
use self::held::HeldEvents;
use self::share_work::ShareWorks;
use super::classic::ClassicGroup;
use super::config::{GroupConfig, OwnSettings};
use super::consumer::ConsumerGroup;
use super::error::GroupError;
use super::event::{Action, Event};
use super::offsets::OffsetStore;
use super::records::{Record, RecordError};
use super::share::ShareGroup;
use super::streams::StreamsGroup;
use super::timers::{Alarm, TimerKey, Timers};
use super::topics::{NoTopics, Topics};
use super::turn::{AnyGroup, PendingWrite, REBALANCES_AT_ONCE, Rebalances, StepContext};

pub use self::matches::{MatchWork, Matched};
pub use self::share_work::{
    GroupWork, RefusedPartitions, ShareStateChange, ShareStateEnd, ShareStateWork, ShareWorkId,
};
pub use self::view::{
    DescribedConsumer, DescribedConsumerGroup, DescribedGroup, DescribedMember, DescribedShareGroup,
    DescribedShareMember, DescribedStreamsGroup, DescribedStreamsMember, DescribedSubtopology,
    DescribedTopology, ListFilter, ListedGroup, MonitoredGroup, Room,
};

/// The groups of one partition of `__consumer_offsets`.
///
/// Whole: a state machine. Groups of all kinds share the order of the log, the timers and the
/// pending writes, and a group can change its kind. The methods of each kind are in a file below.
#[derive(Debug)]
pub struct Coordinator {
    config: GroupConfig,
    phase: Phase,
    groups: BTreeMap<String, ClassicGroup>,
    /// Consumer groups; no group is both here and in `groups`.
    consumers: BTreeMap<String, ConsumerGroup>,
    /// Share groups; no group is both here and in `groups` or `consumers`.
    shares: BTreeMap<String, ShareGroup>,
    /// Streams groups; no group is both here and in `groups`, `consumers` or `shares`.
    streams: BTreeMap<String, StreamsGroup>,
    /// Work at the share coordinator.
    share_works: ShareWorks,
    /// Consumer, share and streams groups that are being written, and the requests that wait for
    /// the writes.
    writing: BTreeMap<String, HeldEvents>,
    /// Members of the consumer protocol that join classic groups whose assignments are being
    /// written, by group.
    upgrades: BTreeMap<String, Vec<Event>>,
    /// Groups whose expressions the host is comparing with the names of topics.
    matching: BTreeSet<String>,
    topics: Arc<dyn Topics>,
    /// Settings of single groups, which override the configuration.
    own_settings: Arc<OwnSettings>,
    offsets: OffsetStore,
    timers: Timers,
    /// The next group to check for expired offsets; none after the last group.
    expire_from: Option<String>,
    appends: Appends,
    held_fetches: Vec<HeldFetch>,
    actions: Vec<Action>,
    /// Rebalances of the last step, for the log.
    pub(super) rebalances: Rebalances,
    /// The pace of lines about rebalances.
    pub(super) rebalance_log: LogPace,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Loading,
    Serving,
    Unloaded,
}

/// A record of the partition's log, for [`Coordinator::replay`].
#[derive(Clone, Debug)]
pub struct Replayed {
    /// Offset of the record.
    pub offset: i64,
    /// Producer id of the record's batch if the batch is transactional.
    pub transaction: Option<i64>,
    /// Key of the record.
    pub key: Bytes,
    /// The value; none for a tombstone.
    pub value: Option<Bytes>,
}

impl Coordinator {
    /// A coordinator before the replay of its log.
    pub fn new(config: GroupConfig) -> Self {
        Self {
            config,
            phase: Phase::Loading,
            groups: BTreeMap::new(),
            consumers: BTreeMap::new(),
            shares: BTreeMap::new(),
            streams: BTreeMap::new(),
            share_works: ShareWorks::default(),
            writing: BTreeMap::new(),
            upgrades: BTreeMap::new(),
            matching: BTreeSet::new(),
            topics: Arc::new(NoTopics),
            own_settings: Arc::default(),
            offsets: OffsetStore::default(),
            timers: Timers::default(),
            expire_from: None,
            appends: Appends::default(),
            held_fetches: Vec::new(),
            actions: Vec::new(),
            rebalances: Rebalances::default(),
            rebalance_log: LogPace::of(REBALANCES_AT_ONCE),
        }
    }

    /// Applies one record of the partition's log; only before [`Event::Loaded`].
    ///
    /// # Errors
    /// The record cannot be decoded. It has changed nothing; the host may report it and continue. A
    /// record of a kind that this broker does not use is not an error.
    pub fn replay(&mut self, record: Replayed) -> Result<(), RecordError> {
        match Record::decode(record.key, record.value)? {
            Record::Offset(key, value) => self.apply_offset(record.offset, record.transaction, key, value),
            Record::Group(group_id, Some(_))
                if self.shares.contains_key(&group_id) || self.streams.contains_key(&group_id) =>
            {
                tracing::warn!(
                    group = group_id,
                    "skipped a record of a classic group: a group of another type has this id"
                );
            }
            Record::Group(group_id, Some(value)) => {
                let group = ClassicGroup::from_record(group_id.clone(), value);
                self.groups.insert(group_id, group);
            }
            Record::Group(group_id, None) => {
                self.groups.remove(&group_id);
            }
            Record::Consumer(group_id, record) => self.apply_consumer(group_id, record),
            Record::Share(group_id, record) => self.apply_share(group_id, record),
            Record::Streams(group_id, record) => self.apply_streams(group_id, record),
            Record::Other(_) => {}
        }
        Ok(())
    }

    /// Applies a transaction marker of the partition's log: the producer's pending commits become
    /// valid, or are dropped.
    pub fn replay_marker(&mut self, producer_id: i64, committed: bool) {
        self.offsets.end_transaction(producer_id, committed);
    }

    /// Applies an event at time `now` and returns the actions. Never blocks. Alarms use the
    /// monotonic clock; stored times and the age of offsets use the wall clock.
    pub fn step(&mut self, event: Event, now: Now) -> Vec<Action> {
        let now_ms = now.wall_ms;
        self.rebalances = Rebalances::default();
        self.timers.advance(now.steady_ms);
        match self.phase {
            Phase::Serving => self.handle(event, now_ms),
            Phase::Loading => match event {
                Event::Loaded => self.loaded(now_ms),
                Event::Unload => self.unload(now_ms),
                Event::Topics(topics) => self.topics_changed(topics),
                Event::OwnSettings(own) => self.own_settings = own,
                event => self.refuse(&event, GroupError::CoordinatorLoadInProgress),
            },
            Phase::Unloaded => self.refuse(&event, GroupError::NotCoordinator),
        }
        self.alarms(now_ms);
        std::mem::take(&mut self.actions)
    }

    /// The latest time for [`Event::Tick`], by the monotonic clock; none if no alarm is set.
    pub fn deadline(&self) -> Option<i64> {
        self.timers.next_ms()
    }

    /// True if the coordinator has been unloaded and refuses every request.
    pub fn is_unloaded(&self) -> bool {
        self.phase == Phase::Unloaded
    }

    fn handle(&mut self, event: Event, now_ms: i64) {
        if let Some(error) = membership::invalid(&event, &self.config) {
            return self.refuse(&event, error);
        }
        let Some(event) = self.hold(event) else { return };
        match event {
            Event::Join(ticket, request) => self.join(ticket, request, now_ms),
            Event::Sync(ticket, request) => self.sync(ticket, request, now_ms),
            Event::Heartbeat(ticket, request) => self.heartbeat(ticket, &request, now_ms),
            Event::Leave(ticket, request) => self.leave(ticket, request, now_ms),
            Event::ConsumerHeartbeat(ticket, request) => self.consumer_heartbeat(ticket, request, now_ms),
            Event::ShareHeartbeat(ticket, request) => self.share_heartbeat(ticket, request, now_ms),
            Event::StreamsHeartbeat(ticket, request) => self.streams_heartbeat(ticket, &request, now_ms),
            Event::AlterShareOffsets(ticket, request) => self.alter_share_offsets(ticket, &request, now_ms),
            Event::DeleteShareOffsets(ticket, request) => self.delete_share_offsets(ticket, &request, now_ms),
            Event::Commit(ticket, request) => self.commit(ticket, request, now_ms),
            Event::TxnCommit(ticket, request) => self.commit_in_transaction(ticket, request, now_ms),
            Event::EndTxn(ticket, request) => self.end_transaction(ticket, request),
            Event::Fetch(ticket, request) => self.fetch(ticket, request),
            Event::OffsetDelete(ticket, request) => self.delete_offsets(ticket, request, now_ms),
            Event::Delete(ticket, request) => self.delete(ticket, request, now_ms),
            Event::Persisted(id, result) => self.persisted(id, result, now_ms),
            Event::Overdue(id) => self.overdue(id, now_ms),
            Event::Matched(matched) => self.matched(matched, now_ms),
            Event::ShareStateDone(end) => self.share_state_done(end, now_ms),
            Event::Topics(topics) => self.topics_changed(topics),
            Event::OwnSettings(own) => self.own_settings = own,
            Event::TopicsDeleted(topics) => {
                self.forget_topics(&topics, now_ms);
                self.forget_share_topics(&topics, now_ms);
            }
            Event::Unload => self.unload(now_ms),
            Event::Loaded | Event::Tick => {}
        }
    }

    fn loaded(&mut self, now_ms: i64) {
        self.phase = Phase::Serving;
        let (groups, mut turn) = self.turn(now_ms);
        let interval_ms = turn.config.offsets_retention_check_interval_ms;
        turn.alarm_in(TimerKey::Expiry, interval_ms, Alarm::ExpiryDue);
        let writes: Vec<PendingWrite> =
            groups.values_mut().filter_map(|group| group.loaded(&mut turn)).collect();
        for write in writes {
            self.append(write, now_ms);
        }
        self.consumers_loaded();
        self.shares_loaded();
        self.streams_loaded();
    }

    /// Refuses every waiting request, so that its client finds the next coordinator, which also
    /// decides about the records that are being written.
    fn unload(&mut self, now_ms: i64) {
        self.phase = Phase::Unloaded;
        self.abandon_appends();
        self.abandon_held(GroupError::NotCoordinator);
        self.abandon_share_works(GroupError::NotCoordinator);
        let (groups, mut turn) = self.turn(now_ms);
        groups.values_mut().for_each(|group| group.dissolve(&mut turn, GroupError::NotCoordinator));
        self.groups.clear();
        self.consumers.clear();
        self.shares.clear();
        self.streams.clear();
        self.matching.clear();
        self.timers.clear();
        self.offsets = OffsetStore::default();
        // The metadata as of now would stay in memory until the next term.
        (self.topics, self.own_settings) = (Arc::new(NoTopics), Arc::default());
    }

    fn refuse(&mut self, event: &Event, error: GroupError) {
        if let Some((ticket, outcome)) = event.refused(error) {
            self.actions.push(Action::Reply(ticket, outcome));
        }
    }

    fn alarms(&mut self, now_ms: i64) {
        while let Some((key, alarm)) = self.timers.due() {
            self.alarm(key, alarm, now_ms);
        }
    }

    fn alarm(&mut self, key: TimerKey, alarm: Alarm, now_ms: i64) {
        let (group_id, member_id) = match &key {
            TimerKey::Expiry => return self.expire_offsets(now_ms),
            TimerKey::Join(group_id) | TimerKey::Sync(group_id) | TimerKey::Assignment(group_id) => {
                (group_id.clone(), String::new())
            }
            TimerKey::Session(group_id, member_id)
            | TimerKey::Revocation(group_id, member_id)
            | TimerKey::MemberJoin(group_id, member_id)
            | TimerKey::MemberSync(group_id, member_id) => (group_id.clone(), member_id.clone()),
        };
        if self.holds_alarm(&group_id, &key, alarm) {
            return;
        }
        if self.consumers.contains_key(&group_id) {
            return match alarm {
                Alarm::SessionOver => self.put_out(&group_id, &member_id, now_ms),
                Alarm::RevocationOver => self.revocation_over(&group_id, &member_id, now_ms),
                _ => {}
            };
        }
        if self.shares.contains_key(&group_id) {
            if alarm == Alarm::SessionOver {
                self.put_out_of_share(&group_id, &member_id, now_ms);
            }
            return;
        }
        if self.streams.contains_key(&group_id) {
            return self.streams_alarm(&group_id, &member_id, alarm, now_ms);
        }
        let (groups, mut turn) = self.turn(now_ms);
        let Some(group) = groups.get_mut(&group_id) else { return };
        let write = match alarm {
            Alarm::JoinOver => group.join_over(&mut turn),
            Alarm::InitialDelayOver { delay_ms, remaining_ms } => {
                group.initial_delay_over(&mut turn, delay_ms, remaining_ms)
            }
            Alarm::SyncOver { generation } => group.sync_over(&mut turn, generation),
            Alarm::SessionOver => group.session_over(&mut turn, &member_id),
            Alarm::RevocationOver | Alarm::AssignmentDelayOver | Alarm::ExpiryDue => None,
        };
        self.append_some(write, now_ms);
    }

    /// Removes and returns a group of any kind.
    fn remove_group(&mut self, group_id: &str) -> Option<AnyGroup> {
        let classic = self.groups.remove(group_id).map(|group| AnyGroup::Classic(Box::new(group)));
        let consumer = || Some(AnyGroup::Consumer(Box::new(self.consumers.remove(group_id)?)));
        let removed = classic.or_else(consumer);
        let removed = removed.or_else(|| Some(AnyGroup::Share(Box::new(self.shares.remove(group_id)?))));
        removed.or_else(|| {
            self.timers.cancel(&TimerKey::Assignment(group_id.to_owned()));
            Some(AnyGroup::Streams(Box::new(self.streams.remove(group_id)?)))
        })
    }

    /// Topics were created, deleted or extended.
    fn topics_changed(&mut self, topics: Arc<dyn Topics>) {
        self.topics = topics;
        self.consumers.values_mut().for_each(ConsumerGroup::topics_changed);
        self.streams.values_mut().for_each(StreamsGroup::topics_changed);
        let topics = &*self.topics;
        self.shares.values_mut().for_each(|group| group.topics_changed(topics));
    }

    /// Sets the leader epoch that the ids of further works contain.
    pub(super) fn set_term(&mut self, leader_epoch: i32) {
        self.share_works.set_term(leader_epoch);
    }

    /// The groups, and the data that they use in a step.
    fn turn(&mut self, now_ms: i64) -> (&mut BTreeMap<String, ClassicGroup>, StepContext<'_>) {
        let turn = StepContext {
            now_ms,
            config: &self.config,
            timers: &mut self.timers,
            actions: &mut self.actions,
            rebalances: &mut self.rebalances,
        };
        (&mut self.groups, turn)
    }
}

#[cfg(test)]
mod tests;
