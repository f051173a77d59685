//! Random lives of share groups: members come, leave, crash and fall silent; topics come, go and
//! grow; administrators delete the group and its offsets and set others; the share coordinator is
//! slow or refuses; appends are slow or fail; the broker is killed and starts again from its log.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use levada_testing::{least, scaled, seeds};
use levada_wire::{ErrorCode, Uuid};

use super::{PrintedOnPanic, Random};
use crate::group::consumer::tests::{Catalogue, id_of};
use crate::group::coordinator::{RefusedPartitions, ShareStateChange, ShareStateWork};
use crate::group::error::GroupError;
use crate::group::event::{Event, Ticket};
use crate::group::records::Partitions;
use crate::group::request::{
    AlterShareOffsetsRequest, DeleteRequest, DeleteShareOffsetsRequest, ShareHeartbeatRequest,
    StartOffsetTopic,
};
use crate::group::share::tests::{beat, enter, share_config};
use crate::group::tests::rig::{GROUP, Rig};
use crate::group::topics::GoneTopic;
use crate::machine::PersistFailure;

const SEEDS: u64 = 40;
const STEPS: usize = 400;
const TOPICS: [&str; 3] = ["t", "u", "v"];

#[test]
fn share_group_invariants_hold_in_random_histories() {
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
    let Reached { given, fenced, restarts, failures, losses, refusals, deletions } = reached;
    for (what, count, minimum) in [
        ("partitions that members got", given, 600),
        ("fenced members", fenced, 20),
        ("restarts", restarts, 100),
        ("failed appends", failures, 15),
        ("lost logs", losses, 8),
        ("works that were refused", refusals, 20),
        ("deletions of the group", deletions, 8),
    ] {
        println!("{count} {what}");
        assert!(count >= least(minimum), "only {count} {what}");
    }
}

#[derive(Default)]
struct Reached {
    given: usize,
    fenced: usize,
    restarts: usize,
    failures: usize,
    losses: usize,
    refusals: usize,
    deletions: usize,
}

impl Reached {
    fn add(&mut self, other: &Self) {
        self.given += other.given;
        self.fenced += other.fenced;
        self.restarts += other.restarts;
        self.failures += other.failures;
        self.losses += other.losses;
        self.refusals += other.refusals;
        self.deletions += other.deletions;
    }
}

/// A consumer as the group sees it from outside.
#[derive(Default)]
struct Client {
    life: u32,
    member_id: String,
    epoch: i32,
    asked: Option<(Ticket, i32)>,
}

struct World {
    rig: Rig,
    random: Random,
    clients: Vec<Client>,
    catalogue: BTreeMap<String, i32>,
    /// Topics that were deleted. None comes back, because it would have the same id here.
    gone: BTreeSet<String>,
    /// Partitions with state at the share coordinator.
    states: BTreeSet<(Uuid, i32)>,
    /// Requests of administrators.
    asked: BTreeSet<Ticket>,
    group_epoch: i32,
    /// True if the group may have been deleted since its epoch was read.
    is_forgotten: bool,
    reached: Reached,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut random = Random(seed);
        let mut settings = share_config();
        settings.share.assignment_interval_ms = [0, 1_000, 4_000][random.below(3)];
        let mut rig = Rig::new(settings);
        rig.hold_share_works = true;
        let mut world = Self {
            rig,
            random,
            clients: (0..5).map(|_| Client::default()).collect(),
            catalogue: [("t".to_owned(), 5), ("u".to_owned(), 3)].into(),
            gone: BTreeSet::new(),
            states: BTreeSet::new(),
            asked: BTreeSet::new(),
            group_epoch: 0,
            is_forgotten: false,
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
            0..60 => {
                let client = self.random.below(self.clients.len());
                self.act(client);
            }
            60..66 => self.pass(),
            66..78 => self.work(),
            78..88 => {
                self.rig.finish_append(None);
            }
            88..90 => {
                let failures = [Some(PersistFailure::Unavailable), Some(PersistFailure::TooLarge), None];
                match failures[self.random.below(3)] {
                    Some(failure) => {
                        self.reached.failures += usize::from(self.rig.finish_append(Some(failure)));
                    }
                    None => self.lose(),
                }
            }
            90..92 => self.change_topics(),
            92..96 => self.administer(),
            96..98 => self.rig.hold_appends = !self.rig.hold_appends,
            _ => self.restart(),
        }
        self.listen();
    }

    /// The share coordinator does the oldest work, or refuses it.
    fn work(&mut self) {
        let Some(work) = self.rig.share_works.front().cloned() else { return };
        let result = match self.random.below(4) {
            0 => {
                self.reached.refusals += 1;
                Err(ErrorCode::CoordinatorNotAvailable)
            }
            _ => {
                self.perform(&work);
                Ok(RefusedPartitions::new())
            }
        };
        self.rig.finish_share_work(result);
    }

    fn perform(&mut self, work: &ShareStateWork) {
        match &work.change {
            ShareStateChange::Initialize { offsets, .. } => {
                let all = offsets.iter().flat_map(|(id, of)| of.keys().map(|index| (*id, *index)));
                self.states.extend(all);
            }
            ShareStateChange::Delete { partitions } => {
                let deleted: BTreeSet<_> = pairs(partitions).collect();
                self.states.retain(|partition| !deleted.contains(partition));
            }
        }
    }

    fn administer(&mut self) {
        if self.random.below(2) == 0 {
            self.rig.pass(46_000);
        }
        let name = TOPICS[self.random.below(3)];
        let ticket = match self.random.below(5) {
            0..3 => {
                self.is_forgotten = true;
                self.rig.send(DeleteRequest { group_ids: vec!["other".into(), GROUP.into()] })
            }
            3 => {
                let topics = vec![name.into(), "gone".into()];
                self.rig.send(DeleteShareOffsetsRequest { group_id: GROUP.into(), topics })
            }
            _ => {
                let topic = StartOffsetTopic { name: name.into(), partitions: vec![(0, 5), (2, 7)] };
                self.rig.send(AlterShareOffsetsRequest { group_id: GROUP.into(), topics: vec![topic] })
            }
        };
        self.asked.insert(ticket);
    }

    fn change_topics(&mut self) {
        let name = TOPICS[self.random.below(3)];
        if self.gone.contains(name) {
            return;
        }
        if self.random.below(4) > 0 {
            *self.catalogue.entry(name.to_owned()).or_default() += 1;
            return self.tell_topics();
        }
        let Some(count) = self.catalogue.remove(name) else { return };
        self.gone.insert(name.to_owned());
        self.tell_topics();
        let gone = GoneTopic { name: name.into(), topic_id: id_of(name), partitions: (0..count).collect() };
        self.rig.step(Event::TopicsDeleted(vec![gone]));
        self.states.retain(|(id, _)| *id != id_of(name));
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
    }

    fn act(&mut self, client: usize) {
        match self.random.below(20) {
            // The client has stopped without leaving, and is started again.
            0 => self.die(client),
            1 => self.leave(client),
            _ => self.heartbeat(client),
        }
    }

    fn die(&mut self, client: usize) {
        let life = self.clients[client].life + 1;
        self.clients[client] = Client { life, ..Client::default() };
    }

    fn leave(&mut self, client: usize) {
        let known = &mut self.clients[client];
        if known.epoch > 0 && known.asked.is_none() {
            known.asked = Some((self.rig.send(beat(&known.member_id, -1)), -1));
        }
    }

    fn heartbeat(&mut self, client: usize) {
        let known = &mut self.clients[client];
        if known.asked.is_some() {
            return;
        }
        let mut topics: Vec<&str> = TOPICS.into_iter().filter(|_| self.random.below(3) > 0).collect();
        topics.push("gone");
        let request = if known.epoch == 0 {
            known.member_id = format!("m{client}-{}", known.life);
            enter(&known.member_id, &topics)
        } else {
            let says = self.random.below(15) == 0;
            let topics = says.then(|| topics.iter().map(|&topic| topic.into()).collect());
            ShareHeartbeatRequest { topics, ..beat(&known.member_id, known.epoch) }
        };
        let epoch = request.member_epoch;
        known.asked = Some((self.rig.send(request), epoch));
    }

    /// The broker is killed; what it was writing is in the log or not, and works are done or not.
    fn restart(&mut self) {
        let settled = self.rig.held.is_empty() && !self.rig.coordinator.is_unloaded();
        while !self.rig.held.is_empty() && self.random.below(2) == 0 {
            let (_, payload) = self.rig.held.pop_front().unwrap();
            self.rig.store(payload);
        }
        while self.random.below(2) == 0
            && let Some(work) = self.rig.share_works.pop_front()
        {
            self.perform(&work);
        }
        let before = self.rig.coordinator.describe_share(GROUP);
        let initialized = self.rig.coordinator.initialized_share_partitions(GROUP);
        self.rig.restart();
        self.tell_topics();
        if settled {
            assert_eq!(self.rig.coordinator.describe_share(GROUP), before, "the log says it all");
            assert_eq!(self.rig.coordinator.initialized_share_partitions(GROUP), initialized);
        }
        self.reached.restarts += 1;
        self.asked.clear();
        self.is_forgotten = true;
        for client in &mut self.clients {
            client.asked = None;
        }
    }

    /// The log fails with the oldest append, and the broker is restarted.
    fn lose(&mut self) {
        let is_stored = self.random.below(2) == 0;
        if self.rig.lose_appends(is_stored) {
            assert!(self.rig.coordinator.describe_share(GROUP).is_err(), "nothing is shown");
            self.reached.losses += 1;
            self.restart();
        }
    }

    /// Clients read what has been answered.
    fn listen(&mut self) {
        for client in 0..self.clients.len() {
            let Some((ticket, epoch)) = self.clients[client].asked else { continue };
            let Some(outcome) = self.rig.answer::<ShareHeartbeatRequest>(ticket) else { continue };
            let known = &mut self.clients[client];
            known.asked = None;
            match outcome {
                Ok(_) if epoch < 0 => {
                    known.epoch = 0;
                    known.life += u32::from(self.random.below(2) == 0);
                }
                Ok(heard) => {
                    assert_eq!(heard.member_id, known.member_id);
                    assert!(heard.member_epoch >= known.epoch, "{} < {}", heard.member_epoch, known.epoch);
                    known.epoch = heard.member_epoch;
                    self.reached.given += heard.assigned.iter().flat_map(pairs).count();
                }
                Err(
                    GroupError::FencedMemberEpoch(_)
                    | GroupError::UnknownMemberId
                    | GroupError::GroupIdNotFound,
                ) => {
                    self.reached.fenced += 1;
                    known.epoch = 0;
                }
                Err(
                    GroupError::CoordinatorNotAvailable
                    | GroupError::NotCoordinator
                    | GroupError::UnknownServerError,
                ) => {}
                Err(error) => panic!("{error:?}"),
            }
        }
        let answered: Vec<Ticket> =
            self.asked.iter().copied().filter(|ticket| !self.rig.waiting.contains(ticket)).collect();
        for ticket in answered {
            self.asked.remove(&ticket);
            self.reached.deletions += usize::from(self.rig.forget_answer(ticket));
        }
    }

    fn check(&mut self) {
        let Ok(group) = self.rig.coordinator.describe_share(GROUP) else {
            (self.group_epoch, self.is_forgotten) = (0, false);
            return;
        };
        assert!(
            self.is_forgotten || group.epoch >= self.group_epoch,
            "{} < {}",
            group.epoch,
            self.group_epoch
        );
        self.is_forgotten = !self.asked.is_empty();
        self.group_epoch = group.epoch;
        assert!(group.target_epoch <= group.epoch);
        assert_eq!(group.state == "Empty", group.members.is_empty());
        let existing: BTreeSet<Uuid> = self.catalogue.keys().map(|name| id_of(name)).collect();
        let assigned = group.members.iter().flat_map(|member| pairs(&member.assigned));
        for partition in assigned.filter(|(id, _)| existing.contains(id)) {
            assert!(self.states.contains(&partition), "{partition:?} is assigned and has no state");
        }
    }

    /// Left alone, all members get a share of everything, and then nothing is written any more.
    fn converge(&mut self) {
        self.rig.hold_appends = false;
        self.rig.finish_appends();
        self.listen();
        let mut written = 0;
        for _ in 0..30 {
            written = self.rig.log.len();
            self.rig.pass(4_000);
            for client in 0..self.clients.len() {
                while let Some(work) = self.rig.share_works.front().cloned() {
                    self.perform(&work);
                    self.rig.finish_share_work(Ok(RefusedPartitions::new()));
                }
                self.listen();
                let known = &self.clients[client];
                let request = if known.epoch == 0 {
                    self.clients[client].member_id = format!("m{client}-{}", known.life);
                    enter(&self.clients[client].member_id, &TOPICS)
                } else {
                    let topics = Some(TOPICS.map(Into::into).into());
                    ShareHeartbeatRequest { topics, ..beat(&known.member_id, known.epoch) }
                };
                let epoch = request.member_epoch;
                self.clients[client].asked = Some((self.rig.send(request), epoch));
                self.listen();
                self.check();
            }
        }
        assert_eq!(self.rig.log.len(), written, "nothing changes any more");
        let group = self.rig.coordinator.describe_share(GROUP).unwrap();
        assert_eq!((group.state, group.epoch), ("Stable", group.target_epoch));
        let mut sharing: BTreeMap<(Uuid, i32), usize> = BTreeMap::new();
        for partition in group.members.iter().flat_map(|member| pairs(&member.assigned)) {
            *sharing.entry(partition).or_default() += 1;
        }
        let all: BTreeSet<(Uuid, i32)> = self
            .catalogue
            .iter()
            .flat_map(|(name, count)| (0..*count).map(|index| (id_of(name), index)))
            .collect();
        let shared: BTreeSet<(Uuid, i32)> = sharing.keys().copied().collect();
        assert_eq!(shared, all, "every partition has a member, and no other has");
        if !all.is_empty() {
            let most = group.members.len().div_ceil(all.len());
            assert!(sharing.values().all(|count| *count <= most), "{sharing:?}");
        }
    }

    /// All members fall silent: after a while no member is left and no request waits.
    fn come_to_rest(&mut self) {
        self.rig.pass(200_000);
        self.listen();
        assert!(self.rig.waiting.is_empty(), "{:?} never got an answer", self.rig.waiting);
        let state = self.rig.coordinator.describe_share(GROUP).map(|group| group.state);
        assert_eq!(state, Ok("Empty"));
    }
}

fn pairs(partitions: &Partitions) -> impl Iterator<Item = (Uuid, i32)> + '_ {
    partitions.iter().flat_map(|(topic, held)| held.iter().map(|index| (*topic, *index)))
}
