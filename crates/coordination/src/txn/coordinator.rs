//! The coordinator of one partition of `__transaction_state`: the transactional ids that hash to
//! it.
//!
//! A host makes a coordinator with [`Coordinator::new`], replays the partition's records through
//! [`Coordinator::replay`], and steps [`Event::Loaded`]. After that it steps every request, every
//! finished append, every set of markers, every producer id and every due
//! [`Coordinator::deadline`]. Until it is loaded, the coordinator refuses requests with
//! COORDINATOR_LOAD_IN_PROGRESS. It needs exclusive access: one task or one lock each.
//!
//! A decision counts from the moment its prepare record is in the log: from then on it is carried
//! out, across restarts, until every partition has its marker.

mod appends;
mod ends;
mod inits;
mod markers;
mod scans;
mod view;

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use levada_base::Now;

use self::appends::Appends;
use self::markers::Marking;
use super::alarms::Alarms;
use super::config::TxnConfig;
use super::error::TxnError;
use super::event::{Action, Event, Outcome, Work};
use super::records::{Record, RecordError};
use super::request::{AddRequest, VerifyRequest};
use super::transaction::{Transaction, TxnState};
use crate::machine::Ticket;

pub use self::view::is_state;
pub use self::view::{Described, Ended, ListFilter, Listed, Listing};

/// The transactional ids of one partition of `__transaction_state`.
#[derive(Debug)]
pub struct Coordinator {
    config: TxnConfig,
    epoch: i32,
    phase: Phase,
    entries: BTreeMap<String, Entry>,
    appends: Appends,
    marking: Marking,
    alarms: Alarms,
    /// Producer ids that were requested and then not needed.
    spare_ids: Vec<i64>,
    /// Requests that wait for a producer id, in the order of arrival.
    held: VecDeque<Held>,
    actions: Vec<Action>,
    ended: Ended,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Loading,
    Serving,
    Unloaded,
}

/// A transactional id, and the draft of its next state.
#[derive(Debug)]
struct Entry {
    current: Transaction,
    draft: Option<Draft>,
    /// Time at which its transaction was opened, by the monotonic clock; undefined while none is
    /// open.
    opened_ms: i64,
}

impl Entry {
    fn new(current: Transaction) -> Self {
        Self { current, draft: None, opened_ms: 0 }
    }

    /// True if the transaction has been open for longer than its timeout. A transaction of a
    /// two-phase commit is never overdue.
    fn is_overdue(&self, steady_ms: i64) -> bool {
        let timeout_ms = self.current.timeout_ms;
        self.current.state == TxnState::Ongoing
            && timeout_ms != i32::MAX
            && self.opened_ms.saturating_add(timeout_ms.into()) < steady_ms
    }
}

/// The next state of a transactional id, which holds once its write is in the log.
#[derive(Debug)]
enum Draft {
    /// The next state of the id is being written to the log.
    Transit,
    /// The removal of the id is being written to the log.
    Removal,
    /// The decision is being carried out; the id then gets this state.
    Completion(Box<Transaction>),
}

/// A request or a decision that waits for a producer id.
#[derive(Debug)]
enum Held {
    Request(Box<Event>),
    /// The coordinator itself aborts the transaction of this id.
    Abort(String),
}

/// Outcome of a request.
enum Decision {
    /// Responds to the request immediately.
    Answer(Outcome),
    /// A new state, to be logged.
    Transit(Transaction),
    /// The decision how the transaction ends, to be logged.
    Prepare(Transaction),
    /// A producer id has to be found first.
    NeedProducerId,
}

impl Coordinator {
    /// A coordinator before the replay of its log; `epoch` is the leader epoch of its partition.
    pub fn new(config: TxnConfig, epoch: i32) -> Self {
        Self {
            config,
            epoch,
            phase: Phase::Loading,
            entries: BTreeMap::new(),
            appends: Appends::default(),
            marking: Marking::default(),
            alarms: Alarms::default(),
            spare_ids: Vec::new(),
            held: VecDeque::new(),
            actions: Vec::new(),
            ended: Ended::default(),
        }
    }

    /// Applies one record of the partition's log; only before [`Event::Loaded`].
    ///
    /// # Errors
    /// The record cannot be decoded. It has changed nothing; the host may report it and continue. A
    /// record of a kind that this broker does not use is not an error.
    pub fn replay(&mut self, key: Bytes, value: Option<Bytes>) -> Result<(), RecordError> {
        match Record::decode(key, value)? {
            Record::Transaction(transactional_id, Some(value)) => {
                self.entries.insert(transactional_id, Entry::new(Transaction::from(value)));
            }
            Record::Transaction(transactional_id, None) => {
                self.entries.remove(&transactional_id);
            }
            Record::Other(_) => {}
        }
        Ok(())
    }

    /// Applies an event at time `now` and returns the actions. Never blocks. Timeouts use the
    /// monotonic clock; stored times and the age of transactional ids use the wall clock.
    pub fn step(&mut self, event: Event, now: Now) -> Vec<Action> {
        let now_ms = now.wall_ms;
        self.alarms.advance(now.steady_ms);
        match (self.phase, event) {
            (Phase::Serving, event) => self.handle(event, now_ms),
            (Phase::Loading, Event::Loaded) => self.loaded(now_ms),
            (_, Event::Unload) => self.unload(),
            (Phase::Loading, event) => self.refuse(&event, TxnError::CoordinatorLoadInProgress),
            (Phase::Unloaded, event) => self.refuse(&event, TxnError::NotCoordinator),
        }
        if self.phase == Phase::Serving {
            self.alarms(now_ms);
        }
        std::mem::take(&mut self.actions)
    }

    /// The latest time for [`Event::Tick`], by the monotonic clock; none if no alarm is set.
    pub fn deadline(&self) -> Option<i64> {
        self.alarms.next_ms()
    }

    /// The settings.
    pub(super) fn config(&self) -> &TxnConfig {
        &self.config
    }

    /// True once it serves no more.
    pub fn is_unloaded(&self) -> bool {
        self.phase == Phase::Unloaded
    }

    fn handle(&mut self, event: Event, now_ms: i64) {
        match event {
            Event::Persisted(id, result) => self.persisted(id, result, now_ms),
            Event::MarkersWritten(id, results) => self.markers_written(id, results, now_ms),
            Event::ProducerId(result) => self.producer_id(result, now_ms),
            Event::Unload => self.unload(),
            Event::Loaded | Event::Tick => {}
            request => self.request(request, now_ms),
        }
    }

    fn request(&mut self, event: Event, now_ms: i64) {
        let decided = match &event {
            Event::Init(_, request) => self.decide_init(request, now_ms),
            Event::Add(_, request) => self.decide_add(request, now_ms),
            Event::Verify(_, request) => self.verify(request),
            Event::End(_, request) => self.decide_end(request, now_ms),
            _ => return,
        };
        let Some((ticket, transactional_id)) = event.asker() else { return };
        let asked_to_end = matches!(event, Event::End(..));
        match decided {
            Err(error) => self.reply(ticket, Outcome::Refused(error)),
            Ok(Decision::Answer(outcome)) => self.reply(ticket, outcome),
            Ok(Decision::Transit(next)) => {
                let outcome = match event {
                    Event::Init(..) => Outcome::Init(next.owner()),
                    _ => Outcome::Add(()),
                };
                self.transit(
                    transactional_id.to_owned(),
                    next,
                    appends::Continuation::Reply(ticket, outcome),
                    now_ms,
                );
            }
            Ok(Decision::Prepare(next)) => {
                // A producer with another request must retry it when the transaction is over.
                let then = if asked_to_end {
                    appends::Continuation::End(ticket)
                } else {
                    appends::Continuation::Retry(ticket)
                };
                self.transit(transactional_id.to_owned(), next, then, now_ms);
            }
            Ok(Decision::NeedProducerId) => self.hold(Held::Request(Box::new(event))),
        }
    }

    fn decide_add(&self, request: &AddRequest, now_ms: i64) -> Result<Decision, TxnError> {
        let entry = self.named(&request.transactional_id)?;
        // This comes first: the pending producer id may be the one that the client already uses.
        if entry.draft.is_some() {
            return Err(TxnError::ConcurrentTransactions);
        }
        let current = &entry.current;
        current.admit(request.producer_id, request.producer_epoch)?;
        let covered = request.partitions.iter().all(|partition| current.partitions.contains(partition));
        if current.state == TxnState::Ongoing && covered {
            return Ok(Decision::Answer(Outcome::Add(())));
        }
        Ok(Decision::Transit(current.with_partitions(&request.partitions, request.protocol, now_ms)))
    }

    /// Changes on their way do not matter: the log of the partition has the last word.
    fn verify(&self, request: &VerifyRequest) -> Result<Decision, TxnError> {
        let current = &self.named(&request.transactional_id)?.current;
        current.admit(request.producer_id, request.producer_epoch)?;
        let missing = |covered: bool| if covered { None } else { Some(TxnError::TransactionAbortable) };
        let partitions = request.partitions.iter();
        let answer = partitions.map(|partition| missing(current.partitions.contains(partition)));
        Ok(Decision::Answer(Outcome::Verify(answer.collect())))
    }

    /// State of a transactional id that a client claims to own.
    fn named(&self, transactional_id: &str) -> Result<&Entry, TxnError> {
        if transactional_id.is_empty() {
            return Err(TxnError::InvalidRequest);
        }
        self.entries.get(transactional_id).ok_or(TxnError::InvalidProducerIdMapping)
    }

    fn reply(&mut self, ticket: Ticket, outcome: Outcome) {
        self.actions.push(Action::Reply(ticket, outcome));
    }

    fn refuse(&mut self, event: &Event, error: TxnError) {
        if let Some((ticket, _)) = event.asker() {
            self.reply(ticket, Outcome::Refused(error));
        }
    }

    fn hold(&mut self, held: Held) {
        self.held.push_back(held);
        self.actions.push(Action::Work(Work::ProducerId));
    }

    /// The longest waiting request continues. If it no longer needs the producer id, the id is kept
    /// for the next.
    fn producer_id(&mut self, result: Result<i64, TxnError>, now_ms: i64) {
        let held = self.held.pop_front();
        match (result, held) {
            (Ok(producer_id), held) => {
                self.spare_ids.push(producer_id);
                match held {
                    Some(Held::Request(event)) => self.request(*event, now_ms),
                    Some(Held::Abort(transactional_id)) => self.abort(&transactional_id, now_ms),
                    None => {}
                }
            }
            (Err(error), Some(Held::Request(event))) => self.refuse(&event, error),
            (Err(_), Some(Held::Abort(_)) | None) => {}
        }
    }

    /// Decisions from before the restart are carried out.
    fn loaded(&mut self, now_ms: i64) {
        self.phase = Phase::Serving;
        let prepared = self.entries.iter().filter(|(_, entry)| entry.current.state.is_prepared());
        let prepared: Vec<String> = prepared.map(|(transactional_id, _)| transactional_id.clone()).collect();
        for transactional_id in prepared {
            self.carry_out(&transactional_id, now_ms);
        }
        for entry in self.entries.values_mut() {
            // Only the stored times show for how long it had been open before the restart.
            let open_ms = now_ms.saturating_sub(entry.current.start_ms).max(0);
            entry.opened_ms = self.alarms.now_ms().saturating_sub(open_ms);
        }
        self.watch();
    }

    /// Refuses every waiting request, so that its client finds the next coordinator, which also
    /// decides about the records that are being written.
    fn unload(&mut self) {
        self.phase = Phase::Unloaded;
        self.abandon_appends();
        for held in std::mem::take(&mut self.held) {
            if let Held::Request(event) = held {
                self.refuse(&event, TxnError::NotCoordinator);
            }
        }
        self.entries.clear();
        self.marking = Marking::default();
        self.alarms = Alarms::default();
        self.spare_ids.clear();
    }
}

impl Transaction {
    /// Checks that this producer may use the transaction.
    fn admit(&self, producer_id: i64, producer_epoch: i16) -> Result<(), TxnError> {
        if self.producer_id != producer_id {
            Err(TxnError::InvalidProducerIdMapping)
        } else if self.producer_epoch != producer_epoch {
            Err(TxnError::ProducerFenced)
        } else if self.state.is_prepared() {
            Err(TxnError::ConcurrentTransactions)
        } else {
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests;
