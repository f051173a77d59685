//! Share partitions against Kafka's class: random fetches, acknowledgements, ends of sessions and
//! locks, writes that fail, dead letters, moved log starts, compaction and changes of leaders. Both
//! get the same commands, and all results and states are equal.
//!
//! Suite: long; 8 s; needs java, newer-kafka; share queues
//! Soak: scale 50, repeated

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use levada_coordination::share_partition::{
    AckBatch, AckError, AcquireMode, AcquireRequest, Acquisition, DeliverySpan, FetchedBatch, FetchedRange,
    LoadedState, ShareLimits, SharePartition, StateWrite, WriteFault,
};
use levada_testing::{least, scaled, seed};
use levada_tests::Tool;
use levada_tests::tool::Conversation;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};

mod compare;

use compare::{expand, int, list, same, starts_between};

const LIMIT: Duration = Duration::from_secs(120);
const HISTORIES: usize = 200;
const STEPS: usize = 120;
/// Minimum of commands at scale 1: about half of the mean, because known differences end histories
/// at any step.
const COMMANDS: usize = 5_000;
/// Number of locks of records that no history exhausts.
const MANY_LOCKS: u32 = 2_000;
const MEMBERS: [&str; 3] = ["a", "b", "c"];
/// Reason of a known difference: a batch that begins before the log, or of which some records are
/// gone, is divided while its write is under way.
const DIVIDED: &str = "forgets the write of a batch that it divides";
/// Reason of a known difference.
const EMPTY_GAP: &str = "looks for offsets of a loaded state that the log does not have";

/// End of a history before its last step.
enum Stop {
    /// Kafka's class differs here, for this reason.
    Known(&'static str),
    /// Kafka's class differs.
    Differs(String),
}

/// Number of times that each event has happened.
type Reached = BTreeMap<&'static str, usize>;

/// A write of both sides. One of them may have none to do.
struct Outstanding {
    ours: Option<StateWrite>,
    is_kafkas: bool,
}

struct World<'a> {
    kafka: &'a mut Conversation,
    rng: StdRng,
    partition: SharePartition,
    limits: ShareLimits,
    now_ms: i64,
    log: VecDeque<FetchedBatch>,
    log_start: i64,
    log_end: i64,
    writes: Vec<Outstanding>,
    /// Dead letters of Kafka's that are not written, by their number.
    letters: BTreeMap<usize, (i64, i64)>,
    lettered: usize,
    stored: BTreeMap<i64, (i8, i16)>,
    stored_start: i64,
    /// Offsets that the state has left out which the present leader has loaded.
    gaps: Vec<i64>,
    trace: Vec<String>,
    reached: Reached,
}

impl<'a> World<'a> {
    fn new(kafka: &'a mut Conversation, seed: u64) -> Result<Self, Stop> {
        let mut rng = StdRng::seed_from_u64(seed);
        let limits = ShareLimits {
            max_record_locks: if rng.random_bool(0.4) { rng.random_range(20..60) } else { MANY_LOCKS },
            delivery_limit: rng.random_range(2..8),
            lock_duration_ms: rng.random_range(5_000..20_000),
            renew_enabled: rng.random_bool(0.8),
            dead_letters: rng.random_bool(0.5),
            max_entries: 100_000,
        };
        let mut world = Self {
            kafka,
            rng,
            partition: SharePartition::new(0),
            limits,
            now_ms: 0,
            log: VecDeque::new(),
            log_start: 0,
            log_end: 0,
            writes: Vec::new(),
            letters: BTreeMap::new(),
            lettered: 0,
            stored: BTreeMap::new(),
            stored_start: 0,
            gaps: Vec::new(),
            trace: Vec::new(),
            reached: Reached::new(),
        };
        let limits = &world.limits;
        world.kafka.say(
            &json!({
                "do": "limits", "locks": limits.max_record_locks, "attempts": limits.delivery_limit,
                "lock": limits.lock_duration_ms, "renew": limits.renew_enabled,
                "letters": limits.dead_letters,
            })
            .to_string(),
        );
        world.kafka.line(LIMIT);
        world.change_leader()?;
        Ok(world)
    }

    fn step(&mut self, seed: u64) -> Result<(), Stop> {
        self.rng = StdRng::seed_from_u64(seed);
        match self.rng.random_range(0..100) {
            0..34 => self.fetch(),
            34..62 => self.ack(),
            62..78 => self.end_write(),
            78..86 => self.pass(),
            86..89 => self.leave(),
            89..91 => self.move_log_start(),
            91..93 => {
                self.compact();
                Ok(())
            }
            93..98 => self.end_letters(),
            _ => self.change_leader(),
        }
    }

    fn count(&mut self, event: &'static str, times: usize) {
        *self.reached.entry(event).or_default() += times;
    }

    /// Has Kafka's class follow a command.
    fn ask(&mut self, command: &Value) -> Result<Value, Stop> {
        self.kafka.say(&command.to_string());
        let line = self.kafka.line(LIMIT);
        self.trace.push(format!("{command}\n    {line}"));
        self.count("commands", 1);
        let answer: Value = serde_json::from_str(&line).expect("JSON");
        match answer.get("thrown") {
            Some(error) => Err(Stop::Differs(format!("Kafka's class throws {error}"))),
            None => Ok(answer),
        }
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

    fn fetch(&mut self) -> Result<(), Stop> {
        let next = self.partition.next_fetch_offset();
        if next < self.log_start {
            return self.log_start_moved();
        }
        while self.log.back().is_none_or(|batch| batch.last < next) || self.rng.random_bool(0.3) {
            self.append();
        }
        let count = self.rng.random_range(1..5);
        let read = self.log.iter().filter(|batch| batch.last >= next).take(count);
        let batches: Vec<FetchedBatch> = read.copied().collect();
        let is_exact = self.rng.random_bool(0.5);
        let request = AcquireRequest {
            member: self.member(),
            mode: if is_exact { AcquireMode::Records } else { AcquireMode::Batches },
            max_records: self.rng.random_range(1..20),
            batch_size: self.rng.random_range(1..10),
        };
        let sent: Vec<Value> =
            batches.iter().map(|batch| json!([batch.base, batch.last, batch.is_aborted])).collect();
        let asked = self.ask(&json!({
            "do": "fetch", "member": *request.member, "exact": is_exact, "size": request.batch_size,
            "max": request.max_records, "at": next, "batches": sent,
        }));
        let (first, divides) = (batches[0], self.divides_pending(next, batches[0].base));
        let answer = match asked {
            Err(_) if first.base > self.partition.end_offset() => {
                return Err(Stop::Known(
                    "throws if the records to deliver again are gone and no lock is left",
                ));
            }
            Err(_) if first.base < self.log_start && first.is_aborted => {
                return Err(Stop::Known("throws at an aborted batch in which the log begins"));
            }
            Err(_) if divides => return Err(Stop::Known(DIVIDED)),
            asked => asked?,
        };
        let fetched = FetchedRange { fetch_offset: next, batches: &batches };
        let got = self.partition.acquire(&request, fetched, &self.limits, self.now_ms);
        match self.compare_acquired(&answer, &got) {
            Err(Stop::Differs(_)) if first.base < self.log_start => {
                Err(Stop::Known("acquires records before the start of the log"))
            }
            Err(Stop::Differs(_)) if divides => Err(Stop::Known(DIVIDED)),
            Err(Stop::Differs(_)) if self.has_empty_gap() => Err(Stop::Known(EMPTY_GAP)),
            end => end,
        }
    }

    /// True if records from `next` on are gone, and the first record after them is in a batch that
    /// begins before it and whose write has not ended.
    fn divides_pending(&self, next: i64, first: i64) -> bool {
        next < first
            && self
                .partition
                .tracked()
                .any(|records| records.is_pending && records.first < first && first <= records.last)
    }

    fn compare_acquired(&mut self, answer: &Value, got: &Acquisition) -> Result<(), Stop> {
        let ours = got.records.iter().map(|part| [part.first, part.last, part.delivery_count.into()]);
        let ours: Vec<[i64; 3]> = ours.collect();
        self.count("acquired", ours.len());
        self.count("redelivered", ours.iter().filter(|part| part[2] > 1).count());
        let kafkas = list(&answer["acquired"]).iter().map(|part| [0, 1, 2].map(|index| int(&part[index])));
        same("acquired", ours, kafkas.collect())?;
        same("number of acquired records", got.count, int(&answer["count"]))?;
        self.compare(answer, None, &[])
    }

    /// True if the log does not have all offsets that the loaded state has left out.
    fn has_empty_gap(&self) -> bool {
        !self.gaps.iter().all(|at| self.is_in_log(*at))
    }

    fn is_in_log(&self, at: i64) -> bool {
        self.log.iter().any(|batch| (batch.base..=batch.last).contains(&at))
    }

    /// A range to acknowledge: mostly a part of the records that the member holds.
    fn range(&mut self, member: &str, from: i64) -> Option<(i64, i64)> {
        let tracked = self.partition.tracked();
        let held = tracked
            .filter(|records| records.member == Some(member) && !records.is_pending && records.last >= from);
        let held: Vec<(i64, i64)> = held.map(|records| (records.first, records.last)).collect();
        if held.is_empty() || self.rng.random_bool(0.04) {
            let near = from.max(self.partition.start_offset() - 2).max(0);
            return (from == 0).then(|| (near, near + self.rng.random_range(0..12)));
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

    /// The type of an acknowledgement: 0 gap, 1 accept, 2 release, 3 reject, 4 renew, 5 none.
    fn ack_type(&mut self) -> i8 {
        match self.rng.random_range(0..100) {
            0..5 => 0,
            5..45 => 1,
            45..80 => 2,
            80..98 => 3,
            98 => 4,
            _ => 5,
        }
    }

    fn ack(&mut self) -> Result<(), Stop> {
        let mut held = self.partition.tracked().filter(|records| !records.is_pending);
        let holder = held.find_map(|records| records.member.map(Arc::from));
        drop(held);
        let member = holder.filter(|_| self.rng.random_bool(0.7)).unwrap_or_else(|| self.member());
        let (mut parts, mut from): (Vec<(i64, i64, Vec<i8>)>, _) = (Vec::new(), 0);
        for _ in 0..self.rng.random_range(1..4) {
            let Some((first, last)) = self.range(&member, from) else { break };
            let count = if self.rng.random_bool(0.4) { last - first + 1 } else { 1 };
            parts.push((first, last, (0..count).map(|_| self.ack_type()).collect()));
            from = last + 1;
        }
        let batches: Vec<AckBatch<'_>> =
            parts.iter().map(|(first, last, types)| AckBatch { first: *first, last: *last, types }).collect();
        let is_tracked = parts.iter().all(|(first, ..)| {
            self.partition.tracked().any(|records| (records.first..=records.last).contains(first))
        });
        let result = self.partition.acknowledge(&member, &batches, &self.limits, self.now_ms);
        let asked = self.ask(&json!({"do": "ack", "member": *member, "batches": parts}));
        if result.is_err() && asked.is_err() {
            return Err(Stop::Known("throws at records that it does not track"));
        }
        let answer = asked?;
        let ours = match &result {
            Ok(_) => "NONE",
            Err(AckError::InvalidRequest) => "INVALID_REQUEST",
            Err(_) => "INVALID_RECORD_STATE",
        };
        self.count(if result.is_ok() { "acknowledged" } else { "refused" }, 1);
        let kafkas = answer["error"].as_str().unwrap_or_default();
        if ours == "NONE" && kafkas != "NONE" && !is_tracked {
            return Err(Stop::Known("refuses a request that begins before a tracked record"));
        }
        same("success", ours == "NONE", kafkas == "NONE")?;
        if self.log_start == 0 && is_tracked {
            // Kafka's class still has records that are complete or gone.
            same("result", ours, kafkas)?;
        }
        if result.is_err() && parts.iter().any(|(.., types)| types.contains(&4)) {
            return Err(Stop::Known("keeps renewed locks of a refused request"));
        }
        self.compare(&answer, result.unwrap_or_default(), &[])
    }

    fn end_write(&mut self) -> Result<(), Stop> {
        if self.writes.is_empty() {
            return Ok(());
        }
        let index = self.rng.random_range(0..self.writes.len());
        let is_stored = self.rng.random_bool(0.75);
        let Outstanding { ours, is_kafkas } = self.writes.remove(index);
        let mut answer = None;
        if is_kafkas {
            let index = self.writes[..index].iter().filter(|write| write.is_kafkas).count();
            answer = Some(self.ask(&json!({"do": "write", "index": index, "stored": is_stored}))?);
        }
        let mut letters = Vec::new();
        if let Some(write) = ours {
            if is_stored {
                self.store(&write);
            }
            self.count(if is_stored { "committed" } else { "rolled back" }, 1);
            let result = if is_stored { Ok(()) } else { Err(WriteFault::Unavailable) };
            letters = self.partition.written(write.id, result, &self.limits, self.now_ms).dead_letters;
        }
        let Some(answer) = answer else { return Ok(()) };
        let lacks_letters = !letters.is_empty() && list(&answer["letters"]).is_empty();
        if lacks_letters && !is_stored {
            return Err(Stop::Known("archives records without dead letters after a failed write"));
        }
        if lacks_letters && starts_between(&answer) {
            return Err(Stop::Known("throws, unseen, at a start offset between records: no dead letters"));
        }
        self.compare(&answer, None, &letters)
    }

    fn store(&mut self, write: &StateWrite) {
        self.stored_start = self.stored_start.max(write.start_offset);
        let spans = write.spans.iter();
        let spans = spans.map(|span| (span.first, span.last, span.state, span.delivery_count));
        for (at, state, count) in expand(spans, 0) {
            let stored = self.stored.entry(at).or_insert((state, count));
            *stored = (*stored).max((state, count));
        }
        self.stored = self.stored.split_off(&self.stored_start);
    }

    fn pass(&mut self) -> Result<(), Stop> {
        let ms = self.rng.random_range(0..6_000);
        self.now_ms += ms;
        let answer = self.ask(&json!({"do": "pass", "ms": ms}))?;
        let expired = self.partition.tick(&self.limits, self.now_ms);
        self.count("expired", expired.records as usize);
        self.compare(&answer, expired.write, &[])
    }

    fn leave(&mut self) -> Result<(), Stop> {
        let member = self.member();
        let answer = self.ask(&json!({"do": "end", "member": *member}))?;
        let write = self.partition.release_member(&member, &self.limits);
        self.count("released", usize::from(write.is_some()));
        self.compare(&answer, write, &[])
    }

    /// The log begins at a record: Kafka's class keeps a start offset that lies between records
    /// until all earlier records are complete.
    fn move_log_start(&mut self) -> Result<(), Stop> {
        let most = self.partition.next_fetch_offset().max(self.log_start) + 3;
        let wanted = self.rng.random_range(self.log_start..=most);
        let Some(first) = self.log.iter().find(|batch| batch.last >= wanted) else { return Ok(()) };
        self.log_start = wanted.max(first.base);
        self.log.retain(|batch| batch.last >= self.log_start);
        self.log_start_moved()
    }

    fn log_start_moved(&mut self) -> Result<(), Stop> {
        let start = self.log_start;
        let mut tracked = self.partition.tracked();
        let divided =
            tracked.any(|records| records.is_pending && records.first < start && start <= records.last);
        drop(tracked);
        let answer = self.ask(&json!({"do": "log", "start": start}))?;
        let moves = self.partition.log_start_moved(start);
        self.count("moved starts", usize::from(moves));
        match self.compare(&answer, None, &[]) {
            Err(Stop::Differs(_)) if divided => Err(Stop::Known(DIVIDED)),
            end => end,
        }
    }

    /// A batch goes; its offsets stay unused.
    fn compact(&mut self) {
        if self.log.len() > 1 {
            let index = self.rng.random_range(0..self.log.len() - 1);
            self.log.remove(index);
        }
    }

    fn end_letters(&mut self) -> Result<(), Stop> {
        let mut done: Vec<(usize, (i64, i64))> = Vec::new();
        for (index, offsets) in &self.letters {
            if self.rng.random_bool(0.7) {
                done.push((*index, *offsets));
            }
        }
        if done.is_empty() {
            return Ok(());
        }
        let (indices, offsets): (Vec<usize>, Vec<(i64, i64)>) = done.into_iter().unzip();
        self.letters.retain(|index, _| !indices.contains(index));
        let answer = self.ask(&json!({"do": "letters", "indices": indices}))?;
        let write = self.partition.dead_letters_done(&offsets);
        self.count("written letters", offsets.len());
        self.compare(&answer, write, &[])
    }

    /// The next leader has the state that was stored.
    fn change_leader(&mut self) -> Result<(), Stop> {
        let mut spans: Vec<DeliverySpan> = Vec::new();
        for (first, (state, delivery_count)) in &self.stored {
            let (first, state, delivery_count) = (*first, *state, *delivery_count);
            let joined = spans.last_mut().filter(|span| {
                (span.last + 1, span.state, span.delivery_count) == (first, state, delivery_count)
            });
            match joined {
                Some(span) => span.last = first,
                None => spans.push(DeliverySpan { first, last: first, state, delivery_count }),
            }
        }
        let end = self.stored.keys().next_back().map_or(self.stored_start, |last| last + 1);
        self.gaps = (self.stored_start..end).filter(|at| !self.stored.contains_key(at)).collect();
        self.writes.clear();
        (self.letters, self.lettered) = (BTreeMap::new(), 0);
        let kafkas = spans.iter().map(|span| json!([span.first, span.last, span.state, span.delivery_count]));
        let kafkas: Vec<Value> = kafkas.collect();
        let answer = self.ask(&json!({"do": "load", "start": self.stored_start, "spans": kafkas}))?;
        self.partition = SharePartition::new(0);
        let state = LoadedState { state_epoch: 0, start_offset: self.stored_start, spans };
        let letters = self.partition.load(&state, &self.limits);
        let letters = letters.map_err(|error| Stop::Differs(error.to_string()))?;
        self.count("leaders", 1);
        self.compare(&answer, None, &letters)
    }
}

/// Runs a history. Returns the known difference that has ended it. An error has its commands and
/// the difference.
fn history(
    kafka: &mut Conversation,
    steps: &[u64],
    reached: &mut Reached,
) -> Result<Option<&'static str>, String> {
    let mut world = match World::new(kafka, steps[0]) {
        Ok(world) => world,
        Err(Stop::Known(reason)) => return Ok(Some(reason)),
        Err(Stop::Differs(difference)) => return Err(difference),
    };
    let end = steps[1..].iter().try_for_each(|step| world.step(*step));
    for (event, times) in &world.reached {
        *reached.entry(event).or_default() += times;
    }
    match end {
        Ok(()) => Ok(None),
        Err(Stop::Known(reason)) => Ok(Some(reason)),
        Err(Stop::Differs(difference)) => Err(format!("{}\n{difference}", world.trace.join("\n"))),
    }
}

/// Removes steps as long as the rest fails. Returns the last failure.
fn shortened(kafka: &mut Conversation, mut steps: Vec<u64>, mut failure: String) -> String {
    let mut size = steps.len() / 2;
    while size > 0 {
        let mut at = 1;
        while at < steps.len() {
            let mut fewer = steps.clone();
            fewer.drain(at..(at + size).min(steps.len()));
            match history(kafka, &fewer, &mut Reached::new()) {
                Err(shorter) => (steps, failure) = (fewer, shorter),
                Ok(_) => at += size,
            }
        }
        size /= 2;
    }
    failure
}

#[test]
fn share_partition_histories_match_kafka() {
    let mut random = StdRng::seed_from_u64(seed());
    let mut kafka = Tool::newer_source("SharePartitions.java").spawn();
    let (mut reached, mut known) = (Reached::new(), Reached::new());
    for _ in 0..scaled(HISTORIES) {
        let steps: Vec<u64> = (0..=STEPS).map(|_| random.random()).collect();
        match history(&mut kafka, &steps, &mut reached) {
            Ok(reason) => *known.entry(reason.unwrap_or("is equal to the end")).or_default() += 1,
            Err(failure) => panic!("{}", shortened(&mut kafka, steps, failure)),
        }
    }
    kafka.finish(LIMIT);
    println!("{reached:?}; Kafka's class {known:?}");
    assert!(reached["commands"] >= least(COMMANDS), "{reached:?}");
    let rare = reached.iter().filter(|(_, times)| **times < least(50)).count();
    assert!(rare == 0 && reached.len() >= 15, "{reached:?}");
}
