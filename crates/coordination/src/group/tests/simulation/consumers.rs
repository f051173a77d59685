//! Random lives of consumer groups: members come, leave, crash, fall silent, are slow to give up;
//! topics come, go and grow; appends are slow or fail; the broker is killed and starts again from
//! its log.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use levada_testing::{least, scaled, seeds};

use super::{PrintedOnPanic, Random};
use crate::group::consumer::tests::{Catalogue, beat, enter, id_of};
use crate::group::error::GroupError;
use crate::group::event::{Event, Ticket};
use crate::group::records::Partitions;
use crate::group::request::{ConsumerHeartbeatRequest, DeleteRequest};
use crate::group::tests::rig::{GROUP, Rig, config};
use crate::machine::PersistFailure;

const SEEDS: u64 = 40;
const STEPS: usize = 400;
const TOPICS: [&str; 3] = ["t", "u", "v"];

#[test]
fn consumer_group_invariants_hold_in_random_histories() {
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
    let Reached { moved, fenced, restarts, returns, failures, losses } = reached;
    for (what, count, minimum) in [
        ("partitions that moved", moved, 600),
        ("fenced members", fenced, 20),
        ("restarts", restarts, 100),
        ("static members that returned", returns, 20),
        ("failed appends", failures, 15),
        ("lost logs", losses, 8),
    ] {
        assert!(count >= least(minimum), "only {count} {what}");
    }
}

#[derive(Default)]
struct Reached {
    moved: usize,
    fenced: usize,
    restarts: usize,
    returns: usize,
    failures: usize,
    losses: usize,
}

impl Reached {
    fn add(&mut self, other: &Self) {
        self.moved += other.moved;
        self.fenced += other.fenced;
        self.restarts += other.restarts;
        self.returns += other.returns;
        self.failures += other.failures;
        self.losses += other.losses;
    }
}

/// A consumer as the group sees it from outside.
#[derive(Default)]
struct Client {
    instance: Option<&'static str>,
    life: u32,
    member_id: String,
    epoch: i32,
    /// Partitions that it reads from now.
    owned: Partitions,
    /// Partitions assigned to it; it takes time to get there.
    told: Option<Partitions>,
    asked: Option<(Ticket, i32)>,
    heard_ms: i64,
    /// True if a response was lost: the next heartbeat has all fields and expects a full response.
    unsure: bool,
}

impl Client {
    /// The client revokes partitions first, and only then takes new ones.
    fn obey(&mut self) -> usize {
        let Some(told) = self.told.take() else { return 0 };
        let moved = told
            .iter()
            .map(|(topic, new)| new.difference(self.owned.get(topic).unwrap_or(&BTreeSet::new())).count());
        let moved = moved.sum();
        self.owned = told;
        moved
    }

    fn lose_everything(&mut self) {
        (self.owned, self.told, self.epoch) = (Partitions::new(), None, 0);
    }
}

struct World {
    rig: Rig,
    random: Random,
    clients: Vec<Client>,
    catalogue: BTreeMap<String, i32>,
    deletions: BTreeSet<Ticket>,
    group_epoch: i32,
    reached: Reached,
}

impl World {
    fn new(seed: u64) -> Self {
        let clients = [None, None, None, None, Some("i"), Some("j")]
            .map(|instance| Client { instance, ..Client::default() });
        let mut random = Random(seed);
        let mut settings = config();
        settings.consumer.assignment_interval_ms = [0, 1_000, 4_000][random.below(3)];
        let mut world = Self {
            rig: Rig::new(settings),
            random,
            clients: clients.into(),
            catalogue: [("t".to_owned(), 5), ("u".to_owned(), 3)].into(),
            deletions: BTreeSet::new(),
            group_epoch: 0,
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
            0..70 => {
                let client = self.random.below(self.clients.len());
                self.act(client);
            }
            70..78 => self.pass(),
            78..87 => {
                self.rig.finish_append(None);
            }
            87..90 => {
                self.rig.finish_work();
            }
            90..92 => {
                let failures = [Some(PersistFailure::Unavailable), Some(PersistFailure::TooLarge), None];
                match failures[self.random.below(3)] {
                    Some(failure) => {
                        self.reached.failures += usize::from(self.rig.finish_append(Some(failure)));
                    }
                    None => self.lose(),
                }
            }
            92..95 => self.change_topics(),
            95 => {
                let ticket = self.rig.send(DeleteRequest { group_ids: vec![GROUP.into()] });
                self.deletions.insert(ticket);
            }
            96 => self.rig.hold_appends = !self.rig.hold_appends,
            97 => self.rig.hold_works = !self.rig.hold_works,
            _ => self.restart(),
        }
        self.listen();
    }

    fn change_topics(&mut self) {
        let name = TOPICS[self.random.below(3)];
        match self.random.below(4) {
            0 => {
                self.catalogue.remove(name);
            }
            _ => *self.catalogue.entry(name.to_owned()).or_default() += 1,
        }
        self.tell_topics();
    }

    fn pass(&mut self) {
        let ms = [1, 500, 3_000, 10_000, 30_000, 50_000][self.random.below(6)];
        if self.random.below(5) > 0 {
            for client in 0..self.clients.len() {
                self.heartbeat(client);
            }
            self.listen();
        }
        self.rig.pass(ms);
        // An operator sets the clock, back or forth.
        if self.random.below(10) == 0 {
            self.rig.ahead_ms = [-3_600_000, -61_000, 0, 61_000, 3_600_000][self.random.below(5)];
        }
        // Consumers that hear nothing for too long stop by themselves.
        for client in &mut self.clients {
            if self.rig.now_ms - client.heard_ms >= 44_000 {
                client.lose_everything();
            }
        }
    }

    fn act(&mut self, client: usize) {
        match self.random.below(20) {
            // The client has stopped without leaving, and is started again.
            0 => self.die(client),
            1 => self.leave(client),
            2..8 => self.reached.moved += self.clients[client].obey(),
            _ => self.heartbeat(client),
        }
    }

    fn die(&mut self, client: usize) {
        let Client { instance, life, .. } = self.clients[client];
        self.clients[client] = Client { instance, life: life + 1, ..Client::default() };
    }

    fn leave(&mut self, client: usize) {
        let known = &mut self.clients[client];
        if known.epoch > 0 && known.asked.is_none() {
            let for_a_while = known.instance.is_some() && self.random.below(3) > 0;
            known.lose_everything();
            let epoch = if for_a_while { -2 } else { -1 };
            let instance_id = known.instance.map(Into::into);
            let request = ConsumerHeartbeatRequest { instance_id, ..beat(&known.member_id, epoch) };
            known.asked = Some((self.rig.send(request), epoch));
        }
    }

    fn heartbeat(&mut self, client: usize) {
        let known = &mut self.clients[client];
        if known.asked.is_some() {
            return;
        }
        let topics: Vec<&str> = TOPICS.into_iter().filter(|_| self.random.below(3) > 0).collect();
        let mut request = if known.epoch == 0 {
            known.member_id = format!("m{client}-{}", known.life);
            enter(&known.member_id, &topics)
        } else {
            // The client reports its partitions once it has its target; before, they could change.
            let says = known.told.is_none() && self.random.below(4) > 0;
            let owned = says.then(|| known.owned.clone());
            ConsumerHeartbeatRequest { owned, ..beat(&known.member_id, known.epoch) }
        };
        if known.unsure {
            known.told = None;
            request.rebalance_timeout_ms = 60_000;
            request.topics = Some(topics.iter().map(|&topic| topic.into()).collect());
            request.owned = Some(known.owned.clone());
        }
        match self.random.below(30) {
            0 => request.topics = Some(topics.into_iter().map(Into::into).collect()),
            1 => request.regex = Some(["t|v", "u", "", ".*"][self.random.below(4)].into()),
            2 => request.assignor = Some(["uniform", "range"][self.random.below(2)].into()),
            _ => {}
        }
        request.instance_id = known.instance.map(Into::into);
        let epoch = request.member_epoch;
        known.asked = Some((self.rig.send(request), epoch));
    }

    /// Kills and restarts the broker. Its writes in progress may or may not be in the log
    /// afterwards.
    fn restart(&mut self) {
        let settled = self.rig.held.is_empty() && !self.rig.coordinator.is_unloaded();
        while !self.rig.held.is_empty() && self.random.below(2) == 0 {
            let (_, payload) = self.rig.held.pop_front().unwrap();
            self.rig.store(payload);
        }
        let before = self.rig.coordinator.describe_consumer(GROUP);
        self.rig.restart();
        self.tell_topics();
        if settled {
            assert_eq!(self.rig.coordinator.describe_consumer(GROUP), before, "the log says it all");
        }
        self.reached.restarts += 1;
        self.deletions.clear();
        for client in &mut self.clients {
            client.unsure |= client.asked.take().is_some();
        }
    }

    /// The log fails with the oldest append, and the broker is restarted.
    fn lose(&mut self) {
        let is_stored = self.random.below(2) == 0;
        if self.rig.lose_appends(is_stored) {
            let shown = self.rig.coordinator.describe_consumer(GROUP);
            assert!(shown.is_err(), "nothing is shown that the log may not have: {shown:?}");
            self.reached.losses += 1;
            self.restart();
        }
    }

    /// Clients read what has been answered.
    fn listen(&mut self) {
        for client in 0..self.clients.len() {
            let Some((ticket, epoch)) = self.clients[client].asked else { continue };
            let Some(outcome) = self.rig.answer::<ConsumerHeartbeatRequest>(ticket) else { continue };
            let known = &mut self.clients[client];
            known.asked = None;
            match outcome {
                Ok(_) if epoch < 0 => known.life += u32::from(self.random.below(2) == 0),
                Ok(heard) => {
                    assert_eq!(heard.member_id, known.member_id);
                    assert!(heard.member_epoch >= known.epoch, "{} < {}", heard.member_epoch, known.epoch);
                    self.reached.returns +=
                        usize::from(epoch == 0 && known.instance.is_some() && known.life > 0);
                    known.epoch = heard.member_epoch;
                    known.heard_ms = self.rig.now_ms;
                    known.unsure = false;
                    known.told = heard.assigned.or(known.told.take());
                }
                Err(
                    GroupError::FencedMemberEpoch(_)
                    | GroupError::UnknownMemberId
                    | GroupError::GroupIdNotFound,
                ) => {
                    self.reached.fenced += 1;
                    known.lose_everything();
                }
                Err(GroupError::FencedInstanceId) => {
                    known.lose_everything();
                    known.life += 1;
                }
                Err(
                    GroupError::UnreleasedInstanceId
                    | GroupError::CoordinatorNotAvailable
                    | GroupError::NotCoordinator
                    | GroupError::UnknownServerError,
                ) => {}
                Err(error) => panic!("{error:?}"),
            }
        }
        let answered: Vec<Ticket> =
            self.deletions.iter().copied().filter(|ticket| !self.rig.waiting.contains(ticket)).collect();
        for ticket in answered {
            self.deletions.remove(&ticket);
            if self.rig.answer::<DeleteRequest>(ticket).unwrap()[0].1.is_none() {
                self.group_epoch = 0;
            }
        }
    }

    fn check(&mut self) {
        let Ok(group) = self.rig.coordinator.describe_consumer(GROUP) else {
            self.group_epoch = 0;
            return;
        };
        // A deletion without a response may have taken effect.
        if self.deletions.is_empty() && self.reached.restarts == 0 {
            assert!(group.epoch >= self.group_epoch, "{} < {}", group.epoch, self.group_epoch);
        }
        self.group_epoch = group.epoch;
        assert!(group.target_epoch <= group.epoch);
        let (mut assigned, mut read) = (BTreeMap::new(), BTreeMap::new());
        for member in &group.members {
            for partition in pairs(&member.assigned) {
                let other = assigned.insert(partition, &member.member_id);
                assert_eq!(other, None, "{partition:?} is given to two members");
            }
            let client = self.clients.iter().find(|client| client.member_id == member.member_id);
            for partition in client.into_iter().flat_map(|client| pairs(&client.owned)) {
                let other = read.insert(partition, &member.member_id);
                assert_eq!(other, None, "{partition:?} is read by two members");
            }
        }
    }

    /// Without further faults, each member gets its target assignment, and each partition has an
    /// owner.
    fn converge(&mut self) {
        (self.rig.hold_appends, self.rig.hold_works) = (false, false);
        while self.rig.finish_work() {}
        self.rig.finish_appends();
        self.listen();
        for _ in 0..30 {
            self.rig.pass(4_000);
            for client in 0..self.clients.len() {
                self.clients[client].obey();
                let known = &self.clients[client];
                let request = if known.epoch == 0 {
                    self.clients[client].member_id = format!("m{client}-{}", known.life);
                    enter(&self.clients[client].member_id, &TOPICS)
                } else {
                    ConsumerHeartbeatRequest {
                        rebalance_timeout_ms: 60_000,
                        topics: Some(TOPICS.map(Into::into).into()),
                        owned: Some(known.owned.clone()),
                        ..beat(&known.member_id, known.epoch)
                    }
                };
                let instance_id = self.clients[client].instance.map(Into::into);
                let epoch = request.member_epoch;
                let ticket = self.rig.send(ConsumerHeartbeatRequest { instance_id, ..request });
                self.clients[client].asked = Some((ticket, epoch));
                self.listen();
                self.check();
            }
        }
        let group = self.rig.coordinator.describe_consumer(GROUP).unwrap();
        assert_eq!(group.state, "Stable", "{group:?}");
        for member in &group.members {
            assert_eq!(member.assigned, member.target);
            let client = self.clients.iter().find(|client| client.member_id == member.member_id);
            assert_eq!(client.map(|client| &client.owned), Some(&member.target), "{}", member.member_id);
        }
        let named: BTreeSet<&String> = group.members.iter().flat_map(|member| &member.topics).collect();
        for (name, count) in self.catalogue.iter().filter(|(name, _)| named.contains(name)) {
            let given = group.members.iter().filter_map(|member| member.target.get(&id_of(name)));
            let given: usize = given.map(BTreeSet::len).sum();
            assert_eq!(given, usize::try_from(*count).unwrap(), "{name}");
        }
    }

    /// All members fall silent: after a while no member is left and no request waits.
    fn come_to_rest(&mut self) {
        self.rig.pass(200_000);
        self.listen();
        assert!(self.rig.waiting.is_empty(), "{:?} never got an answer", self.rig.waiting);
        // A group of which nothing is left may have expired.
        let state = self.rig.coordinator.describe_consumer(GROUP).map(|group| group.state);
        assert!(matches!(state, Ok("Empty") | Err(GroupError::GroupIdNotFound)), "{state:?}");
    }
}

fn pairs(partitions: &Partitions) -> impl Iterator<Item = (levada_wire::Uuid, i32)> + '_ {
    partitions.iter().flat_map(|(topic, held)| held.iter().map(|index| (*topic, *index)))
}
