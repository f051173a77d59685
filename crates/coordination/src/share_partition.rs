//! Share partitions: delivery of one topic partition's records to the members of one share group
//! (KIP-932), on the leader of the topic partition.
//!
//! A [`SharePartition`] is a state machine without clock, socket or disk. It knows offsets and no
//! records. Its host drives it:
//!
//! 1. The host reads the share state from the share coordinator and calls
//!    [`SharePartition::load`].
//! 2. For a fetch, it takes the fetch lock, reads the log from
//!    [`SharePartition::next_fetch_offset`] on, passes the headers of the batches to
//!    [`SharePartition::acquire`], sends the batches that the [`Acquisition`] names, and releases
//!    the fetch lock.
//! 3. Acknowledgements, ends of sessions and ends of locks change states and return a
//!    [`StateWrite`]. The host sends it to the share coordinator and reports the result to
//!    [`SharePartition::written`], which commits the changes or takes them back. Until then the
//!    records can be neither acquired nor acknowledged.
//! 4. The host calls [`SharePartition::tick`] when [`SharePartition::deadline_ms`] is due, and
//!    [`SharePartition::log_start_moved`] when a read is out of range or records were deleted.
//! 5. With a dead letter queue, [`Written::dead_letters`] lists records that the host copies before
//!    it calls [`SharePartition::dead_letters_done`].
//!
//! A share partition ends with the leadership, and when a write reports that it was fenced. The
//! next leader loads the share state; records that were acquired are delivered again.

use std::collections::BTreeMap;

mod acknowledge;
mod acquire;
mod dead_letters;
mod fetch_lock;
mod gap;
mod isolation;
mod leases;
mod ledger;
mod limits;
mod load;
mod release;
mod write;

pub use acknowledge::{AckBatch, AckError};
pub use acquire::{AcquireMode, AcquireRequest, AcquiredRecords, Acquisition, FetchedBatch, FetchedRange};
pub use dead_letters::DeadLetter;
pub use fetch_lock::FetchLockTimes;
pub use ledger::{DeadLetterReason, RecordState};
pub use limits::ShareLimits;
pub use load::{LoadError, LoadedState};
pub use release::ExpiredLocks;
pub use write::{DeliverySpan, StateWrite, WriteFault, WriteId, Written};

use fetch_lock::FetchLock;
use gap::GapWindow;
use ledger::Ledger;

/// Phase in the life of a share partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SharePhase {
    /// The share state is not loaded.
    Loading,
    /// Records can be acquired and acknowledged.
    Active,
    /// The share state cannot be used. The host drops the machine.
    Failed,
    /// Another leader or another state epoch is in force, or the group or the topic no longer
    /// exists. The host drops the machine.
    Fenced,
}

/// Delivery state of one topic partition for one share group.
#[derive(Debug)]
pub struct SharePartition {
    phase: SharePhase,
    leader_epoch: i32,
    state_epoch: i32,
    /// Start offset: all offsets below are complete or deleted. Equal to `next` while no record is
    /// tracked.
    start: i64,
    /// First offset that was never acquired.
    next: i64,
    /// Offsets that the loaded state does not mention.
    gap: Option<GapWindow>,
    ledger: Ledger,
    /// Offsets of the changes that wait for a write, by the write.
    writes: BTreeMap<WriteId, Vec<(i64, i64)>>,
    next_write: u64,
    fetch_lock: FetchLock,
}

/// Neighbouring offsets in the same state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrackedRecords<'a> {
    /// First offset.
    pub first: i64,
    /// Last offset, inclusive.
    pub last: i64,
    /// State, or the state after the pending write.
    pub state: RecordState,
    /// Number of times the records were acquired.
    pub delivery_count: i16,
    /// True while a write is to confirm the state.
    pub is_pending: bool,
    /// Member that holds the lock, or held it before the pending write.
    pub member: Option<&'a str>,
}

impl SharePartition {
    /// A share partition of a topic partition that this broker leads in `leader_epoch`. Its state
    /// is still to be loaded.
    pub fn new(leader_epoch: i32) -> Self {
        Self {
            phase: SharePhase::Loading,
            leader_epoch,
            state_epoch: -1,
            start: 0,
            next: 0,
            gap: None,
            ledger: Ledger::default(),
            writes: BTreeMap::new(),
            next_write: 0,
            fetch_lock: FetchLock::default(),
        }
    }

    /// Phase of the share partition.
    pub fn phase(&self) -> SharePhase {
        self.phase
    }

    /// Ends the use of this machine: a newer state of the partition or the group exists.
    pub fn fence(&mut self) {
        self.phase = SharePhase::Fenced;
    }

    /// Epoch in which this broker leads the topic partition.
    pub fn leader_epoch(&self) -> i32 {
        self.leader_epoch
    }

    /// Epoch of the share state; -1 before it is loaded.
    pub fn state_epoch(&self) -> i32 {
        self.state_epoch
    }

    /// Share-partition start offset: the delivery of all earlier records is complete.
    pub fn start_offset(&self) -> i64 {
        self.start
    }

    /// Share-partition end offset: the last tracked offset, or the next one to fetch if no record
    /// is tracked.
    pub fn end_offset(&self) -> i64 {
        if self.ledger.is_empty() { self.next } else { self.next - 1 }
    }

    /// Number of tracked offsets whose delivery is complete.
    pub fn delivery_complete_count(&self) -> i64 {
        self.ledger.complete()
    }

    /// Number of offsets from the start offset to the end offset, which the limit of record locks
    /// bounds. 0 if no record is tracked.
    pub fn in_flight_records(&self) -> i64 {
        self.next - self.start
    }

    /// Number of tracked batches.
    pub fn in_flight_batches(&self) -> usize {
        self.ledger.batch_count()
    }

    /// Bytes of the entries for tracked records, without the slack of the maps.
    pub fn tracked_bytes(&self) -> usize {
        self.ledger.bytes()
    }

    /// Number of records up to the end of the log whose delivery is not complete. `log_end` is the
    /// first offset that consumers cannot read yet.
    pub fn lag(&self, log_end: i64) -> i64 {
        log_end.saturating_sub(self.start).saturating_sub(self.ledger.complete()).max(0)
    }

    /// Tracked records in the order of their offsets.
    pub fn tracked(&self) -> impl Iterator<Item = TrackedRecords<'_>> {
        self.ledger.runs(i64::MIN, i64::MAX).map(move |(first, run)| TrackedRecords {
            first,
            last: run.last,
            state: run.state,
            delivery_count: write::count_id(run.deliveries),
            is_pending: run.is_pending,
            member: self.ledger.leases().lease(run.lease).map(|lease| &*lease.member),
        })
    }

    /// Latest time of the next [`SharePartition::tick`], by the monotonic clock; none while no
    /// record is locked.
    pub fn deadline_ms(&self) -> Option<i64> {
        self.ledger.leases().earliest_ms()
    }

    /// Offset from which the next fetch reads: the first record to be delivered again, the first
    /// gap of the loaded state, or the first record that was never acquired.
    pub fn next_fetch_offset(&mut self) -> i64 {
        let gap = self.first_gap().unwrap_or(self.next);
        self.ledger.first_free().unwrap_or(self.next).min(gap)
    }

    /// True if a fetch may acquire records: some are to be delivered again, or the limit of record
    /// locks is not reached.
    pub fn can_acquire(&mut self, limits: &ShareLimits) -> bool {
        self.next_fetch_offset() != self.next || self.in_flight_records() < limits.max_record_locks()
    }

    /// Moves the start offset over records whose delivery is complete, and over offsets without
    /// records. Returns true if it has moved.
    fn advance(&mut self) -> bool {
        let gap = self.first_gap().unwrap_or(i64::MAX);
        while let Some((_, run)) = self.ledger.first() {
            if !run.state.is_complete() || run.is_pending || run.last >= gap {
                break;
            }
            self.ledger.drop_below(run.last.saturating_add(1));
        }
        let first = self.ledger.first().map_or(self.next, |(first, _)| first.min(gap));
        let before = self.start;
        self.start = self.start.max(first);
        self.start > before
    }

    /// Applies a new log start `log_start`: earlier records are deleted. Returns true if the start
    /// offset has moved, so that waiting fetches may be served.
    ///
    /// The share state is not written; the next write contains the start offset.
    pub fn log_start_moved(&mut self, log_start: i64) -> bool {
        if log_start <= self.start || self.phase != SharePhase::Active {
            return false;
        }
        self.ledger.drop_below(log_start);
        self.start = log_start;
        self.next = self.next.max(log_start);
        self.raise_gap(log_start);
        self.advance();
        true
    }

    /// Number of records from `offset` on that can be acquired, if none of them was acquired
    /// before. The batch that contains the last of these records is acquired whole.
    pub fn new_max(&self, offset: i64, limits: &ShareLimits) -> Option<i64> {
        let is_new = self.in_flight_records() == 0 || offset > self.end_offset();
        is_new.then(|| self.room(limits))
    }

    /// Number of offsets that can be acquired before the limit of record locks is reached.
    fn room(&self, limits: &ShareLimits) -> i64 {
        limits.max_record_locks() - self.in_flight_records()
    }
}

#[cfg(test)]
mod tests;
