//! The event loop of the simulation: messages with their delays and losses, the controller, the
//! clients, and what an operator or an accident does to them.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;

use bytes::{Bytes, BytesMut};
use levada_base::batch::Builder;
use levada_log::Partition;
use levada_log::crash_disk::Crash;
use levada_wire::error_code::ErrorCode;
use levada_wire::fetch::{FetchRequest, FetchResponse};
use levada_wire::messages::{
    AlterPartitionRequest, AlterPartitionResponse, AssignReplicasToDirsRequest, AssignReplicasToDirsResponse,
    assign_replicas_to_dirs_response,
};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::chaos::{Accident, Trick};
use super::controller::{Controller, Image};
use super::harm::Blow;
use super::mutation::Mutation;
use super::node::Node;
use super::truth::{Truth, batches, check_epochs};
use crate::replication::fetcher::FetcherTask;
use crate::replication::leader::FollowerFetch;

pub(super) const CONTROLLER: i32 = 0;
const FIRST_CLIENT: i32 = 100;
const CLIENTS: usize = 3;
/// The client without a producer id.
const PLAIN: usize = 2;
const TICK_MS: i64 = 40;
/// Time until which faults happen, ms.
pub(super) const CHAOS_MS: i64 = 4_000;
/// Time by which the cluster must have settled, ms.
const CALM_MS: i64 = 30_000;
const TRACE_LINES: usize = 80;

/// A message between two places: the controller (0), nodes, clients.
#[derive(Clone, Debug)]
pub(super) enum Message {
    Register {
        incarnation: u64,
        is_clean: bool,
    },
    Registered {
        incarnation: u64,
        epoch: i64,
        image: Image,
    },
    /// A late request of an earlier process has taken the registration away.
    Unregistered {
        epoch: i64,
    },
    Heartbeat {
        epoch: i64,
        version: u64,
    },
    Metadata(Image),
    Alter {
        incarnation: u64,
        number: u64,
        request: AlterPartitionRequest,
    },
    Altered {
        incarnation: u64,
        number: u64,
        response: AlterPartitionResponse,
    },
    Assign {
        incarnation: u64,
        number: u64,
        request: AssignReplicasToDirsRequest,
    },
    Assigned {
        incarnation: u64,
        number: u64,
        response: AssignReplicasToDirsResponse,
    },
    Fetch {
        incarnation: u64,
        number: u64,
        request: FetchRequest,
    },
    Fetched {
        incarnation: u64,
        number: u64,
        response: FetchResponse<Bytes>,
    },
    Produce {
        attempt: u64,
        number: u64,
        records: BytesMut,
        all: bool,
    },
    Produced {
        attempt: u64,
        outcome: Result<(), Refused>,
    },
}

/// Outcome of a produce request without an acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refused {
    /// The client sends the batch again.
    Again,
    /// Batches of the producer are lost: it begins again.
    Lost,
}

/// A timed event.
#[derive(Clone, Debug)]
pub(super) enum Event {
    Deliver {
        from: i32,
        to: i32,
        message: Message,
    },
    /// A fetch answer leaves its node. If the node has another role since it has checked the fetch,
    /// the response has the bytes that are in the log by then (KAFKA-18723).
    Answer {
        node: i32,
        to: i32,
        offset: i64,
        bytes: usize,
        message: Message,
    },
    /// A batch that a leader has checked reaches the log.
    Append {
        node: i32,
        incarnation: u64,
        batch: Checked,
    },
    /// A leader counts a fetch that it has answered.
    Count {
        node: i32,
        incarnation: u64,
        fetch: FollowerFetch,
    },
    Tick(i32),
    Task {
        node: i32,
        incarnation: u64,
        thread: u64,
        task: FetcherTask,
    },
    FetchTimeout {
        node: i32,
        incarnation: u64,
        number: u64,
    },
    AlterTimeout {
        node: i32,
        incarnation: u64,
        number: u64,
    },
    Client(usize),
    Accident(usize),
    Begin(i32),
    Stop {
        node: i32,
        incarnation: u64,
        down_ms: i64,
    },
}

/// A batch of a client that a leader has checked.
#[derive(Clone, Debug)]
pub(super) struct Checked {
    pub(super) leader_epoch: i32,
    pub(super) from: i32,
    pub(super) attempt: u64,
    pub(super) number: u64,
    pub(super) records: BytesMut,
    pub(super) all: bool,
}

struct Client {
    producer_id: i64,
    sequence: i32,
    attempt: u64,
    pending: Option<Pending>,
}

struct Pending {
    number: u64,
    records: BytesMut,
    count: i32,
    all: bool,
    sent_ms: i64,
}

/// Events of one history.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Figures {
    pub(super) events: usize,
    pub(super) acknowledged: usize,
    pub(super) elections: usize,
    pub(super) unclean: usize,
    pub(super) truncations: usize,
    pub(super) changes: usize,
    pub(super) refused: usize,
    pub(super) tricks: usize,
    pub(super) lost: usize,
    pub(super) detours: usize,
    pub(super) doubts: usize,
    pub(super) handovers: usize,
}

pub(super) struct Sim {
    pub(super) random: StdRng,
    pub(super) now_ms: i64,
    queue: BTreeMap<(i64, u64), Event>,
    order: u64,
    pub(super) nodes: Vec<Node>,
    pub(super) controller: Controller,
    pub(super) truth: Truth,
    pub(super) mutation: Option<Mutation>,
    /// The first leader of this epoch or a later one makes its log the truth.
    pub(super) floor: i32,
    pub(super) needs_rewrite: bool,
    pub(super) figures: Figures,
    clients: Vec<Client>,
    accidents: Vec<(i64, Accident)>,
    cuts: HashMap<(i32, i32), i64>,
    slow_until: i64,
    /// Time for which the next leader is isolated, ms.
    strike_ms: Option<i64>,
    merges_until: i64,
    corrupts_until: i64,
    /// Waits for its request; with its duration.
    trick: Option<(Trick, i64)>,
    numbers: u64,
    trace: Vec<String>,
    /// The ISR that was checked last.
    isr: Vec<i32>,
    /// The latest AlterPartition request of each broker that has reached the controller.
    altered: HashMap<i32, (u64, u64)>,
    /// True if only one replica is damaged: no acknowledged record may be lost.
    spares_others: bool,
}

impl Sim {
    pub(super) fn new(seed: u64, accidents: &[(i64, Accident)], mutation: Option<Mutation>) -> Self {
        let mut random = StdRng::seed_from_u64(seed);
        let min_isr = if random.random_bool(0.7) { 2 } else { 1 };
        let elects_unclean = random.random_bool(0.1);
        // Of several segments, those that survive a loss of power need not be a prefix of the log.
        let rolls = random.random_bool(0.7);
        let segment_bytes = if rolls { 1_500 } else { 1 << 20 };
        let mut sim = Self {
            now_ms: 0,
            queue: BTreeMap::new(),
            order: 0,
            nodes: (1..=4).map(|id| Node::new(id, segment_bytes)).collect(),
            controller: Controller::new(mutation, min_isr, elects_unclean, &[1, 2, 3]),
            truth: Truth::default(),
            mutation,
            floor: 0,
            needs_rewrite: false,
            figures: Figures::default(),
            clients: Vec::new(),
            accidents: accidents.to_vec(),
            cuts: HashMap::new(),
            slow_until: 0,
            strike_ms: None,
            merges_until: 0,
            corrupts_until: 0,
            trick: None,
            numbers: 0,
            trace: Vec::new(),
            isr: Vec::new(),
            altered: HashMap::new(),
            spares_others: false,
            random,
        };
        for client in 0..CLIENTS {
            let producer_id = if client == PLAIN { -1 } else { sim.next_number() as i64 };
            sim.clients.push(Client { producer_id, sequence: 0, attempt: 0, pending: None });
            sim.push(200 + 11 * client as i64, Event::Client(client));
        }
        for id in 1..=4 {
            sim.push(0, Event::Begin(id));
            sim.push(1, Event::Tick(id));
        }
        for (at, (ms, _)) in accidents.iter().enumerate() {
            sim.push(300 + ms, Event::Accident(at));
        }
        sim
    }

    /// A history in which an acknowledged record is on two replicas, and one replica is damaged.
    pub(super) fn damaged(seed: u64, accidents: &[(i64, Accident)], mutation: Option<Mutation>) -> Self {
        let mut sim = Self::new(seed, accidents, mutation);
        sim.controller = Controller::new(mutation, 2, false, &[1, 2, 3]);
        // The opening after a crash looks for damage in the last segment.
        let is_flip = |accident: &Accident| matches!(accident, Accident::Damage { harm, .. } if harm.blow == Blow::Flip);
        if accidents.iter().any(|(_, accident)| is_flip(accident)) {
            sim.nodes = (1..=4).map(|id| Node::new(id, 1 << 20)).collect();
        }
        sim.spares_others = true;
        sim.truth.tolerate_gaps();
        sim
    }

    pub(super) fn is_mutated(&self, mutation: Mutation) -> bool {
        self.mutation == Some(mutation)
    }

    pub(super) fn note(&mut self, line: impl FnOnce() -> String) {
        if self.trace.len() >= 2 * TRACE_LINES {
            self.trace.drain(..TRACE_LINES);
        }
        let line = format!("{:>6} {}", self.now_ms, line());
        self.trace.push(line);
    }

    /// The last lines of the history.
    pub(super) fn story(&self) -> String {
        let from = self.trace.len().saturating_sub(TRACE_LINES);
        self.trace[from..].iter().fold(String::new(), |mut text, line| {
            let _ = writeln!(text, "{line}");
            text
        })
    }

    pub(super) fn next_number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    pub(super) fn push(&mut self, at_ms: i64, event: Event) {
        self.order += 1;
        self.queue.insert((at_ms.max(self.now_ms), self.order), event);
    }

    pub(super) fn node(&mut self, id: i32) -> &mut Node {
        &mut self.nodes[(id - 1) as usize]
    }

    fn is_calm(&self) -> bool {
        self.now_ms > CHAOS_MS
    }

    pub(super) fn is_cut(&self, from: i32, to: i32) -> bool {
        let until = |way| self.cuts.get(&way).copied().unwrap_or(0);
        self.now_ms < until((from, to)).max(until((to, from)))
    }

    pub(super) fn delay_ms(&mut self) -> i64 {
        let most = if self.now_ms < self.slow_until { 300 } else { 6 };
        self.random.random_range(0..most)
    }

    /// Sends a message, which may get lost or come twice.
    pub(super) fn send(&mut self, from: i32, to: i32, message: Message) {
        let is_cut = self.cuts.get(&(from, to)).is_some_and(|until| self.now_ms < *until);
        if is_cut || !self.is_calm() && self.random.random_bool(0.01) {
            return;
        }
        // Only an idempotent producer may repeat a batch.
        let repeats = from != FIRST_CLIENT + PLAIN as i32 && self.random.random_bool(0.01);
        if !self.is_calm() && repeats {
            let at = self.now_ms + self.delay_ms() + 50;
            self.push(at, Event::Deliver { from, to, message: message.clone() });
        }
        let at = self.now_ms + self.delay_ms();
        self.push(at, Event::Deliver { from, to, message });
    }

    /// Lives the history to its end; an error is a broken invariant.
    pub(super) fn run(&mut self) -> Result<(), String> {
        let mut next_look = CHAOS_MS + 200;
        while let Some(((at_ms, _), event)) = self.queue.pop_first() {
            self.now_ms = at_ms;
            if self.now_ms >= next_look {
                if self.is_quiet() {
                    return self.check_end();
                }
                next_look += 100;
            }
            if self.now_ms > CALM_MS {
                return Err(format!("invariant 8: the cluster has not settled: {}", self.state()));
            }
            let paused_until = event.node().map_or(0, |id| self.node(id).paused_until);
            if paused_until > self.now_ms {
                self.push(paused_until, event);
                continue;
            }
            self.figures.events += 1;
            self.happen(event)?;
            self.follow_controller()?;
        }
        Err("there are no events left".to_owned())
    }

    fn happen(&mut self, event: Event) -> Result<(), String> {
        match event {
            Event::Deliver { from, to: CONTROLLER, message } => {
                self.serve_controller(from, message);
                Ok(())
            }
            Event::Deliver { to, message, .. } if to >= FIRST_CLIENT => {
                self.client_told((to - FIRST_CLIENT) as usize, message);
                Ok(())
            }
            Event::Deliver { from, to, message } => self.deliver(from, to, message),
            Event::Answer { node, to, offset, bytes, message } => {
                self.answer_fetch(node, to, (offset, bytes), message);
                Ok(())
            }
            Event::Count { node, incarnation, fetch } => self.count(node, incarnation, fetch).map(drop),
            Event::Append { node, incarnation, batch } => self.append(node, incarnation, batch),
            Event::Tick(id) => {
                let at = self.now_ms + TICK_MS;
                self.push(at, Event::Tick(id));
                self.tick(id)
            }
            Event::Task { node, incarnation, thread, task } => {
                self.run_task(node, (incarnation, thread), task)
            }
            Event::FetchTimeout { node, incarnation, number } => {
                self.fetch_timed_out(node, incarnation, number);
                Ok(())
            }
            Event::AlterTimeout { node, incarnation, number } => {
                self.alter_answered(node, incarnation, number, None)
            }
            Event::Client(client) => {
                self.client_turn(client);
                Ok(())
            }
            Event::Accident(at) => self.accident(self.accidents[at].1.clone()),
            Event::Begin(id) => {
                let at = (id - 1) as usize;
                if self.nodes[at].process.is_none() {
                    let incarnation = self.next_number();
                    self.nodes[at].suffer(&mut self.random);
                    self.nodes[at].begin(incarnation);
                    self.note(|| format!("node {id} begins"));
                }
                Ok(())
            }
            Event::Stop { node, incarnation, down_ms } => {
                self.stop(node, incarnation, down_ms);
                Ok(())
            }
        }
    }

    fn serve_controller(&mut self, from: i32, message: Message) {
        let now_ms = self.now_ms;
        match message {
            Message::Register { incarnation, is_clean } => {
                if let Some(epoch) = self.controller.register(from, incarnation, is_clean, now_ms) {
                    let image = self.controller.image();
                    self.send(CONTROLLER, from, Message::Registered { incarnation, epoch, image });
                }
            }
            Message::Heartbeat { epoch, version } => {
                if !self.controller.heartbeat(from, epoch, version, now_ms) {
                    self.send(CONTROLLER, from, Message::Unregistered { epoch });
                } else if version < self.controller.version() {
                    let image = self.controller.image();
                    self.send(CONTROLLER, from, Message::Metadata(image));
                }
            }
            Message::Alter { incarnation, number, request } => {
                // TCP repeats nothing, and a broker resets the connection of a request without a
                // response before it repeats the request on another one.
                let last = self.altered.entry(from).or_default();
                if (incarnation, number) <= *last {
                    return;
                }
                *last = (incarnation, number);
                let response = self.controller.alter(&request);
                self.figures.changes += 1;
                self.note(|| {
                    format!("controller: change of node {from}: {response:?}").chars().take(150).collect()
                });
                self.send(CONTROLLER, from, Message::Altered { incarnation, number, response });
            }
            Message::Assign { incarnation, number, request } => {
                let response = assigned(&request, self.controller.assign(&request));
                if self.controller.is_lost(from) {
                    self.repair(from);
                }
                self.send(CONTROLLER, from, Message::Assigned { incarnation, number, response });
            }
            _ => unreachable!("nobody sends this to the controller"),
        }
    }

    /// Has sessions end, and takes note of elections.
    fn follow_controller(&mut self) -> Result<(), String> {
        let before = self.controller.version();
        self.controller.expire(self.now_ms);
        let partition = self.controller.partition().clone();
        if before != self.controller.version() {
            self.note(|| format!("controller: {partition:?}"));
        }
        self.figures.elections = partition.leader_epoch as usize;
        let unclean = self.controller.unclean.last().copied().filter(|epoch| *epoch > self.floor);
        if let Some(epoch) = unclean.filter(|_| !self.spares_others) {
            (self.floor, self.needs_rewrite) = (epoch, true);
            self.figures.unclean += 1;
            self.nodes.iter_mut().for_each(|node| node.is_stale = true);
            self.note(|| format!("unclean election in epoch {epoch}"));
        }
        if partition.isr != self.isr {
            self.isr = partition.isr;
            self.check_in_sync()?;
        }
        Ok(())
    }

    fn client_turn(&mut self, at: usize) {
        let pause_ms = self.random.random_range(20..90);
        let now_ms = self.now_ms;
        self.push(now_ms + pause_ms, Event::Client(at));
        let client = &mut self.clients[at];
        let is_idempotent = client.producer_id >= 0;
        let is_overdue = client.pending.as_ref().is_some_and(|pending| now_ms - pending.sent_ms > 400);
        if is_overdue && !is_idempotent {
            client.pending = None;
        }
        if client.pending.is_some() && !is_overdue || client.pending.is_none() && now_ms > CHAOS_MS {
            return;
        }
        if self.clients[at].pending.is_none() {
            let number = self.next_number();
            let client = &mut self.clients[at];
            let count = self.random.random_range(1..4);
            let mut builder = match client.producer_id {
                -1 => Builder::new(),
                id => Builder::new().producer(id, 0, client.sequence),
            };
            for _ in 0..count {
                builder.push(now_ms, None, Some(&number.to_be_bytes()));
            }
            let records = builder.build().expect("a few records fit");
            let all = self.random.random_bool(0.7);
            client.pending = Some(Pending { number, records, count, all, sent_ms: now_ms });
        }
        let leader = self.controller.partition().leader;
        let to =
            if leader < 1 || self.random.random_bool(0.1) { self.random.random_range(1..5) } else { leader };
        let client = &mut self.clients[at];
        client.attempt += 1;
        let attempt = client.attempt;
        let pending = client.pending.as_mut().expect("it was made just now");
        pending.sent_ms = now_ms;
        let (number, records, all) = (pending.number, pending.records.clone(), pending.all);
        self.send(FIRST_CLIENT + at as i32, to, Message::Produce { attempt, number, records, all });
    }

    fn client_told(&mut self, at: usize, message: Message) {
        let Message::Produced { attempt, outcome } = message else { unreachable!("clients produce") };
        let anew = self.numbers + 1;
        let client = &mut self.clients[at];
        if client.attempt != attempt {
            return;
        }
        let Some(pending) = &mut client.pending else { return };
        match outcome {
            Ok(()) => {
                client.sequence += pending.count;
                client.pending = None;
            }
            Err(Refused::Lost) => {
                (client.producer_id, client.sequence, client.pending) = (anew as i64, 0, None);
                self.numbers = anew;
            }
            Err(Refused::Again) if client.producer_id < 0 => client.pending = None,
            // Sent again at its next turn.
            Err(Refused::Again) => pending.sent_ms -= 400,
        }
    }

    fn accident(&mut self, accident: Accident) -> Result<(), String> {
        let now_ms = self.now_ms;
        self.note(|| format!("{accident:?}"));
        match accident {
            Accident::Kill { node, down_ms } => self.crash(node, Crash::Killed, down_ms),
            Accident::Lose { node, is_torn, down_ms } => {
                self.crash(node, if is_torn { Crash::Torn } else { Crash::Dropped }, down_ms);
            }
            Accident::Stop { node, down_ms } => {
                if let Some(incarnation) = self.node(node).process.as_ref().map(|process| process.incarnation)
                {
                    self.controller.stop(node);
                    self.push(now_ms + 150, Event::Stop { node, incarnation, down_ms });
                }
            }
            Accident::Pause { node, ms } => self.node(node).paused_until = now_ms + ms,
            Accident::Cut { from, to, ms } => drop(self.cuts.insert((from, to), now_ms + ms)),
            Accident::Isolate { node, ms } => self.isolate(node, ms),
            Accident::Strike { ms } => {
                self.strike_ms = Some(ms);
                let leader = self.controller.partition().leader;
                self.isolate(leader, ms);
            }
            Accident::Deafen { ms } => {
                let partition = self.controller.partition();
                let leader = partition.leader;
                let follower = partition.isr.iter().copied().rfind(|id| *id != leader);
                // Lasts until another broker leads.
                self.cuts.insert((leader, CONTROLLER), now_ms + 650);
                self.cuts.insert((CONTROLLER, follower.unwrap_or(-1)), now_ms + ms);
            }
            Accident::Slow { ms } => self.slow_until = now_ms + ms,
            Accident::Reassign { target } => self.controller.reassign(target),
            Accident::Checkpoint { node, flushes } => {
                let process = self.node(node).process.as_mut();
                if let Some(log) = process.and_then(|process| process.log.as_mut()).filter(|_| flushes) {
                    log.flush().map_err(|error| error.to_string())?;
                }
                self.node(node).store_checkpoint();
            }
            Accident::Delete => return self.delete_records(),
            Accident::Merge { ms } => self.merges_until = now_ms + ms,
            Accident::Corrupt { ms } => self.corrupts_until = now_ms + ms,
            Accident::Break { node, ms } => self.break_log(node, ms),
            Accident::Detour { ms } => self.detour(ms),
            Accident::Prefer { node } => self.controller.prefer(node),
            Accident::Damage { node, harm } => {
                self.node(node).harm = Some(harm);
            }
            Accident::Trick { trick, ms } => self.trick = Some((trick, ms)),
        }
        Ok(())
    }

    fn detour(&mut self, ms: i64) {
        let (now_ms, partition) = (self.now_ms, self.controller.partition().clone());
        let leader = partition.leader;
        let mut others = partition.isr.iter().copied().filter(|id| *id != leader);
        let (Some(next), other) = (others.next(), others.next()) else { return };
        self.figures.detours += 1;
        self.cuts.insert((leader, next), now_ms + ms);
        self.cuts.insert((CONTROLLER, leader), now_ms + 2 * ms + 50);
        // The third replica goes on with the leader in between.
        other.map(|other| self.cuts.insert((CONTROLLER, other), now_ms + 3 * ms + 100));
        self.happen_at(now_ms + ms, Accident::Prefer { node: next });
        self.happen_at(now_ms + 2 * ms, Accident::Prefer { node: leader });
    }

    /// The duration of a trick, if one waits for this kind of request, about this broker.
    fn tricked(&mut self, tricks: &[Trick], about: i32) -> Option<(Trick, i64)> {
        let (trick, ms) = self.trick.take_if(|(trick, _)| tricks.contains(trick))?;
        self.figures.tricks += 1;
        self.note(|| format!("{trick:?} of node {about}"));
        Some((trick, ms))
    }

    /// The broker loses its power, and does not catch up before `ms` are over.
    fn lose(&mut self, about: i32, ms: i64) {
        let (now_ms, leader) = (self.now_ms, self.controller.partition().leader);
        self.cuts.insert((about, leader), now_ms + ms + 60);
        self.happen_now(Accident::Lose { node: about, is_torn: false, down_ms: 1 });
    }

    fn happen_now(&mut self, accident: Accident) {
        self.happen_at(self.now_ms, accident);
    }

    fn happen_at(&mut self, at_ms: i64, accident: Accident) {
        self.accidents.push((0, accident));
        self.push(at_ms, Event::Accident(self.accidents.len() - 1));
    }

    /// An operator restarts a broker whose log is offline.
    fn repair(&mut self, node: i32) {
        let process = self.node(node).process.as_mut();
        let Some(ms) = process.and_then(|process| process.repair_ms.take()) else { return };
        self.figures.lost += 1;
        self.happen_at(self.now_ms + ms, Accident::Kill { node, down_ms: 50 });
    }

    /// Sends a fetch, which arrives late if the history has that fault.
    pub(super) fn send_fetch(&mut self, from: i32, to: i32, fetch: Message) {
        let is_outside = !self.controller.partition().isr.contains(&from);
        let trick = if is_outside { self.tricked(&[Trick::LateFetch], from) } else { None };
        let Some((_, ms)) = trick else { return self.send(from, to, fetch) };
        self.push(self.now_ms + ms, Event::Deliver { from, to, message: fetch });
        self.lose(from, ms);
    }

    /// Sends a change of the ISR, as a rule; returns the time that is lost.
    pub(super) fn send_change(&mut self, from: i32, members: &[i32], change: Message) -> i64 {
        let (now_ms, isr) = (self.now_ms, self.controller.partition().isr.clone());
        let joins = members.iter().copied().find(|id| !isr.contains(id));
        let leaves = isr.iter().copied().find(|id| !members.contains(id));
        let other = isr.iter().copied().find(|id| members.contains(id) && *id != from);
        let trick = match (joins, leaves, other) {
            (Some(about), ..) => {
                let of_joining = [Trick::LateJoining, Trick::LostJoining, Trick::Unheard];
                self.tricked(&of_joining, about).map(|(trick, ms)| (trick, ms, about))
            }
            (None, Some(_), Some(other)) => {
                self.tricked(&[Trick::Collision], other).map(|(trick, ms)| (trick, ms, other))
            }
            _ => None,
        };
        match trick {
            Some((Trick::LateJoining, ms, about)) => {
                self.push(now_ms + ms, Event::Deliver { from, to: CONTROLLER, message: change });
                self.lose(about, ms);
                return ms;
            }
            Some((Trick::LostJoining, ms, about)) => {
                self.cuts.insert((about, from), now_ms + 2 * ms + 60);
                return 0;
            }
            Some((Trick::Unheard, ms, about)) => {
                self.cuts.insert((CONTROLLER, from), now_ms + ms);
                self.cuts.insert((about, from), now_ms + ms + 400);
            }
            Some((_, ms, about)) => self.happen_now(Accident::Stop { node: about, down_ms: ms }),
            None => {}
        }
        self.send(from, CONTROLLER, change);
        0
    }

    /// True while answers to fetches have other batches, and while they have wrong bits.
    pub(super) fn spoils(&self) -> (bool, bool) {
        (self.now_ms < self.merges_until, self.now_ms < self.corrupts_until)
    }

    fn isolate(&mut self, node: i32, ms: i64) {
        let until = self.now_ms + ms;
        for other in 0..=4 {
            self.cuts.insert((node, other), until);
            self.cuts.insert((other, node), until);
        }
    }

    /// Isolates a new leader if a fault waits for it, in half of the cases also from clients.
    pub(super) fn strike(&mut self, leader: i32) {
        let Some(ms) = self.strike_ms.take() else { return };
        self.isolate(leader, ms);
        if self.random.random_bool(0.5) {
            let until = self.now_ms + ms;
            for client in 0..CLIENTS as i32 {
                self.cuts.insert((FIRST_CLIENT + client, leader), until);
            }
        }
        self.note(|| format!("node {leader} is cut off"));
    }

    fn crash(&mut self, id: i32, crash: Crash, down_ms: i64) {
        let at = (id - 1) as usize;
        if self.nodes[at].process.is_none() {
            return;
        }
        self.nodes[at].crash(crash, &mut self.random);
        self.nodes[at].paused_until = 0;
        let until = self.now_ms + down_ms;
        self.push(until, Event::Begin(id));
    }

    fn stop(&mut self, id: i32, incarnation: u64, down_ms: i64) {
        let node = self.node(id);
        let Some(process) = node.process.take_if(|process| process.incarnation == incarnation) else {
            return;
        };
        if let Some(log) = process.log {
            let partition = log.partition().clone();
            node.checkpoint.is_clean = log.close().is_ok() && !process.is_broken;
            if !process.keeps_claims {
                node.checkpoint.recovery_point = partition.recovery_point();
                node.checkpoint.high_watermark = partition.high_watermark();
                node.checkpoint.log_start = partition.log_start();
            }
        }
        // The mark of a clean stop names the broker epoch: it counts for a process that had one.
        node.is_clean = process.epoch >= 0 && !process.is_broken;
        self.controller.stopped(id);
        let until = self.now_ms + down_ms;
        self.push(until, Event::Begin(id));
    }

    /// True if every replica has everything and knows that it is committed.
    fn is_quiet(&self) -> bool {
        if !self.controller.is_settled() || self.clients.iter().any(|client| client.pending.is_some()) {
            return false;
        }
        let marks = |id: &i32| {
            let log = self.nodes[(id - 1) as usize].process.as_ref()?.log.as_ref()?.partition();
            Some((log.high_watermark(), log.log_end()))
        };
        let partition = self.controller.partition();
        let leader = marks(&partition.leader);
        let is_committed = leader.is_some_and(|(high, end)| high == end);
        is_committed && partition.replicas.iter().all(|id| marks(id) == leader)
    }

    pub(super) fn state(&self) -> String {
        let mut text = format!("{:?}", self.controller.partition());
        for node in &self.nodes {
            let Some(process) = &node.process else { continue };
            let Some(log) = &process.log else { continue };
            let log = log.partition();
            let _ = write!(
                text,
                "; node {}: {} log {}..{}, high watermark {}, epoch {}",
                node.id,
                process.role.name(),
                log.log_start(),
                log.log_end(),
                log.high_watermark(),
                log.latest_epoch()
            );
        }
        let waiting = self.clients.iter().filter(|client| client.pending.is_some()).count();
        let _ = write!(text, "; {waiting} clients wait");
        text
    }

    fn check_end(&mut self) -> Result<(), String> {
        let partition = self.controller.partition().clone();
        let mut logs = Vec::new();
        for id in &partition.replicas {
            let process = self.node(*id).process.as_ref().ok_or("a replica is down")?;
            let log = process.log.as_ref().ok_or("a replica has no log")?.partition().clone();
            check_epochs(*id, &log)?;
            if log.high_watermark() < log.last_stable() {
                return Err(format!("invariant 4: node {id}"));
            }
            logs.push((*id, log.clone()));
            if *id == partition.leader {
                self.truth.audit(&log, self.floor)?;
            }
        }
        // A former leader may have deleted records that the present one has.
        let from = logs.iter().map(|(_, log)| log.log_start()).max().unwrap_or(0);
        let read = |log: &Partition| batches(log, from, log.log_end());
        let (first, log) = &logs[0];
        let wanted = read(log)?;
        for (id, log) in &logs[1..] {
            if read(log)? != wanted {
                return Err(format!("invariant 2: the logs of nodes {first} and {id} differ"));
            }
        }
        self.figures.acknowledged = self.truth.count;
        Ok(())
    }
}

impl Event {
    /// The node that stands still while it is paused.
    fn node(&self) -> Option<i32> {
        match self {
            Self::Deliver { to, .. } => (1..FIRST_CLIENT).contains(to).then_some(*to),
            Self::Answer { node, .. }
            | Self::Append { node, .. }
            | Self::Count { node, .. }
            | Self::Tick(node)
            | Self::Task { node, .. }
            | Self::FetchTimeout { node, .. }
            | Self::AlterTimeout { node, .. }
            | Self::Stop { node, .. } => Some(*node),
            Self::Client(_) | Self::Accident(_) | Self::Begin(_) => None,
        }
    }
}

impl Figures {
    pub(super) fn add(&mut self, other: Self) {
        self.events += other.events;
        self.acknowledged += other.acknowledged;
        self.elections += other.elections;
        self.unclean += other.unclean;
        self.truncations += other.truncations;
        self.changes += other.changes;
        self.refused += other.refused;
        self.tricks += other.tricks;
        self.lost += other.lost;
        self.detours += other.detours;
        self.doubts += other.doubts;
        self.handovers += other.handovers;
    }
}

/// The controller's answer to a report of directories.
fn assigned(request: &AssignReplicasToDirsRequest, is_current: bool) -> AssignReplicasToDirsResponse {
    let mut response = AssignReplicasToDirsResponse::default();
    if !is_current {
        response.error_code = ErrorCode::StaleBrokerEpoch.code();
        return response;
    }
    for asked in &request.directories {
        let mut directory = assign_replicas_to_dirs_response::DirectoryData::default();
        directory.id = asked.id;
        for asked in &asked.topics {
            let mut topic = assign_replicas_to_dirs_response::TopicData::default();
            topic.topic_id = asked.topic_id;
            for asked in &asked.partitions {
                let mut partition = assign_replicas_to_dirs_response::PartitionData::default();
                partition.partition_index = asked.partition_index;
                topic.partitions.push(partition);
            }
            directory.topics.push(topic);
        }
        response.directories.push(directory);
    }
    response
}
