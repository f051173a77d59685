//! Arbitrary bytes in the opaque fields of consumers in JoinGroup and SyncGroup: subscriptions and
//! assignments. While the group is classic, every member gets the bytes back unchanged. The group
//! becomes a consumer group, or stays unchanged; the assignment of a classic member can be decoded
//! and exists. A broker that starts again from the log has the same state.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use levada_base::Now;
use levada_coordination::group::coordinator::Replayed;
use levada_coordination::group::request::{
    ConsumerHeartbeatRequest, HeartbeatRequest, JoinOutcome, JoinRequest, Protocol, SyncOutcome, SyncRequest,
};
use levada_coordination::group::{
    Action, Coordinator, EncodedRecord, Event, GroupConfig, GroupError, Outcome, Payload, Request, Ticket,
    Topics, Visible,
};
use levada_wire::Uuid;
use levada_wire::messages::{DecodeLimits, decode_consumer_protocol_assignment};

const GROUP: &str = "g";

/// Topics that exist, with their numbers of partitions.
const TOPICS: [(&str, i32); 3] = [("a", 3), ("b", 1), ("topic", 40)];

/// Checks one input.
pub fn run(input: &[u8]) {
    let Some((flags, rest)) = input.split_first() else { return };
    let flag = |bit: u8| flags >> bit & 1 == 1;
    let mut rest = rest;
    let [first, second, later, one, other] = [(); 5].map(|()| part(&mut rest));
    let mut rig = Rig::new();
    let mut new_epoch = None;
    if flag(0) {
        new_epoch = rig.ask(heartbeat("new", 0)).ok().map(|beat| beat.member_epoch);
    }
    let mut members = vec![rig.enter(&first)];
    if flag(1) {
        let ticket = rig.send(join("", &second, 1));
        // The first must rejoin; both are in the next generation then.
        members[0] = rig.join(&members[0].member_id, &first);
        members.push(rig.joined("", ticket));
    }
    rig.synchronise(&mut members, [&one, &other]);
    if rig.is_classic() {
        rig.check_opaque(&members, [(&first, &one), (&second, &other)]);
    }
    if flag(2) {
        rig.restart();
    }
    if !flag(0) {
        new_epoch = rig.ask(heartbeat("new", 0)).ok().map(|beat| beat.member_epoch);
    }
    for _ in 0..2 {
        let mut joining = Vec::new();
        for member in &mut members {
            let (member_id, generation) = (member.member_id.clone(), member.generation);
            let alive =
                HeartbeatRequest { group_id: GROUP.into(), member_id, group_instance_id: None, generation };
            if rig.ask(alive) == Err(GroupError::RebalanceInProgress) {
                let metadata = if flag(3) { &later } else { &first };
                let ticket = rig.send(join(&member.member_id, metadata, 2));
                joining.push((member, ticket));
            }
        }
        for (member, ticket) in joining {
            *member = rig.joined(&member.member_id, ticket);
        }
        rig.synchronise(&mut members, [&one, &other]);
    }
    if flag(4)
        && let Some(epoch) = new_epoch
    {
        // The last member of the new protocol: the group may become a classic one again.
        assert!(epoch >= 0 && rig.ask(heartbeat("new", -1)).is_ok());
    }
    rig.restart();
}

/// A length and this number of bytes, as far as available.
fn part(rest: &mut &[u8]) -> Bytes {
    let Some((len, behind)) = rest.split_first() else { return Bytes::new() };
    let (part, behind) = behind.split_at(usize::from(*len).min(behind.len()));
    *rest = behind;
    Bytes::copy_from_slice(part)
}

#[derive(Debug)]
struct Known;

impl Known {
    fn id(index: usize) -> Uuid {
        Uuid::from_bytes((1 + index as u128).to_be_bytes())
    }
}

impl Topics for Known {
    fn by_name(&self, name: &str) -> Option<(Uuid, i32)> {
        let index = TOPICS.iter().position(|(known, _)| *known == name)?;
        Some((Self::id(index), TOPICS[index].1))
    }

    fn by_id(&self, id: Uuid) -> Option<(String, i32)> {
        let index = (0..TOPICS.len()).find(|index| Self::id(*index) == id)?;
        Some((TOPICS[index].0.to_owned(), TOPICS[index].1))
    }

    fn names(&self) -> Vec<Arc<str>> {
        TOPICS.map(|(name, _)| Arc::from(name)).into()
    }

    fn version(&self) -> i64 {
        1
    }
}

/// A coordinator, and a log that takes everything immediately.
struct Rig {
    coordinator: Coordinator,
    log: Vec<EncodedRecord>,
    answers: BTreeMap<Ticket, Outcome>,
    next: u64,
}

impl Rig {
    fn new() -> Self {
        let mut rig = Self { coordinator: empty(), log: Vec::new(), answers: BTreeMap::new(), next: 0 };
        rig.begin();
        rig
    }

    fn begin(&mut self) {
        self.step(Event::Topics(Arc::new(Known)));
        self.step(Event::Loaded);
    }

    fn step(&mut self, event: Event) {
        let mut events = vec![event];
        while let Some(event) = events.pop() {
            for action in self.coordinator.step(event, Now::default()) {
                match action {
                    Action::Reply(ticket, outcome) => {
                        assert!(self.answers.insert(ticket, outcome).is_none(), "answered twice");
                    }
                    Action::Persist(id, Payload::Records(records)) => {
                        let offset = self.log.len() as i64;
                        self.log.extend(records);
                        events.insert(0, Event::Persisted(id, Ok(offset)));
                    }
                    Action::Persist(_, other) => panic!("nobody has asked for {other:?}"),
                    Action::Work(other) => panic!("nobody has asked for {other:?}"),
                }
            }
        }
    }

    fn send<R: Request<Coordinator>>(&mut self, request: R) -> Ticket {
        self.next += 1;
        self.step(request.event(Ticket(self.next)));
        Ticket(self.next)
    }

    fn answer<R: Request<Coordinator>>(&mut self, ticket: Ticket) -> Option<R::Answer> {
        self.answers.remove(&ticket).map(|outcome| R::answer(outcome).expect("the answer to the request"))
    }

    /// Sends a request that is answered immediately.
    fn ask<R: Request<Coordinator>>(&mut self, request: R) -> R::Answer {
        let ticket = self.send(request);
        self.answer::<R>(ticket).expect("an answer immediately")
    }

    /// A new member, with an answer if it did not have to wait for others.
    fn enter(&mut self, metadata: &Bytes) -> JoinOutcome {
        self.join("", metadata)
    }

    fn join(&mut self, member_id: &str, metadata: &Bytes) -> JoinOutcome {
        let ticket = self.send(join(member_id, metadata, 0));
        self.joined(member_id, ticket)
    }

    /// The answer to a join; an error if it waits for others.
    fn joined(&mut self, member_id: &str, ticket: Ticket) -> JoinOutcome {
        let waits = JoinOutcome::error(member_id, GroupError::RebalanceInProgress);
        self.answer::<JoinRequest>(ticket).unwrap_or(waits)
    }

    /// The members request their assignments; the leader sends both.
    fn synchronise(&mut self, members: &mut [JoinOutcome], assigned: [&Bytes; 2]) {
        let ids: Vec<String> = members.iter().map(|member| member.member_id.clone()).collect();
        let all = ids.iter().cloned().zip(assigned.into_iter().cloned());
        for member in members.iter().filter(|member| !member.member_id.is_empty()) {
            let is_leader = member.leader == member.member_id;
            let request = SyncRequest {
                group_id: GROUP.into(),
                member_id: member.member_id.clone(),
                group_instance_id: None,
                generation: member.generation,
                protocol_type: None,
                protocol_name: None,
                assignments: if is_leader { all.clone().collect() } else { Vec::new() },
            };
            let ticket = self.send(request);
            if let Some(outcome) = self.answer::<SyncRequest>(ticket)
                && !self.is_classic()
            {
                check_assignment(&outcome);
            }
        }
    }

    fn is_classic(&self) -> bool {
        self.coordinator.describe(GROUP).error.is_none()
    }

    /// A description of the group shows the bytes of its members.
    fn check_opaque(&self, members: &[JoinOutcome], put: [(&Bytes, &Bytes); 2]) {
        let group = self.coordinator.describe(GROUP);
        if group.state != "Stable" {
            return;
        }
        for (member, (metadata, assignment)) in members.iter().zip(put) {
            let shown = group.members.iter().find(|shown| shown.member_id == member.member_id);
            let shown = shown.expect("a stable group has all its members");
            assert_eq!((&shown.metadata, &shown.assignment), (metadata, assignment));
        }
    }

    /// The broker starts again from its log.
    fn restart(&mut self) {
        let before = self.shown();
        self.coordinator = empty();
        for (offset, EncodedRecord { key, value }) in (0..).zip(self.log.clone()) {
            let replayed = Replayed { offset, transaction: None, key, value };
            self.coordinator.replay(replayed).expect("our own record");
        }
        self.begin();
        if let Some(before) = before {
            assert_eq!(self.shown(), Some(before));
        }
    }

    /// The group from outside, if it waits for no member.
    fn shown(&self) -> Option<String> {
        let classic = self.coordinator.describe(GROUP);
        match self.coordinator.describe_consumer(GROUP) {
            Ok(group) => Some(format!("{group:?}")),
            Err(_) => (classic.state == "Stable").then(|| format!("{classic:?}")),
        }
    }
}

/// A coordinator before its log.
fn empty() -> Coordinator {
    Coordinator::new(GroupConfig { initial_rebalance_delay_ms: 0, ..GroupConfig::default() })
}

fn join(member_id: &str, metadata: &Bytes, nonce: u64) -> JoinRequest {
    JoinRequest {
        // The last that takes a new member without sending it back with an id.
        api_version: 3,
        group_id: GROUP.into(),
        member_id: member_id.into(),
        group_instance_id: None,
        client_id: "client".into(),
        client_host: "/127.0.0.1".into(),
        session_timeout_ms: 10_000,
        rebalance_timeout_ms: 60_000,
        protocol_type: "consumer".into(),
        protocols: vec![Protocol { name: "range".into(), metadata: metadata.clone() }],
        nonce: 7 << 64 | u128::from(nonce),
        record_bytes_max: 1 << 20,
        visible: Visible::default(),
    }
}

/// A member of the new protocol, which joins or leaves.
fn heartbeat(member_id: &str, member_epoch: i32) -> ConsumerHeartbeatRequest {
    let joins = member_epoch == 0;
    ConsumerHeartbeatRequest {
        api_version: 1,
        group_id: GROUP.into(),
        member_id: member_id.into(),
        member_epoch,
        instance_id: None,
        rack_id: None,
        client_id: "client".into(),
        client_host: "/127.0.0.1".into(),
        rebalance_timeout_ms: if joins { 60_000 } else { -1 },
        topics: joins.then(|| vec!["a".to_owned(), "b".to_owned()]),
        regex: None,
        assignor: None,
        owned: joins.then(Default::default),
        visible: Visible::default(),
    }
}

/// Checks that partitions assigned to a classic member of a consumer group exist.
fn check_assignment(outcome: &SyncOutcome) {
    if outcome.error.is_some() {
        return;
    }
    let (_, read) = decode_consumer_protocol_assignment(outcome.assignment.clone(), DecodeLimits::default())
        .expect("ours");
    for topic in read.assigned_partitions {
        let (_, count) = Known.by_name(topic.topic.as_str()).expect("a topic that exists");
        assert!(topic.partitions.iter().all(|index| (0..count).contains(index)));
    }
}
