//! One step of a coordinator: the time of the step, its actions, and its records.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::classic::ClassicGroup;
use super::config::GroupConfig;
use super::consumer::ConsumerGroup;
use super::coordinator::{GroupDraft, ShareWrite};
use super::event::{Action, Outcome, Ticket};
use super::records::Record;
use super::request::Protocol;
use super::share::ShareGroup;
use super::streams::StreamsGroup;
use super::timers::{Alarm, TimerKey, Timers};

/// Maximum number of log lines in a burst about rebalances of one coordinator's groups; then one a
/// second.
pub(super) const REBALANCES_AT_ONCE: u32 = 100;

/// Means of a group while it handles one event.
pub(super) struct StepContext<'a> {
    /// The time of the event, by the wall clock.
    pub(super) now_ms: i64,
    /// Settings of all groups.
    pub(super) config: &'a GroupConfig,
    /// Alarms of the coordinator.
    pub(super) timers: &'a mut Timers,
    /// Actions for the driver.
    pub(super) actions: &'a mut Vec<Action>,
    /// The rebalances of this step, for the log.
    pub(super) rebalances: &'a mut Rebalances,
}

/// The rebalances of one step, for the log. Their number is limited: one alarm can affect any
/// number of groups.
#[derive(Debug, Default)]
pub(super) struct Rebalances {
    pub(super) named: Vec<Rebalance>,
    /// Number of omitted rebalances.
    pub(super) unnamed: u64,
}

impl Rebalances {
    pub(super) fn push(&mut self, rebalance: Rebalance) {
        if self.named.len() < REBALANCES_AT_ONCE as usize {
            self.named.push(rebalance);
        } else {
            self.unnamed += 1;
        }
    }
}

/// A rebalance, for the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rebalance {
    /// Id of the group.
    pub(super) group_id: String,
    /// New generation, or new epoch, of the group.
    pub(super) generation: i32,
    /// Number of its members.
    pub(super) members: usize,
}

impl StepContext<'_> {
    /// Responds to a request.
    pub(super) fn reply(&mut self, ticket: Ticket, outcome: Outcome) {
        self.actions.push(Action::Reply(ticket, outcome));
    }

    /// Sets an alarm some time from now.
    pub(super) fn alarm_in(&mut self, key: TimerKey, delay_ms: i64, alarm: Alarm) {
        self.timers.set_in(key, delay_ms, alarm);
    }
}

/// A write: records to be appended together, and the continuation once they are, or are not.
#[derive(Debug)]
pub(super) struct PendingWrite {
    /// Records to append.
    pub(super) records: Vec<Record>,
    /// Continuation after the append.
    pub(super) then: Continuation,
}

/// Continuation of a write.
#[derive(Debug)]
pub(super) enum Continuation {
    /// No action after the append.
    Nothing,
    /// The outcome is sent; if the append failed, a refusal of the same kind.
    Reply(Ticket, Outcome),
    /// Like [`Continuation::Reply`]; if the append failed, the groups are restored.
    Deleted(Ticket, Outcome, Vec<AnyGroup>),
    /// Nothing follows; if the append failed, the removed unused groups are restored.
    Expired(Vec<AnyGroup>),
    /// Nothing follows; if the append failed, the new group is removed.
    NewGroup(String),
    /// The generation gets its assignment.
    Assign(Assignment),
    /// Respond to the static member; if the append failed, its predecessor is restored.
    Returned(Box<Returned>),
    /// The draft is the consumer group or the streams group; if the append failed, the group stays
    /// unchanged.
    Draft(Box<GroupDraft>),
    /// Like [`Continuation::Draft`], for a share group.
    Share(Box<ShareWrite>),
}

/// A group of any kind.
#[derive(Debug)]
pub(super) enum AnyGroup {
    /// A classic group.
    Classic(Box<ClassicGroup>),
    /// A consumer group.
    Consumer(Box<ConsumerGroup>),
    /// A share group.
    Share(Box<ShareGroup>),
    /// A streams group.
    Streams(Box<StreamsGroup>),
}

impl AnyGroup {
    /// The group's id.
    pub(super) fn id(&self) -> &str {
        match self {
            Self::Classic(group) => group.id(),
            Self::Consumer(group) => group.id(),
            Self::Share(group) => group.id(),
            Self::Streams(group) => group.id(),
        }
    }
}

/// A leader's assignments.
#[derive(Debug)]
pub(super) struct Assignment {
    /// Id of the group.
    pub(super) group_id: String,
    /// The generation the assignment is for.
    pub(super) generation: i32,
    /// Assignments by member id.
    pub(super) assignments: BTreeMap<String, Bytes>,
}

/// A static member that replaced its predecessor without a rebalance.
#[derive(Debug)]
pub(super) struct Returned {
    /// Id of the group.
    pub(super) group_id: String,
    /// The request that waits.
    pub(super) ticket: Ticket,
    /// Instance id of the member.
    pub(super) group_instance_id: String,
    /// The present id of the member.
    pub(super) member_id: String,
    /// The previous id of the member.
    pub(super) old_member_id: String,
    /// Id of the previous leader.
    pub(super) old_leader: Option<String>,
    /// Previous protocols of the member.
    pub(super) old_protocols: Vec<Protocol>,
    /// Previous rebalance timeout of the member, ms.
    pub(super) old_rebalance_timeout_ms: i32,
    /// Previous session timeout of the member, ms.
    pub(super) old_session_timeout_ms: i32,
    /// True if the client supports `skip_assignment`.
    pub(super) can_skip_assignment: bool,
}
