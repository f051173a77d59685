//! The coordinator of one partition of `__share_group_state`: the keys whose texts hash to it.
//!
//! A host makes a coordinator with [`Coordinator::new`], replays the partition's records through
//! [`Coordinator::replay`], steps [`Event::Topics`], and then [`Event::Loaded`]. After that it
//! steps every request, every finished append, every change of topics and every due
//! [`Coordinator::deadline`]. Until it is loaded, the coordinator refuses requests with
//! COORDINATOR_LOAD_IN_PROGRESS. It needs exclusive access: one task or one lock each.
//!
//! A change takes effect when its record is in the log and committed. Until then the operations on
//! its key wait, and then all of them are decided one after the other, each on the state that the
//! one before has drafted, and get one batch of records: a response never tells of a state that the
//! log may lose, and the writes of a key share its round trips to the replicas. If the batch is not
//! appended, all operations of the batch are refused, and the state is as before.
//!
//! Keys, state batches and waiting operations are bounded ([`ShareStateConfig`]). A coordinator
//! takes in everything that the log has.

mod appends;
mod decisions;
mod floors;
mod scans;
mod slots;
mod view;

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use levada_base::Now;

use self::appends::Appends;
use self::floors::Floors;
use self::scans::Scans;
use self::slots::{Slots, Waiter};
use super::config::ShareStateConfig;
use super::error::ShareStateError;
use super::event::{Action, Event, Outcome, Question, Work};
use super::key::ShareKey;
use super::records::{Record, RecordError};
use super::request::{Operation, PartAnswer};
use super::share::Share;
use super::timers::Timers;
use super::topics::TopicSizes;
use crate::machine::Ticket;

/// The keys of one partition of `__share_group_state`.
#[derive(Debug)]
pub struct Coordinator {
    config: ShareStateConfig,
    phase: Phase,
    /// Sizes of topics; `None` before the first announcement.
    topics: Option<Arc<dyn TopicSizes>>,
    slots: Slots,
    /// Requests that have operations without a result.
    asked: BTreeMap<Ticket, Asked>,
    appends: Appends,
    floors: Floors,
    scans: Scans,
    timers: Timers,
    actions: Vec<Action>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Loading,
    Serving,
    Unloaded,
}

/// A request, and the results of its operations so far.
#[derive(Debug)]
struct Asked {
    results: Vec<Option<PartResult>>,
    /// Number of operations without a result.
    open: usize,
}

/// Result of an operation.
type PartResult = Result<PartAnswer, ShareStateError>;

/// Index of an operation in its request.
#[derive(Clone, Copy, Debug)]
struct Place {
    ticket: Ticket,
    index: usize,
}

impl Coordinator {
    /// A coordinator before the replay of its log.
    pub fn new(config: ShareStateConfig) -> Self {
        Self {
            config,
            phase: Phase::Loading,
            topics: None,
            slots: Slots::default(),
            asked: BTreeMap::new(),
            appends: Appends::default(),
            floors: Floors::default(),
            scans: Scans::default(),
            timers: Timers::default(),
            actions: Vec::new(),
        }
    }

    /// Applies the record at this offset of the partition's log; only before [`Event::Loaded`].
    ///
    /// # Errors
    /// The record cannot be decoded. It has changed nothing; the host may report it and continue. A
    /// record of a kind that this broker does not use is not an error.
    pub fn replay(&mut self, offset: i64, key: Bytes, value: Option<Bytes>) -> Result<(), RecordError> {
        match Record::decode(key, value)? {
            Record::Snapshot(key, None) => {
                self.floors.remove(offset);
                self.store(&key, None);
            }
            Record::Snapshot(key, Some(snapshot)) => {
                let before = self.slots.stored(&key);
                let share = Share::after_snapshot(before, &snapshot, self.config.updates_per_snapshot);
                self.store(&key, Some(Share { floor: offset, ..share }));
            }
            Record::Update(key, Some(update)) => {
                if self.slots.stored(&key).is_none() {
                    let share = Share { floor: offset, ..Share::without_snapshot(&update) };
                    self.store(&key, Some(share));
                }
                self.slots.update(&key, &update);
            }
            Record::Update(_, None) | Record::Other(_) => {}
        }
        Ok(())
    }

    /// Applies an event at time `now` and returns the actions. Never blocks. Timers use the
    /// monotonic clock; the times in records and the age of snapshots use the wall clock.
    pub fn step(&mut self, event: Event, now: Now) -> Vec<Action> {
        let now_ms = now.wall_ms;
        self.timers.advance(now.steady_ms);
        match (self.phase, event) {
            (Phase::Loading | Phase::Serving, Event::Topics(topics)) => self.topics = Some(topics),
            (Phase::Serving, event) => self.handle(event, now_ms),
            (Phase::Loading, Event::Loaded) => self.phase = Phase::Serving,
            (_, Event::Unload) => self.unload(),
            (Phase::Loading, Event::Ask(ticket, question)) => {
                self.refuse(ticket, &question, ShareStateError::CoordinatorLoadInProgress);
            }
            (Phase::Unloaded, Event::Ask(ticket, question)) => {
                self.refuse(ticket, &question, ShareStateError::NotCoordinator);
            }
            _ => {}
        }
        if self.phase == Phase::Serving {
            self.scan(now_ms);
            self.flush();
        }
        std::mem::take(&mut self.actions)
    }

    /// The latest time for [`Event::Tick`], by the monotonic clock; none if no timer is set.
    pub fn deadline(&self) -> Option<i64> {
        self.timers.next_ms()
    }

    /// A coordinator with the same settings and topics, before the replay of the log.
    pub(super) fn emptied(&self) -> Self {
        Self { topics: self.topics.clone(), ..Self::new(self.config.clone()) }
    }

    /// True once it serves no more.
    pub fn is_unloaded(&self) -> bool {
        self.phase == Phase::Unloaded
    }

    fn handle(&mut self, event: Event, now_ms: i64) {
        match event {
            Event::Ask(ticket, question) => self.ask(ticket, question, now_ms),
            Event::Persisted(id, result) => self.persisted(id, result, now_ms),
            Event::TopicsDeleted(topic_ids) => self.topics_deleted(&topic_ids),
            Event::Pruned(offset) => self.floors.pruned(offset),
            Event::Unload => self.unload(),
            Event::Topics(_) | Event::Loaded | Event::Tick => {}
        }
    }

    fn ask(&mut self, ticket: Ticket, question: Question, now_ms: i64) {
        let Question { group_id, operations } = question;
        if operations.is_empty() {
            return self.reply(ticket, Outcome::new());
        }
        let asked = Asked { results: vec![None; operations.len()], open: operations.len() };
        let before = self.asked.insert(ticket, asked);
        assert!(before.is_none(), "a ticket belongs to one request");
        for (index, operation) in operations.into_iter().enumerate() {
            let (topic_id, partition) = operation.place();
            let key = ShareKey { group_id: group_id.clone(), topic_id, partition };
            self.admit(key, Place { ticket, index }, operation, now_ms);
        }
    }

    /// Decides an operation, or has it wait for the records of its key.
    fn admit(&mut self, key: ShareKey, place: Place, operation: Operation, now_ms: i64) {
        if !self.slots.is_busy(&key) {
            return self.decide(&key, place, operation, now_ms);
        }
        if self.slots.waiting() + operation.weight() > self.config.waiting_max {
            return self.result(place, Err(ShareStateError::CoordinatorNotAvailable));
        }
        self.slots.wait(&key, Waiter { place, operation });
    }

    /// Decides the operations that wait for a key, until one of them has to wait again.
    fn resume(&mut self, key: &ShareKey, now_ms: i64) {
        while let Some(Waiter { place, operation }) = self.slots.next_waiter(key) {
            self.decide(key, place, operation, now_ms);
        }
    }

    /// Replaces the stored state of a key.
    fn store(&mut self, key: &ShareKey, next: Option<Share>) {
        let floor = next.as_ref().map(|share| share.floor);
        let before = self.slots.store(key, next);
        self.floors.replace(before, floor);
    }

    /// Records the result of an operation; the last one of a request completes the response.
    fn result(&mut self, place: Place, result: PartResult) {
        let Some(asked) = self.asked.get_mut(&place.ticket) else { return };
        asked.results[place.index] = Some(result);
        asked.open -= 1;
        if asked.open == 0
            && let Some(asked) = self.asked.remove(&place.ticket)
        {
            self.reply(place.ticket, asked.results.into_iter().flatten().collect());
        }
    }

    fn reply(&mut self, ticket: Ticket, outcome: Outcome) {
        self.actions.push(Action::Reply(ticket, outcome));
    }

    fn refuse(&mut self, ticket: Ticket, question: &Question, error: ShareStateError) {
        let outcome = question.operations.iter().map(|_| Err(error)).collect();
        self.reply(ticket, outcome);
    }

    /// Refuses every waiting request, so that its client finds the next coordinator, which also
    /// decides about the records that are being written.
    fn unload(&mut self) {
        self.phase = Phase::Unloaded;
        self.topics = None;
        for (ticket, asked) in std::mem::take(&mut self.asked) {
            let results = asked.results.into_iter();
            let outcome = results.map(|result| result.unwrap_or(Err(ShareStateError::NotCoordinator)));
            self.reply(ticket, outcome.collect());
        }
        self.slots = Slots::default();
        self.appends = Appends::default();
        self.floors = Floors::default();
        self.scans = Scans::default();
        self.timers = Timers::default();
    }

    fn prune(&mut self) {
        if let Some(offset) = self.floors.unpruned() {
            self.actions.push(Action::Work(Work::Prune(offset)));
        }
    }
}

#[cfg(test)]
mod tests;
