//! Comparison of a share partition with the answers of Kafka's class.

use std::collections::BTreeMap;
use std::fmt::Debug;

use levada_coordination::share_partition::{DeadLetter, DeadLetterReason, StateWrite};
use serde_json::Value;

use super::{EMPTY_GAP, MANY_LOCKS, Outstanding, Stop, World};

/// State, delivery count, member, and true while a write is to confirm the state.
type Cell = (i8, i64, String, bool);
/// Offset, state and delivery count.
type Stored = (i64, i8, i16);

const ACQUIRED: i8 = 1;
const ARCHIVED: i8 = 4;
/// States in which the delivery of a record is complete.
const COMPLETE: [i8; 2] = [2, ARCHIVED];

pub(super) fn same<T: PartialEq + Debug>(what: &str, ours: T, kafkas: T) -> Result<(), Stop> {
    if ours == kafkas {
        Ok(())
    } else {
        Err(Stop::Differs(format!("{what}: {ours:?}, and Kafka's class has {kafkas:?}")))
    }
}

pub(super) fn int(value: &Value) -> i64 {
    value.as_i64().expect("a number")
}

pub(super) fn list(value: &Value) -> &[Value] {
    value.as_array().expect("a list")
}

/// Offsets of the spans of one side with their states, from `start` on.
pub(super) fn expand(spans: impl Iterator<Item = (i64, i64, i8, i16)>, start: i64) -> Vec<Stored> {
    let each = spans.flat_map(|(first, last, state, count)| (first..=last).map(move |at| (at, state, count)));
    let mut all: Vec<Stored> = each.filter(|(at, ..)| *at >= start).collect();
    all.sort_unstable();
    all
}

/// True if Kafka's class has records before its start offset and none at it. The end of a write
/// may throw then, after the change of the states.
pub(super) fn starts_between(answer: &Value) -> bool {
    let start = int(&answer["start"]);
    let records = || list(&answer["records"]).iter().map(|records| (int(&records[0]), int(&records[1])));
    records().any(|(_, last)| last < start) && !records().any(|range| range.0 <= start && start <= range.1)
}

impl World<'_> {
    /// Compares the effects of a command.
    pub(super) fn compare(
        &mut self,
        answer: &Value,
        write: Option<StateWrite>,
        letters: &[DeadLetter],
    ) -> Result<(), Stop> {
        self.compare_writes(answer, write)?;
        self.compare_letters(answer, letters)?;
        let start = self.partition.start_offset();
        let mut kafkas: BTreeMap<i64, Cell> = BTreeMap::new();
        for records in list(&answer["records"]) {
            let (state, is_pending) = (int(&records[2]) as i8, records[5] == true);
            let member = if state == ACQUIRED && !is_pending { records[4].as_str() } else { None };
            // Records archived for good keep the write of a former change in Kafka's class.
            let cell = (
                state,
                int(&records[3]),
                member.unwrap_or_default().to_owned(),
                is_pending && state != ARCHIVED,
            );
            kafkas.extend((int(&records[0])..=int(&records[1])).map(|at| (at, cell.clone())));
        }
        self.compare_offsets(answer, &kafkas)?;
        kafkas = kafkas.split_off(&start);
        let mut ours: BTreeMap<i64, Cell> = BTreeMap::new();
        for records in self.partition.tracked() {
            let member = records.member.filter(|_| !records.is_pending).unwrap_or_default().to_owned();
            let state = records.state.id();
            let cell =
                (state, records.delivery_count.into(), member, records.is_pending && state != ARCHIVED);
            ours.extend((records.first..=records.last).map(|at| (at, cell.clone())));
        }
        for at in ours.keys().chain(kafkas.keys()) {
            same(&format!("offset {at}"), ours.get(at), kafkas.get(at))?;
        }
        Ok(())
    }

    /// Kafka's class moves the start offset when a write ends, and not over records that the log
    /// has lost as long as they are locked.
    fn compare_offsets(&mut self, answer: &Value, kafkas: &BTreeMap<i64, Cell>) -> Result<(), Stop> {
        let (start, kafkas_start) = (self.partition.start_offset(), int(&answer["start"]));
        if kafkas_start < self.log_start && self.log_start <= start {
            return Err(Stop::Known("goes back before the start of the log"));
        }
        if int(&answer["next"]) < self.log_start && self.log_start <= start {
            return Err(Stop::Known("fetches records that the log has lost"));
        }
        let (next, kafkas_next) = (self.partition.next_fetch_offset(), int(&answer["next"]));
        if kafkas_next < next && self.gaps.contains(&kafkas_next) && !self.is_in_log(kafkas_next) {
            return Err(Stop::Known(EMPTY_GAP));
        }
        same("next offset", next, kafkas_next)?;
        let passed: Vec<i8> =
            kafkas.range(kafkas_start.min(start)..start).map(|(_, (state, ..))| *state).collect();
        if kafkas_start > start || passed.iter().any(|state| !COMPLETE.contains(state)) {
            return same("start offset", start, kafkas_start);
        }
        let complete = self.partition.delivery_complete_count() + passed.len() as i64;
        same("number of complete records", complete, int(&answer["complete"]))?;
        if start == kafkas_start {
            same("end offset", self.partition.end_offset(), int(&answer["end"]))?;
            return same("can acquire", self.partition.can_acquire(&self.limits), answer["can"] == true);
        }
        self.count("later starts", 1);
        if self.limits.max_record_locks < MANY_LOCKS {
            return Err(Stop::Known("has a start offset that moves later, and so less room for locks"));
        }
        Ok(())
    }

    /// Kafka writes the end of each lock and of each dead letter for itself.
    fn compare_writes(&mut self, answer: &Value, write: Option<StateWrite>) -> Result<(), Stop> {
        let start = self.partition.start_offset();
        let kafkas = list(&answer["writes"]);
        let spans = kafkas
            .iter()
            .flat_map(|write| list(&write["spans"]))
            .map(|span| (int(&span[0]), int(&span[1]), int(&span[2]) as i8, int(&span[3]) as i16));
        let ours = write.iter().flat_map(|write| &write.spans);
        let ours = ours.map(|span| (span.first, span.last, span.state, span.delivery_count));
        same("written states", expand(ours, start), expand(spans, start))?;
        if let (Some(write), Some(last), true) = (&write, kafkas.last(), start == int(&answer["start"])) {
            let ours = (write.start_offset, i64::from(write.delivery_complete_count));
            same("start and complete of the write", ours, (int(&last["start"]), int(&last["complete"])))?;
        }
        if write.is_some() || !kafkas.is_empty() {
            self.count("writes", 1);
            self.writes.push(Outstanding { ours: write, is_kafkas: !kafkas.is_empty() });
        }
        Ok(())
    }

    fn compare_letters(&mut self, answer: &Value, letters: &[DeadLetter]) -> Result<(), Stop> {
        let start = self.partition.start_offset();
        let mut kafkas = Vec::new();
        for letter in list(&answer["letters"]) {
            let (first, last) = (int(&letter[0]), int(&letter[1]));
            kafkas.extend((first..=last).map(|at| (at, int(&letter[2]), letter[3] == true)));
            self.letters.insert(self.lettered, (first, last));
            self.lettered += 1;
        }
        let each = letters.iter().flat_map(|letter| {
            let (count, is_rejected) = (letter.delivery_count, letter.reason == DeadLetterReason::Rejected);
            (letter.first..=letter.last).map(move |at| (at, i64::from(count), is_rejected))
        });
        let mut ours: Vec<_> = each.collect();
        kafkas.retain(|(at, ..)| *at >= start);
        kafkas.sort_unstable();
        ours.retain(|(at, ..)| *at >= start);
        self.count("dead letters", ours.len());
        same("dead letters", ours, kafkas)
    }
}
