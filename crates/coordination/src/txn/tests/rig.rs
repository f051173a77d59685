//! A driver for tests: a coordinator, a clock that only moves when told to, a log and markers in
//! memory.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use levada_base::Now;

use crate::machine::{EncodedRecord, PersistFailure, PersistId, Request, Ticket};
use crate::txn::config::TxnConfig;
use crate::txn::coordinator::Coordinator;
use crate::txn::error::TxnError;
use crate::txn::event::{Action, Event, MarkerResult, Markers, MarkersId, Outcome, TopicPartition, Work};
use crate::txn::request::{AddRequest, EndRequest, InitRequest, ProducerIdentity, Protocol, VerifyRequest};
use crate::txn::transaction::TxnState;

/// The transactional id all tests use unless they say otherwise.
pub(in crate::txn) const ID: &str = "tx";
/// Leader epoch of the coordinator's partition.
pub(in crate::txn) const EPOCH: i32 = 5;

/// A coordinator with a clock, a log and markers in memory.
pub(in crate::txn) struct Rig {
    pub(in crate::txn) coordinator: Coordinator,
    pub(in crate::txn) config: TxnConfig,
    pub(in crate::txn) now_ms: i64,
    /// Time by which the wall clock is ahead of the steady one, ms.
    pub(in crate::txn) ahead_ms: i64,
    /// Leader epoch of the coordinator's partition.
    pub(in crate::txn) epoch: i32,
    /// Everything in the log that is committed.
    pub(in crate::txn) log: Vec<EncodedRecord>,
    /// Every marker written: producer id, epoch, commit, by partition.
    pub(in crate::txn) markers: BTreeMap<TopicPartition, Vec<(i64, i16, bool)>>,
    /// True to hold appends here; otherwise they are done immediately.
    pub(in crate::txn) hold_appends: bool,
    pub(in crate::txn) hold_markers: bool,
    pub(in crate::txn) hold_ids: bool,
    pub(in crate::txn) held_appends: VecDeque<(PersistId, Vec<EncodedRecord>)>,
    pub(in crate::txn) held_markers: VecDeque<(MarkersId, Markers)>,
    /// Markers that coordinators of earlier epochs have sent, and that may arrive yet.
    pub(in crate::txn) late_markers: VecDeque<Markers>,
    /// The last coordinator epoch that a partition has seen of a producer.
    fences: BTreeMap<(TopicPartition, i64), i32>,
    pub(in crate::txn) held_ids: usize,
    answers: BTreeMap<Ticket, Outcome>,
    /// Tickets that have not been answered.
    pub(in crate::txn) waiting: BTreeSet<Ticket>,
    next_ticket: u64,
    pub(in crate::txn) next_producer_id: i64,
}

impl Rig {
    pub(in crate::txn) fn new(config: TxnConfig) -> Self {
        let mut rig = Self {
            coordinator: Coordinator::new(config.clone(), EPOCH),
            config,
            now_ms: 1_000_000,
            ahead_ms: 0,
            epoch: EPOCH,
            log: Vec::new(),
            markers: BTreeMap::new(),
            hold_appends: false,
            hold_markers: false,
            hold_ids: false,
            held_appends: VecDeque::new(),
            held_markers: VecDeque::new(),
            late_markers: VecDeque::new(),
            fences: BTreeMap::new(),
            held_ids: 0,
            answers: BTreeMap::new(),
            waiting: BTreeSet::new(),
            next_ticket: 0,
            next_producer_id: 100,
        };
        rig.step(Event::Loaded);
        rig
    }

    pub(in crate::txn) fn step(&mut self, event: Event) {
        for action in self.coordinator.step(event, self.now()) {
            match action {
                Action::Reply(ticket, outcome) => {
                    assert!(self.waiting.remove(&ticket), "{ticket:?} is answered twice: {outcome:?}");
                    self.answers.insert(ticket, outcome);
                }
                Action::Persist(id, records) => self.held_appends.push_back((id, records)),
                Action::Work(Work::Markers(id, markers)) => self.held_markers.push_back((id, markers)),
                Action::Work(Work::ProducerId) => self.held_ids += 1,
            }
        }
        if !self.hold_appends {
            while self.finish_append(None) {}
        }
        if !self.hold_markers {
            while self.finish_markers(|_| MarkerResult::Written) {}
        }
        if !self.hold_ids {
            while self.finish_id(None) {}
        }
    }

    /// The oldest append is done, or fails; false if there is none.
    pub(in crate::txn) fn finish_append(&mut self, failure: Option<PersistFailure>) -> bool {
        let Some((id, records)) = self.held_appends.pop_front() else { return false };
        let result = match failure {
            Some(failure) => Err(failure),
            None => {
                self.log.extend(records);
                Ok(0)
            }
        };
        self.step(Event::Persisted(id, result));
        true
    }

    /// The partition goes out of use with the oldest append, which is in the log or not; false if
    /// there is none.
    pub(in crate::txn) fn lose_appends(&mut self, is_stored: bool) -> bool {
        let Some((id, records)) = self.held_appends.pop_front() else { return false };
        if is_stored {
            self.log.extend(records);
        }
        self.step(Event::Persisted(id, Err(PersistFailure::Lost)));
        while let Some((id, _)) = self.held_appends.pop_front() {
            self.step(Event::Persisted(id, Err(PersistFailure::Lost)));
        }
        true
    }

    /// Reports `result` for the oldest markers; returns false if there are none.
    pub(in crate::txn) fn finish_markers(
        &mut self,
        result: impl Fn(&TopicPartition) -> MarkerResult,
    ) -> bool {
        let Some((id, markers)) = self.held_markers.pop_front() else { return false };
        assert_eq!(markers.coordinator_epoch, self.epoch);
        let mut results = Vec::new();
        for partition in &markers.partitions {
            let result = result(partition);
            if result == MarkerResult::Written {
                self.write_marker(&markers, partition);
            }
            results.push((partition.clone(), result));
        }
        self.step(Event::MarkersWritten(id, results));
        true
    }

    /// Writes a marker, unless the partition has seen one of a later coordinator: then it is
    /// fenced.
    fn write_marker(&mut self, markers: &Markers, partition: &TopicPartition) {
        let fence = self.fences.entry((partition.clone(), markers.producer_id)).or_default();
        if markers.coordinator_epoch >= *fence {
            *fence = markers.coordinator_epoch;
            let marker = (markers.producer_id, markers.producer_epoch, markers.commit);
            self.markers.entry(partition.clone()).or_default().push(marker);
        }
    }

    /// Markers of an earlier coordinator arrive; false if there are none.
    pub(in crate::txn) fn deliver_late_markers(&mut self) -> bool {
        let Some(markers) = self.late_markers.pop_front() else { return false };
        for partition in &markers.partitions {
            if partition.topic != "gone" {
                self.write_marker(&markers, partition);
            }
        }
        true
    }

    /// A producer id is found, or none can be; false if none is needed.
    pub(in crate::txn) fn finish_id(&mut self, error: Option<TxnError>) -> bool {
        if self.held_ids == 0 {
            return false;
        }
        self.held_ids -= 1;
        self.next_producer_id += 1;
        self.step(Event::ProducerId(error.map_or(Ok(self.next_producer_id), Err)));
        true
    }

    /// Everything that is held is done, and what that leads to.
    pub(in crate::txn) fn settle(&mut self) {
        let written = |partition: &TopicPartition| match partition.topic.as_str() {
            "gone" => MarkerResult::Gone,
            _ => MarkerResult::Written,
        };
        while self.finish_id(None) || self.finish_append(None) || self.finish_markers(written) {}
    }

    fn now(&self) -> Now {
        Now { wall_ms: self.now_ms + self.ahead_ms, steady_ms: self.now_ms }
    }

    /// Time passes; every alarm goes off at its time.
    pub(in crate::txn) fn pass(&mut self, ms: i64) {
        let until_ms = self.now_ms + ms;
        while let Some(at_ms) = self.coordinator.deadline().filter(|&at_ms| at_ms <= until_ms) {
            self.now_ms = self.now_ms.max(at_ms);
            self.step(Event::Tick);
        }
        self.now_ms = until_ms;
    }

    /// Ends the leadership. The next leader has `kept` of the uncommitted records, or all; the
    /// others are lost. All open requests have a response.
    pub(in crate::txn) fn resign(&mut self, kept: usize) {
        let appended = self.held_appends.drain(..).take(kept);
        self.log.extend(appended.flat_map(|(_, records)| records));
        self.late_markers.extend(self.held_markers.drain(..).map(|(_, markers)| markers));
        self.held_ids = 0;
        self.step(Event::Unload);
        assert!(self.waiting.is_empty(), "{:?} are not answered at the resignation", self.waiting);
    }

    /// Elects a coordinator in the next leader epoch, which replays the log.
    pub(in crate::txn) fn elect(&mut self) {
        self.epoch += 1;
        self.restart();
    }

    /// Kills the broker and starts it again from its log; open requests get no response.
    pub(in crate::txn) fn restart(&mut self) {
        self.coordinator = Coordinator::new(self.config.clone(), self.epoch);
        self.waiting.clear();
        self.held_appends.clear();
        self.held_markers.clear();
        self.held_ids = 0;
        for record in &self.log {
            self.coordinator.replay(record.key.clone(), record.value.clone()).unwrap();
        }
        self.step(Event::Loaded);
    }

    pub(in crate::txn) fn send<R: Request<Coordinator>>(&mut self, request: R) -> Ticket {
        let ticket = Ticket(self.next_ticket);
        self.next_ticket += 1;
        self.waiting.insert(ticket);
        self.step(request.event(ticket));
        ticket
    }

    pub(in crate::txn) fn answer<R: Request<Coordinator>>(&mut self, ticket: Ticket) -> Option<R::Answer> {
        self.answers.remove(&ticket).map(|outcome| R::answer(outcome).unwrap())
    }

    /// Sends a request that is answered immediately.
    pub(in crate::txn) fn ask<R: Request<Coordinator>>(&mut self, request: R) -> R::Answer {
        let ticket = self.send(request);
        self.answer::<R>(ticket).expect("an answer immediately")
    }

    pub(in crate::txn) fn init(&mut self) -> ProducerIdentity {
        self.ask(init(ID)).unwrap()
    }

    pub(in crate::txn) fn begin(&mut self, owner: ProducerIdentity, partitions: &[&str]) {
        self.ask(add(owner, Protocol::EpochBump, partitions)).unwrap();
    }

    pub(in crate::txn) fn state(&self) -> TxnState {
        self.coordinator.describe(ID).unwrap().state
    }

    pub(in crate::txn) fn markers_of(&self, partition: &str) -> &[(i64, i16, bool)] {
        self.markers.get(&at(partition)).map_or(&[], Vec::as_slice)
    }
}

/// `topic-0` as a partition.
pub(in crate::txn) fn at(name: &str) -> TopicPartition {
    let (topic, partition) = name.rsplit_once('-').unwrap();
    TopicPartition { topic: topic.into(), partition: partition.parse().unwrap() }
}

pub(in crate::txn) fn init(transactional_id: &str) -> InitRequest {
    InitRequest {
        transactional_id: transactional_id.into(),
        timeout_ms: 60_000,
        expected: None,
        enable_two_phase_commit: false,
        keep_prepared: false,
    }
}

pub(in crate::txn) fn init_from(owner: ProducerIdentity) -> InitRequest {
    InitRequest { expected: Some((owner.producer_id, owner.producer_epoch)), ..init(ID) }
}

pub(in crate::txn) fn add(owner: ProducerIdentity, protocol: Protocol, partitions: &[&str]) -> AddRequest {
    AddRequest {
        transactional_id: ID.into(),
        producer_id: owner.producer_id,
        producer_epoch: owner.producer_epoch,
        protocol,
        partitions: partitions.iter().map(|name| at(name)).collect(),
    }
}

pub(in crate::txn) fn verify(owner: ProducerIdentity, partitions: &[&str]) -> VerifyRequest {
    VerifyRequest {
        transactional_id: ID.into(),
        producer_id: owner.producer_id,
        producer_epoch: owner.producer_epoch,
        partitions: partitions.iter().map(|name| at(name)).collect(),
    }
}

pub(in crate::txn) fn end(owner: ProducerIdentity, protocol: Protocol, commit: bool) -> EndRequest {
    EndRequest {
        transactional_id: ID.into(),
        producer_id: owner.producer_id,
        producer_epoch: owner.producer_epoch,
        protocol,
        commit,
    }
}
