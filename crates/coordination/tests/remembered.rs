//! Everything that clients make the coordinators remember is forgotten again: each kind is made and
//! abandoned many times, then time passes, and neither entries nor memory are left.
//!
//! Soak: scale 20

use std::alloc::System;
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use levada_base::Now;
use levada_coordination::group::coordinator::{
    GroupWork, ListFilter as GroupFilter, MatchWork, Matched, ShareStateEnd,
};
use levada_coordination::group::event::{
    Action as GroupAction, Event as GroupEvent, Producer, Ticket as GroupTicket,
};
use levada_coordination::group::request::{
    CommitPartition, CommitRequest, CommitTopic, ConsumerHeartbeatRequest, DeleteRequest, EndTxnRequest,
    JoinRequest, Protocol, ShareHeartbeatRequest, TxnCommitRequest,
};
use levada_coordination::group::{Coordinator as Groups, GroupConfig, Visible};
use levada_coordination::machine::Request;
use levada_coordination::share_state::event::{
    Action as ShareAction, Event as ShareEvent, Outcome as ShareOutcome, Work as ShareWork,
};
use levada_coordination::share_state::request::{InitializePart, StatePart, StateRequest, WritePart};
use levada_coordination::share_state::{Coordinator as Shares, ShareStateConfig, StateBatch, TopicSizes};
use levada_coordination::txn::coordinator::ListFilter as TxnFilter;
use levada_coordination::txn::event::{
    Action as TxnAction, Event as TxnEvent, MarkerResult, TopicPartition, Work,
};
use levada_coordination::txn::request::{AddRequest, InitRequest, Protocol as TxnProtocol};
use levada_coordination::txn::{Coordinator as Txns, Outcome as TxnOutcome, Ticket as TxnTicket, TxnConfig};
use levada_testing::scaled;
use levada_wire::{ErrorCode, Uuid};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// The share coordinator refuses all work.
const REFUSED: ErrorCode = ErrorCode::CoordinatorNotAvailable;
const DAY_MS: i64 = 24 * 60 * 60 * 1000;

/// Memory that a state machine keeps for later when it is empty again, whatever it held before.
const KEPT_BYTES: usize = 256 << 10;

/// Number of things of each kind that are made before memory is measured. They fill the cache of
/// compiled expressions, which the process keeps.
const FIRST: usize = 1_100;

/// Part of each expression, so that all have the same bytes: those determine the memory of a
/// compiled expression.
const ALL_DIGITS: &str = "0123456789";

/// Number of things of each kind that are measured.
fn count() -> usize {
    scaled(5_000)
}

fn live_bytes() -> usize {
    let stats = ALLOCATOR.stats();
    stats.bytes_allocated - stats.bytes_deallocated
}

/// A state machine whose clock moves only when told to.
trait Machine {
    /// Makes it remember something of each kind, under a name of its own.
    fn make(&mut self, number: usize);
    /// Advances the time without requests; each alarm fires.
    fn pass(&mut self, ms: i64);
    /// Number of entries in memory.
    fn remembered(&self) -> usize;
}

/// Makes things, abandons them, and waits until they are forgotten.
fn check(name: &str, machine: &mut dyn Machine) {
    let mut number = 0;
    let mut abandon = |machine: &mut dyn Machine, count: usize| {
        for _ in 0..count {
            machine.make(number);
            number += 1;
        }
        let (entries, most) = (machine.remembered(), live_bytes());
        assert!(entries >= count, "{name}: {entries} entries remembered of {count} made");
        machine.pass(15 * DAY_MS);
        (entries, most)
    };
    abandon(machine, FIRST);
    assert_eq!(machine.remembered(), 0, "{name}: what was made first");
    let before = live_bytes();
    let count = count();
    let (entries, most) = abandon(machine, count);
    let kept = live_bytes().saturating_sub(before);
    println!("{name}: {entries} entries, {} KiB; {} KiB afterwards", (most - before) >> 10, kept >> 10);
    assert_eq!(machine.remembered(), 0, "{name}: {count} times of each kind");
    assert!(kept <= KEPT_BYTES, "{name}: {kept} bytes are left of {}", most - before);
}

/// A group coordinator whose log takes everything immediately and keeps nothing.
struct GroupMachine {
    coordinator: Groups,
    now_ms: i64,
    ticket: u64,
    /// Number of requests that have no response.
    waiting: usize,
}

impl GroupMachine {
    fn new() -> Self {
        // Looking for expired positions every ten minutes of two weeks would be most of the work.
        let config = GroupConfig {
            initial_rebalance_delay_ms: 0,
            offsets_retention_check_interval_ms: DAY_MS,
            ..GroupConfig::default()
        };
        let coordinator = Groups::new(config);
        let mut machine = Self { coordinator, now_ms: 1_000_000, ticket: 0, waiting: 0 };
        machine.step(GroupEvent::Loaded);
        machine
    }

    fn step(&mut self, event: GroupEvent) {
        let mut events = VecDeque::from([event]);
        while let Some(event) = events.pop_front() {
            let now = Now { wall_ms: self.now_ms, steady_ms: self.now_ms };
            for action in self.coordinator.step(event, now) {
                match action {
                    GroupAction::Reply(..) => self.waiting -= 1,
                    GroupAction::Persist(id, _) => events.push_back(GroupEvent::Persisted(id, Ok(0))),
                    GroupAction::Work(GroupWork::Match(MatchWork { group_id, patterns, topics, .. })) => {
                        let found = patterns.into_iter().map(|pattern| (pattern, BTreeSet::new())).collect();
                        events.push_back(GroupEvent::Matched(Matched { group_id, topics, found }));
                    }
                    GroupAction::Work(GroupWork::ShareState(work)) => {
                        let end =
                            ShareStateEnd { id: work.id, group_id: work.group_id, result: Err(REFUSED) };
                        events.push_back(GroupEvent::ShareStateDone(end));
                    }
                }
            }
        }
    }

    fn ticket(&mut self) -> GroupTicket {
        self.ticket += 1;
        self.waiting += 1;
        GroupTicket(self.ticket)
    }

    fn send(&mut self, request: impl Request<Groups>) {
        let ticket = self.ticket();
        self.step(request.event(ticket));
    }

    /// A member joins a group. From version 4 on it is given an id, with which it never comes back.
    fn join(&mut self, group_id: String, api_version: i16, instance: Option<String>) {
        self.send(JoinRequest {
            api_version,
            group_id,
            member_id: String::new(),
            group_instance_id: instance,
            client_id: "client".to_owned(),
            client_host: "/127.0.0.1".to_owned(),
            session_timeout_ms: 10_000,
            rebalance_timeout_ms: 60_000,
            protocol_type: "consumer".to_owned(),
            protocols: vec![Protocol { name: "range".to_owned(), metadata: Bytes::from_static(b"\0\0") }],
            nonce: 7 << 64 | u128::from(self.ticket),
            record_bytes_max: 1 << 20,
            visible: Visible::default(),
        });
    }

    fn beat(&mut self, group_id: String, member_id: String, regex: Option<String>) {
        self.send(ConsumerHeartbeatRequest {
            api_version: 1,
            group_id,
            member_id,
            member_epoch: 0,
            instance_id: None,
            rack_id: None,
            client_id: "client".to_owned(),
            client_host: "/127.0.0.1".to_owned(),
            rebalance_timeout_ms: 60_000,
            topics: Some(vec!["topic".to_owned()]),
            regex,
            assignor: None,
            owned: Some(Default::default()),
            visible: Visible::default(),
        });
    }

    /// A share group has a member, and is deleted: share groups do not expire.
    fn share(&mut self, group_id: String, member_id: String) {
        for member_epoch in [0, -1] {
            self.send(ShareHeartbeatRequest {
                group_id: group_id.clone(),
                member_id: member_id.clone(),
                member_epoch,
                rack_id: None,
                client_id: "client".to_owned(),
                client_host: "/127.0.0.1".to_owned(),
                topics: Some(vec!["topic".to_owned()]),
            });
        }
        self.send(DeleteRequest { group_ids: vec![group_id] });
    }
}

fn positions() -> Vec<CommitTopic> {
    let partition =
        CommitPartition { index: 0, offset: 5, leader_epoch: -1, metadata: Some("why".to_owned()) };
    vec![CommitTopic { name: "topic".to_owned(), topic_id: Uuid::ZERO, partitions: vec![partition] }]
}

impl Machine for GroupMachine {
    fn make(&mut self, number: usize) {
        self.join(format!("classic-{number}"), 3, None);
        self.join(format!("unused-id-{number}"), 9, None);
        self.join(format!("static-{number}"), 9, Some(format!("instance-{number}")));
        self.beat(format!("consumer-{number}"), format!("member-{number}"), None);
        self.beat(
            format!("regex-{number}"),
            format!("member-{number}"),
            Some(format!("topic-{ALL_DIGITS}-{number:07}.*")),
        );
        self.share(format!("share-{number}"), format!("member-{number}"));
        self.send(CommitRequest {
            api_version: 8,
            group_id: format!("simple-{number}"),
            member_id: String::new(),
            group_instance_id: None,
            generation: -1,
            retention_ms: None,
            topics: positions(),
        });
        let producer = Producer { id: i64::try_from(number).expect("a small number"), epoch: 0 };
        self.send(TxnCommitRequest {
            api_version: 5,
            group_id: format!("transaction-{number}"),
            member_id: String::new(),
            group_instance_id: None,
            generation: -1,
            producer,
            topics: positions(),
        });
        let ticket = self.ticket();
        let end = EndTxnRequest {
            producer,
            coordinator_epoch: 0,
            commit: number.is_multiple_of(2),
            transaction_version: 2,
        };
        self.step(GroupEvent::EndTxn(ticket, end));
    }

    fn pass(&mut self, ms: i64) {
        let until_ms = self.now_ms + ms;
        while let Some(at_ms) = self.coordinator.deadline().filter(|at_ms| *at_ms <= until_ms) {
            self.now_ms = self.now_ms.max(at_ms);
            self.step(GroupEvent::Tick);
        }
        self.now_ms = until_ms;
        assert_eq!(self.waiting, 0, "requests without an answer");
    }

    fn remembered(&self) -> usize {
        self.coordinator.list(&GroupFilter::default()).expect("a coordinator that serves").len()
    }
}

/// A transaction coordinator whose log and markers are written immediately and kept nowhere.
struct TxnMachine {
    coordinator: Txns,
    now_ms: i64,
    ticket: u64,
    producer_id: i64,
    answer: Option<TxnOutcome>,
}

impl TxnMachine {
    fn new() -> Self {
        let coordinator = Txns::new(TxnConfig::default(), 1);
        let mut machine = Self { coordinator, now_ms: 1_000_000, ticket: 0, producer_id: 0, answer: None };
        machine.step(TxnEvent::Loaded);
        machine
    }

    fn step(&mut self, event: TxnEvent) {
        let mut events = VecDeque::from([event]);
        while let Some(event) = events.pop_front() {
            let now = Now { wall_ms: self.now_ms, steady_ms: self.now_ms };
            for action in self.coordinator.step(event, now) {
                match action {
                    TxnAction::Reply(_, outcome) => self.answer = Some(outcome),
                    TxnAction::Persist(id, _) => events.push_back(TxnEvent::Persisted(id, Ok(0))),
                    TxnAction::Work(Work::Markers(id, markers)) => {
                        let written = markers.partitions.into_iter().map(|one| (one, MarkerResult::Written));
                        events.push_back(TxnEvent::MarkersWritten(id, written.collect()));
                    }
                    TxnAction::Work(Work::ProducerId) => {
                        self.producer_id += 1;
                        events.push_back(TxnEvent::ProducerId(Ok(self.producer_id)));
                    }
                }
            }
        }
    }

    fn ask(&mut self, request: impl Request<Txns>) -> TxnOutcome {
        self.ticket += 1;
        self.step(request.event(TxnTicket(self.ticket)));
        self.answer.take().expect("an answer immediately")
    }
}

impl Machine for TxnMachine {
    fn make(&mut self, number: usize) {
        let transactional_id = format!("transactional-id-{number}");
        let init = InitRequest {
            transactional_id: transactional_id.clone(),
            timeout_ms: 60_000,
            expected: None,
            enable_two_phase_commit: false,
            keep_prepared: false,
        };
        let TxnOutcome::Init(owner) = self.ask(init) else { panic!("an identity for {transactional_id}") };
        if number.is_multiple_of(2) {
            // A transaction that no producer ends.
            let added = self.ask(AddRequest {
                transactional_id,
                producer_id: owner.producer_id,
                producer_epoch: owner.producer_epoch,
                protocol: TxnProtocol::EpochBump,
                partitions: vec![TopicPartition { topic: "topic".to_owned(), partition: 0 }],
            });
            assert_eq!(added, TxnOutcome::Add(()));
        }
    }

    fn pass(&mut self, ms: i64) {
        let until_ms = self.now_ms + ms;
        while let Some(at_ms) = self.coordinator.deadline().filter(|at_ms| *at_ms <= until_ms) {
            self.now_ms = self.now_ms.max(at_ms);
            self.step(TxnEvent::Tick);
        }
        self.now_ms = until_ms;
    }

    fn remembered(&self) -> usize {
        let all = TxnFilter { longer_than_ms: -1, ..TxnFilter::default() };
        let listing = self.coordinator.list(&all, self.now_ms);
        listing.expect("a coordinator that serves").transactions.len()
    }
}

/// A coordinator of share-group state whose log takes everything immediately and keeps nothing.
struct ShareMachine {
    coordinator: Shares,
    now_ms: i64,
    end_offset: i64,
    answer: Option<ShareOutcome>,
}

/// Topics of one id, or none.
#[derive(Debug)]
struct OneTopic(Option<Uuid>);

impl TopicSizes for OneTopic {
    fn partition_count(&self, topic_id: Uuid) -> Option<i32> {
        (self.0 == Some(topic_id)).then_some(1)
    }
}

/// Id of the topic that all groups share.
const SHARED: Uuid = Uuid::from_bytes([7; 16]);

impl ShareMachine {
    fn new() -> Self {
        let coordinator = Shares::new(ShareStateConfig::default());
        let mut machine = Self { coordinator, now_ms: 1_000_000, end_offset: 0, answer: None };
        machine.step(ShareEvent::Loaded);
        machine
    }

    fn step(&mut self, event: ShareEvent) {
        let mut events = VecDeque::from([event]);
        while let Some(event) = events.pop_front() {
            let now = Now { wall_ms: self.now_ms, steady_ms: self.now_ms };
            for action in self.coordinator.step(event, now) {
                match action {
                    ShareAction::Reply(_, outcome) => self.answer = Some(outcome),
                    ShareAction::Persist(id, records) => {
                        events.push_back(ShareEvent::Persisted(id, Ok(self.end_offset)));
                        self.end_offset += i64::try_from(records.len()).expect("a small number");
                    }
                    ShareAction::Work(ShareWork::Prune(offset)) => {
                        events.push_back(ShareEvent::Pruned(offset));
                    }
                }
            }
        }
    }

    fn ask<P: StatePart>(&mut self, group_id: &str, part: P) {
        self.step(StateRequest::new(group_id, vec![part]).event(GroupTicket(0)));
        let outcome = self.answer.take().expect("an answer immediately");
        assert!(outcome.iter().all(Result::is_ok), "{outcome:?}");
    }
}

impl Machine for ShareMachine {
    fn make(&mut self, number: usize) {
        let group_id = format!("share-group-{number}");
        self.step(ShareEvent::Topics(Arc::new(OneTopic(Some(SHARED)))));
        let part = InitializePart { topic_id: SHARED, partition: 0, state_epoch: 0, start_offset: 0 };
        self.ask(&group_id, part);
        let batch = |offset| StateBatch {
            first_offset: offset,
            last_offset: offset,
            delivery_state: 2,
            delivery_count: 1,
        };
        let part = WritePart {
            topic_id: SHARED,
            partition: 0,
            state_epoch: 0,
            leader_epoch: 0,
            start_offset: -1,
            delivery_complete_count: 2,
            batches: vec![batch(3), batch(5)],
        };
        self.ask(&group_id, part);
    }

    fn pass(&mut self, ms: i64) {
        // The topic is deleted, and the coordinator does not get to know when.
        self.step(ShareEvent::Topics(Arc::new(OneTopic(None))));
        let until_ms = self.now_ms + ms;
        while let Some(at_ms) = self.coordinator.deadline().filter(|at_ms| *at_ms <= until_ms) {
            self.now_ms = self.now_ms.max(at_ms);
            self.step(ShareEvent::Tick);
        }
        self.now_ms = until_ms;
    }

    fn remembered(&self) -> usize {
        self.coordinator.summaries().count()
    }
}

#[test]
fn abandoned_client_state_expires() {
    check("groups", &mut GroupMachine::new());
    check("transactional ids", &mut TxnMachine::new());
    check("share-group state", &mut ShareMachine::new());
}
