//! A driver for tests: a coordinator, a clock that only moves when told to, topics, and a log in
//! memory whose tail may be lost.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use levada_base::Now;
use levada_wire::Uuid;

use crate::machine::{EncodedRecord, PersistFailure, PersistId, Request, Ticket};
use crate::share_state::batches::StateBatch;
use crate::share_state::config::ShareStateConfig;
use crate::share_state::coordinator::Coordinator;
use crate::share_state::error::ShareStateError;
use crate::share_state::event::{Action, Event, Outcome, Work};
use crate::share_state::key::ShareKey;
use crate::share_state::records::Record;
use crate::share_state::request::{
    DeletePart, InitializePart, ReadPart, StatePart, StateRequest, StateSummary, StoredState, SummaryPart,
    WritePart,
};
use crate::share_state::topics::TopicSizes;

/// The group and the topic that all tests use unless they say otherwise.
pub(in crate::share_state) const GROUP: &str = "gs";
pub(in crate::share_state) const TOPIC: Uuid = Uuid::from_bytes([1; 16]);
/// Number of partitions of each topic.
pub(in crate::share_state) const PARTITIONS: i32 = 3;

#[derive(Clone, Debug, Default)]
pub(in crate::share_state) struct Sizes(pub(in crate::share_state) BTreeMap<Uuid, i32>);

impl TopicSizes for Sizes {
    fn partition_count(&self, topic_id: Uuid) -> Option<i32> {
        self.0.get(&topic_id).copied()
    }
}

/// An append that the coordinator does not know the result of.
struct Held {
    id: PersistId,
    /// Offset of the first record in the log, or the reason why there is none.
    result: Result<i64, PersistFailure>,
    /// End of the log after the append.
    end: usize,
}

/// A coordinator with a clock, topics and a log in memory.
pub(in crate::share_state) struct Rig {
    pub(in crate::share_state) coordinator: Coordinator,
    pub(in crate::share_state) config: ShareStateConfig,
    pub(in crate::share_state) topics: Sizes,
    pub(in crate::share_state) now_ms: i64,
    /// Time by which the wall clock is ahead of the steady one, ms.
    pub(in crate::share_state) ahead_ms: i64,
    /// All records that were appended and not lost; the offset of each is its index.
    pub(in crate::share_state) log: Vec<EncodedRecord>,
    /// Offset of the first record that is not deleted.
    pub(in crate::share_state) log_start: usize,
    /// Offset after the last record that no crash loses.
    pub(in crate::share_state) committed: usize,
    /// True to hold reports of appends here; otherwise they are made immediately.
    pub(in crate::share_state) hold_appends: bool,
    /// The next appends fail for this reason.
    pub(in crate::share_state) failure: Option<PersistFailure>,
    held: VecDeque<Held>,
    pub(in crate::share_state) hold_prunes: bool,
    pub(in crate::share_state) prunes: VecDeque<i64>,
    answers: BTreeMap<Ticket, Outcome>,
    /// Tickets that have not been answered.
    pub(in crate::share_state) waiting: BTreeSet<Ticket>,
    next_ticket: u64,
}

impl Rig {
    pub(in crate::share_state) fn new(config: ShareStateConfig) -> Self {
        let mut rig = Self {
            coordinator: Coordinator::new(config.clone()),
            config,
            topics: Sizes(BTreeMap::from([(TOPIC, PARTITIONS)])),
            now_ms: 1_000_000,
            ahead_ms: 0,
            log: Vec::new(),
            log_start: 0,
            committed: 0,
            hold_appends: false,
            failure: None,
            held: VecDeque::new(),
            hold_prunes: false,
            prunes: VecDeque::new(),
            answers: BTreeMap::new(),
            waiting: BTreeSet::new(),
            next_ticket: 0,
        };
        rig.announce();
        rig.step(Event::Loaded);
        rig
    }

    /// Announces the topics to the coordinator.
    pub(in crate::share_state) fn announce(&mut self) {
        self.step(Event::Topics(Arc::new(self.topics.clone())));
    }

    pub(in crate::share_state) fn step(&mut self, event: Event) {
        for action in self.coordinator.step(event, self.now()) {
            match action {
                Action::Reply(ticket, outcome) => {
                    assert!(self.waiting.remove(&ticket), "{ticket:?} is answered twice: {outcome:?}");
                    self.answers.insert(ticket, outcome);
                }
                Action::Persist(id, records) => self.append(id, records),
                Action::Work(Work::Prune(offset)) => self.prunes.push_back(offset),
            }
        }
        if !self.hold_appends {
            while self.report(0) {}
        }
        if !self.hold_prunes {
            while self.finish_prune() {}
        }
    }

    fn append(&mut self, id: PersistId, records: Vec<EncodedRecord>) {
        assert!(!records.is_empty(), "an append has records");
        let result = match self.failure {
            Some(failure) => Err(failure),
            None => Ok(i64::try_from(self.log.len()).unwrap()),
        };
        if result.is_ok() {
            self.log.extend(records);
        }
        self.held.push_back(Held { id, result, end: self.log.len() });
    }

    /// Number of appends that are not reported.
    pub(in crate::share_state) fn unreported(&self) -> usize {
        self.held.len()
    }

    /// Reports one of the appends; false if there is no such append. Records that are reported are
    /// committed, and so are those before them.
    pub(in crate::share_state) fn report(&mut self, index: usize) -> bool {
        let Some(Held { id, result, end }) = self.held.remove(index) else { return false };
        if result.is_ok() {
            self.committed = self.committed.max(end);
        }
        self.step(Event::Persisted(id, result));
        true
    }

    /// The partition goes out of use.
    pub(in crate::share_state) fn lose(&mut self) -> bool {
        let Some(Held { id, .. }) = self.held.pop_front() else { return false };
        self.step(Event::Persisted(id, Err(PersistFailure::Lost)));
        while let Some(Held { id, .. }) = self.held.pop_front() {
            self.step(Event::Persisted(id, Err(PersistFailure::Lost)));
        }
        true
    }

    /// Deletes records, in the order of the requests; false if there is none.
    pub(in crate::share_state) fn finish_prune(&mut self) -> bool {
        let Some(offset) = self.prunes.pop_front() else { return false };
        let start = usize::try_from(offset).unwrap();
        assert!(start <= self.committed, "{start} is pruned, and {} committed", self.committed);
        self.log_start = self.log_start.max(start);
        self.step(Event::Pruned(offset));
        true
    }

    fn now(&self) -> Now {
        Now { wall_ms: self.now_ms + self.ahead_ms, steady_ms: self.now_ms }
    }

    /// Time passes; every timer goes off at its time.
    pub(in crate::share_state) fn pass(&mut self, ms: i64) {
        let until_ms = self.now_ms + ms;
        while let Some(at_ms) = self.coordinator.deadline().filter(|&at_ms| at_ms <= until_ms) {
            self.now_ms = self.now_ms.max(at_ms);
            self.step(Event::Tick);
        }
        self.now_ms = until_ms;
    }

    /// Ends the leadership: every request gets a response.
    pub(in crate::share_state) fn resign(&mut self) {
        self.step(Event::Unload);
        assert!(self.waiting.is_empty(), "{:?} are not answered at the resignation", self.waiting);
    }

    /// Starts a coordinator with the first records of the log, of which it replays those that are
    /// not deleted. Requests that waited get no response.
    pub(in crate::share_state) fn restart(&mut self, kept: usize) {
        assert!((self.committed..=self.log.len()).contains(&kept));
        self.log.truncate(kept);
        self.committed = kept;
        self.coordinator = Coordinator::new(self.config.clone());
        self.waiting.clear();
        self.held.clear();
        self.prunes.clear();
        for (offset, record) in (0..).zip(&self.log).skip(self.log_start) {
            self.coordinator.replay(offset, record.key.clone(), record.value.clone()).unwrap();
        }
        self.announce();
        self.step(Event::Loaded);
    }

    pub(in crate::share_state) fn send<P: StatePart>(&mut self, parts: Vec<P>) -> Ticket {
        self.send_for(GROUP, parts)
    }

    pub(in crate::share_state) fn send_for<P: StatePart>(&mut self, group_id: &str, parts: Vec<P>) -> Ticket {
        let ticket = Ticket(self.next_ticket);
        self.next_ticket += 1;
        self.waiting.insert(ticket);
        self.step(StateRequest::new(group_id, parts).event(ticket));
        ticket
    }

    pub(in crate::share_state) fn answer<P: StatePart>(
        &mut self,
        ticket: Ticket,
    ) -> Option<Vec<Result<P::Answer, ShareStateError>>> {
        self.answers.remove(&ticket).map(|outcome| StateRequest::<P>::answer(outcome).unwrap())
    }

    /// Removes and returns the outcome of a request, if there is one.
    pub(in crate::share_state) fn outcome(&mut self, ticket: Ticket) -> Option<Outcome> {
        self.answers.remove(&ticket)
    }

    /// Sends a request about one key that is answered immediately.
    pub(in crate::share_state) fn ask<P: StatePart>(
        &mut self,
        part: P,
    ) -> Result<P::Answer, ShareStateError> {
        let ticket = self.send(vec![part]);
        let mut answers = self.answer::<P>(ticket).expect("an answer immediately");
        answers.pop().unwrap()
    }

    pub(in crate::share_state) fn summary(&mut self) -> StateSummary {
        self.ask(summarize(0)).unwrap()
    }

    pub(in crate::share_state) fn state(&mut self) -> StoredState {
        self.ask(read(-1)).unwrap()
    }

    /// The records of the log, from an offset on.
    pub(in crate::share_state) fn records(&self, from: usize) -> Vec<Record> {
        let records = self.log[from..].iter();
        records.map(|record| Record::decode(record.key.clone(), record.value.clone()).unwrap()).collect()
    }
}

pub(in crate::share_state) fn key(partition: i32) -> ShareKey {
    ShareKey { group_id: GROUP.into(), topic_id: TOPIC, partition }
}

pub(in crate::share_state) fn batch(first: i64, last: i64, state: i8, count: i16) -> StateBatch {
    StateBatch { first_offset: first, last_offset: last, delivery_state: state, delivery_count: count }
}

pub(in crate::share_state) fn initialize(state_epoch: i32, start_offset: i64) -> InitializePart {
    InitializePart { topic_id: TOPIC, partition: 0, state_epoch, start_offset }
}

pub(in crate::share_state) fn read(leader_epoch: i32) -> ReadPart {
    ReadPart { topic_id: TOPIC, partition: 0, leader_epoch }
}

/// A write of the leader in epoch 0, with the state epoch 0.
pub(in crate::share_state) fn write(start_offset: i64, batches: &[StateBatch]) -> WritePart {
    WritePart {
        topic_id: TOPIC,
        partition: 0,
        state_epoch: 0,
        leader_epoch: 0,
        start_offset,
        delivery_complete_count: 0,
        batches: batches.to_vec(),
    }
}

pub(in crate::share_state) fn delete(partition: i32) -> DeletePart {
    DeletePart { topic_id: TOPIC, partition }
}

pub(in crate::share_state) fn summarize(partition: i32) -> SummaryPart {
    SummaryPart { topic_id: TOPIC, partition }
}
