//! The rules of KIP-932 for one share partition, offset by offset: slow, and simple enough to be
//! checked by reading.

use std::collections::BTreeSet;

use crate::share_partition::{
    AckBatch, AckError, AcquireMode, AcquireRequest, DeadLetterReason, FetchedRange, RecordState, ShareLimits,
};

use RecordState::{Acknowledged, Acquired, Archived, Archiving, Available};

/// State of a tracked offset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cell {
    pub(super) state: RecordState,
    pub(super) count: i16,
    pub(super) member: Option<String>,
    pub(super) is_pending: bool,
    deadline_ms: i64,
    batch: (i64, i64),
}

/// A share partition.
#[derive(Clone, Debug, Default)]
pub(super) struct Oracle {
    cells: Vec<Option<Cell>>,
    pub(super) start: i64,
    pub(super) next: i64,
    pub(super) gaps: BTreeSet<i64>,
}

/// A changed offset, as a write has it: offset, state, delivery count.
pub(super) type Change = (i64, i8, i16);

fn refused(reason: DeadLetterReason, limits: &ShareLimits) -> RecordState {
    if limits.dead_letters { Archiving(reason) } else { Archived }
}

fn released(count: i16, limits: &ShareLimits) -> RecordState {
    let is_last = count >= limits.delivery_limit as i16;
    if is_last { refused(DeadLetterReason::AttemptsExhausted, limits) } else { Available }
}

impl Cell {
    fn is_free(&self) -> bool {
        self.state == Available && !self.is_pending
    }

    fn is_held(&self) -> bool {
        self.state == Acquired && !self.is_pending
    }

    fn settle(&mut self, state: RecordState) {
        (self.state, self.member, self.is_pending) = (state, None, false);
    }
}

impl Oracle {
    pub(super) fn cell(&self, offset: i64) -> Option<&Cell> {
        self.cells.get(usize::try_from(offset).ok()?)?.as_ref()
    }

    fn cell_mut(&mut self, offset: i64) -> Option<&mut Cell> {
        self.cells.get_mut(usize::try_from(offset).ok()?)?.as_mut()
    }

    fn set(&mut self, offset: i64, cell: Cell) {
        let index = offset as usize;
        if self.cells.len() <= index {
            self.cells.resize(index + 1, None);
        }
        self.cells[index] = Some(cell);
        self.gaps.remove(&offset);
    }

    /// Tracked offsets.
    fn offsets(&self) -> Vec<i64> {
        (self.start..self.next).filter(|offset| self.cell(*offset).is_some()).collect()
    }

    /// Offsets that wait for dead letters.
    pub(super) fn dead(&self) -> Vec<i64> {
        let is_dead = |cell: &Cell| matches!(cell.state, Archiving(_)) && !cell.is_pending;
        self.offsets().into_iter().filter(|offset| self.cell(*offset).is_some_and(is_dead)).collect()
    }

    pub(super) fn complete(&self) -> i64 {
        let complete = |offset: &i64| self.cell(*offset).is_some_and(|cell| cell.state.is_complete());
        self.offsets().iter().filter(|offset| complete(offset)).count() as i64
    }

    pub(super) fn next_fetch(&self) -> i64 {
        let free = |offset: &i64| self.cell(*offset).is_some_and(Cell::is_free) || self.gaps.contains(offset);
        (self.start..self.next).find(free).unwrap_or(self.next)
    }

    fn advance(&mut self) {
        while self.start < self.next && !self.gaps.contains(&self.start) {
            match self.cell(self.start) {
                Some(cell) if !cell.state.is_complete() || cell.is_pending => return,
                _ => self.start += 1,
            }
        }
    }

    /// Loads a state: offsets with states and counts, which are of one batch each.
    pub(super) fn load(start: i64, spans: &[(i64, i64, RecordState, i16)]) -> Self {
        let mut oracle = Self { start, next: start, ..Self::default() };
        for (first, last, state, count) in spans {
            oracle.gaps.extend(oracle.next..*first);
            for offset in *first..=*last {
                let batch = (*first, *last);
                let cell = Cell {
                    state: *state,
                    count: *count,
                    member: None,
                    is_pending: false,
                    deadline_ms: 0,
                    batch,
                };
                oracle.set(offset, cell);
            }
            oracle.next = last + 1;
        }
        oracle.advance();
        oracle
    }

    pub(super) fn acquire(
        &mut self,
        request: &AcquireRequest,
        fetched: FetchedRange<'_>,
        limits: &ShareLimits,
        now_ms: i64,
    ) -> Vec<(i64, i64, i16)> {
        let (Some(first), Some(end)) = (fetched.batches.first(), fetched.batches.last()) else {
            return vec![];
        };
        let (from, mut last) = (first.base, end.last);
        let mut left = i64::from(limits.max_record_locks) - (self.next - self.start);
        if left <= 0 {
            (left, last) = (self.next - fetched.fetch_offset, last.min(self.next - 1));
        }
        left = left.min(request.max_records.into());
        if left <= 0 || end.last < self.start {
            return vec![];
        }
        let fills = self.gaps.first().is_none_or(|gap| fetched.fetch_offset <= *gap);
        self.lose(fetched.fetch_offset, from, fills);
        let mut round = Round { request, fetched, limits, now_ms, from, last, left, got: Vec::new() };
        let begin = self.cell(from).map_or(from, |cell| cell.batch.0).max(self.start);
        let mut at = begin;
        while at <= last && round.left > 0 {
            let tracked = self.cell(at).map(|cell| cell.batch);
            if let Some(batch) = tracked {
                self.acquire_again(&mut round, batch);
                at = batch.1 + 1;
            } else {
                let next = (at..=last).find(|offset| self.cell(*offset).is_some());
                let begin = match (next, self.gaps.first()) {
                    (None, _) => Some(at),
                    (Some(_), gap) => gap.map(|gap| at.max(*gap)),
                };
                let until = next.map_or(last, |next| next - 1);
                if let Some(begin) = begin {
                    self.acquire_new(&mut round, begin, until);
                }
                at = until + 1;
            }
            if let Some((_, got, _)) = round.got.last().filter(|_| fills) {
                self.gaps = self.gaps.split_off(&(got + 1));
            }
        }
        let got = self.abort(&round);
        self.advance();
        got
    }

    /// The log has no records from `from` up to `to`.
    fn lose(&mut self, from: i64, to: i64, fills: bool) {
        for offset in from..to {
            if let Some(cell) = self.cell_mut(offset).filter(|cell| cell.state == Available) {
                cell.settle(Archived);
            }
            if fills {
                self.gaps.remove(&offset);
            }
        }
        if fills && from < to {
            self.gaps = self.gaps.split_off(&to);
        }
    }

    fn acquire_again(&mut self, round: &mut Round<'_>, batch: (i64, i64)) {
        let (limits, size) = (round.limits, batch.1 - batch.0 + 1);
        let isolated_from = (limits.delivery_limit as i16 + 1) / 2;
        let isolated_from = isolated_from.max(2);
        let part = batch.0.max(round.from).max(self.start)..=batch.1.min(round.last);
        let free: Vec<i64> = part.filter(|offset| self.cell(*offset).is_some_and(Cell::is_free)).collect();
        let count = |oracle: &Self, offset| oracle.cell(offset).map_or(0, |cell| cell.count);
        let isolated = free.iter().any(|offset| count(self, *offset) >= isolated_from);
        if isolated && !round.got.is_empty() {
            round.left = 0;
            return;
        }
        let (mut taken, mut share, known) = (0, None, round.got.len());
        for offset in free {
            let before = count(self, offset);
            let is_last_attempt = limits.delivery_limit > 2 && before == limits.delivery_limit as i16 - 1;
            if is_last_attempt && taken > 0 {
                break;
            }
            if before >= isolated_from && share.is_none() {
                share = Some((size >> (before - isolated_from + 1)).max(1));
            }
            let cell = self.cell_mut(offset).expect("it is free");
            cell.count += 1;
            cell.state = Acquired;
            cell.member = Some(round.request.member.to_string());
            cell.deadline_ms = round.now_ms + i64::from(limits.lock_duration_ms);
            taken += 1;
            let is_joined = round.got.len() > known
                && round.got.last().is_some_and(|got| got.1 + 1 == offset && got.2 == before + 1);
            match round.got.last_mut().filter(|_| is_joined) {
                Some(got) => got.1 = offset,
                None => round.got.push((offset, offset, before + 1)),
            }
            let is_full = round.request.mode == AcquireMode::Records && taken == round.left;
            if is_last_attempt || is_full || share == Some(taken) {
                break;
            }
        }
        round.left -= taken;
        if isolated && !round.got.is_empty() {
            round.left = 0;
        }
    }

    fn acquire_new(&mut self, round: &mut Round<'_>, begin: i64, until: i64) {
        let begin = if self.offsets().is_empty() { begin.max(self.next) } else { begin };
        let mut end = until;
        if until - begin + 1 > round.left {
            let at = begin + round.left - 1;
            let batch = round.fetched.batches.iter().find(|batch| batch.base <= at && at <= batch.last);
            end = batch.map_or(at, |batch| batch.last);
        }
        while (begin..=end).any(|offset| self.cell(offset).is_some()) {
            end -= 1;
        }
        if begin > end {
            return;
        }
        let mut cuts = vec![begin];
        if round.request.mode == AcquireMode::Batches && end - begin + 1 > round.request.batch_size.into() {
            for batch in round.fetched.batches.iter().filter(|batch| batch.base > begin && batch.base <= end)
            {
                if batch.base - cuts[cuts.len() - 1] >= round.request.batch_size.into() {
                    cuts.push(batch.base);
                }
            }
        }
        let most = if round.request.mode == AcquireMode::Records { begin + round.left - 1 } else { end };
        for (index, first) in cuts.iter().enumerate() {
            let last = cuts.get(index + 1).map_or(end, |next| next - 1);
            for offset in *first..=last {
                let is_got = offset <= most;
                let cell = Cell {
                    state: if is_got { Acquired } else { Available },
                    count: i16::from(is_got),
                    member: is_got.then(|| round.request.member.to_string()),
                    is_pending: false,
                    deadline_ms: round.now_ms + i64::from(round.limits.lock_duration_ms),
                    batch: (*first, last),
                };
                self.set(offset, cell);
            }
            round.got.push((*first, last.min(most), 1));
            round.left -= last.min(most) - first + 1;
        }
        self.next = self.next.max(end + 1);
    }

    /// Archives what the round has acquired of aborted transactions, and returns the rest.
    fn abort(&mut self, round: &Round<'_>) -> Vec<(i64, i64, i16)> {
        let aborted: Vec<_> = round.fetched.batches.iter().filter(|batch| batch.is_aborted).collect();
        let is_aborted =
            |offset: i64| aborted.iter().any(|batch| batch.base <= offset && offset <= batch.last);
        for batch in &aborted {
            for offset in batch.base.max(self.start)..=batch.last {
                if let Some(cell) = self.cell_mut(offset).filter(|cell| cell.is_held()) {
                    cell.settle(Archived);
                }
            }
        }
        let mut kept: Vec<(i64, i64, i16)> = Vec::new();
        for (first, last, count) in &round.got {
            let mut before = None;
            for offset in (*first..=*last).filter(|offset| !is_aborted(*offset)) {
                match kept.last_mut().filter(|_| before == Some(offset - 1)) {
                    Some(part) => part.1 = offset,
                    None => kept.push((offset, offset, *count)),
                }
                before = Some(offset);
            }
        }
        kept
    }

    pub(super) fn acknowledge(
        &mut self,
        member: &str,
        batches: &[AckBatch<'_>],
        limits: &ShareLimits,
        now_ms: i64,
    ) -> Result<Vec<Change>, AckError> {
        let mut results = Vec::new();
        let mut before = -1;
        for batch in batches {
            let count = batch.last - batch.first + 1;
            let is_whole = batch.types.len() == 1 || batch.types.len() as i64 == count;
            let has_types = batch.types.iter().all(|id| (0..=4).contains(id));
            if batch.first < before || batch.first > batch.last || !is_whole || !has_types {
                return Err(AckError::InvalidRequest);
            }
            if batch.first == before {
                return Err(AckError::InvalidRecordState);
            }
            before = batch.last;
            if batch.last < self.start {
                continue;
            }
            let from = batch.first.max(self.start);
            let batch_before = |to: i64| {
                let batches =
                    self.offsets().into_iter().filter_map(|at| self.cell(at).map(|cell| cell.batch));
                let batches: Vec<(i64, i64)> = batches.filter(|(first, _)| *first <= to).collect();
                batches.last().copied()
            };
            let (Some(_), Some((_, end))) = (batch_before(from), batch_before(batch.last)) else {
                return Err(AckError::InvalidRecordState);
            };
            if end < batch.last {
                return Err(AckError::InvalidRequest);
            }
            for offset in from..=batch.last {
                let Some(cell) = self.cell(offset) else { continue };
                if !cell.is_held() || cell.member.as_deref() != Some(member) {
                    return Err(AckError::InvalidRecordState);
                }
                let id = if batch.types.len() == 1 {
                    batch.types[0]
                } else {
                    batch.types[(offset - batch.first) as usize]
                };
                if id == 4 && !limits.renew_enabled {
                    return Err(AckError::InvalidRecordState);
                }
                results.push((offset, id));
            }
        }
        let mut changes = Vec::new();
        for (offset, id) in results {
            let cell = self.cell_mut(offset).expect("it was checked");
            if id == 4 {
                cell.deadline_ms = now_ms + i64::from(limits.lock_duration_ms);
                continue;
            }
            cell.state = match id {
                1 => Acknowledged,
                2 => released(cell.count, limits),
                3 => refused(DeadLetterReason::Rejected, limits),
                _ => Archived,
            };
            cell.is_pending = true;
            changes.push((offset, cell.state.id(), cell.count));
        }
        Ok(changes)
    }

    /// The session of a member ends.
    pub(super) fn release(&mut self, member: &str, limits: &ShareLimits) -> Vec<Change> {
        let mut changes = Vec::new();
        for offset in self.offsets() {
            let cell = self.cell_mut(offset).expect("it is tracked");
            if cell.is_held() && cell.member.as_deref() == Some(member) {
                (cell.state, cell.is_pending) = (released(cell.count, limits), true);
                changes.push((offset, cell.state.id(), cell.count));
            }
        }
        changes
    }

    pub(super) fn tick(&mut self, limits: &ShareLimits, now_ms: i64) -> Vec<Change> {
        let mut changes = Vec::new();
        for offset in self.offsets() {
            let cell = self.cell_mut(offset).expect("it is tracked");
            if cell.is_held() && cell.deadline_ms <= now_ms {
                cell.settle(released(cell.count, limits));
                changes.push((offset, cell.state.id(), cell.count));
            }
        }
        changes
    }

    /// Notes the end of the write of these offsets. Returns those that wait for dead letters since
    /// then.
    pub(super) fn written(
        &mut self,
        offsets: &[i64],
        stored: bool,
        limits: &ShareLimits,
        now_ms: i64,
    ) -> Vec<i64> {
        let start = self.start;
        let mut dead = Vec::new();
        for offset in offsets.iter().filter(|offset| **offset >= start) {
            let Some(cell) = self.cell_mut(*offset) else { continue };
            match (cell.is_pending, stored) {
                (true, true) => cell.settle(cell.state),
                (true, false) if cell.deadline_ms <= now_ms => cell.settle(released(cell.count, limits)),
                (true, false) => (cell.state, cell.is_pending) = (Acquired, false),
                (false, _) => {}
            }
            if matches!(cell.state, Archiving(_)) {
                dead.push(*offset);
            }
        }
        self.advance();
        dead
    }

    pub(super) fn dead_letters_done(&mut self, offsets: &[i64]) -> Vec<Change> {
        let mut changes = Vec::new();
        for offset in offsets.iter().filter(|offset| **offset >= self.start).copied().collect::<Vec<_>>() {
            let cell = self.cell_mut(offset);
            let Some(cell) = cell.filter(|cell| matches!(cell.state, Archiving(_)) && !cell.is_pending)
            else {
                continue;
            };
            cell.settle(Archived);
            changes.push((offset, cell.state.id(), cell.count));
        }
        changes
    }

    pub(super) fn log_start_moved(&mut self, log_start: i64) {
        if log_start <= self.start {
            return;
        }
        for offset in self.start..log_start.min(self.cells.len() as i64) {
            self.cells[offset as usize] = None;
        }
        self.gaps = self.gaps.split_off(&log_start);
        (self.start, self.next) = (log_start, self.next.max(log_start));
        self.advance();
    }
}

/// An acquisition in progress.
struct Round<'a> {
    request: &'a AcquireRequest,
    fetched: FetchedRange<'a>,
    limits: &'a ShareLimits,
    now_ms: i64,
    from: i64,
    last: i64,
    left: i64,
    got: Vec<(i64, i64, i16)>,
}
