//! Random lives of groups: members come, leave, crash, fall silent and are cloned; appends are slow
//! or fail; the broker is killed and starts again from its log. Whatever happens, the promises
//! hold.
//!
//! Soak: seed random, repeated

mod consumers;
mod shares;
mod streams;

use std::collections::BTreeMap;

use levada_testing::{least, scaled, seeds};

use super::rig::{GROUP, Rig, commit_as, config, heartbeat, leave, protocols, sync};
use crate::group::config::GroupConfig;
use crate::group::coordinator::Coordinator;
use crate::group::error::GroupError;
use crate::group::event::Ticket;
use crate::group::request::{
    CommitRequest, DeleteRequest, HeartbeatRequest, JoinOutcome, JoinRequest, LeaveRequest, SyncRequest,
};
use crate::machine::{PersistFailure, Request};

const SEEDS: u64 = 150;
const STEPS: usize = 500;

#[test]
fn group_invariants_hold_in_random_histories() {
    let mut reached = Reached::default();
    for seed in seeds(scaled(SEEDS)) {
        let _seed = PrintedOnPanic(seed);
        let mut world = World::new(seed);
        for _ in 0..STEPS {
            world.live();
            world.check();
        }
        world.come_to_rest();
        reached.add(&world.reached);
    }
    // A simulation in which nothing happens proves nothing.
    let Reached { assignments, commits, deletions, restarts, returns, fenced, failures, losses } = reached;
    for (what, count, minimum) in [
        ("assignments", assignments, 2_000),
        ("commits", commits, 1_000),
        ("deletions of commits", deletions, 80),
        ("restarts", restarts, 1_000),
        ("static members that returned", returns, 50),
        ("fenced members", fenced, 300),
        ("failed appends", failures, 60),
        ("lost logs", losses, 30),
    ] {
        println!("{count} {what}");
        assert!(count >= least(minimum), "only {count} {what}");
    }
}

struct PrintedOnPanic(u64);

impl Drop for PrintedOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the failing seed is {}", self.0);
        }
    }
}

#[derive(Default)]
struct Reached {
    assignments: usize,
    commits: usize,
    /// Number of acknowledged deletions of a group with a commit.
    deletions: usize,
    restarts: usize,
    returns: usize,
    fenced: usize,
    failures: usize,
    losses: usize,
}

impl Reached {
    fn add(&mut self, other: &Self) {
        self.assignments += other.assignments;
        self.commits += other.commits;
        self.deletions += other.deletions;
        self.restarts += other.restarts;
        self.returns += other.returns;
        self.fenced += other.fenced;
        self.failures += other.failures;
        self.losses += other.losses;
    }
}

/// A consumer as the group sees it from outside.
#[derive(Default)]
struct Client {
    instance: Option<&'static str>,
    member_id: String,
    generation: i32,
    phase: Phase,
}

#[derive(Default)]
enum Phase {
    #[default]
    Outside,
    Joining(Ticket),
    /// The member has its generation; a leader also has all members of it.
    Joined(Vec<String>),
    Syncing(Ticket),
    Working,
    Leaving(Ticket),
}

struct World {
    rig: Rig,
    random: Random,
    clients: Vec<Client>,
    /// Starts of the broker and deletions of the group: generations count again from
    /// then.
    incarnation: u32,
    /// Leader of each generation.
    leaders: BTreeMap<(u32, i32), String>,
    commits: BTreeMap<Ticket, i64>,
    deletions: BTreeMap<Ticket, i64>,
    /// Offsets are handed out in order, so that the latest commit is the largest.
    next_offset: i64,
    /// The largest offset whose commit was acknowledged, and the first one after the group's last
    /// deletion.
    acknowledged: i64,
    /// The first offset after the latest deletion that was acknowledged: smaller ones are gone.
    deleted_below: i64,
    reached: Reached,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut random = Random(seed);
        let initial_rebalance_delay_ms = [0, 0, 3_000][random.below(3)];
        let rig = Rig::new(GroupConfig { initial_rebalance_delay_ms, max_size: 5, ..config() });
        // Two clients take themselves for the same static member.
        let instances = [None, None, None, Some("i"), Some("j"), Some("j")];
        let clients = instances.map(|instance| Client { instance, ..Client::default() });
        Self {
            rig,
            random,
            clients: clients.into(),
            incarnation: 0,
            leaders: BTreeMap::new(),
            commits: BTreeMap::new(),
            deletions: BTreeMap::new(),
            next_offset: 1,
            acknowledged: -1,
            deleted_below: 0,
            reached: Reached::default(),
        }
    }

    /// Performs one random step.
    fn live(&mut self) {
        match self.random.below(100) {
            0..72 => {
                // The last one, a clone, acts but rarely.
                let client = self.random.below(10 * (self.clients.len() - 1) + 1) / 10;
                self.act(client);
            }
            72..80 => self.pass(),
            80..93 => {
                self.rig.finish_append(None);
            }
            93..95 => {
                let failures = [Some(PersistFailure::Unavailable), Some(PersistFailure::TooLarge), None];
                match failures[self.random.below(3)] {
                    Some(failure) => {
                        self.reached.failures += usize::from(self.rig.finish_append(Some(failure)));
                    }
                    None => self.lose(),
                }
            }
            95 => self.delete(),
            96..98 => self.rig.hold_appends = !self.rig.hold_appends,
            _ => self.restart(),
        }
        self.listen();
    }

    /// Time passes. Most members send heartbeats meanwhile.
    fn pass(&mut self) {
        let ms = [1, 100, 500, 2_000, 5_000, 9_000, 61_000];
        let longest = ms.len() - usize::from(self.random.below(8) > 0);
        let ms = ms[self.random.below(longest)];
        for client in 0..self.clients.len() {
            let working = matches!(self.clients[client].phase, Phase::Working | Phase::Joined(_));
            if working && self.random.below(10) > 0 {
                self.heartbeat(client);
            }
        }
        self.rig.pass(ms);
        // An operator sets the clock, back or forth.
        if self.random.below(10) == 0 {
            self.rig.ahead_ms = [-3_600_000, -61_000, 0, 61_000, 3_600_000][self.random.below(5)];
        }
    }

    fn heartbeat(&mut self, client: usize) {
        let Client { instance, member_id, generation, .. } = &self.clients[client];
        let group_instance_id = instance.map(Into::into);
        let request = HeartbeatRequest { group_instance_id, ..heartbeat(member_id, *generation) };
        if let Err(error) = self.rig.ask(request) {
            self.refused(client, error);
        }
    }

    fn act(&mut self, client: usize) {
        let member_id = self.clients[client].member_id.clone();
        match (&self.clients[client].phase, self.random.below(30)) {
            // The client has stopped without leaving, and is started again.
            (_, 0) => {
                let instance = self.clients[client].instance;
                self.clients[client] = Client { instance, ..Client::default() };
            }
            (Phase::Outside, _) => self.join(client),
            (Phase::Joined(members), _) => {
                let request = self.sync(client, &members.clone());
                self.clients[client].phase = Phase::Syncing(self.rig.send(request));
            }
            (Phase::Working, 1) => self.join(client),
            (Phase::Working, 2) => {
                let instance = self.clients[client].instance;
                let ticket = self.rig.send(leave(&[(&member_id, instance)]));
                self.clients[client].phase = Phase::Leaving(ticket);
            }
            (Phase::Working, 3..10) => self.commit(client),
            (Phase::Working, _) => self.heartbeat(client),
            // A client that has lost its connection asks again; the old request is still there.
            (Phase::Joining(_), 1) => self.join(client),
            (Phase::Joining(_) | Phase::Syncing(_) | Phase::Leaving(_), _) => {}
        }
    }

    fn join(&mut self, client: usize) {
        let Client { instance, member_id, .. } = &self.clients[client];
        let offers: [&[&str]; 3] = [&["range"], &["range", "roundrobin"], &["roundrobin", "range"]];
        let request = JoinRequest {
            api_version: [3, 5, 8, 9][self.random.below(4)],
            group_instance_id: instance.map(Into::into),
            protocols: protocols(offers[self.random.below(3)]),
            ..self.rig.join(member_id)
        };
        self.clients[client].phase = Phase::Joining(self.rig.send(request));
    }

    fn sync(&self, client: usize, members: &[String]) -> SyncRequest {
        let Client { instance, member_id, generation, .. } = &self.clients[client];
        let assign = |id: &String| (id.clone(), format!("{generation}/{id}").into());
        SyncRequest {
            group_instance_id: instance.map(Into::into),
            assignments: members.iter().map(assign).collect(),
            ..sync(member_id, *generation, &[])
        }
    }

    fn commit(&mut self, client: usize) {
        let Client { instance, member_id, generation, .. } = &self.clients[client];
        let group_instance_id = instance.map(Into::into);
        let request =
            CommitRequest { group_instance_id, ..commit_as(member_id, *generation, self.next_offset) };
        let ticket = self.rig.send(request);
        self.commits.insert(ticket, self.next_offset);
        self.next_offset += 1;
    }

    fn delete(&mut self) {
        // There are no members after a long silence, and nearly always some before.
        if self.random.below(2) == 0 {
            self.rig.pass(61_000);
        }
        let ticket = self.rig.send(DeleteRequest { group_ids: vec![GROUP.into()] });
        self.deletions.insert(ticket, self.next_offset);
    }

    /// The broker is killed; what it was writing is in the log or not.
    fn restart(&mut self) {
        let before = self.rig.coordinator.describe(GROUP);
        let settled = self.rig.held.is_empty() && before.state == "Stable";
        while !self.rig.held.is_empty() && self.random.below(2) == 0 {
            let (_, payload) = self.rig.held.pop_front().unwrap();
            self.rig.store(payload);
        }
        self.rig.restart();
        if settled {
            assert_eq!(self.rig.coordinator.describe(GROUP), before, "a stable group survives as it is");
        }
        self.incarnation += 1;
        self.reached.restarts += 1;
        // A deletion or a commit without a response may have taken effect.
        if self.deletions.values().any(|&from| from > 0) && self.committed() < self.acknowledged {
            self.acknowledged = -1;
        }
        self.deletions.clear();
        self.commits.clear();
        for client in &mut self.clients {
            // Clients find the coordinator again and repeat what they were about to do.
            client.phase = match std::mem::take(&mut client.phase) {
                Phase::Syncing(_) => Phase::Joined(Vec::new()),
                Phase::Working => Phase::Working,
                Phase::Joined(members) => Phase::Joined(members),
                Phase::Outside | Phase::Joining(_) | Phase::Leaving(_) => Phase::Outside,
            };
        }
    }

    /// The log fails with the oldest append, and the broker is restarted.
    fn lose(&mut self) {
        let is_stored = self.random.below(2) == 0;
        if self.rig.lose_appends(is_stored) {
            assert_eq!(self.rig.state(), "", "nothing is shown that the log may not have");
            self.reached.losses += 1;
            self.restart();
        }
    }

    /// Clients read what has been answered.
    fn listen(&mut self) {
        for client in 0..self.clients.len() {
            match self.clients[client].phase {
                Phase::Joining(ticket) => {
                    if let Some(outcome) = self.rig.answer::<JoinRequest>(ticket) {
                        self.joined(client, outcome);
                    }
                }
                Phase::Syncing(ticket) => {
                    if let Some(outcome) = self.rig.answer::<SyncRequest>(ticket) {
                        match outcome.error {
                            Some(error) => self.refused(client, error),
                            None => self.assigned(client, &outcome.assignment),
                        }
                    }
                }
                Phase::Leaving(ticket) => {
                    if self.rig.answer::<LeaveRequest>(ticket).is_some() {
                        let instance = self.clients[client].instance;
                        self.clients[client] = Client { instance, ..Client::default() };
                    }
                }
                Phase::Outside | Phase::Joined(_) | Phase::Working => {}
            }
        }
        // Commits first: a commit and a later deletion may have been answered since the last time.
        for (ticket, outcome) in self.answered::<CommitRequest>() {
            let offset = self.commits.remove(&ticket).unwrap();
            if let Ok(topics) = outcome {
                assert_eq!(topics[0].partitions[0].1, None);
                self.acknowledged = self.acknowledged.max(offset);
                self.reached.commits += 1;
            }
        }
        for (ticket, from) in self.answered::<DeleteRequest>() {
            let first = self.deletions.remove(&ticket).unwrap();
            if from.iter().all(|(_, error)| error.is_none()) {
                self.deleted_below = self.deleted_below.max(first);
                if self.acknowledged < first {
                    self.reached.deletions += usize::from(self.acknowledged >= 0);
                    self.acknowledged = -1;
                }
            }
        }
    }

    fn answered<R: Request<Coordinator>>(&mut self) -> Vec<(Ticket, R::Answer)>
    where
        Self: Asked<R>,
    {
        let tickets = self.asked();
        tickets.into_iter().filter_map(|ticket| Some((ticket, self.rig.answer::<R>(ticket)?))).collect()
    }

    fn joined(&mut self, client: usize, outcome: JoinOutcome) {
        if let Some(error) = outcome.error {
            self.refused(client, error);
            if error == GroupError::MemberIdRequired {
                self.clients[client].member_id = outcome.member_id;
            }
            return;
        }
        let members: Vec<String> = outcome.members.into_iter().map(|member| member.member_id).collect();
        if !members.is_empty() && !outcome.skip_assignment {
            assert_eq!(outcome.leader, outcome.member_id);
            assert!(members.contains(&outcome.leader));
            let generation = (self.incarnation, outcome.generation);
            let leader = self.leaders.entry(generation).or_insert_with(|| outcome.leader.clone());
            assert_eq!(*leader, outcome.leader, "one generation, one leader");
        }
        let known = &mut self.clients[client];
        if known.instance.is_some() && known.member_id.is_empty() && self.rig.state() == "Stable" {
            self.reached.returns += 1;
        }
        known.member_id = outcome.member_id;
        known.generation = outcome.generation;
        known.phase = Phase::Joined(if outcome.skip_assignment { Vec::new() } else { members });
    }

    fn assigned(&mut self, client: usize, assignment: &[u8]) {
        let Client { instance, member_id, generation, .. } = &self.clients[client];
        let text = std::str::from_utf8(assignment).unwrap();
        let (assigned, to) = text.split_once('/').expect("everybody gets something");
        assert_eq!(assigned, generation.to_string(), "the assignment is of the member's generation");
        // A static member has its predecessor's.
        let predecessors = instance.map(|instance| format!("{instance}-"));
        assert!(
            to == member_id || predecessors.is_some_and(|prefix| to.starts_with(&prefix)),
            "{to} {member_id}"
        );
        self.clients[client].phase = Phase::Working;
        self.reached.assignments += 1;
    }

    fn refused(&mut self, client: usize, error: GroupError) {
        let known = &mut self.clients[client];
        known.phase = Phase::Outside;
        self.reached.fenced += usize::from(error == GroupError::FencedInstanceId);
        let forget = [
            GroupError::UnknownMemberId,
            GroupError::FencedInstanceId,
            GroupError::IllegalGeneration,
            GroupError::GroupMaxSizeReached,
        ];
        if forget.contains(&error) {
            known.member_id.clear();
        }
    }

    fn committed(&mut self) -> i64 {
        self.rig.committed(GROUP, "t")
    }

    /// Checks the invariants.
    fn check(&mut self) {
        let group = self.rig.coordinator.describe(GROUP);
        let mut instances: Vec<_> =
            group.members.iter().filter_map(|member| member.group_instance_id.as_ref()).collect();
        instances.dedup();
        let named = group.members.iter().filter(|member| member.group_instance_id.is_some()).count();
        assert_eq!(instances.len(), named, "no instance id twice");
        match group.state {
            "Stable" => {
                // Five may join; static members keep their places besides.
                assert!(group.members.len() <= 7, "{} members", group.members.len());
                assert!(!group.members.is_empty() && !group.protocol_data.is_empty());
                for member in &group.members {
                    assert!(!member.assignment.is_empty(), "{} has no assignment", member.member_id);
                    assert!(!member.metadata.is_empty());
                }
            }
            "Empty" => assert!(group.members.is_empty()),
            // Its successor of the same name counts its generations from 1 again.
            "Dead" => self.incarnation += 1,
            _ => {}
        }
        let deleting = !self.deletions.is_empty();
        let (committed, acknowledged) = (self.committed(), self.acknowledged);
        assert!(deleting || committed >= acknowledged, "{acknowledged} is lost, {committed} is left");
        let (deleted_below, next) = (self.deleted_below, self.next_offset);
        assert!(
            committed == -1 || (deleted_below..next).contains(&committed),
            "{committed} is left, deleted below {deleted_below}, the next is {next}"
        );
    }

    /// All members fall silent: after a while no request waits.
    fn come_to_rest(&mut self) {
        self.rig.hold_appends = false;
        self.rig.finish_appends();
        self.rig.pass(600_000);
        self.listen();
        assert!(self.rig.waiting.is_empty(), "{:?} never got an answer", self.rig.waiting);
        let state = self.rig.state();
        assert!(["Empty", "Dead"].contains(&state), "everybody is gone, but the group is {state}");
        self.check();
    }
}

/// Open tickets of a kind.
trait Asked<R> {
    fn asked(&self) -> Vec<Ticket>;
}

impl Asked<DeleteRequest> for World {
    fn asked(&self) -> Vec<Ticket> {
        self.deletions.keys().copied().collect()
    }
}

impl Asked<CommitRequest> for World {
    fn asked(&self) -> Vec<Ticket> {
        self.commits.keys().copied().collect()
    }
}

/// SplitMix64: enough for choosing what happens, and the same everywhere.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) >> 33).unwrap() % limit
    }
}
