//! Delivery states by offset, as runs: neighbouring offsets in the same state are one entry, so
//! that a batch that was touched as a whole costs as much as one record.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use super::leases::{Lease, LeaseId, Leases};

/// Reason why a record goes to the dead letter queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeadLetterReason {
    /// A consumer has rejected the record.
    Rejected,
    /// The record was delivered as often as the group allows, and not accepted.
    AttemptsExhausted,
}

/// Delivery state of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordState {
    /// Deliverable, for the first time or again.
    Available,
    /// Locked for a member.
    Acquired,
    /// Acknowledged as processed; final.
    Acknowledged,
    /// Refused for good, until its dead letter is written.
    Archiving(DeadLetterReason),
    /// Archived: never delivered again; final.
    Archived,
}

impl RecordState {
    /// Number of the state in share state records and in WriteShareGroupState.
    pub const fn id(self) -> i8 {
        match self {
            Self::Available => 0,
            Self::Acquired => 1,
            Self::Acknowledged => 2,
            Self::Archiving(_) => 3,
            Self::Archived => 4,
        }
    }

    /// True if delivery is complete: the start offset may pass the record.
    pub const fn is_complete(self) -> bool {
        matches!(self, Self::Acknowledged | Self::Archived)
    }
}

/// State of neighbouring offsets. The key of the map is the first offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    /// Last offset, inclusive.
    pub(super) last: i64,
    /// The lock. While a change is pending, the lock before it.
    pub(super) lease: LeaseId,
    pub(super) deliveries: u16,
    /// The state, or the state after the pending change.
    pub(super) state: RecordState,
    /// True while the write of a change is not complete. Each pending change began as
    /// [`RecordState::Acquired`].
    pub(super) is_pending: bool,
}

impl Run {
    /// A run in a state without a lock.
    pub(super) const fn at_rest(last: i64, state: RecordState, deliveries: u16) -> Self {
        Self { last, lease: LeaseId::NONE, deliveries, state, is_pending: false }
    }

    /// True if the records can be acquired.
    pub(super) fn is_free(&self) -> bool {
        self.state == RecordState::Available && !self.is_pending
    }

    /// True if the records are locked and may be acknowledged.
    pub(super) fn is_held(&self) -> bool {
        self.state == RecordState::Acquired && !self.is_pending
    }

    /// The run after a change without a write in two phases: locked no more.
    pub(super) fn settled(self, state: RecordState) -> Self {
        Self { state, lease: LeaseId::NONE, is_pending: false, ..self }
    }
}

/// Figures that follow from the runs.
#[derive(Debug, Default)]
struct Tally {
    leases: Leases,
    /// Offsets whose delivery is complete.
    complete: i64,
    /// Number of free runs by the range of offsets in which each begins.
    free: BTreeMap<i64, u32>,
}

/// Number of offsets of one range, as a power of two: the search for a free run begins at a range
/// that has one.
const STRETCH_BITS: u32 = 8;

impl Tally {
    fn enter(&mut self, first: i64, run: &Run) {
        if run.state.is_complete() {
            self.complete = self.complete.saturating_add(length(first, run.last));
        }
        if run.is_free() {
            *self.free.entry(first >> STRETCH_BITS).or_default() += 1;
        }
        self.leases.add(run.lease);
    }

    fn leave(&mut self, first: i64, run: &Run) {
        if run.state.is_complete() {
            self.complete = self.complete.saturating_sub(length(first, run.last));
        }
        if run.is_free() {
            self.leave_stretch(first >> STRETCH_BITS);
        }
        self.leases.remove(run.lease);
    }

    fn leave_stretch(&mut self, stretch: i64) {
        if let Entry::Occupied(mut runs) = self.free.entry(stretch) {
            *runs.get_mut() -= 1;
            if *runs.get() == 0 {
                runs.remove();
            }
        }
    }
}

/// Number of offsets from `first` to `last`, both inclusive.
pub(super) fn length(first: i64, last: i64) -> i64 {
    last.saturating_sub(first).saturating_add(1).max(0)
}

/// Runs of a share partition and the batches to which they belong.
///
/// Runs do not overlap. Together they cover each batch, but for offsets below the start offset,
/// which have been dropped.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    runs: BTreeMap<i64, Run>,
    /// Last offset of each batch by its first one.
    batches: BTreeMap<i64, i64>,
    tally: Tally,
}

impl Ledger {
    pub(super) fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    pub(super) fn run_count(&self) -> usize {
        self.runs.len()
    }

    pub(super) fn batch_count(&self) -> usize {
        self.batches.len()
    }

    pub(super) fn leases(&self) -> &Leases {
        &self.tally.leases
    }

    pub(super) fn leases_mut(&mut self) -> &mut Leases {
        &mut self.tally.leases
    }

    /// Offsets whose delivery is complete, or will be if the pending writes succeed.
    pub(super) fn complete(&self) -> i64 {
        self.tally.complete
    }

    /// The first run, with its first offset.
    pub(super) fn first(&self) -> Option<(i64, Run)> {
        self.runs.first_key_value().map(|(first, run)| (*first, *run))
    }

    /// First offset that can be acquired.
    pub(super) fn first_free(&self) -> Option<i64> {
        let (stretch, _) = self.tally.free.first_key_value()?;
        let mut runs = self.runs.range(stretch << STRETCH_BITS..);
        runs.find(|(_, run)| run.is_free()).map(|(first, _)| *first)
    }

    /// Bounds of the last batch that begins at or before an offset.
    pub(super) fn floor_batch(&self, offset: i64) -> Option<(i64, i64)> {
        self.batches.range(..=offset).next_back().map(|(first, last)| (*first, *last))
    }

    /// Bounds of the first batch that begins between two offsets, both inclusive.
    pub(super) fn next_batch(&self, from: i64, to: i64) -> Option<(i64, i64)> {
        if from > to {
            return None;
        }
        self.batches.range(from..=to).next().map(|(first, last)| (*first, *last))
    }

    /// Runs that have offsets between two, both inclusive, with their first offsets. The outer runs
    /// may reach farther.
    pub(super) fn runs(&self, from: i64, to: i64) -> impl Iterator<Item = (i64, Run)> {
        let before = self.runs.range(..from).next_back();
        let begin = before.filter(|(_, run)| run.last >= from).map_or(from, |(first, _)| *first);
        let runs = (begin <= to).then(|| self.runs.range(begin..=to));
        runs.into_iter().flatten().map(|(first, run)| (*first, *run))
    }

    /// Adds a batch that overlaps no other. The caller adds its runs.
    pub(super) fn add_batch(&mut self, first: i64, last: i64) {
        self.batches.insert(first, last);
    }

    /// Adds a run of a batch.
    pub(super) fn add_run(&mut self, first: i64, run: Run) {
        self.tally.enter(first, &run);
        self.runs.insert(first, run);
    }

    /// Replaces the runs between two offsets, both inclusive, by the runs that `next` returns; runs
    /// for which it returns none stay. The function gets the first offset and the run. The last
    /// offset of the run that it returns has no effect.
    pub(super) fn change(
        &mut self,
        from: i64,
        to: i64,
        mut next: impl FnMut(&Leases, i64, Run) -> Option<Run>,
    ) {
        if from > to {
            return;
        }
        self.split_at(from);
        self.split_at(to.saturating_add(1));
        let mut changed_bounds: Option<(i64, i64)> = None;
        for (first, run) in self.runs.range_mut(from..=to) {
            let Some(changed) = next(&self.tally.leases, *first, *run) else { continue };
            let changed = Run { last: run.last, ..changed };
            self.tally.enter(*first, &changed);
            self.tally.leave(*first, run);
            *run = changed;
            changed_bounds = Some((changed_bounds.map_or(*first, |(begin, _)| begin), *first));
        }
        self.join(from, from);
        if let Some((begin, end)) = changed_bounds {
            self.join(begin, end);
        }
        self.join(to.saturating_add(1), to.saturating_add(1));
    }

    /// Makes an offset the first one of its run.
    fn split_at(&mut self, offset: i64) {
        let Some((first, run)) = self.runs.range_mut(..offset).next_back() else { return };
        if run.last < offset {
            return;
        }
        let (first, whole) = (*first, *run);
        run.last = offset - 1;
        self.tally.enter(first, &Run { last: offset - 1, ..whole });
        self.add_run(offset, whole);
        self.tally.leave(first, &whole);
    }

    /// Joins equal neighbours, from the run before `from` to the run after `to`.
    fn join(&mut self, from: i64, to: i64) {
        let before = self.runs.range(..from).next_back().map(|(first, _)| *first);
        let mut left = before.unwrap_or(from);
        while left <= to {
            let Some((first, run)) = self.runs.range(left..).next().map(|(first, run)| (*first, *run)) else {
                return;
            };
            let next = run.last.saturating_add(1);
            let follower = self.runs.get(&next).copied();
            match follower {
                Some(follower) if follower == (Run { last: follower.last, ..run }) && next > first => {
                    self.runs.remove(&next);
                    let joined = Run { last: follower.last, ..run };
                    self.tally.enter(first, &joined);
                    self.tally.leave(first, &run);
                    self.tally.leave(next, &follower);
                    self.runs.insert(first, joined);
                    left = first;
                }
                _ if next > left => left = next,
                _ => return,
            }
        }
    }

    /// Drops all offsets below this one, and the batches that end below it.
    pub(super) fn drop_below(&mut self, offset: i64) {
        self.split_at(offset);
        while let Some(entry) = self.runs.first_entry().filter(|entry| *entry.key() < offset) {
            let (first, run) = entry.remove_entry();
            self.tally.leave(first, &run);
        }
        while let Some(entry) = self.batches.first_entry().filter(|entry| *entry.get() < offset) {
            entry.remove();
        }
    }

    /// Bytes of the entries, without the slack of the maps.
    pub(super) fn bytes(&self) -> usize {
        self.runs.len() * size_of::<(i64, Run)>()
            + self.batches.len() * size_of::<(i64, i64)>()
            + self.leases().len() * size_of::<(Lease, i64, LeaseId)>()
    }
}
