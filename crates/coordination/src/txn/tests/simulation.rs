//! Several producers, clocks, failures, restarts and elections in an order drawn from a seed; what
//! must hold in all of them. With an election the log may lose its tail that is not committed, and
//! a write whose requests were answered long ago may be committed after all.
//!
//! Soak: seed random, repeated

use std::collections::{BTreeMap, BTreeSet};

use levada_testing::{least, scaled, seeds};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::machine::PersistFailure;
use crate::txn::config::TxnConfig;
use crate::txn::error::TxnError;
use crate::txn::event::{MarkerResult, Ticket, TopicPartition};
use crate::txn::records::Record;
use crate::txn::request::{AddRequest, EndRequest, InitRequest, ProducerIdentity, Protocol};
use crate::txn::transaction::TxnState;

use super::rig::{Rig, at, init};

const IDS: [&str; 3] = ["a", "b", "c"];
const PARTITIONS: [&str; 4] = ["t-0", "t-1", "u-0", "__consumer_offsets-3"];
/// A topic that is deleted by the time its marker is to be written, and its partition.
const GONE: (&str, &str) = ("gone", "gone-0");
const SEEDS: u64 = 300;
const STEPS: usize = 400;

/// A producer as a client library sees itself.
#[derive(Default)]
struct Client {
    owner: Option<ProducerIdentity>,
    init: Option<Ticket>,
    end: Option<(Ticket, (i64, i16), bool)>,
    adds: Vec<Ticket>,
}

struct World {
    rig: Rig,
    rng: StdRng,
    /// Two processes for each id: one will fence the other.
    clients: BTreeMap<(usize, usize), Client>,
    classic: bool,
    /// Producers that know that their transaction is committed (or aborted).
    told: Vec<((i64, i16), bool)>,
    reached: Reached,
}

/// Counts of the events that have to happen.
#[derive(Default)]
struct Reached {
    records: usize,
    markers: usize,
    /// Number of appends that left the log as it was.
    refused: usize,
    /// Number of appends that took the partition out of use.
    lost: usize,
    /// Number of elections after which the log had writes that no response has reported.
    kept: usize,
    /// Number of elections with which the log lost its tail.
    cut: usize,
    /// Number of markers of coordinators that were not in office any more.
    late: usize,
}

/// Decisions under a producer id and epoch: commit or abort, and the partitions.
type Decided = BTreeMap<(i64, i16), Vec<(bool, BTreeSet<TopicPartition>)>>;

impl World {
    fn new(seed: u64) -> Self {
        let config = TxnConfig { id_expiration_ms: 200_000, ..TxnConfig::default() };
        let mut rig = Rig::new(config);
        (rig.hold_appends, rig.hold_markers, rig.hold_ids) = (true, true, true);
        let clients =
            (0..IDS.len()).flat_map(|id| [((id, 0), Client::default()), ((id, 1), Client::default())]);
        let mut rng = StdRng::seed_from_u64(seed);
        let classic = rng.random_bool(0.5);
        Self { rig, rng, clients: clients.collect(), classic, told: Vec::new(), reached: Reached::default() }
    }

    fn protocol(&self) -> Protocol {
        if self.classic { Protocol::Classic } else { Protocol::EpochBump }
    }

    fn step(&mut self) {
        match self.rng.random_range(0..100) {
            0..45 => self.client(),
            45..65 => {
                let failures = [PersistFailure::Unavailable, PersistFailure::TooLarge];
                match self.rng.random_range(0..100) {
                    0 => {
                        let is_stored = self.rng.random_bool(0.5);
                        self.reached.lost += usize::from(self.rig.lose_appends(is_stored));
                    }
                    1..16 => {
                        let failure = failures[self.rng.random_range(0..failures.len())];
                        self.reached.refused += usize::from(self.rig.finish_append(Some(failure)));
                    }
                    _ => {
                        self.rig.finish_append(None);
                    }
                }
            }
            65..83 => {
                let failing = if self.rng.random_bool(0.3) { self.rng.random_range(0..2) } else { -1 };
                let fenced = if self.rng.random_bool(0.01) { 1 } else { -1 };
                let result = |partition: &TopicPartition| match partition.partition {
                    _ if partition.topic == GONE.0 => MarkerResult::Gone,
                    index if index == fenced => MarkerResult::Fenced,
                    index if index == failing => MarkerResult::Failed,
                    _ => MarkerResult::Written,
                };
                self.rig.finish_markers(result);
            }
            83..88 => {
                let fails = self.rng.random_bool(0.2);
                self.rig.finish_id(fails.then_some(TxnError::CoordinatorLoadInProgress));
            }
            88..98 => {
                let ms = self.rng.random_range(1..4_000);
                self.rig.pass(ms);
                // An operator sets the clock, back or forth.
                if self.rng.random_bool(0.1) {
                    self.rig.ahead_ms = self.rng.random_range(-900_000..900_000);
                }
            }
            98 => {
                self.rig.restart();
                for client in self.clients.values_mut() {
                    (client.init, client.end) = (None, None);
                    client.adds.clear();
                }
            }
            _ => self.change_office(),
        }
        if self.rng.random_bool(0.1) {
            self.reached.late += usize::from(self.rig.deliver_late_markers());
        }
        self.hear();
    }

    /// The leadership goes to another broker, or comes back in another epoch.
    fn change_office(&mut self) {
        let uncommitted = self.rig.held_appends.len();
        let kept = self.rng.random_range(0..=uncommitted);
        self.reached.kept += usize::from(kept > 0);
        self.reached.cut += usize::from(kept < uncommitted);
        self.rig.resign(kept);
        self.hear();
        self.rig.elect();
    }

    /// Processes the responses that have arrived.
    fn hear(&mut self) {
        for client in self.clients.values_mut() {
            if let Some(answer) = client.init.and_then(|ticket| self.rig.answer::<InitRequest>(ticket)) {
                client.init = None;
                client.owner = answer.ok().or(client.owner);
            }
            if let Some((ticket, asked_as, commit)) = client.end
                && let Some(answer) = self.rig.answer::<EndRequest>(ticket)
            {
                client.end = None;
                if let Ok(owner) = answer {
                    client.owner =
                        client.owner.map(|now| if owner == ProducerIdentity::NONE { now } else { owner });
                    self.told.push((asked_as, commit));
                }
            }
            client.adds.retain(|ticket| self.rig.answer::<AddRequest>(*ticket).is_none());
        }
    }

    /// Some client does something, not always something sensible.
    fn client(&mut self) {
        let key = (self.rng.random_range(0..IDS.len()), self.rng.random_range(0..2));
        let transactional_id = IDS[key.0].to_owned();
        let protocol = self.protocol();
        let client = self.clients.get_mut(&key).unwrap();
        let choice = self.rng.random_range(0..10);
        let Some(owner) = client.owner.filter(|_| choice > 0) else {
            if client.init.is_none() {
                let expected = client.owner.filter(|_| self.rng.random_bool(0.5));
                let expected = expected.map(|owner| (owner.producer_id, owner.producer_epoch));
                let timeout_ms = self.rng.random_range(1..30_000);
                let request = InitRequest { timeout_ms, expected, ..init(&transactional_id) };
                client.init = Some(self.rig.send(request));
            }
            return;
        };
        let ProducerIdentity { producer_id, producer_epoch } = owner;
        if choice < 6 {
            let choice = self.rng.random_range(0..=PARTITIONS.len());
            let partitions = vec![at(PARTITIONS.get(choice).unwrap_or(&GONE.1))];
            let request = AddRequest { transactional_id, producer_id, producer_epoch, protocol, partitions };
            client.adds.push(self.rig.send(request));
        } else if client.end.is_none() {
            let commit = self.rng.random_bool(0.6);
            let request = EndRequest { transactional_id, producer_id, producer_epoch, protocol, commit };
            client.end = Some((self.rig.send(request), (producer_id, producer_epoch), commit));
        }
    }

    /// Failures and clients stop; everything comes to an end.
    fn calm(&mut self) {
        self.come_to_rest();
        // If the disk has failed, or a marker was fenced, the next start carries decisions out.
        self.rig.restart();
        self.come_to_rest();
    }

    fn come_to_rest(&mut self) {
        while self.rig.deliver_late_markers() {}
        for _ in 0..20 {
            self.rig.settle();
            self.rig.pass(10_000);
        }
        self.rig.settle();
        self.hear();
        assert!(self.rig.waiting.is_empty(), "{:?} are not answered", self.rig.waiting);
    }

    /// The log tells what was decided; the markers must be just that.
    fn check(&self) {
        let mut last: BTreeMap<String, (i64, i16)> = BTreeMap::new();
        let mut decided = Decided::new();
        let mut open: BTreeMap<String, bool> = BTreeMap::new();
        for record in &self.rig.log {
            let record = Record::decode(record.key.clone(), record.value.clone()).unwrap();
            let Record::Transaction(id, value) = record else { panic!("{record:?}") };
            let Some(value) = value else {
                assert_ne!(open.get(&id), Some(&true), "{id} is forgotten in the middle of an end");
                last.remove(&id);
                continue;
            };
            let owner = (value.producer_id, value.producer_epoch);
            if let Some(before) = last.insert(id.clone(), owner) {
                let forward = before.0 != owner.0 || before.1 <= owner.1;
                assert!(forward, "the epoch of {id} goes back from {before:?} to {owner:?}");
            }
            let is_prepared = value.state.is_prepared();
            let was_prepared = open.insert(id.clone(), is_prepared).unwrap_or(false);
            assert!(!(was_prepared && is_prepared), "{id} is decided twice");
            if was_prepared {
                let expected = matches!(value.state, TxnState::CompleteCommit | TxnState::CompleteAbort);
                assert!(expected, "{id} goes from prepared to {:?}", value.state);
            }
            if is_prepared {
                let topics = value.topics.into_iter().flatten();
                let partitions = topics.flat_map(|(topic, partitions)| {
                    partitions
                        .into_iter()
                        .map(move |partition| TopicPartition { topic: topic.clone(), partition })
                });
                let commit = value.state == TxnState::PrepareCommit;
                decided.entry(owner).or_default().push((commit, partitions.collect()));
            }
        }
        assert!(open.values().all(|open| !open), "a decision is not carried out: {open:?}");
        self.check_markers(&decided);
        for ((producer_id, epoch), commit) in &self.told {
            let under = (*producer_id, if self.classic { *epoch } else { epoch + 1 });
            let kept = decided.get(&under).into_iter().flatten().any(|(decision, _)| decision == commit);
            assert!(kept, "{under:?} was told that commit is {commit}, which nobody decided");
        }
    }

    /// Under one epoch a partition may see several ends of a classic client, in the order decided;
    /// a restart may repeat a marker, but never change it.
    fn check_markers(&self, decided: &Decided) {
        for name in PARTITIONS {
            let partition = at(name);
            let mut written: BTreeMap<(i64, i16), Vec<bool>> = BTreeMap::new();
            for (producer_id, epoch, commit) in self.rig.markers_of(name) {
                written.entry((*producer_id, *epoch)).or_default().push(*commit);
            }
            let owners: BTreeSet<_> = written.keys().chain(decided.keys()).collect();
            for owner in owners {
                let decisions = decided.get(owner).into_iter().flatten();
                let mut expected: Vec<bool> = decisions
                    .filter(|(_, partitions)| partitions.contains(&partition))
                    .map(|(commit, _)| *commit)
                    .collect();
                let mut seen = written.get(owner).cloned().unwrap_or_default();
                expected.dedup();
                seen.dedup();
                assert_eq!(seen, expected, "markers of {owner:?} in {name}");
            }
        }
    }
}

fn simulate(seed: u64) -> Reached {
    let mut world = World::new(seed);
    for _ in 0..STEPS {
        world.step();
    }
    world.calm();
    world.check();
    let markers = world.rig.markers.values().map(Vec::len).sum();
    Reached { records: world.rig.log.len(), markers, ..world.reached }
}

#[test]
fn transactions_are_atomic_in_random_histories() {
    let mut reached = Reached::default();
    for seed in seeds(scaled(SEEDS)) {
        let result = std::panic::catch_unwind(|| simulate(seed));
        let more = result.unwrap_or_else(|_| panic!("seed {seed} fails"));
        reached.records += more.records;
        reached.markers += more.markers;
        reached.refused += more.refused;
        reached.lost += more.lost;
        reached.kept += more.kept;
        reached.cut += more.cut;
        reached.late += more.late;
    }
    let Reached { records, markers, refused, lost, kept, cut, late } = reached;
    for (what, count, minimum) in [
        ("records", records, 3_000),
        ("markers", markers, 1_000),
        ("refused appends", refused, 1_000),
        ("lost appends", lost, 50),
        ("elections that kept the log", kept, 50),
        ("elections that cut the log", cut, 50),
        ("late ones", late, 50),
    ] {
        assert!(count >= least(minimum), "only {count} {what}");
    }
}
