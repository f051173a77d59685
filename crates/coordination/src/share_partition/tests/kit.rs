//! A share partition that text drives. Each line of a script is a command; after `->` comes the
//! expected result.
//!
//! | Command | Result |
//! |---|---|
//! | `limits locks=100 attempts=5 lock=30000 renew=no letters=yes entries=9` | |
//! | `load 5 15-19 free 2, 20-22 gone 3` | `ok`, or the error |
//! | `fetch a max=10 batch=5 mode=records at=7 7-19 20-27x` | acquired records, or `nothing` |
//! | `ack a 0-4:a 5-9:arxgn` (accept, release, reject, gap, renew) | spans to write, `nothing`, or the error |
//! | `end a`, `pass 30000`, `letters done 3-4` | spans to write, or `nothing` |
//! | `hold`, `write ok`, `write fail`, `write fenced` | `wakes` or `quiet` |
//! | `log 10` | `moved` or `same` |
//! | `state`, `at`, `can`, `letters`, `deadline` | text |
//!
//! Writes succeed immediately unless `hold` comes first. `write` ends the oldest one.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::share_partition::{
    AckBatch, AckError, AcquireMode, AcquireRequest, AcquiredRecords, DeadLetter, DeadLetterReason,
    DeliverySpan, FetchedBatch, FetchedRange, LoadedState, RecordState, ShareLimits, SharePartition,
    StateWrite, WriteFault, Written,
};

pub(super) fn limits() -> ShareLimits {
    ShareLimits {
        max_record_locks: 2_000,
        delivery_limit: 5,
        lock_duration_ms: 30_000,
        renew_enabled: true,
        dead_letters: false,
        max_entries: 100_000,
    }
}

/// A share partition, its limits, its clock and its writes.
pub(super) struct Rig {
    pub(super) partition: SharePartition,
    pub(super) limits: ShareLimits,
    pub(super) now_ms: i64,
    pub(super) writes: VecDeque<StateWrite>,
    letters: Vec<DeadLetter>,
    is_holding: bool,
}

/// Runs the commands of a script and compares the results.
#[track_caller]
pub(super) fn run(script: &str) {
    let mut rig = Rig::new();
    let mut past = String::new();
    for line in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (command, expected) = match line.split_once("->") {
            Some((command, expected)) => (command.trim(), Some(expected.trim())),
            None => (line, None),
        };
        let result = rig.command(command);
        past.push_str(&format!("{command} -> {result}\n"));
        if let Some(expected) = expected {
            assert_eq!(result, expected, "`{command}` after:\n{past}\n{}", rig.state());
        }
        rig.check();
    }
}

impl Rig {
    pub(super) fn new() -> Self {
        let mut partition = SharePartition::new(3);
        let empty = LoadedState { state_epoch: 7, start_offset: 0, spans: Vec::new() };
        partition.load(&empty, &limits()).expect("an empty state is valid");
        Self {
            partition,
            limits: limits(),
            now_ms: 1_000,
            writes: VecDeque::new(),
            letters: Vec::new(),
            is_holding: false,
        }
    }

    fn command(&mut self, line: &str) -> String {
        let (name, rest) = line.split_once(' ').unwrap_or((line, ""));
        match name {
            "limits" => self.limit(rest),
            "load" => self.load(rest),
            "fetch" => self.fetch(rest),
            "ack" => self.ack(rest),
            "end" => {
                let write = self.partition.release_member(rest, &self.limits);
                self.sent(write)
            }
            "pass" => {
                self.now_ms += number(rest);
                let expired = self.partition.tick(&self.limits, self.now_ms);
                self.sent(expired.write)
            }
            "letters" if !rest.is_empty() => {
                let offsets: Vec<_> = rest.split(' ').skip(1).map(bounds).collect();
                let write = self.partition.dead_letters_done(&offsets);
                self.sent(write)
            }
            "letters" => texts(self.letters.drain(..).map(letter_text)),
            "hold" => {
                self.is_holding = true;
                "ok".to_string()
            }
            "write" => self.end_write(match rest {
                "ok" => Ok(()),
                "fail" => Err(WriteFault::Unavailable),
                "fenced" => Err(WriteFault::Fenced),
                _ => Err(WriteFault::Gone),
            }),
            "log" => if self.partition.log_start_moved(number(rest)) { "moved" } else { "same" }.to_string(),
            "state" => self.state(),
            "at" => self.at(),
            "can" => if self.partition.can_acquire(&self.limits) { "yes" } else { "no" }.to_string(),
            "deadline" => {
                let deadline = self.partition.deadline_ms().map(|ms| (ms - self.now_ms).to_string());
                deadline.unwrap_or("none".to_string())
            }
            _ => panic!("unknown command: {line}"),
        }
    }

    fn limit(&mut self, rest: &str) -> String {
        for (name, value) in rest.split(' ').map(|pair| pair.split_once('=').expect("name=value")) {
            match name {
                "locks" => self.limits.max_record_locks = number(value) as u32,
                "attempts" => self.limits.delivery_limit = number(value) as u16,
                "lock" => self.limits.lock_duration_ms = number(value) as u32,
                "entries" => self.limits.max_entries = number(value) as usize,
                "renew" => self.limits.renew_enabled = value == "yes",
                "letters" => self.limits.dead_letters = value == "yes",
                _ => panic!("unknown limit: {name}"),
            }
        }
        "ok".to_string()
    }

    fn load(&mut self, rest: &str) -> String {
        let (start, spans) = rest.split_once(' ').unwrap_or((rest, ""));
        let spans = spans.split(", ").filter(|span| !span.is_empty()).map(|span| {
            let parts: Vec<&str> = span.split(' ').collect();
            let (first, last) = bounds(parts[0]);
            let state = ["free", "held", "done", "dead", "gone"].iter().position(|name| *name == parts[1]);
            let state = state.map_or_else(|| number(parts[1]) as i8, |index| index as i8);
            DeliverySpan { first, last, state, delivery_count: number(parts[2]) as i16 }
        });
        let state = LoadedState { state_epoch: 7, start_offset: number(start), spans: spans.collect() };
        self.partition = SharePartition::new(3);
        match self.partition.load(&state, &self.limits) {
            Ok(letters) => {
                self.letters.extend(letters);
                "ok".to_string()
            }
            Err(error) => error.to_string(),
        }
    }

    fn fetch(&mut self, rest: &str) -> String {
        let mut words = rest.split(' ');
        let member = Arc::from(words.next().expect("a member"));
        let mut request =
            AcquireRequest { member, mode: AcquireMode::Batches, max_records: 500, batch_size: 500 };
        let (mut batches, mut at) = (Vec::new(), None);
        for word in words {
            match word.split_once('=') {
                Some(("max", value)) => request.max_records = number(value) as i32,
                Some(("batch", value)) => request.batch_size = number(value) as i32,
                Some(("mode", _)) => request.mode = AcquireMode::Records,
                Some(("at", value)) => at = Some(number(value)),
                _ => {
                    let (base, last) = bounds(word.trim_end_matches('x'));
                    batches.push(FetchedBatch { base, last, is_aborted: word.ends_with('x') });
                }
            }
        }
        let next = self.partition.start_offset() + self.partition.in_flight_records();
        let fetch_offset = at.unwrap_or(batches.first().map_or(0, |batch| batch.base.min(next)));
        let fetched = FetchedRange { fetch_offset, batches: &batches };
        let acquired = self.partition.acquire(&request, fetched, &self.limits, self.now_ms);
        let lengths = acquired.records.iter().map(|part| part.last - part.first + 1);
        assert_eq!(lengths.sum::<i64>(), acquired.count);
        let text = |part: &AcquiredRecords| format!("{}-{}*{}", part.first, part.last, part.delivery_count);
        let parts: Vec<String> = acquired.records.iter().map(text).collect();
        if parts.is_empty() { "nothing".to_string() } else { parts.join(" ") }
    }

    fn ack(&mut self, rest: &str) -> String {
        let mut words = rest.split(' ');
        let member = Arc::from(words.next().expect("a member"));
        let parsed: Vec<(i64, i64, Vec<i8>)> = words
            .map(|word| {
                let (offsets, types) = word.split_once(':').expect("offsets:types");
                let (first, last) = bounds(offsets);
                let id = |letter| "garxn".find(letter).map_or(9, |index| index as i8);
                (first, last, types.chars().map(id).collect())
            })
            .collect();
        let batches: Vec<AckBatch<'_>> = parsed
            .iter()
            .map(|(first, last, types)| AckBatch { first: *first, last: *last, types })
            .collect();
        match self.partition.acknowledge(&member, &batches, &self.limits, self.now_ms) {
            Ok(write) => self.sent(write),
            Err(AckError::InvalidRequest) => "invalid request".to_string(),
            Err(AckError::InvalidRecordState) => "invalid state".to_string(),
            Err(AckError::TooManyEntries) => "too many".to_string(),
            Err(AckError::NotActive) => "not active".to_string(),
        }
    }

    /// Queues a write, and ends it unless writes are held.
    fn sent(&mut self, write: Option<StateWrite>) -> String {
        let Some(write) = write else { return "nothing".to_string() };
        assert_eq!((write.state_epoch, write.leader_epoch), (7, 3));
        let text = texts(write.spans.iter().map(span_text));
        self.writes.push_back(write);
        if !self.is_holding {
            self.end_write(Ok(()));
        }
        text
    }

    fn end_write(&mut self, result: Result<(), WriteFault>) -> String {
        let write = self.writes.pop_front().expect("a write waits");
        let Written { wakes_fetches, dead_letters } =
            self.partition.written(write.id, result, &self.limits, self.now_ms);
        self.letters.extend(dead_letters);
        if wakes_fetches { "wakes" } else { "quiet" }.to_string()
    }

    pub(super) fn state(&self) -> String {
        texts(self.partition.tracked().map(|records| {
            let pending = if records.is_pending { "!" } else { "" };
            let member = records.member.map(|member| format!(" {member}")).unwrap_or_default();
            let (first, last, count) = (records.first, records.last, records.delivery_count);
            format!("{first}-{last} {}{pending} {count}{member}", state_name(records.state.id()))
        }))
    }

    fn at(&mut self) -> String {
        let partition = &mut self.partition;
        let next = partition.next_fetch_offset();
        let (start, end) = (partition.start_offset(), partition.end_offset());
        format!("start {start} end {end} next {next} complete {}", partition.delivery_complete_count())
    }

    /// Checks figures against the tracked records.
    fn check(&self) {
        let complete = self.partition.tracked().filter(|records| records.state.is_complete());
        let complete: i64 = complete.map(|records| records.last - records.first + 1).sum();
        assert_eq!(complete, self.partition.delivery_complete_count());
        let first = self.partition.tracked().next().map(|records| records.first);
        assert!(first.is_none_or(|first| first >= self.partition.start_offset()));
        if self.partition.tracked().next().is_none() {
            assert_eq!(self.partition.in_flight_records(), 0);
            assert_eq!(self.partition.in_flight_batches(), 0);
            assert_eq!(self.partition.deadline_ms(), None);
        }
    }
}

fn number(text: &str) -> i64 {
    text.parse().unwrap_or_else(|_| panic!("not a number: {text:?}"))
}

fn bounds(text: &str) -> (i64, i64) {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    (number(first), number(last))
}

fn texts(parts: impl Iterator<Item = String>) -> String {
    let parts: Vec<String> = parts.collect();
    if parts.is_empty() { "nothing".to_string() } else { parts.join(", ") }
}

fn state_name(id: i8) -> &'static str {
    ["free", "held", "done", "dead", "gone"][usize::try_from(id).expect("a state")]
}

fn span_text(span: &DeliverySpan) -> String {
    format!("{}-{} {} {}", span.first, span.last, state_name(span.state), span.delivery_count)
}

fn letter_text(letter: DeadLetter) -> String {
    let reason = match letter.reason {
        DeadLetterReason::Rejected => "rejected",
        DeadLetterReason::AttemptsExhausted => "exhausted",
    };
    format!("{}-{} {reason} {}", letter.first, letter.last, letter.delivery_count)
}

#[test]
fn states_have_the_numbers_of_share_records() {
    let dead = RecordState::Archiving(DeadLetterReason::Rejected);
    let states = [RecordState::Available, RecordState::Acquired, RecordState::Acknowledged, dead];
    assert_eq!(states.map(RecordState::id), [0, 1, 2, 3]);
    assert_eq!(RecordState::Archived.id(), 4);
}
