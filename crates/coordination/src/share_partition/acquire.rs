//! Acquisition: a member gets the lock of records that a fetch has read, and their delivery count
//! rises. Nothing is written: the next leader delivers acquired records again.

use std::ops::Range;
use std::sync::Arc;

use super::isolation::{BatchPart, is_isolated, pick};
use super::leases::LeaseId;
use super::ledger::{RecordState, Run, length};
use super::limits::ShareLimits;
use super::write::count_id;
use super::{SharePartition, SharePhase};

/// Mode in which a fetch acquires records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AcquireMode {
    /// Whole batches: the number of records is a soft limit (`batch_optimized`).
    Batches,
    /// At most the requested number of records (`record_limit`).
    Records,
}

/// Request of a member for records.
#[derive(Clone, Debug)]
pub struct AcquireRequest {
    /// Id of the member.
    pub member: Arc<str>,
    /// Rule for the number of acquired records.
    pub mode: AcquireMode,
    /// Maximum number of records; a soft limit in [`AcquireMode::Batches`].
    pub max_records: i32,
    /// Number of records from which on new records are divided at the bounds of batches of the log.
    pub batch_size: i32,
}

impl AcquireRequest {
    /// Number of offsets up to which neighbouring batches may be passed as one [`FetchedBatch`],
    /// because the acquisition does not divide them. It requires that no record from the fetch
    /// offset on was acquired before, that no batch is aborted, and that the last offset to acquire
    /// by [`SharePartition::new_max`] and `max_records` is not among the joined batches.
    pub fn joined_max(&self) -> i64 {
        match self.mode {
            AcquireMode::Batches => i64::from(self.batch_size.max(1)),
            AcquireMode::Records => i64::MAX,
        }
    }
}

/// A batch of the log, by its header, or neighbouring batches that are not divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FetchedBatch {
    /// Base offset.
    pub base: i64,
    /// Last offset, inclusive.
    pub last: i64,
    /// True for the data of an aborted transaction, if the group reads committed records only.
    /// Consumers do not get them. Control batches are acquired: consumers acknowledge their offsets
    /// as gaps.
    pub is_aborted: bool,
}

/// Batches that a fetch has read.
#[derive(Clone, Copy, Debug)]
pub struct FetchedRange<'a> {
    /// Offset from which the log was read. The log has no records between it and the first batch.
    /// Nothing is acquired if the read has left out records that were never acquired.
    pub fetch_offset: i64,
    /// Batches in the order of the log.
    pub batches: &'a [FetchedBatch],
}

/// Neighbouring records that a member has acquired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AcquiredRecords {
    /// First offset.
    pub first: i64,
    /// Last offset, inclusive.
    pub last: i64,
    /// Number of times the records were acquired, with this time.
    pub delivery_count: i16,
}

/// Result of [`SharePartition::acquire`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Acquisition {
    /// Acquired records, in the order of their offsets.
    pub records: Vec<AcquiredRecords>,
    /// Number of acquired records.
    pub count: i64,
    /// Batches to send, as a range of [`FetchedRange::batches`]. Records in it that were not
    /// acquired travel along, and the client drops them.
    pub batches: Range<usize>,
}

/// An acquisition in progress.
struct Round<'a> {
    request: &'a AcquireRequest,
    limits: &'a ShareLimits,
    batches: &'a [FetchedBatch],
    lease: LeaseId,
    /// Base offset of the first batch.
    first_base: i64,
    /// Last offset to acquire.
    last: i64,
    /// Number of records that may be acquired yet.
    left: i64,
    /// True if the log was read from the first gap on, or from an earlier offset.
    fills_gaps: bool,
    records: Vec<AcquiredRecords>,
}

impl Round<'_> {
    /// Adds acquired records. Records of the same part of a batch that continue the ones before are
    /// joined with them.
    fn push(&mut self, part: usize, records: AcquiredRecords) {
        self.left = self.left.saturating_sub(length(records.first, records.last));
        let before = if self.records.len() > part { self.records.last_mut() } else { None };
        match before {
            Some(before)
                if before.last.saturating_add(1) == records.first
                    && before.delivery_count == records.delivery_count =>
            {
                before.last = records.last;
            }
            _ => self.records.push(records),
        }
    }

    /// Last offset of the log's batch that contains `offset`, or `offset` itself.
    fn batch_end(&self, offset: i64) -> i64 {
        let later = self.batches.partition_point(|batch| batch.base <= offset);
        let batch = later.checked_sub(1).and_then(|index| self.batches.get(index));
        batch.map_or(offset, |batch| batch.last.max(offset))
    }

    /// New records from `first` to `last` as batches to track: divided at the bounds of batches of
    /// the log if they are more than the member handles together.
    fn parts(&self, first: i64, last: i64) -> Vec<(i64, i64)> {
        let size = i64::from(self.request.batch_size.max(1));
        let (mut parts, mut begin) = (Vec::new(), first);
        if self.request.mode == AcquireMode::Batches && length(first, last) > size {
            let earlier = self.batches.partition_point(|batch| batch.base <= first);
            for batch in self.batches.iter().skip(earlier).take_while(|batch| batch.base <= last) {
                if batch.base.saturating_sub(begin) >= size {
                    parts.push((begin, batch.base - 1));
                    begin = batch.base;
                }
            }
        }
        parts.push((begin, last));
        parts
    }

    /// The result, without the records of aborted transactions.
    fn finish(self) -> Acquisition {
        let aborted = || self.batches.iter().filter(|batch| batch.is_aborted);
        let mut records = self.records;
        if aborted().next().is_some() {
            records = without(&records, aborted());
        }
        let count = records.iter().map(|part| length(part.first, part.last)).sum();
        let span = records.first().zip(records.last());
        let batches = span.map_or(0..0, |(first, last)| {
            let begin = self.batches.partition_point(|batch| batch.last < first.first);
            begin..self.batches.partition_point(|batch| batch.base <= last.last).max(begin)
        });
        Acquisition { records, count, batches }
    }
}

/// The parts of `records` that no batch of `dropped` has. Both are in the order of their offsets.
fn without<'a>(
    records: &[AcquiredRecords],
    dropped: impl Iterator<Item = &'a FetchedBatch>,
) -> Vec<AcquiredRecords> {
    let mut dropped = dropped.peekable();
    let mut kept = Vec::new();
    for part in records {
        let mut first = part.first;
        while first <= part.last {
            let Some(batch) = dropped.peek().filter(|batch| batch.base <= part.last) else { break };
            if batch.last >= first {
                if batch.base > first {
                    kept.push(AcquiredRecords { first, last: batch.base - 1, ..*part });
                }
                first = batch.last.saturating_add(1);
            }
            if batch.last > part.last {
                break;
            }
            dropped.next();
        }
        if first <= part.last {
            kept.push(AcquiredRecords { first, ..*part });
        }
    }
    kept
}

impl SharePartition {
    /// Acquires records that a fetch has read, for a member; at most as many as the request, the
    /// limit of record locks and the isolation of records at their last attempts allow. The lock
    /// begins at `now_ms` of the monotonic clock.
    pub fn acquire(
        &mut self,
        request: &AcquireRequest,
        fetched: FetchedRange<'_>,
        limits: &ShareLimits,
        now_ms: i64,
    ) -> Acquisition {
        let Some(mut round) = self.begin(request, fetched, limits) else { return Acquisition::default() };
        let lock_end_ms = limits.lock_end_ms(now_ms);
        round.lease = self.ledger.leases_mut().open(Arc::clone(&request.member), lock_end_ms);
        round.fills_gaps = self.first_gap().is_some_and(|gap| fetched.fetch_offset <= gap);
        self.archive_missing(fetched.fetch_offset, &round);
        self.acquire_range(&mut round);
        self.ledger.leases_mut().close_unused(round.lease);
        self.archive_aborted(&round);
        self.advance();
        round.finish()
    }

    /// The bounds of an acquisition; none if nothing can be acquired.
    fn begin<'a>(
        &self,
        request: &'a AcquireRequest,
        fetched: FetchedRange<'a>,
        limits: &'a ShareLimits,
    ) -> Option<Round<'a>> {
        let (first, last) = fetched.batches.first().zip(fetched.batches.last())?;
        let is_valid = fetched.fetch_offset <= self.next && last.last < i64::MAX;
        if self.phase != SharePhase::Active || last.last < self.start || !is_valid {
            return None;
        }
        let (mut left, mut end) = (self.room(limits), last.last);
        if left <= 0 {
            // No room for new records; records before the end offset can be delivered again.
            left = length(fetched.fetch_offset, self.next - 1);
            end = end.min(self.next - 1);
        }
        left = left.min(request.max_records.into());
        (left > 0).then(|| Round {
            request,
            limits,
            batches: fetched.batches,
            lease: LeaseId::NONE,
            first_base: first.base,
            last: end,
            left,
            fills_gaps: false,
            records: Vec::new(),
        })
    }

    /// Archives available records that the log no longer has: it was read from `fetch_offset` on.
    fn archive_missing(&mut self, fetch_offset: i64, round: &Round<'_>) {
        if fetch_offset >= round.first_base {
            return;
        }
        self.ledger.change(fetch_offset, round.first_base - 1, |_, _, run| {
            (run.state == RecordState::Available).then(|| run.settled(RecordState::Archived))
        });
        if round.fills_gaps {
            self.raise_gap(round.first_base);
        }
    }

    /// Archives acquired records of aborted transactions.
    fn archive_aborted(&mut self, round: &Round<'_>) {
        for batch in round.batches.iter().filter(|batch| batch.is_aborted) {
            self.ledger.change(batch.base.max(self.start), batch.last, |_, _, run| {
                run.is_held().then(|| run.settled(RecordState::Archived))
            });
        }
    }

    fn acquire_range(&mut self, round: &mut Round<'_>) {
        let covering =
            self.ledger.floor_batch(round.first_base).filter(|(_, last)| *last >= round.first_base);
        let mut cursor = covering.map_or(round.first_base, |(first, _)| first);
        let mut uncovered = cursor.max(self.start);
        while round.left > 0 {
            let Some((first, last)) = self.ledger.next_batch(cursor, round.last) else { break };
            if let Some(gap) = self.first_gap().map(|gap| gap.max(uncovered)).filter(|gap| *gap < first) {
                self.acquire_new(round, gap, first - 1);
            }
            if round.left > 0 {
                self.acquire_tracked(round, first, last);
            }
            cursor = last.saturating_add(1);
            uncovered = uncovered.max(cursor);
            if let Some(acquired) = round.records.last().filter(|_| round.fills_gaps) {
                self.raise_gap(acquired.last.saturating_add(1));
            }
        }
        if round.left > 0 && uncovered <= round.last {
            self.acquire_new(round, uncovered, round.last);
        }
    }

    /// Acquires available records of a batch that is tracked.
    fn acquire_tracked(&mut self, round: &mut Round<'_>, first: i64, last: i64) {
        let limit = if round.request.mode == AcquireMode::Records { round.left } else { i64::MAX };
        let (from, to) = (first.max(round.first_base), last.min(round.last));
        let is_isolated = is_isolated(self.ledger.runs(from, to), round.limits);
        if is_isolated && !round.records.is_empty() {
            round.left = 0;
            return;
        }
        let part = BatchPart { size: length(first, last), from, to, limit };
        let (lease, part_begin) = (round.lease, round.records.len());
        for (first, last, deliveries) in pick(self.ledger.runs(from, to), part, round.limits) {
            let deliveries = deliveries.saturating_add(1).min(i16::MAX as u16);
            let run = Run { last, lease, deliveries, state: RecordState::Acquired, is_pending: false };
            self.ledger.change(first, last, |_, _, _| Some(run));
            let delivery_count = count_id(deliveries);
            round.push(part_begin, AcquiredRecords { first, last, delivery_count });
        }
        if is_isolated && !round.records.is_empty() {
            round.left = 0;
        }
    }

    /// Acquires records that are not tracked yet, from `first` to `last`, or to the end of the
    /// batch with the last record to acquire.
    fn acquire_new(&mut self, round: &mut Round<'_>, first: i64, last: i64) {
        let first = if self.ledger.is_empty() { first.max(self.next) } else { first };
        let mut end = last;
        if round.left < length(first, last) {
            end = round.batch_end(first.saturating_add(round.left - 1));
        }
        if let Some((next, _)) = self.ledger.next_batch(first, end) {
            end = next - 1;
        }
        if first > end {
            return;
        }
        if self.ledger.run_count() >= round.limits.max_entries {
            round.left = 0;
            return;
        }
        self.next = self.next.max(end.saturating_add(1));
        let acquired = match round.request.mode {
            AcquireMode::Batches => end,
            AcquireMode::Records => end.min(first.saturating_add(round.left - 1)),
        };
        for (first, last) in round.parts(first, end) {
            self.track_new(round, (first, last), acquired.min(last));
        }
        if round.fills_gaps {
            self.raise_gap(acquired.saturating_add(1));
        }
    }

    /// Tracks a new batch, and acquires its records up to `acquired`.
    fn track_new(&mut self, round: &mut Round<'_>, (first, last): (i64, i64), acquired: i64) {
        self.ledger.add_batch(first, last);
        let run = Run { lease: round.lease, ..Run::at_rest(acquired, RecordState::Acquired, 1) };
        self.ledger.add_run(first, run);
        if acquired < last {
            let rest = Run::at_rest(last, RecordState::Available, 0);
            self.ledger.add_run(acquired + 1, rest);
        }
        round.push(round.records.len(), AcquiredRecords { first, last: acquired, delivery_count: 1 });
    }
}
