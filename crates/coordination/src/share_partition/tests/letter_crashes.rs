//! Dead letters of histories that a crash ends after each of their steps: the next leader has the
//! stored states, and the topic of the dead letters what was appended. Each refused record has a
//! dead letter before it is archived, and a second one only after a crash. Three mistakes of a host
//! show that the simulation can fail.
//!
//! Soak: scale 100, repeated

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use levada_testing::{least, scaled, seeds};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::kit;
use crate::share_partition::{
    AckBatch, AcquireMode, AcquireRequest, DeadLetter, DeadLetterReason, DeliverySpan, FetchedBatch,
    FetchedRange, LoadedState, RecordState, ShareLimits, SharePartition, StateWrite, WriteFault,
};

const SEEDS: u64 = 40;
const STEPS: usize = 50;
const RECORDS: i64 = 24;
const BATCH: i64 = 4;

/// States 3 and 4 of the stored share state.
const ARCHIVING: i8 = 3;
const ARCHIVED: i8 = 4;

/// A mistake of the host of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mistake {
    None,
    /// Archives records before their dead letters are in the topic.
    ArchivesFirst,
    /// Writes no dead letters of records that a former leader has refused.
    ForgetsLoaded,
    /// Writes dead letters before the refusal is stored.
    SendsUnstored,
}

/// Counts of the events that have to happen.
#[derive(Clone, Copy, Debug, Default)]
struct Reached {
    letters: usize,
    second_letters: usize,
    given_up: usize,
    rolled_back: usize,
    crashes: usize,
    crashes_between: usize,
}

struct World {
    rng: StdRng,
    mistake: Mistake,
    partition: SharePartition,
    limits: ShareLimits,
    now_ms: i64,
    /// Writes on their way to the share coordinator.
    writes: VecDeque<StateWrite>,
    /// Dead letters that wait for the host.
    waiting: Vec<DeadLetter>,
    /// Dead letters in the topic whose records are not archived yet.
    appended: Vec<(i64, i64)>,
    /// The stored state of each offset, and the stored start offset.
    stored: BTreeMap<i64, (i8, i16)>,
    stored_start: i64,
    /// Number of dead letters of each offset in the topic.
    topic: BTreeMap<i64, usize>,
    given_up: BTreeSet<i64>,
    /// Offsets whose refusal a leader knows to be stored.
    refused: BTreeSet<i64>,
    reached: Reached,
}

type Check = Result<(), String>;

fn each(first: i64, last: i64) -> impl Iterator<Item = i64> {
    first..=last
}

impl World {
    fn new(seed: u64, mistake: Mistake) -> Self {
        let mut rng = StdRng::seed_from_u64(seed);
        let delivery_limit = rng.random_range(2..4);
        let limits = ShareLimits { delivery_limit, dead_letters: true, ..kit::limits() };
        let mut partition = SharePartition::new(0);
        let empty = LoadedState { state_epoch: 0, start_offset: 0, spans: Vec::new() };
        partition.load(&empty, &limits).expect("it is valid");
        Self {
            rng,
            mistake,
            partition,
            limits,
            now_ms: 0,
            writes: VecDeque::new(),
            waiting: Vec::new(),
            appended: Vec::new(),
            stored: BTreeMap::new(),
            stored_start: 0,
            topic: BTreeMap::new(),
            given_up: BTreeSet::new(),
            refused: BTreeSet::new(),
            reached: Reached::default(),
        }
    }

    fn step(&mut self) -> Check {
        match self.rng.random_range(0..100) {
            0..25 => self.fetch(),
            25..50 => self.acknowledge(),
            50..56 => {
                self.now_ms += i64::from(self.limits.lock_duration_ms);
                let expired = self.partition.tick(&self.limits, self.now_ms);
                self.writes.extend(expired.write);
            }
            56..75 => {
                let (is_stored, is_told) = (self.rng.random_bool(0.85), self.rng.random_bool(0.9));
                self.end_write(is_stored, is_told)?;
            }
            75..88 => self.append()?,
            88..92 => self.give_up(),
            _ => self.archive(),
        }
        Ok(())
    }

    fn fetch(&mut self) {
        let offset = self.partition.next_fetch_offset();
        let base = offset - offset % BATCH;
        if offset >= RECORDS {
            return;
        }
        let batches = [FetchedBatch { base, last: base + BATCH - 1, is_aborted: false }];
        let fetched = FetchedRange { fetch_offset: offset, batches: &batches };
        let member = Arc::from("a");
        let request = AcquireRequest { member, mode: AcquireMode::Batches, max_records: 10, batch_size: 10 };
        self.partition.acquire(&request, fetched, &self.limits, self.now_ms);
    }

    /// Accepts, releases or rejects records that the member holds.
    fn acknowledge(&mut self) {
        let mut tracked = self.partition.tracked();
        let held = tracked.find(|records| records.state == RecordState::Acquired && !records.is_pending);
        let Some((first, last)) = held.map(|records| (records.first, records.last)) else { return };
        drop(tracked);
        let last = self.rng.random_range(first..=last);
        let types = [[1, 2, 3, 3][self.rng.random_range(0..4)]];
        self.answer(AckBatch { first, last, types: &types });
    }

    fn answer(&mut self, batch: AckBatch<'_>) {
        let member = Arc::from("a");
        let write = self.partition.acknowledge(&member, &[batch], &self.limits, self.now_ms);
        let write = write.expect("the member holds the records");
        if self.mistake == Mistake::SendsUnstored {
            let spans = write.iter().flat_map(|write| &write.spans);
            let letters = spans.filter(|span| span.state == ARCHIVING).map(|span| DeadLetter {
                first: span.first,
                last: span.last,
                delivery_count: span.delivery_count,
                reason: DeadLetterReason::Rejected,
            });
            self.waiting.extend(letters);
        }
        self.writes.extend(write);
    }

    /// The share coordinator stores the oldest write or not. It may store one whose answer is lost.
    fn end_write(&mut self, is_stored: bool, is_told: bool) -> Check {
        let Some(write) = self.writes.pop_front() else { return Ok(()) };
        if is_stored {
            self.store(&write)?;
        }
        let is_ok = is_stored && is_told;
        let refused = write.spans.iter().filter(|span| is_ok && span.state == ARCHIVING);
        self.refused.extend(refused.flat_map(|span| each(span.first, span.last)));
        let result = if is_ok { Ok(()) } else { Err(WriteFault::Unavailable) };
        self.reached.rolled_back += usize::from(!is_ok);
        let written = self.partition.written(write.id, result, &self.limits, self.now_ms);
        let letters = written.dead_letters.into_iter();
        let is_sent = |letter: &DeadLetter| {
            self.mistake == Mistake::SendsUnstored && letter.reason == DeadLetterReason::Rejected
        };
        self.waiting.extend(letters.filter(|letter| !is_sent(letter)));
        Ok(())
    }

    fn store(&mut self, write: &StateWrite) -> Check {
        self.stored_start = self.stored_start.max(write.start_offset);
        for span in &write.spans {
            for offset in each(span.first, span.last) {
                let fresh = (span.state, span.delivery_count);
                let before = self.stored.insert(offset, fresh).unwrap_or((0, 0));
                // Later deliveries, and then later states, hold.
                let kept = if (before.1, before.0) > (fresh.1, fresh.0) { before } else { fresh };
                self.stored.insert(offset, kept);
                let has_letter = self.topic.contains_key(&offset) || self.given_up.contains(&offset);
                if kept.0 == ARCHIVED && !has_letter {
                    return Err(format!("offset {offset} is archived, and has no dead letter"));
                }
            }
        }
        Ok(())
    }

    /// The host appends the first waiting dead letters to their topic.
    fn append(&mut self) -> Check {
        if self.waiting.is_empty() {
            return Ok(());
        }
        let letter = self.waiting.remove(0);
        for offset in each(letter.first, letter.last) {
            let mut tracked = self.partition.tracked();
            let known = tracked.find(|records| (records.first..=records.last).contains(&offset));
            if let Some(records) = known.filter(|records| records.is_pending) {
                return Err(format!("the refusal of offset {offset} is not stored: {records:?}"));
            }
        }
        let offsets = (letter.first, letter.last);
        if self.mistake == Mistake::ArchivesFirst {
            self.writes.extend(self.partition.dead_letters_done(&[offsets]));
        } else {
            self.add_to_topic(offsets);
        }
        self.appended.push(offsets);
        Ok(())
    }

    fn add_to_topic(&mut self, (first, last): (i64, i64)) {
        for offset in each(first, last) {
            let count = self.topic.entry(offset).or_default();
            *count += 1;
            self.reached.letters += 1;
            self.reached.second_letters += usize::from(*count > 1);
        }
    }

    /// The host gives the first waiting dead letters up, and archives the records without them.
    fn give_up(&mut self) {
        if self.waiting.is_empty() {
            return;
        }
        let letter = self.waiting.remove(0);
        self.given_up.extend(each(letter.first, letter.last));
        self.reached.given_up += 1;
        self.writes.extend(self.partition.dead_letters_done(&[(letter.first, letter.last)]));
    }

    /// The host archives the records whose dead letters it has appended.
    fn archive(&mut self) {
        let done = std::mem::take(&mut self.appended);
        if self.mistake == Mistake::ArchivesFirst {
            done.into_iter().for_each(|offsets| self.add_to_topic(offsets));
        } else {
            self.writes.extend(self.partition.dead_letters_done(&done));
        }
    }

    /// The leader ends. Of the writes on their way, the share coordinator has got the first ones.
    fn crash(&mut self) -> Check {
        self.reached.crashes += 1;
        self.reached.crashes_between += usize::from(!self.appended.is_empty());
        let arrived = self.rng.random_range(0..=self.writes.len());
        for write in std::mem::take(&mut self.writes).into_iter().take(arrived) {
            self.store(&write)?;
        }
        (self.waiting, self.appended) = (Vec::new(), Vec::new());
        let states = self.stored.split_off(&self.stored_start);
        let spans = states.iter().map(|(offset, (state, delivery_count))| DeliverySpan {
            first: *offset,
            last: *offset,
            state: *state,
            delivery_count: *delivery_count,
        });
        let state = LoadedState { state_epoch: 0, start_offset: self.stored_start, spans: spans.collect() };
        self.stored = states;
        self.partition = SharePartition::new(1);
        let letters = self.partition.load(&state, &self.limits).map_err(|error| error.to_string())?;
        self.refused.extend(letters.iter().flat_map(|letter| each(letter.first, letter.last)));
        if self.mistake != Mistake::ForgetsLoaded {
            self.waiting = letters;
        }
        Ok(())
    }

    /// Failures end, and the member accepts the remaining records.
    fn drain(&mut self) -> Check {
        for _ in 0..500 {
            while !self.writes.is_empty() {
                self.end_write(true, true)?;
            }
            while !self.waiting.is_empty() {
                self.append()?;
            }
            self.archive();
            self.fetch();
            let tracked = self.partition.tracked();
            let held: Vec<(i64, i64)> = tracked
                .filter(|records| records.state == RecordState::Acquired && !records.is_pending)
                .map(|records| (records.first, records.last))
                .collect();
            for (first, last) in held {
                self.answer(AckBatch { first, last, types: &[1] });
            }
            if self.partition.start_offset() == RECORDS && self.writes.is_empty() {
                return self.check();
            }
        }
        Err(format!("records are left at {}", self.partition.start_offset()))
    }

    fn check(&self) -> Check {
        let crashes = self.reached.crashes;
        for offset in 0..RECORDS {
            let letters = self.topic.get(&offset).copied().unwrap_or(0);
            let is_refused = self.refused.contains(&offset);
            if is_refused && letters == 0 && !self.given_up.contains(&offset) {
                return Err(format!("offset {offset} was refused, and has no dead letter"));
            }
            if letters > 1 + crashes {
                return Err(format!("offset {offset} has {letters} dead letters after {crashes} crashes"));
            }
        }
        Ok(())
    }
}

/// A history that crashes after a step, or never.
fn history(seed: u64, crash_after: Option<usize>, mistake: Mistake) -> Result<Reached, String> {
    let mut world = World::new(seed, mistake);
    for step in 0..STEPS {
        world.step()?;
        if crash_after == Some(step) {
            world.crash()?;
        }
    }
    world.drain()?;
    Ok(world.reached)
}

fn crashes() -> impl Iterator<Item = Option<usize>> {
    std::iter::once(None).chain((0..STEPS).map(Some))
}

#[test]
fn a_crash_loses_no_dead_letter() {
    let mut all = Reached::default();
    for seed in seeds(scaled(SEEDS)) {
        for crash_after in crashes() {
            let reached = history(seed, crash_after, Mistake::None);
            let more = reached.unwrap_or_else(|error| {
                panic!("LEVADA_TEST_SEED={seed}, crash after {crash_after:?}: {error}")
            });
            all.letters += more.letters;
            all.second_letters += more.second_letters;
            all.given_up += more.given_up;
            all.rolled_back += more.rolled_back;
            all.crashes += more.crashes;
            all.crashes_between += more.crashes_between;
        }
    }
    let Reached { letters, second_letters, given_up, rolled_back, crashes, crashes_between } = all;
    let counts = [letters, second_letters, given_up, rolled_back, crashes, crashes_between];
    assert!(counts.iter().all(|count| *count >= least(100)), "{all:?}");
}

#[test]
fn checker_detects_injected_host_mistakes() {
    for mistake in [Mistake::ArchivesFirst, Mistake::ForgetsLoaded, Mistake::SendsUnstored] {
        let fails = |seed| crashes().any(|crash_after| history(seed, crash_after, mistake).is_err());
        assert!((0..SEEDS).any(fails), "{mistake:?} is not found");
    }
}
