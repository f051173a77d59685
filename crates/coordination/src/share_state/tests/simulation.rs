//! Leaders and administrators, topics that come and go, failures, restarts and elections in an
//! order drawn from a seed. Each answer must be that of an oracle which does the operations of a
//! key one after the other, in the order of their arrival. After a crash the state must be one that
//! the answered operations, and some of the others, add up to. No deletion of records changes the
//! state that the log adds up to.
//!
//! Soak: seed random, repeated

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use levada_testing::{least, scaled, seeds};
use levada_wire::Uuid;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::rig::Rig;
use crate::machine::{PersistFailure, Ticket};
use crate::share_state::batches::tests::random_ranges;
use crate::share_state::config::ShareStateConfig;
use crate::share_state::error::ShareStateError;
use crate::share_state::event::Event;
use crate::share_state::key::ShareKey;
use crate::share_state::request::{
    DeletePart, InitializePart, Operation, PartAnswer, ReadPart, StatePart, SummaryPart, WritePart,
};

use self::oracle::{Known, apply, of_log};

mod oracle;

const SEEDS: u64 = 400;
const STEPS: usize = 400;
const GROUPS: [&str; 2] = ["a", "b"];
const TOPICS: u8 = 2;
const PARTITIONS: i32 = 2;
const OFFSETS: i64 = 25;
/// Maximum number of operations on a key that have no response: each may have happened or not.
const UNKNOWN_MAX: usize = 6;

type PartResult = Result<PartAnswer, ShareStateError>;

/// An operation on a key.
struct Sent {
    ticket: Ticket,
    index: usize,
    operation: Operation,
    result: Option<PartResult>,
}

struct World {
    rig: Rig,
    rng: StdRng,
    /// Possible states of each key, as the responses permit.
    known: BTreeMap<ShareKey, Known>,
    /// Operations of each key, in the order of arrival, from the first one without a response on.
    sent: BTreeMap<ShareKey, VecDeque<Sent>>,
    /// Number of topics that have been deleted; the ids of topics differ.
    deleted: u8,
    topics: Vec<Uuid>,
    leader_epoch: i32,
    state_epoch: i32,
    /// Share of the reports that come in the order of the appends.
    in_order: f64,
    reached: Reached,
}

/// Counts of the events that have to happen.
#[derive(Debug, Default)]
struct Reached {
    /// Number of responses that tell of a state.
    done: usize,
    fenced: usize,
    /// Number of operations whose records were not appended.
    failed: usize,
    /// Number of crashes after which an operation without a response has happened.
    happened: usize,
    /// Number of crashes with which the log lost its tail.
    cut: usize,
    pruned: usize,
    topics: usize,
    lost: usize,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut rng = StdRng::seed_from_u64(seed);
        let config = ShareStateConfig {
            updates_per_snapshot: rng.random_range(0..6),
            cold_interval_ms: 5_000,
            prune_interval_ms: rng.random_range(100..3_000),
            round_ms: 500,
            round_keys: 2,
            batch_bytes: [1, 200, 10_000][rng.random_range(0..3)],
            ..ShareStateConfig::default()
        };
        let mut rig = Rig::new(config);
        (rig.hold_appends, rig.hold_prunes) = (true, true);
        rig.topics.0.clear();
        let in_order = rng.random_range(0.1..1.0);
        let mut world = Self {
            rig,
            rng,
            known: BTreeMap::new(),
            sent: BTreeMap::new(),
            deleted: 0,
            topics: Vec::new(),
            leader_epoch: 1,
            state_epoch: 1,
            in_order,
            reached: Reached::default(),
        };
        (0..TOPICS).for_each(|_| world.create_topic());
        world
    }

    fn create_topic(&mut self) {
        let number = self.deleted + u8::try_from(self.topics.len()).unwrap();
        let topic_id = Uuid::from_bytes([number; 16]);
        self.topics.push(topic_id);
        self.rig.topics.0.insert(topic_id, PARTITIONS);
        self.rig.announce();
    }

    /// The announcement comes before or after the deletion, or the coordinator does not serve.
    fn replace_topic(&mut self) {
        let index = self.rng.random_range(0..self.topics.len());
        let topic_id = self.topics.remove(index);
        self.deleted += 1;
        self.rig.topics.0.remove(&topic_id);
        let event = Event::TopicsDeleted(vec![topic_id]);
        if self.rng.random_bool(0.5) {
            self.rig.announce();
        }
        if self.rng.random_bool(0.7) {
            self.rig.step(event);
        }
        self.create_topic();
        self.reached.topics += 1;
    }

    fn step(&mut self) {
        match self.rng.random_range(0..200) {
            0..100 => self.client(),
            100..150 => {
                let count = self.rig.unreported();
                let index =
                    if self.rng.random_bool(self.in_order) { 0 } else { self.rng.random_range(0..=count) };
                self.rig.report(index);
            }
            150..165 => {
                let failures = [PersistFailure::Unavailable, PersistFailure::TooLarge];
                let fails = self.rig.failure.is_none() && self.rng.random_bool(0.3);
                self.rig.failure = fails.then(|| failures[self.rng.random_range(0..2)]);
            }
            165..185 => {
                let ms = self.rng.random_range(1..2_000);
                self.rig.pass(ms);
                if self.rng.random_bool(0.05) {
                    self.rig.ahead_ms = self.rng.random_range(-20_000..20_000);
                }
            }
            185..194 => self.prune(),
            194..196 => self.replace_topic(),
            196 => self.leader_epoch += 1,
            197 => self.state_epoch += 1,
            198 => self.crash(),
            _ => {
                if self.rng.random_bool(0.1) {
                    self.reached.lost += usize::from(self.rig.lose());
                }
            }
        }
        self.hear();
    }

    /// The host deletes records, or fails to.
    fn prune(&mut self) {
        let Some(&offset) = self.rig.prunes.front() else { return };
        if self.rng.random_bool(0.2) {
            self.rig.prunes.pop_front();
            return;
        }
        self.rig.finish_prune();
        let offset = usize::try_from(offset).unwrap();
        let unfenced = |from: usize| -> Vec<(ShareKey, Known)> {
            let keys = of_log(self.rig.log[from..].iter()).into_iter();
            keys.map(|(key, (known, _))| (key, known.unfenced())).collect()
        };
        assert_eq!(unfenced(offset), unfenced(0), "the records before {offset} are needed");
        self.reached.pruned += 1;
    }

    fn key(&mut self) -> ShareKey {
        ShareKey {
            group_id: GROUPS[self.rng.random_range(0..GROUPS.len())].into(),
            topic_id: self.topics[self.rng.random_range(0..self.topics.len())],
            partition: self.rng.random_range(0..PARTITIONS),
        }
    }

    /// Some client sends something, not always something sensible.
    fn client(&mut self) {
        let first = self.key();
        let mut keys = vec![first.clone()];
        while self.rng.random_bool(0.2) {
            keys.push(ShareKey { group_id: first.group_id.clone(), ..self.key() });
        }
        keys.retain(|key| self.sent.get(key).is_none_or(|sent| sent.len() < UNKNOWN_MAX));
        let epoch = |rng: &mut StdRng, epoch: i32| match rng.random_range(0..10) {
            0 => -1,
            1 => epoch - 1,
            2 => epoch + 1,
            _ => epoch,
        };
        let (leader_epoch, state_epoch) =
            (epoch(&mut self.rng, self.leader_epoch), epoch(&mut self.rng, self.state_epoch));
        let start_offset = match self.rng.random_range(0..4) {
            0 => self.rng.random_range(0..OFFSETS),
            _ => -1,
        };
        let place = |key: &ShareKey| (key.topic_id, key.partition);
        match self.rng.random_range(0..20) {
            0..4 => self.send(&keys, |key| {
                let (topic_id, partition) = place(key);
                InitializePart { topic_id, partition, state_epoch, start_offset }
            }),
            4..8 => self.send(&keys, |key| {
                let (topic_id, partition) = place(key);
                ReadPart { topic_id, partition, leader_epoch }
            }),
            8..17 => {
                let batches = random_ranges(&mut self.rng, 4, OFFSETS);
                let delivery_complete_count = self.rng.random_range(-1..5);
                self.send(&keys, |key| {
                    let (topic_id, partition) = place(key);
                    let batches = batches.clone();
                    WritePart {
                        topic_id,
                        partition,
                        state_epoch,
                        leader_epoch,
                        start_offset,
                        delivery_complete_count,
                        batches,
                    }
                });
            }
            17 => self.send(&keys, |key| {
                let (topic_id, partition) = place(key);
                DeletePart { topic_id, partition }
            }),
            _ => self.send(&keys, |key| {
                let (topic_id, partition) = place(key);
                SummaryPart { topic_id, partition }
            }),
        }
    }

    fn send<P: StatePart + Clone>(&mut self, keys: &[ShareKey], part: impl Fn(&ShareKey) -> P) {
        let Some(first) = keys.first() else { return };
        let parts: Vec<P> = keys.iter().map(part).collect();
        let ticket = self.rig.send_for(&first.group_id, parts.clone());
        for (index, (key, part)) in keys.iter().zip(parts).enumerate() {
            let sent = Sent { ticket, index, operation: part.into_operation(), result: None };
            self.sent.entry(key.clone()).or_default().push_back(sent);
        }
    }

    /// Answers arrive, and are compared with those of the oracle.
    fn hear(&mut self) {
        let mut outcomes = BTreeMap::new();
        for sent in self.sent.values_mut().flatten().filter(|sent| sent.result.is_none()) {
            let outcome = outcomes.entry(sent.ticket).or_insert_with(|| self.rig.outcome(sent.ticket));
            sent.result = outcome.as_ref().map(|outcome| outcome[sent.index].clone());
        }
        // After the end of a term the outcome is unknown: the next term shows it.
        if self.rig.coordinator.is_unloaded() {
            return;
        }
        for (key, sent) in &mut self.sent {
            while sent.front().is_some_and(|sent| sent.result.is_some()) {
                let Some(Sent { operation, result: Some(result), .. }) = sent.pop_front() else { break };
                let before = self.known.get(key);
                let is_failure = matches!(
                    result,
                    Err(ShareStateError::CoordinatorNotAvailable | ShareStateError::UnknownServerError)
                );
                if is_failure {
                    self.reached.failed += 1;
                    continue;
                }
                if !self.topics.contains(&key.topic_id) {
                    assert!(!matches!(result, Err(ShareStateError::NotCoordinator)), "{key}");
                    // The state ends at some time.
                    if result.is_err() {
                        continue;
                    }
                }
                let (expected, next) = apply(before, &operation);
                if !self.topics.contains(&key.topic_id) && expected != result {
                    continue;
                }
                assert_eq!(result, expected, "{key}: {operation:?} on {before:?}");
                match result {
                    Ok(_) => self.reached.done += 1,
                    Err(_) => self.reached.fenced += 1,
                }
                match next {
                    Some(next) => drop(self.known.insert(key.clone(), next)),
                    None => drop(self.known.remove(key)),
                }
            }
        }
    }

    /// The broker is killed, or another one is elected and this one once more.
    fn crash(&mut self) {
        let (committed, end) = (self.rig.committed, self.rig.log.len());
        if self.rng.random_bool(0.5) {
            self.rig.resign();
            self.hear();
        }
        let kept = self.rng.random_range(committed..=end);
        self.reached.cut += usize::from(kept < end);
        self.rig.restart(kept);
        let mut found = of_log(self.rig.log[self.rig.log_start..].iter());
        let keys = self.known.keys().chain(self.sent.keys()).chain(found.keys());
        let keys: BTreeSet<ShareKey> = keys.cloned().collect();
        for key in keys {
            let sent = self.sent.remove(&key).unwrap_or_default();
            let before = self.known.remove(&key);
            let after = found.remove(&key).map(|(known, _)| known);
            if self.topics.contains(&key.topic_id) {
                let without = possible(before.clone(), sent.iter().filter(|sent| sent.result.is_some()));
                let with = possible(before, sent.iter());
                let after = after.as_ref().map(Known::unfenced);
                assert!(with.contains(&after), "{key}: {after:?} is none of {with:?}");
                self.reached.happened += usize::from(!without.contains(&after));
            }
            if let Some(after) = after {
                self.known.insert(key, after);
            }
        }
        self.compare();
    }

    /// The coordinator has the state that its log adds up to.
    fn compare(&self) {
        let from_log = of_log(self.rig.log[self.rig.log_start..].iter());
        let ours: Vec<_> =
            self.rig.coordinator.summaries().map(|(key, summary)| (key.clone(), summary)).collect();
        let expected: Vec<_> =
            from_log.iter().map(|(key, (known, _))| (key.clone(), known.summary())).collect();
        assert_eq!(ours, expected);
        for (key, (known, updates)) in &from_log {
            assert_eq!(self.rig.coordinator.stored(key), Some(known.stored()), "{key}");
            let most = usize::try_from(self.rig.config.updates_per_snapshot).unwrap();
            assert!(*updates <= most, "{updates} updates of {key} and no snapshot");
        }
        let batches = from_log.values().map(|(known, _)| known.stored().batches.len()).sum::<usize>();
        assert_eq!(self.rig.coordinator.batch_count(), batches);
    }

    /// Failures and clients stop; everything comes to an end.
    fn calm(&mut self) {
        self.rig.failure = None;
        if self.rig.coordinator.is_unloaded() {
            self.crash();
        }
        for _ in 0..8 {
            self.settle();
            self.rig.pass(self.rig.config.cold_interval_ms);
        }
        self.settle();
        self.hear();
        assert!(self.rig.waiting.is_empty(), "{:?} are not answered", self.rig.waiting);
        assert!(self.sent.values().all(VecDeque::is_empty));
        self.compare();
        // Topics that are gone have taken their keys with them.
        let keys: Vec<_> = self.rig.coordinator.summaries().map(|(key, _)| key.clone()).collect();
        assert!(keys.iter().all(|key| self.topics.contains(&key.topic_id)), "{keys:?}");
        self.known.retain(|key, _| self.topics.contains(&key.topic_id));
        assert_eq!(self.known.keys().cloned().collect::<Vec<_>>(), keys);
        for (key, known) in &self.known {
            assert_eq!(self.rig.coordinator.stored(key), Some(known.stored()), "{key}");
        }
        let redundant = self.rig.coordinator.redundant_before().unwrap_or(0);
        assert!(i64::try_from(self.rig.log_start).unwrap() <= redundant);
        self.rig.restart(self.rig.log.len());
        self.compare();
    }

    fn settle(&mut self) {
        while self.rig.report(0) || self.rig.finish_prune() {}
    }
}

/// The states, without fences, that operations may add up to: each happens as its response says. If
/// it has none, or the term has ended before the response, it has happened or not.
fn possible<'a>(before: Option<Known>, sent: impl Iterator<Item = &'a Sent>) -> Vec<Option<Known>> {
    let mut states = vec![before];
    for Sent { operation, result, .. } in sent {
        let mut next = Vec::new();
        for state in states {
            let (answer, after) = apply(state.as_ref(), operation);
            match result {
                None | Some(Err(ShareStateError::NotCoordinator)) => next.extend([state, after]),
                Some(Err(ShareStateError::CoordinatorNotAvailable | ShareStateError::UnknownServerError)) => {
                    next.push(state)
                }
                Some(result) if *result == answer => next.push(after),
                Some(_) => {}
            }
        }
        next.dedup();
        states = next;
    }
    states.into_iter().map(|state| state.map(|known| known.unfenced())).collect()
}

fn simulate(seed: u64) -> Reached {
    let mut world = World::new(seed);
    for _ in 0..STEPS {
        world.step();
        if world.rig.coordinator.is_unloaded() {
            world.crash();
        }
    }
    world.calm();
    world.reached
}

#[test]
fn share_state_matches_oracle_across_crashes() {
    let mut all = Reached::default();
    for seed in seeds(scaled(SEEDS)) {
        let result = std::panic::catch_unwind(|| simulate(seed));
        let more = result.unwrap_or_else(|_| panic!("seed {seed} fails"));
        all.done += more.done;
        all.fenced += more.fenced;
        all.failed += more.failed;
        all.happened += more.happened;
        all.cut += more.cut;
        all.pruned += more.pruned;
        all.topics += more.topics;
        all.lost += more.lost;
    }
    let Reached { done, fenced, failed, happened, cut, pruned, topics, lost } = all;
    for (what, count, minimum) in [
        ("answers", done, 10_000),
        ("refusals", fenced, 3_000),
        ("failed operations", failed, 1_000),
        ("crashes after which an operation has happened", happened, 50),
        ("crashes that cut the log", cut, 100),
        ("deletions of records", pruned, 500),
        ("deleted topics", topics, 500),
        ("lost partitions", lost, 20),
    ] {
        assert!(count >= least(minimum), "only {count} {what}: {all:?}");
    }
}
