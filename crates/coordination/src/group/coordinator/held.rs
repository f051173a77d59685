//! Requests and alarms of groups that are being written. They are held, and processed once the
//! records are in the log.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use levada_wire::Uuid;

use super::Coordinator;
use crate::group::error::GroupError;
use crate::group::event::Event;
use crate::group::timers::{Alarm, TimerKey};

/// Requests and alarms of a group, held until its write is in the log.
#[derive(Debug, Default)]
pub(super) struct HeldEvents {
    queue: VecDeque<Held>,
    /// True if the group that is being written is a share group.
    is_share: bool,
}

#[derive(Debug)]
pub(super) enum Held {
    /// A request, or another event, that waits.
    Event(Box<Event>),
    /// An alarm that waits.
    Alarm(TimerKey),
    /// The next step of a deletion of several groups.
    Deletion(u64),
    /// Topics that are deleted, and with them their state in a share group.
    GoneTopics(Arc<BTreeSet<Uuid>>),
}

impl HeldEvents {
    /// An empty queue for a share group.
    pub(super) fn of_share() -> Self {
        Self { is_share: true, ..Self::default() }
    }

    pub(super) fn push(&mut self, held: Held) {
        self.queue.push_back(held);
    }

    pub(super) fn is_share(&self) -> bool {
        self.is_share
    }
}

impl Coordinator {
    /// Holds an event if its group is being written; returns it otherwise.
    pub(super) fn hold(&mut self, event: Event) -> Option<Event> {
        let Some(group_id) = self.turn_of(&event) else { return Some(event) };
        if let Some(held) = self.writing.get_mut(group_id) {
            held.push(Held::Event(Box::new(event)));
            return None;
        }
        // A consumer group takes over the assignments of the classic group: those in the log.
        if matches!(event, Event::ConsumerHeartbeat(..)) && self.appends.has_assignments(group_id) {
            self.upgrades.entry(group_id.to_owned()).or_default().push(event);
            return None;
        }
        Some(event)
    }

    /// The group whose held events this event joins: for a deletion of several groups, a share
    /// group or a streams group that is being written, if there is one.
    fn turn_of<'a>(&self, event: &'a Event) -> Option<&'a str> {
        match event {
            Event::Delete(_, request) => self.busy_among(&request.group_ids).or_else(|| event.group_id()),
            event => event.group_id(),
        }
    }

    /// A share group or a streams group that is being written.
    pub(super) fn busy_among<'a>(&self, group_ids: &'a [String]) -> Option<&'a str> {
        let is_held = |id: &str| self.shares.contains_key(id) || self.streams.contains_key(id);
        group_ids.iter().map(String::as_str).find(|id| is_held(id) && self.writing.contains_key(*id))
    }

    /// Processes members that have waited for the assignments of a classic group, unless others are
    /// being written now.
    pub(super) fn release_upgrades(&mut self, group_id: &str, now_ms: i64) {
        if !self.appends.has_assignments(group_id) {
            let waiting = self.upgrades.remove(group_id).unwrap_or_default();
            waiting.into_iter().for_each(|event| self.handle(event, now_ms));
        }
    }

    /// Like [`Coordinator::hold`], for an alarm that has fired.
    pub(super) fn holds_alarm(&mut self, group_id: &str, key: &TimerKey, alarm: Alarm) -> bool {
        let Some(held) = self.writing.get_mut(group_id) else { return false };
        held.push(Held::Alarm(key.clone()));
        self.timers.suspend(key.clone(), alarm);
        true
    }

    /// Processes, in order, events that have waited for the write of a group.
    pub(super) fn resume(&mut self, group_id: &str, held: HeldEvents, now_ms: i64) {
        let mut queue = held.queue;
        while let Some(held) = queue.pop_front() {
            match held {
                Held::Event(event) => self.handle(*event, now_ms),
                Held::Alarm(key) => {
                    // A held heartbeat before it may have set the alarm again.
                    if let Some(alarm) = self.timers.resume(&key) {
                        self.alarm(key, alarm, now_ms);
                    }
                }
                Held::Deletion(number) => self.finish_deletion(number, now_ms),
                Held::GoneTopics(gone) => self.forget_share_state(group_id, &gone, now_ms),
            }
            if let Some(again) = self.writing.get_mut(group_id) {
                again.queue.append(&mut queue);
            }
        }
    }

    /// Refuses held requests; their clients find the coordinator again.
    pub(super) fn abandon_held(&mut self, error: GroupError) {
        for event in std::mem::take(&mut self.upgrades).into_values().flatten() {
            self.refuse(&event, error);
        }
        for (_, held) in std::mem::take(&mut self.writing) {
            for held in held.queue {
                if let Held::Event(event) = held {
                    self.refuse(&event, error);
                }
            }
        }
    }
}
