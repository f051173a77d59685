//! Random histories of a share partition, compared after each step with the rules offset by offset.
//! Writes end late, in any order, or fail; locks end; members leave; the log loses batches and its
//! start; leaders change. At the end all records are delivered and accepted.
//!
//! Each step draws from its own seed, so that a history that fails is shortened: steps are removed
//! as long as the rest fails too. The failure prints the shortest one.
//!
//! Soak: scale 200, repeated

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

use levada_testing::{least, scaled, seeds};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::share_partition::{
    AckBatch, AcquireMode, AcquireRequest, DeadLetter, DeliverySpan, FetchedBatch, FetchedRange, LoadedState,
    RecordState, ShareLimits, SharePartition, StateWrite, TrackedRecords, WriteFault,
};

use super::kit;
use super::oracle::{Change, Oracle};

const SEEDS: u64 = 400;
const STEPS: usize = 120;
const MEMBERS: [&str; 3] = ["a", "b", "c"];

/// Counts of the events that have to happen.
#[derive(Clone, Copy, Debug, Default)]
struct Reached {
    acquired: usize,
    redelivered: usize,
    committed: usize,
    rolled_back: usize,
    expired: usize,
    refused: usize,
    gaps: usize,
    dead: usize,
    aborted: usize,
    isolated: usize,
    joined: usize,
}

/// A write that the share coordinator has received.
struct Outstanding {
    write: StateWrite,
    /// Offsets whose changes wait for the end.
    waiting: Vec<i64>,
}

struct World {
    rng: StdRng,
    partition: SharePartition,
    oracle: Oracle,
    limits: ShareLimits,
    now_ms: i64,
    log: VecDeque<FetchedBatch>,
    log_start: i64,
    log_end: i64,
    writes: Vec<Outstanding>,
    stored: BTreeMap<i64, (i8, i16)>,
    stored_start: i64,
    dead: BTreeSet<i64>,
    trace: Vec<String>,
    reached: Reached,
}

fn expand(spans: &[DeliverySpan]) -> Vec<Change> {
    let each = |span: &DeliverySpan| {
        let span = *span;
        (span.first..=span.last).map(move |offset| (offset, span.state, span.delivery_count))
    };
    spans.iter().flat_map(each).collect()
}

impl World {
    fn new() -> Self {
        let limits = ShareLimits { max_record_locks: 30, lock_duration_ms: 10_000, ..kit::limits() };
        let mut partition = SharePartition::new(0);
        let empty = LoadedState { state_epoch: 0, start_offset: 0, spans: Vec::new() };
        partition.load(&empty, &limits).expect("it is valid");
        Self {
            rng: StdRng::seed_from_u64(0),
            partition,
            oracle: Oracle::default(),
            limits,
            now_ms: 0,
            log: VecDeque::new(),
            log_start: 0,
            log_end: 200,
            writes: Vec::new(),
            stored: BTreeMap::new(),
            stored_start: 0,
            dead: BTreeSet::new(),
            trace: Vec::new(),
            reached: Reached::default(),
        }
    }

    fn step(&mut self, seed: u64) {
        self.rng = StdRng::seed_from_u64(seed);
        match self.rng.random_range(0..100) {
            0..34 => self.fetch(),
            34..62 => self.ack(),
            62..78 => self.end_write(),
            78..86 => self.pass(),
            86..89 => self.leave(),
            89..91 => self.move_log_start(),
            91..93 => self.compact(),
            93..96 => self.dead_letters(),
            96..98 => self.change_limits(),
            _ => self.change_leader(),
        }
        self.compare();
    }

    fn note(&mut self, text: String) {
        self.trace.push(text);
    }

    fn member(&mut self) -> Arc<str> {
        Arc::from(MEMBERS[self.rng.random_range(0..MEMBERS.len())])
    }

    fn append(&mut self) {
        let hole = if self.rng.random_bool(0.15) { self.rng.random_range(1..5) } else { 0 };
        let base = self.log_end + hole;
        let last = base + self.rng.random_range(0..8);
        self.log.push_back(FetchedBatch { base, last, is_aborted: self.rng.random_bool(0.06) });
        self.log_end = last + 1;
    }

    /// Reads the log from an offset. Empty if no batch ends at or past it.
    fn read(&mut self, offset: i64, count: usize) -> Vec<FetchedBatch> {
        self.log.iter().filter(|batch| batch.last >= offset).take(count).copied().collect()
    }

    fn fetch(&mut self) {
        let next = self.partition.next_fetch_offset();
        assert_eq!(next, self.oracle.next_fetch());
        if next < self.log_start {
            self.log_start_moved();
            return;
        }
        while self.log.back().is_none_or(|batch| batch.last < next) || self.rng.random_bool(0.3) {
            self.append();
        }
        // A fetch may have begun before the last changes.
        let stale = self.rng.random_range(self.partition.start_offset()..=self.partition.end_offset());
        let fetch_offset = if self.rng.random_bool(0.05) { stale.max(self.log_start) } else { next };
        let count = self.rng.random_range(1..5);
        let mut batches = self.read(fetch_offset, count);
        let mode = if self.rng.random_bool(0.5) { AcquireMode::Batches } else { AcquireMode::Records };
        let request = AcquireRequest {
            member: self.member(),
            mode,
            max_records: self.rng.random_range(1..20),
            batch_size: self.rng.random_range(1..12),
        };
        let passed = self.join(&request, fetch_offset, &mut batches);
        let is_joined = passed.len() < batches.len();
        let fetched = FetchedRange { fetch_offset, batches: &batches };
        self.note(format!("fetch {request:?} {fetched:?} as {passed:?}"));
        let gaps = self.oracle.gaps.len();
        let got = FetchedRange { fetch_offset, batches: &passed };
        let got = self.partition.acquire(&request, got, &self.limits, self.now_ms);
        let expected = self.oracle.acquire(&request, fetched, &self.limits, self.now_ms);
        let parts: Vec<_> =
            got.records.iter().map(|part| (part.first, part.last, part.delivery_count)).collect();
        assert_eq!(parts, expected);
        assert_eq!(got.count, expected.iter().map(|(first, last, _)| last - first + 1).sum::<i64>());
        for batch in &batches {
            let is_needed = parts.iter().any(|(first, last, _)| *first <= batch.last && *last >= batch.base);
            let mut sent = passed[got.batches.clone()].iter();
            let is_sent = sent.any(|one| one.base <= batch.base && batch.last <= one.last);
            assert!(is_sent || !is_needed, "{batch:?} is not sent");
            assert!(is_needed || !is_sent || !is_joined, "{batch:?} is sent");
        }
        self.reached.joined += usize::from(is_joined);
        self.reached.acquired += parts.len();
        self.reached.redelivered += parts.iter().filter(|(_, _, count)| *count > 1).count();
        self.reached.isolated +=
            parts.iter().filter(|(first, last, count)| first == last && *count >= 4).count();
        self.reached.gaps += usize::from(self.oracle.gaps.len() < gaps && !parts.is_empty());
        self.reached.aborted += batches.iter().filter(|batch| batch.is_aborted).count();
    }

    /// The batches as a fetch passes them that does not read all headers: of new records, those
    /// before one of the last batches as one. Removes the batches that such a fetch does not read.
    fn join(
        &mut self,
        request: &AcquireRequest,
        fetch_offset: i64,
        batches: &mut Vec<FetchedBatch>,
    ) -> Vec<FetchedBatch> {
        let new_max = self.partition.new_max(fetch_offset, &self.limits);
        let may_join = !batches.is_empty() && self.rng.random_bool(0.8);
        let Some(new_max) = new_max.filter(|_| may_join) else { return batches.clone() };
        let until = fetch_offset + new_max.min(request.max_records.into()) - 1;
        batches.truncate(batches.partition_point(|batch| batch.last < until) + 1);
        let end = batches.partition_point(|batch| batch.base <= until);
        let base = batches[0].base;
        let fit = (1..end).filter(|next| batches[*next].base - base <= request.joined_max()).count();
        if fit == 0 || batches.iter().any(|batch| batch.is_aborted) {
            return batches.clone();
        }
        let next = self.rng.random_range(1..=fit);
        let joined = FetchedBatch { base, last: batches[next].base - 1, is_aborted: false };
        [&[joined], &batches[next..]].concat()
    }

    /// A range to acknowledge: mostly a part of what the member holds. None if the member holds
    /// nothing more.
    fn range(&mut self, member: &str, from: i64) -> Option<(i64, i64)> {
        let held = |records: &TrackedRecords<'_>| {
            records.member == Some(member) && !records.is_pending && records.last >= from
        };
        let held: Vec<(i64, i64)> =
            self.partition.tracked().filter(held).map(|records| (records.first, records.last)).collect();
        let near = from.max(self.partition.start_offset() - 2);
        let wild = (near, near + self.rng.random_range(0..12));
        if held.is_empty() && from > 0 {
            return None;
        }
        if held.is_empty() || self.rng.random_bool(0.04) {
            return Some(wild);
        }
        let begin = self.rng.random_range(0..held.len());
        let end = if self.rng.random_bool(0.2) { held.len() - 1 } else { begin };
        let (mut first, mut last) = (held[begin].0.max(from), held[end].1);
        if self.rng.random_bool(0.5) {
            first = self.rng.random_range(first..=last);
            last = self.rng.random_range(first..=last);
        }
        Some((first, last))
    }

    fn ack(&mut self) {
        let mut held = self.partition.tracked().filter(|records| !records.is_pending);
        let holder = held.find_map(|records| records.member.map(Arc::from));
        drop(held);
        let member = holder.filter(|_| self.rng.random_bool(0.7)).unwrap_or_else(|| self.member());
        let mut parsed: Vec<(i64, i64, Vec<i8>)> = Vec::new();
        let mut from = 0;
        for _ in 0..self.rng.random_range(1..4) {
            let Some((first, last)) = self.range(&member, from) else { break };
            let count = if self.rng.random_bool(0.4) { (last - first + 1).max(1) } else { 1 };
            let wrong = self.rng.random_bool(0.01);
            let types = (0..count + i64::from(wrong)).map(|_| match self.rng.random_range(0..100) {
                0..5 => 0,
                5..45 => 1,
                45..80 => 2,
                80..92 => 3,
                92..99 => 4,
                _ => 5,
            });
            parsed.push((first, last, types.collect()));
            from = last + i64::from(self.rng.random_bool(0.97));
        }
        let batches: Vec<AckBatch<'_>> = parsed
            .iter()
            .map(|(first, last, types)| AckBatch { first: *first, last: *last, types })
            .collect();
        self.note(format!("ack {member} {batches:?}"));
        let got = self.partition.acknowledge(&member, &batches, &self.limits, self.now_ms);
        let expected = self.oracle.acknowledge(&member, &batches, &self.limits, self.now_ms);
        match (got, expected) {
            (Ok(write), Ok(changes)) => self.sent(write, &changes, true),
            (got, expected) => {
                assert_eq!(got.err(), expected.err());
                self.reached.refused += 1;
            }
        }
    }

    /// Compares a write with the changes, and queues it.
    fn sent(&mut self, write: Option<StateWrite>, changes: &[Change], is_pending: bool) {
        let spans = write.as_ref().map_or(Vec::new(), |write| expand(&write.spans));
        assert_eq!(spans, changes);
        let Some(write) = write else { return };
        assert_eq!(write.start_offset, self.oracle.start);
        assert_eq!(i64::from(write.delivery_complete_count), self.oracle.complete());
        let waiting = changes.iter().filter(|change| is_pending || change.1 == 3).map(|change| change.0);
        self.writes.push(Outstanding { waiting: waiting.collect(), write });
    }

    fn end_write(&mut self) {
        if self.writes.is_empty() {
            return;
        }
        let index = self.rng.random_range(0..self.writes.len());
        let is_stored = self.rng.random_bool(0.75);
        self.end_this_write(index, is_stored);
    }

    fn end_this_write(&mut self, index: usize, is_stored: bool) {
        let Outstanding { write, waiting } = self.writes.remove(index);
        self.note(format!("write of {:?} stored: {is_stored}", write.spans));
        if is_stored {
            self.stored_start = self.stored_start.max(write.start_offset);
            for (offset, state, count) in expand(&write.spans) {
                let stored = self.stored.entry(offset).or_insert((state, count));
                *stored = (*stored).max((state, count));
            }
            self.stored = self.stored.split_off(&self.stored_start);
            self.reached.committed += 1;
        } else {
            self.reached.rolled_back += 1;
        }
        let result = if is_stored { Ok(()) } else { Err(WriteFault::Unavailable) };
        let before = self.oracle.start;
        let written = self.partition.written(write.id, result, &self.limits, self.now_ms);
        let dead = self.oracle.written(&waiting, is_stored, &self.limits, self.now_ms);
        self.add_dead(&written.dead_letters, &dead);
        let is_free = |offset: &i64| {
            self.oracle
                .cell(*offset)
                .is_some_and(|cell| cell.state == RecordState::Available && !cell.is_pending)
        };
        let wakes = self.oracle.start > before || waiting.iter().any(is_free);
        assert_eq!(written.wakes_fetches, wakes);
    }

    fn add_dead(&mut self, letters: &[DeadLetter], expected: &[i64]) {
        let offsets: Vec<i64> = letters.iter().flat_map(|letter| letter.first..=letter.last).collect();
        assert_eq!(offsets, expected);
        for letter in letters {
            for offset in letter.first..=letter.last {
                if let Some(cell) = self.oracle.cell(offset) {
                    assert_eq!(
                        (cell.state, cell.count),
                        (RecordState::Archiving(letter.reason), letter.delivery_count)
                    );
                }
            }
        }
        self.reached.dead += offsets.len();
        self.dead.extend(offsets);
    }

    fn pass(&mut self) {
        self.now_ms += self.rng.random_range(0..6_000);
        if self.rng.random_bool(0.9) {
            self.tick();
        }
    }

    fn tick(&mut self) {
        self.note(format!("tick at {}", self.now_ms));
        let is_due = self.partition.deadline_ms().is_some_and(|deadline_ms| deadline_ms <= self.now_ms);
        let expired = self.partition.tick(&self.limits, self.now_ms);
        assert!(is_due || expired.write.is_none());
        let changes = self.oracle.tick(&self.limits, self.now_ms);
        assert!(expired.records >= changes.len() as i64);
        self.reached.expired += changes.len();
        self.sent(expired.write, &changes, false);
    }

    fn leave(&mut self) {
        let member = self.member();
        self.note(format!("{member} leaves"));
        let write = self.partition.release_member(&member, &self.limits);
        let changes = self.oracle.release(&member, &self.limits);
        self.sent(write, &changes, true);
    }

    fn move_log_start(&mut self) {
        let most = self.partition.next_fetch_offset().max(self.log_start) + 3;
        self.log_start = self.rng.random_range(self.log_start..=most).min(self.log_end);
        self.log.retain(|batch| batch.last >= self.log_start);
        self.log_start_moved();
    }

    fn log_start_moved(&mut self) {
        self.note(format!("log start {}", self.log_start));
        let moves = self.log_start > self.oracle.start;
        assert_eq!(self.partition.log_start_moved(self.log_start), moves);
        self.oracle.log_start_moved(self.log_start);
    }

    /// A batch goes; its offsets stay unused.
    fn compact(&mut self) {
        if self.log.len() > 1 {
            let index = self.rng.random_range(0..self.log.len() - 1);
            let batch = self.log.remove(index);
            self.note(format!("compacted {batch:?}"));
        }
    }

    fn dead_letters(&mut self) {
        let mut done: Vec<i64> = self.dead.iter().filter(|_| self.rng.random_bool(0.7)).copied().collect();
        if self.rng.random_bool(0.2) {
            // Offsets that wait for no dead letter.
            let (start, end) = (self.partition.start_offset(), self.partition.end_offset());
            done = (start..=end).collect();
        }
        self.note(format!("dead letters {done:?}"));
        self.dead_letters_done(&done);
    }

    fn dead_letters_done(&mut self, done: &[i64]) {
        for offset in done {
            self.dead.remove(offset);
        }
        let bounds: Vec<(i64, i64)> = done.iter().map(|offset| (*offset, *offset)).collect();
        let write = self.partition.dead_letters_done(&bounds);
        let changes = self.oracle.dead_letters_done(done);
        self.sent(write, &changes, false);
    }

    fn change_limits(&mut self) {
        self.limits.max_record_locks = self.rng.random_range(5..60);
        self.limits.delivery_limit = self.rng.random_range(2..8);
        self.limits.renew_enabled = self.rng.random_bool(0.8);
        self.limits.dead_letters = self.rng.random_bool(0.5);
        self.limits.lock_duration_ms = self.rng.random_range(5_000..20_000);
        self.note(format!("{:?}", self.limits));
    }

    /// The next leader has the share state that was stored.
    fn change_leader(&mut self) {
        let mut spans: Vec<DeliverySpan> = Vec::new();
        for (first, (state, delivery_count)) in &self.stored {
            let (first, state, delivery_count) = (*first, *state, *delivery_count);
            match spans.last_mut() {
                Some(span)
                    if (span.last + 1, span.state, span.delivery_count) == (first, state, delivery_count) =>
                {
                    span.last = first;
                }
                _ => spans.push(DeliverySpan { first, last: first, state, delivery_count }),
            }
        }
        self.note(format!("leader: start {} {spans:?}", self.stored_start));
        self.writes.clear();
        self.dead.clear();
        let state = LoadedState { state_epoch: 0, start_offset: self.stored_start, spans };
        self.partition = SharePartition::new(1);
        let letters = self.partition.load(&state, &self.limits).expect("it was stored");
        let known: Vec<_> = state
            .spans
            .iter()
            .map(|span| (span.first, span.last, self.loaded(span), span.delivery_count))
            .collect();
        self.oracle = Oracle::load(self.stored_start, &known);
        let dead = |known: &&(i64, i64, RecordState, i16)| matches!(known.2, RecordState::Archiving(_));
        let dead: Vec<i64> = known.iter().filter(dead).flat_map(|known| known.0..=known.1).collect();
        self.add_dead(&letters, &dead);
    }

    fn loaded(&self, span: &DeliverySpan) -> RecordState {
        use crate::share_partition::DeadLetterReason::{AttemptsExhausted, Rejected};
        match span.state {
            0 => RecordState::Available,
            2 => RecordState::Acknowledged,
            3 if !self.limits.dead_letters => RecordState::Archived,
            3 if span.delivery_count >= self.limits.delivery_limit as i16 => {
                RecordState::Archiving(AttemptsExhausted)
            }
            3 => RecordState::Archiving(Rejected),
            _ => RecordState::Archived,
        }
    }

    fn compare(&mut self) {
        assert_eq!(self.partition.start_offset(), self.oracle.start, "start offset");
        assert_eq!(self.partition.in_flight_records(), self.oracle.next - self.oracle.start, "end offset");
        assert_eq!(self.partition.delivery_complete_count(), self.oracle.complete(), "complete");
        assert_eq!(self.partition.next_fetch_offset(), self.oracle.next_fetch(), "next fetch");
        let letters = self.partition.dead_letters();
        let dead: Vec<i64> = letters.iter().flat_map(|letter| letter.first..=letter.last).collect();
        assert_eq!(dead, self.oracle.dead(), "dead letters");
        let mut at = self.oracle.start;
        for records in self.partition.tracked() {
            while at < records.first {
                assert_eq!(self.oracle.cell(at), None, "offset {at}");
                at += 1;
            }
            while at <= records.last {
                let cell = self.oracle.cell(at).unwrap_or_else(|| panic!("offset {at} is not tracked"));
                let expected = (cell.state, cell.count, cell.is_pending, cell.member.as_deref());
                let found = (records.state, records.delivery_count, records.is_pending, records.member);
                assert_eq!(found, expected, "offset {at}");
                at += 1;
            }
        }
        assert_eq!(at, self.oracle.next, "last tracked offset");
    }

    /// All members accept all records, until none is left.
    fn drain(&mut self) {
        self.limits = ShareLimits { max_record_locks: 100, lock_duration_ms: 10_000, ..kit::limits() };
        for round in 0.. {
            assert!(round < 2_000, "records are left at {}", self.partition.start_offset());
            while !self.writes.is_empty() {
                self.end_this_write(0, true);
            }
            self.now_ms += 20_000;
            self.tick();
            let dead: Vec<i64> = self.dead.iter().copied().collect();
            self.dead_letters_done(&dead);
            let next = self.partition.next_fetch_offset();
            self.log_start_moved();
            if self.partition.start_offset() >= self.log_end {
                break;
            }
            let batches = self.read(next, 3);
            let request = AcquireRequest {
                member: Arc::from("a"),
                mode: AcquireMode::Batches,
                max_records: 50,
                batch_size: 10,
            };
            if batches.is_empty() {
                // The end of the log was compacted away.
                self.append();
                continue;
            }
            let fetched = FetchedRange { fetch_offset: next, batches: &batches };
            let got = self.partition.acquire(&request, fetched, &self.limits, self.now_ms);
            self.oracle.acquire(&request, fetched, &self.limits, self.now_ms);
            for part in got.records {
                let batch = AckBatch { first: part.first, last: part.last, types: &[1] };
                let write = self.partition.acknowledge(&request.member, &[batch], &self.limits, self.now_ms);
                let changes = self.oracle.acknowledge("a", &[batch], &self.limits, self.now_ms);
                self.sent(write.expect("it is held"), &changes.expect("it is held"), true);
            }
            self.compare();
        }
        assert_eq!(self.partition.in_flight_batches(), 0);
        assert_eq!(self.partition.tracked_bytes(), 0);
        assert_eq!(self.partition.deadline_ms(), None);
    }
}

/// Runs a history. Returns its events, or the trace of the failed one and its panic.
fn history(steps: &[u64]) -> Result<Reached, (Vec<String>, Box<dyn std::any::Any + Send>)> {
    let mut world = World::new();
    let run = catch_unwind(AssertUnwindSafe(|| {
        for step in steps {
            world.step(*step);
        }
        world.drain();
    }));
    match run {
        Ok(()) => Ok(world.reached),
        Err(panic) => Err((world.trace, panic)),
    }
}

/// Removes steps as long as the rest fails.
fn shortened(mut steps: Vec<u64>) -> Vec<u64> {
    let mut size = steps.len() / 2;
    while size > 0 {
        let mut at = 0;
        while at < steps.len() {
            let mut fewer = steps.clone();
            fewer.drain(at..(at + size).min(steps.len()));
            if history(&fewer).is_err() { steps = fewer } else { at += size }
        }
        size /= 2;
    }
    steps
}

#[test]
fn share_partition_histories_match_the_model() {
    let mut reached = Reached::default();
    for seed in seeds(scaled(SEEDS)) {
        let mut rng = StdRng::seed_from_u64(seed);
        let steps: Vec<u64> = (0..STEPS).map(|_| rng.random()).collect();
        match history(&steps) {
            Ok(events) => {
                reached.acquired += events.acquired;
                reached.redelivered += events.redelivered;
                reached.committed += events.committed;
                reached.rolled_back += events.rolled_back;
                reached.expired += events.expired;
                reached.refused += events.refused;
                reached.gaps += events.gaps;
                reached.dead += events.dead;
                reached.aborted += events.aborted;
                reached.isolated += events.isolated;
                reached.joined += events.joined;
            }
            Err(_) => {
                let steps = shortened(steps);
                let (trace, panic) = history(&steps).expect_err("it has failed");
                println!("LEVADA_TEST_SEED={seed}, {} steps:\n{}", steps.len(), trace.join("\n"));
                resume_unwind(panic);
            }
        }
    }
    println!("{reached:?}");
    let counts = [
        reached.acquired,
        reached.redelivered,
        reached.committed,
        reached.rolled_back,
        reached.expired,
        reached.refused,
        reached.gaps,
        reached.dead,
        reached.aborted,
        reached.isolated,
        reached.joined,
    ];
    assert!(counts.iter().all(|count| *count >= least(50)), "{reached:?}");
}
