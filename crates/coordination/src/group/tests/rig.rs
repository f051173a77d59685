//! A driver for tests: a coordinator, a clock that only moves when told to, and a log in memory.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::Bytes;
use levada_base::Now;
use levada_wire::{ErrorCode, Uuid};

use crate::group::config::{ConsumerConfig, GroupConfig};
use crate::group::coordinator::{
    Coordinator, GroupWork, MatchWork, Matched, RefusedPartitions, Replayed, ShareStateEnd, ShareStateWork,
};
use crate::group::error::GroupError;
use crate::group::event::{Action, Event, Outcome, Payload};
use crate::group::request::{
    CommitPartition, CommitRequest, CommitTopic, FetchRequest, FetchTopic, HeartbeatRequest, JoinOutcome,
    JoinRequest, LeaveRequest, LeavingMember, LeftMember, Protocol, SyncOutcome, SyncRequest,
};
use crate::group::topics::{GoneTopic, Visible};
use crate::machine::{EncodedRecord, PersistFailure, PersistId, Request, Ticket};
use crate::pattern::Comparison;

/// The group all tests use unless they say otherwise.
pub(in crate::group) const GROUP: &str = "g";

/// Contents of a batch in the log.
#[derive(Clone, Debug)]
pub(in crate::group) enum Logged {
    /// A record, and the producer of its transaction.
    Record(EncodedRecord, Option<i64>),
    /// The end of a producer's transaction.
    Marker(i64, bool),
}

/// A coordinator with a clock and a log in memory.
pub(in crate::group) struct Rig {
    pub(in crate::group) coordinator: Coordinator,
    pub(in crate::group) config: GroupConfig,
    pub(in crate::group) now_ms: i64,
    /// Time by which the wall clock is ahead of the steady one, ms.
    pub(in crate::group) ahead_ms: i64,
    /// Everything in the log.
    pub(in crate::group) log: Vec<Logged>,
    /// True to hold appends here; otherwise they are done immediately.
    pub(in crate::group) hold_appends: bool,
    pub(in crate::group) held: VecDeque<(PersistId, Payload)>,
    /// True to hold comparisons here; otherwise they are done immediately.
    pub(in crate::group) hold_works: bool,
    pub(in crate::group) works: VecDeque<MatchWork>,
    /// True to hold requests to the share coordinator here; otherwise they are processed
    /// immediately.
    pub(in crate::group) hold_share_works: bool,
    pub(in crate::group) share_works: VecDeque<ShareStateWork>,
    answers: BTreeMap<Ticket, Outcome>,
    /// Tickets that have not been answered.
    pub(in crate::group) waiting: BTreeSet<Ticket>,
    next: u64,
    /// Number of restarts.
    terms: i32,
}

/// The settings of most tests: no initial delay, short sessions allowed.
pub(in crate::group) fn config() -> GroupConfig {
    // A consumer group is assigned in the request that changes it.
    let consumer = ConsumerConfig { assignment_interval_ms: 0, ..ConsumerConfig::default() };
    GroupConfig {
        initial_rebalance_delay_ms: 0,
        min_session_timeout_ms: 1_000,
        consumer,
        ..GroupConfig::default()
    }
}

impl Rig {
    pub(in crate::group) fn new(config: GroupConfig) -> Self {
        let mut rig = Self {
            coordinator: Coordinator::new(config.clone()),
            config,
            now_ms: 1_000_000,
            ahead_ms: 0,
            log: Vec::new(),
            hold_appends: false,
            held: VecDeque::new(),
            hold_works: false,
            works: VecDeque::new(),
            hold_share_works: false,
            share_works: VecDeque::new(),
            answers: BTreeMap::new(),
            waiting: BTreeSet::new(),
            next: 0,
            terms: 0,
        };
        rig.step(Event::Loaded);
        rig
    }

    pub(in crate::group) fn step(&mut self, event: Event) {
        let actions = self.coordinator.step(event, self.now());
        for action in actions {
            match action {
                Action::Reply(ticket, outcome) => {
                    assert!(self.waiting.remove(&ticket), "{ticket:?} is answered twice: {outcome:?}");
                    self.answers.insert(ticket, outcome);
                }
                Action::Persist(id, payload) => self.held.push_back((id, payload)),
                Action::Work(GroupWork::Match(work)) => self.works.push_back(work),
                Action::Work(GroupWork::ShareState(work)) => self.share_works.push_back(work),
            }
        }
        if !self.hold_works {
            while self.finish_work() {}
        }
        if !self.hold_share_works {
            while self.finish_share_work(Ok(RefusedPartitions::new())) {}
        }
        if !self.hold_appends {
            self.finish_appends();
        }
    }

    /// The host has done the oldest work; false if there is none.
    pub(in crate::group) fn finish_work(&mut self) -> bool {
        let Some(MatchWork { group_id, patterns, topics, visible }) = self.works.pop_front() else {
            return false;
        };
        let mut comparison = Comparison::of(patterns);
        while comparison.go_on(&topics.names(), |name| visible.has(name)) {}
        self.step(Event::Matched(Matched { group_id, topics, found: comparison.found() }));
        true
    }

    /// Reports the result of the oldest request to the share coordinator; returns false if there is
    /// none.
    pub(in crate::group) fn finish_share_work(
        &mut self,
        result: Result<RefusedPartitions, ErrorCode>,
    ) -> bool {
        let Some(ShareStateWork { id, group_id, .. }) = self.share_works.pop_front() else { return false };
        self.step(Event::ShareStateDone(ShareStateEnd { id, group_id, result }));
        true
    }

    /// Everything that waits to be appended is.
    pub(in crate::group) fn finish_appends(&mut self) {
        while self.finish_append(None) {}
    }

    /// The oldest append is done, or fails; false if there is none.
    pub(in crate::group) fn finish_append(&mut self, failure: Option<PersistFailure>) -> bool {
        let Some((id, payload)) = self.held.pop_front() else { return false };
        let result = match failure {
            Some(failure) => Err(failure),
            None => {
                let base_offset = i64::try_from(self.log.len()).unwrap();
                self.store(payload);
                Ok(base_offset)
            }
        };
        self.step(Event::Persisted(id, result));
        true
    }

    /// The partition goes out of use with the oldest append, which is in the log or not; false if
    /// there is none.
    pub(in crate::group) fn lose_appends(&mut self, is_stored: bool) -> bool {
        let Some((id, payload)) = self.held.pop_front() else { return false };
        if is_stored {
            self.store(payload);
        }
        self.step(Event::Persisted(id, Err(PersistFailure::Lost)));
        while let Some((id, _)) = self.held.pop_front() {
            self.step(Event::Persisted(id, Err(PersistFailure::Lost)));
        }
        assert!(self.coordinator.is_unloaded());
        assert!(self.waiting.is_empty(), "{:?} never got an answer", self.waiting);
        true
    }

    /// Appends a batch to the log.
    pub(in crate::group) fn store(&mut self, payload: Payload) {
        match payload {
            Payload::Records(records) => {
                self.log.extend(records.into_iter().map(|record| Logged::Record(record, None)));
            }
            Payload::Transactional(producer, records) => {
                let transaction = Some(producer.id);
                self.log.extend(records.into_iter().map(|record| Logged::Record(record, transaction)));
            }
            Payload::Marker(end) => self.log.push(Logged::Marker(end.producer.id, end.commit)),
        }
    }

    fn now(&self) -> Now {
        Now { wall_ms: self.now_ms + self.ahead_ms, steady_ms: self.now_ms }
    }

    /// Time passes; every alarm goes off at its time.
    pub(in crate::group) fn pass(&mut self, ms: i64) {
        let until_ms = self.now_ms + ms;
        while let Some(at_ms) = self.coordinator.deadline().filter(|&at_ms| at_ms <= until_ms) {
            self.now_ms = self.now_ms.max(at_ms);
            self.step(Event::Tick);
        }
        self.now_ms = until_ms;
    }

    /// Kills the broker and starts it again from its log; open requests get no response.
    pub(in crate::group) fn restart(&mut self) {
        self.coordinator = Coordinator::new(self.config.clone());
        self.terms += 1;
        self.coordinator.set_term(self.terms);
        self.waiting.clear();
        self.held.clear();
        self.works.clear();
        self.share_works.clear();
        for (offset, logged) in (0..).zip(&self.log) {
            match logged {
                Logged::Record(record, transaction) => {
                    let (key, value) = (record.key.clone(), record.value.clone());
                    let replayed = Replayed { offset, transaction: *transaction, key, value };
                    self.coordinator.replay(replayed).unwrap();
                }
                Logged::Marker(producer_id, committed) => {
                    self.coordinator.replay_marker(*producer_id, *committed);
                }
            }
        }
        self.step(Event::Loaded);
    }

    pub(in crate::group) fn send<R: Request<Coordinator>>(&mut self, request: R) -> Ticket {
        self.send_event(|ticket| request.event(ticket))
    }

    pub(in crate::group) fn send_event(&mut self, event: impl FnOnce(Ticket) -> Event) -> Ticket {
        let ticket = Ticket(self.next);
        self.next += 1;
        self.waiting.insert(ticket);
        self.step(event(ticket));
        ticket
    }

    /// Outcome of a transaction's end.
    pub(in crate::group) fn end_txn(&mut self, ticket: Ticket) -> Option<Result<(), GroupError>> {
        self.answers.remove(&ticket).map(|outcome| match outcome {
            Outcome::EndTxn(result) => result,
            other => panic!("{other:?}"),
        })
    }

    pub(in crate::group) fn answer<R: Request<Coordinator>>(&mut self, ticket: Ticket) -> Option<R::Answer> {
        self.answers.remove(&ticket).map(|outcome| R::answer(outcome).unwrap())
    }

    /// Drops a response; true if it is to a deletion of groups that has deleted the group.
    pub(in crate::group) fn forget_answer(&mut self, ticket: Ticket) -> bool {
        match self.answers.remove(&ticket) {
            Some(Outcome::Delete(groups)) => {
                groups.iter().any(|(group_id, error)| group_id == GROUP && error.is_none())
            }
            _ => false,
        }
    }

    /// Sends a request that is answered immediately.
    pub(in crate::group) fn ask<R: Request<Coordinator>>(&mut self, request: R) -> R::Answer {
        let ticket = self.send(request);
        self.answer::<R>(ticket).expect("an answer immediately")
    }

    pub(in crate::group) fn nonce(&self) -> u128 {
        7 << 64 | u128::from(self.next)
    }

    /// A request to join as a dynamic member.
    pub(in crate::group) fn join(&self, member_id: &str) -> JoinRequest {
        JoinRequest {
            api_version: 9,
            group_id: GROUP.into(),
            member_id: member_id.into(),
            group_instance_id: None,
            client_id: "client".into(),
            client_host: "/127.0.0.1".into(),
            session_timeout_ms: 10_000,
            rebalance_timeout_ms: 60_000,
            protocol_type: "consumer".into(),
            protocols: protocols(&["range", "roundrobin"]),
            nonce: self.nonce(),
            record_bytes_max: 1 << 20,
            visible: Visible::default(),
        }
    }

    /// A request to join as a static member.
    pub(in crate::group) fn join_static(&self, instance: &str, member_id: &str) -> JoinRequest {
        JoinRequest { group_instance_id: Some(instance.into()), ..self.join(member_id) }
    }

    /// A new dynamic member gets its id.
    pub(in crate::group) fn member_id(&mut self) -> String {
        let refused = self.ask(self.join(""));
        assert_eq!(refused.error, Some(GroupError::MemberIdRequired));
        refused.member_id
    }

    /// A new dynamic member gets its id and joins.
    pub(in crate::group) fn enter(&mut self) -> (String, Ticket) {
        let member_id = self.member_id();
        let ticket = self.send(self.join(&member_id));
        (member_id, ticket)
    }

    pub(in crate::group) fn joined(&mut self, ticket: Ticket) -> JoinOutcome {
        let outcome = self.answer::<JoinRequest>(ticket).expect("an answer to the join");
        assert_eq!(outcome.error, None);
        outcome
    }

    /// A stable group of `count` dynamic members; the first is the leader.
    pub(in crate::group) fn stable(&mut self, count: usize) -> Vec<String> {
        let mut members = Vec::new();
        for _ in 0..count {
            let (member_id, _) = self.enter();
            members.push(member_id);
        }
        self.rebalance(&members);
        members
    }

    /// Every member joins and syncs; the leader of the new generation assigns each its own name.
    pub(in crate::group) fn rebalance(&mut self, members: &[String]) -> i32 {
        let tickets: Vec<Ticket> = members.iter().map(|member_id| self.send(self.join(member_id))).collect();
        let outcomes: Vec<JoinOutcome> =
            tickets.into_iter().filter_map(|ticket| self.answer::<JoinRequest>(ticket)).collect();
        let joined = outcomes.into_iter().rfind(|outcome| outcome.error.is_none()).expect("a generation");
        for member_id in members {
            if *member_id != joined.leader {
                self.send(sync(member_id, joined.generation, &[]));
            }
        }
        self.send(sync(&joined.leader, joined.generation, members));
        assert_eq!(self.state(), "Stable");
        joined.generation
    }

    pub(in crate::group) fn state(&self) -> &'static str {
        self.coordinator.describe(GROUP).state
    }

    pub(in crate::group) fn heartbeat(&mut self, member_id: &str, generation: i32) -> Result<(), GroupError> {
        self.ask(heartbeat(member_id, generation))
    }

    pub(in crate::group) fn sync_error(&mut self, request: SyncRequest) -> Option<GroupError> {
        self.ask(request).error
    }

    pub(in crate::group) fn leave(&mut self, members: &[(&str, Option<&str>)]) -> Vec<Option<GroupError>> {
        let left: Vec<LeftMember> = self.ask(leave(members)).unwrap();
        left.into_iter().map(|member| member.error).collect()
    }

    pub(in crate::group) fn commit(
        &mut self,
        request: CommitRequest,
    ) -> Result<Option<GroupError>, GroupError> {
        self.ask(request).map(|topics| topics[0].partitions[0].1)
    }

    /// The offset committed for partition 0 of a topic.
    pub(in crate::group) fn committed(&mut self, group_id: &str, topic: &str) -> i64 {
        self.ask(fetch(group_id, topic, false)).unwrap()[0].partitions[0].offset
    }
}

pub(in crate::group) fn protocols(names: &[&str]) -> Vec<Protocol> {
    let offered = names.iter().map(|name| Protocol { name: (*name).into(), metadata: subscription(&["t"]) });
    offered.collect()
}

/// A subscription as consumers send it.
pub(in crate::group) fn subscription(topics: &[&str]) -> Bytes {
    let mut bytes = vec![0, 0];
    bytes.extend(u32::try_from(topics.len()).unwrap().to_be_bytes());
    for topic in topics {
        bytes.extend(u16::try_from(topic.len()).unwrap().to_be_bytes());
        bytes.extend(topic.as_bytes());
    }
    bytes.extend([0xff; 4]);
    bytes.into()
}

/// A sync; the leader assigns every one of `assigned` its own name.
pub(in crate::group) fn sync(member_id: &str, generation: i32, assigned: &[String]) -> SyncRequest {
    SyncRequest {
        group_id: GROUP.into(),
        member_id: member_id.into(),
        group_instance_id: None,
        generation,
        protocol_type: None,
        protocol_name: None,
        assignments: assigned.iter().map(|member_id| (member_id.clone(), member_id.clone().into())).collect(),
    }
}

/// The assignment in a good sync.
pub(in crate::group) fn assignment(outcome: SyncOutcome) -> Bytes {
    assert_eq!(outcome.error, None);
    outcome.assignment
}

pub(in crate::group) fn heartbeat(member_id: &str, generation: i32) -> HeartbeatRequest {
    HeartbeatRequest {
        group_id: GROUP.into(),
        member_id: member_id.into(),
        group_instance_id: None,
        generation,
    }
}

pub(in crate::group) fn leave(members: &[(&str, Option<&str>)]) -> LeaveRequest {
    let members = members.iter().map(|(member_id, instance)| LeavingMember {
        member_id: (*member_id).into(),
        group_instance_id: instance.map(Into::into),
    });
    LeaveRequest { group_id: GROUP.into(), members: members.collect() }
}

pub(in crate::group) fn commit(group_id: &str, topic: &str, offset: i64) -> CommitRequest {
    CommitRequest {
        api_version: 8,
        group_id: group_id.into(),
        member_id: String::new(),
        group_instance_id: None,
        generation: -1,
        retention_ms: None,
        topics: vec![CommitTopic {
            name: topic.into(),
            topic_id: Uuid::ZERO,
            partitions: vec![CommitPartition { index: 0, offset, leader_epoch: -1, metadata: None }],
        }],
    }
}

/// A topic with two partitions, when it is deleted.
pub(in crate::group) fn gone(name: &str, topic_id: Uuid) -> GoneTopic {
    GoneTopic { name: name.into(), topic_id, partitions: [0, 1].into() }
}

pub(in crate::group) fn commit_as(member_id: &str, generation: i32, offset: i64) -> CommitRequest {
    CommitRequest { member_id: member_id.into(), generation, ..commit(GROUP, "t", offset) }
}

pub(in crate::group) fn fetch(group_id: &str, topic: &str, require_stable: bool) -> FetchRequest {
    FetchRequest {
        group_id: group_id.into(),
        member_id: None,
        member_epoch: -1,
        topics: Some(vec![FetchTopic { name: topic.into(), topic_id: Uuid::ZERO, partitions: vec![0] }]),
        require_stable,
    }
}
