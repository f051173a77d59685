//! Random lives of streams groups: members come, leave, crash and fall silent; topics come, go and
//! grow; the number of standby tasks changes; administrators delete the group; appends are slow or
//! fail; answers get lost; the broker is killed and starts again from its log.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use levada_testing::{least, scaled, seeds};

use super::{PrintedOnPanic, Random};
use crate::group::config::{OwnSetting, OwnSettings, OwnStreamsSetting};
use crate::group::consumer::tests::Catalogue;
use crate::group::coordinator::DescribedStreamsGroup;
use crate::group::error::GroupError;
use crate::group::event::{Event, Ticket};
use crate::group::records::{TaskSets, Tasks};
use crate::group::request::{DeleteRequest, StreamsBeat, StreamsHeartbeatRequest};
use crate::group::streams::tests::{beat, enter, streams_config};
use crate::group::tests::rig::{GROUP, Rig};
use crate::machine::PersistFailure;

const SEEDS: u64 = 40;
const STEPS: usize = 400;
const PROCESSES: usize = 3;

#[test]
fn streams_group_invariants_hold_in_random_histories() {
    let mut reached = Reached::default();
    for seed in seeds(scaled(SEEDS)) {
        let _seed = PrintedOnPanic(seed);
        let mut world = World::new(seed);
        for _ in 0..STEPS {
            world.live();
            world.check();
        }
        world.converge();
        world.come_to_rest();
        reached.add(&world.reached);
    }
    let Reached { taken, standby, fenced, restarts, failures, losses, lost_answers } = reached;
    for (what, count, minimum) in [
        ("active tasks that members took", taken, 600),
        ("standby tasks that members took", standby, 200),
        ("fenced members", fenced, 20),
        ("restarts", restarts, 100),
        ("failed appends", failures, 15),
        ("lost logs", losses, 8),
        ("lost answers", lost_answers, 100),
    ] {
        println!("{count} {what}");
        assert!(count >= least(minimum), "only {count} {what}");
    }
}

#[derive(Default)]
struct Reached {
    taken: usize,
    standby: usize,
    fenced: usize,
    restarts: usize,
    failures: usize,
    losses: usize,
    lost_answers: usize,
}

impl Reached {
    fn add(&mut self, other: &Self) {
        self.taken += other.taken;
        self.standby += other.standby;
        self.fenced += other.fenced;
        self.restarts += other.restarts;
        self.failures += other.failures;
        self.losses += other.losses;
        self.lost_answers += other.lost_answers;
    }
}

/// A thread of an application, which runs what it is assigned, and gives tasks up when it is told.
#[derive(Default)]
struct Client {
    life: u32,
    member_id: String,
    process_id: String,
    epoch: i32,
    asked: Option<(Ticket, i32)>,
    /// Tasks that the member runs.
    has: TaskSets,
    /// Tasks that it has been assigned last.
    assigned: TaskSets,
    /// Tasks that it has reported last; none since a heartbeat failed. As in Kafka's client, it
    /// reports its tasks only if they differ.
    reported: Option<TaskSets>,
}

impl Client {
    /// The next heartbeat of the client, which has this place among all.
    fn request(&mut self, place: usize) -> StreamsHeartbeatRequest {
        if self.epoch == 0 {
            self.member_id = format!("m{place}-{}", self.life);
            self.reported = None;
            let process_id = Some(self.process_id.clone());
            return StreamsHeartbeatRequest { process_id, ..enter(&self.member_id) };
        }
        let owned = Some(self.has.clone()).filter(|has| self.reported.as_ref() != Some(has));
        if owned.is_some() {
            self.reported.clone_from(&owned);
        }
        StreamsHeartbeatRequest { owned, ..beat(&self.member_id, self.epoch) }
    }
}

struct World {
    rig: Rig,
    random: Random,
    clients: Vec<Client>,
    catalogue: BTreeMap<String, i32>,
    asked: BTreeSet<Ticket>,
    group_epoch: i32,
    /// True if the group may have been deleted since its epoch was read.
    is_forgotten: bool,
    /// True if no further response is lost.
    is_quiet: bool,
    reached: Reached,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut random = Random(seed);
        let mut settings = streams_config();
        settings.streams.assignment_interval_ms = [0, 1_000, 4_000][random.below(3)];
        settings.streams.initial_rebalance_delay_ms = [0, 3_000][random.below(2)];
        let client = |at: usize| Client { process_id: format!("p{}", at % PROCESSES), ..Client::default() };
        let mut world = Self {
            rig: Rig::new(settings),
            random,
            clients: (0..5).map(client).collect(),
            catalogue: [("t".to_owned(), 5), ("store".to_owned(), 5)].into(),
            asked: BTreeSet::new(),
            group_epoch: 0,
            is_forgotten: false,
            is_quiet: false,
            reached: Reached::default(),
        };
        world.tell_topics();
        world
    }

    fn tell_topics(&mut self) {
        self.rig.step(Event::Topics(Arc::new(Catalogue(self.catalogue.clone()))));
    }

    /// Performs one random step.
    fn live(&mut self) {
        match self.random.below(100) {
            0..65 => {
                let client = self.random.below(self.clients.len());
                self.act(client);
            }
            65..75 => self.pass(),
            75..85 => {
                self.rig.finish_append(None);
            }
            85..87 => self.delay_append(),
            87..90 => {
                let failures = [Some(PersistFailure::Unavailable), Some(PersistFailure::TooLarge), None];
                match failures[self.random.below(3)] {
                    Some(failure) => {
                        self.reached.failures += usize::from(self.rig.finish_append(Some(failure)));
                    }
                    None => self.lose(),
                }
            }
            90..92 => self.change_topics(),
            92..95 => self.administer(),
            95..98 => self.rig.hold_appends = !self.rig.hold_appends,
            _ => self.restart(),
        }
        self.listen();
    }

    /// Topics go and come back, and grow, the internal topic after the source.
    fn change_topics(&mut self) {
        let name = ["t", "store"][self.random.below(2)].to_owned();
        let (source, store) = (self.catalogue.get("t").copied(), self.catalogue.get("store").copied());
        match (source, store) {
            (Some(source), Some(store)) if source == store => match self.random.below(3) {
                0 => drop(self.catalogue.remove(&name)),
                _ => drop(self.catalogue.insert("t".to_owned(), (source + 1).min(9))),
            },
            _ => self.repair_topics(),
        }
        self.tell_topics();
    }

    fn repair_topics(&mut self) {
        let count = self.catalogue.get("t").copied().unwrap_or(5);
        self.catalogue = [("t".to_owned(), count), ("store".to_owned(), count)].into();
    }

    fn administer(&mut self) {
        if self.random.below(2) == 0 {
            let streams = OwnStreamsSetting {
                num_standby_replicas: Some(i32::try_from(self.random.below(3)).unwrap()),
                ..OwnStreamsSetting::default()
            };
            let own = OwnSetting { streams, ..OwnSetting::default() };
            let own = OwnSettings::from([(GROUP.to_owned(), own)]);
            return self.rig.step(Event::OwnSettings(Arc::new(own)));
        }
        self.is_forgotten = true;
        let group_ids = vec!["other".into(), GROUP.into()];
        self.asked.insert(self.rig.send(DeleteRequest { group_ids }));
    }

    fn pass(&mut self) {
        let ms = [1, 500, 3_000, 10_000, 30_000, 50_000][self.random.below(6)];
        if self.random.below(5) > 0 {
            (0..self.clients.len()).for_each(|client| self.heartbeat(client));
            self.listen();
        }
        self.rig.pass(ms);
        // An operator sets the clock, back or forth.
        if self.random.below(10) == 0 {
            self.rig.ahead_ms = [-3_600_000, -61_000, 0, 61_000, 3_600_000][self.random.below(5)];
        }
    }

    fn act(&mut self, client: usize) {
        match self.random.below(20) {
            // The client has stopped without leaving, and is started again.
            0 => {
                let Client { life, process_id, .. } = std::mem::take(&mut self.clients[client]);
                self.clients[client] = Client { life: life + 1, process_id, ..Client::default() };
            }
            1 => self.leave(client),
            _ => self.heartbeat(client),
        }
    }

    fn leave(&mut self, client: usize) {
        let known = &mut self.clients[client];
        if known.epoch > 0 && known.asked.is_none() {
            // All tasks are closed before.
            (known.has, known.assigned) = Default::default();
            known.asked = Some((self.rig.send(beat(&known.member_id, -1)), -1));
        }
    }

    fn heartbeat(&mut self, client: usize) {
        let known = &mut self.clients[client];
        if known.asked.is_some() {
            return;
        }
        if known.epoch > 0 && self.random.below(3) > 0 {
            // The client has closed tasks that it was to give up, and opened others.
            known.has = known.assigned.clone();
        }
        let request = known.request(client);
        let epoch = request.member_epoch;
        known.asked = Some((self.rig.send(request), epoch));
    }

    /// The oldest append takes longer than members wait for it.
    fn delay_append(&mut self) {
        if let Some((id, _)) = self.rig.held.front() {
            self.rig.step(Event::Overdue(*id));
        }
    }

    /// The broker is killed; what it was writing is in the log or not.
    fn restart(&mut self) {
        let settled = self.rig.held.is_empty() && !self.rig.coordinator.is_unloaded();
        while !self.rig.held.is_empty() && self.random.below(2) == 0 {
            let (_, payload) = self.rig.held.pop_front().unwrap();
            self.rig.store(payload);
        }
        // Numbers of partitions are not in the log.
        let stored = |rig: &Rig| {
            let group = rig.coordinator.describe_streams(GROUP);
            group.map(|group| DescribedStreamsGroup { topology: None, ..group })
        };
        let before = stored(&self.rig);
        self.rig.restart();
        self.tell_topics();
        if settled {
            assert_eq!(stored(&self.rig), before, "the log says it all");
        }
        self.reached.restarts += 1;
        self.asked.clear();
        self.is_forgotten = true;
        for client in &mut self.clients {
            if client.asked.take().is_some() {
                client.reported = None;
            }
        }
    }

    /// The log fails with the oldest append, and the broker is restarted.
    fn lose(&mut self) {
        let is_stored = self.random.below(2) == 0;
        if self.rig.lose_appends(is_stored) {
            assert!(self.rig.coordinator.describe_streams(GROUP).is_err(), "nothing is shown");
            self.reached.losses += 1;
            self.restart();
        }
    }

    /// Clients read what has been answered.
    fn listen(&mut self) {
        for client in 0..self.clients.len() {
            let Some((ticket, epoch)) = self.clients[client].asked else { continue };
            let Some(outcome) = self.rig.answer::<StreamsHeartbeatRequest>(ticket) else { continue };
            self.clients[client].asked = None;
            if outcome.is_err() {
                self.clients[client].reported = None;
            }
            match outcome {
                Ok(_) if self.random.below(12) == 0 && !self.is_quiet => {
                    self.clients[client].reported = None;
                    self.reached.lost_answers += 1;
                }
                Ok(_) if epoch < 0 => {
                    self.clients[client].epoch = 0;
                    self.clients[client].life += u32::from(self.random.below(2) == 0);
                }
                Ok(heard) => self.hear(client, heard),
                Err(
                    GroupError::FencedMemberEpoch(_)
                    | GroupError::UnknownMemberId
                    | GroupError::GroupIdNotFound,
                ) => {
                    self.reached.fenced += 1;
                    let known = &mut self.clients[client];
                    known.epoch = 0;
                    (known.has, known.assigned) = Default::default();
                }
                // Tasks of removed partitions.
                Err(GroupError::InvalidRequest(_)) => {}
                Err(
                    GroupError::CoordinatorNotAvailable
                    | GroupError::NotCoordinator
                    | GroupError::UnknownServerError,
                ) => {}
                Err(error) => panic!("{error:?}"),
            }
        }
        let waiting = &self.rig.waiting;
        let (_, answered): (BTreeSet<_>, BTreeSet<_>) =
            self.asked.iter().copied().partition(|ticket| waiting.contains(ticket));
        for ticket in answered {
            self.asked.remove(&ticket);
            self.rig.forget_answer(ticket);
        }
    }

    fn hear(&mut self, client: usize, heard: StreamsBeat) {
        let known = &mut self.clients[client];
        assert_eq!(heard.member_id, known.member_id);
        assert!(heard.member_epoch >= known.epoch, "{} < {}", heard.member_epoch, known.epoch);
        known.epoch = heard.member_epoch;
        let Some(assigned) = heard.assigned else { return };
        self.reached.taken += numbers(&assigned.active).count();
        self.reached.standby += numbers(&assigned.standby).count();
        known.assigned = assigned;
    }

    fn check(&mut self) {
        let Ok(group) = self.rig.coordinator.describe_streams(GROUP) else {
            (self.group_epoch, self.is_forgotten) = (0, false);
            return;
        };
        let (epoch, before) = (group.epoch, self.group_epoch);
        assert!(self.is_forgotten || epoch >= before, "{epoch} < {before}");
        self.is_forgotten = !self.asked.is_empty();
        self.group_epoch = epoch;
        assert!(group.target_epoch <= epoch);
        assert_eq!(group.state == "Empty", group.members.is_empty());
        once(group.members.iter().map(|member| (member.metadata.process_id.as_str(), &member.assigned)));
        // Clients that are members run each task once.
        let is_member = |client: &&Client| {
            client.epoch > 0 && group.members.iter().any(|member| member.member_id == client.member_id)
        };
        let clients = self.clients.iter().filter(is_member);
        once(clients.map(|client| (client.process_id.as_str(), &client.has)));
    }

    /// Left alone, every task has one member, and then nothing is written any more.
    fn converge(&mut self) {
        self.repair_topics();
        self.tell_topics();
        self.rig.hold_appends = false;
        self.rig.finish_appends();
        self.listen();
        let mut written = 0;
        for round in 0..40 {
            self.is_quiet = round >= 15;
            written = self.rig.log.len();
            self.rig.pass(4_000);
            for client in 0..self.clients.len() {
                self.clients[client].has = self.clients[client].assigned.clone();
                self.listen();
                let known = &mut self.clients[client];
                let request = known.request(client);
                let epoch = request.member_epoch;
                known.asked = Some((self.rig.send(request), epoch));
                self.listen();
                self.check();
            }
        }
        assert_eq!(self.rig.log.len(), written, "nothing changes any more");
        let group = self.rig.coordinator.describe_streams(GROUP).unwrap();
        assert_eq!((group.state, group.epoch), ("Stable", group.target_epoch));
        let active: BTreeSet<i32> =
            group.members.iter().flat_map(|member| numbers(&member.assigned.active)).collect();
        assert_eq!(active, (0..self.catalogue["t"]).collect(), "every task has a member");
        for client in &self.clients {
            let member = group.members.iter().find(|member| member.member_id == client.member_id);
            assert_eq!(Some(&client.assigned), member.map(|member| &member.assigned), "as it was told");
        }
    }

    /// All members fall silent: after a while no member is left and no request waits.
    fn come_to_rest(&mut self) {
        self.rig.pass(200_000);
        self.listen();
        assert!(self.rig.waiting.is_empty(), "{:?} never got an answer", self.rig.waiting);
        let state = self.rig.coordinator.describe_streams(GROUP).map(|group| group.state);
        // A group without offsets expires.
        assert!(matches!(state, Ok("Empty") | Err(GroupError::GroupIdNotFound)), "{state:?}");
    }
}

/// Each task is active at most once, and no process has a task twice.
fn once<'a>(held: impl Iterator<Item = (&'a str, &'a TaskSets)>) {
    let (mut active, mut by_process) = (BTreeSet::new(), BTreeSet::new());
    for (process_id, tasks) in held {
        for task in numbers(&tasks.active) {
            assert!(active.insert(task), "task {task} is active twice");
            assert!(by_process.insert((process_id, task)), "{process_id} has task {task} twice");
        }
        for task in numbers(&tasks.standby) {
            assert!(by_process.insert((process_id, task)), "{process_id} has task {task} twice");
        }
    }
}

fn numbers(tasks: &Tasks) -> impl Iterator<Item = i32> + '_ {
    tasks.values().flatten().copied()
}
