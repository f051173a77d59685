//! One partition for one group: the machine of its delivery state, its writes, and the fetches that
//! wait for its records.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::time::Duration;

use levada_coordination::share_partition::{
    AckBatch, AckError, AcquireRequest, Acquisition, DeadLetter, FetchedRange, LoadedState, SharePartition,
    SharePhase, StateWrite,
};
use levada_coordination::share_state::ShareStateError;
use levada_process::clock::steady_ms;
use levada_wire::error_code::ErrorCode;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::oneshot;

use super::clock::Timers;
use super::counts::ShareCounts;
use super::letters::LetterQueue;
use super::writes::{Acknowledged, Queued, WriteBatch, WriteQueue, fault, state_error};
use super::{PartitionPlace, ShareGroup};
use crate::replica::{Partition, Waiters};
use crate::source::ShareLag;
use crate::stats::SharedDurations;

/// Memory for records of all entries, in bytes, at which no more records are acquired.
const TRACKED_BYTES_MAX: usize = 256 << 20;

/// Time of an alarm that is not set.
const NEVER_MS: i64 = i64::MAX;

/// State that all entries share.
pub(super) struct Shared {
    pub(super) timers: Timers,
    pub(super) counts: ShareCounts,
    /// Times of loads of states.
    pub(super) loads: SharedDurations,
    /// Memory for records of all entries, in bytes.
    tracked_bytes: AtomicUsize,
}

impl Shared {
    pub(super) fn new(timers: Timers) -> Self {
        let (counts, loads) = (ShareCounts::default(), SharedDurations::default());
        Self { timers, counts, loads, tracked_bytes: AtomicUsize::new(0) }
    }

    /// Memory for records of all entries, in bytes.
    pub(super) fn tracked_bytes(&self) -> usize {
        self.tracked_bytes.load(Ordering::Relaxed)
    }

    pub(super) fn is_full(&self) -> bool {
        self.tracked_bytes.load(Ordering::Relaxed) >= TRACKED_BYTES_MAX
    }

    /// True if acknowledgements may not divide entries for records any further either.
    fn is_overfull(&self) -> bool {
        self.tracked_bytes.load(Ordering::Relaxed) / 2 >= TRACKED_BYTES_MAX
    }
}

/// The reason why an entry has no records for a fetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ShareRefusal {
    /// The code for the client.
    Code(ErrorCode),
    /// The entry has ended; another fetch gets a new one.
    Ended,
}

/// Delivery state of one partition for one group.
pub(crate) struct ShareEntry {
    number: u64,
    group: Arc<str>,
    partition: Arc<Partition>,
    leader_epoch: i32,
    /// Time at which the entry was made, by the monotonic clock.
    made_ms: i64,
    pub(super) shared: Arc<Shared>,
    pub(super) state: Mutex<EntryState>,
    pub(super) waiters: Arc<Waiters>,
    has_ended: AtomicBool,
    /// Time of the alarm, by the monotonic clock.
    alarm_ms: AtomicI64,
}

/// The state of an entry, under its lock.
pub(super) struct EntryState {
    pub(super) machine: SharePartition,
    /// The code for fetches that wait, once the state could not be loaded.
    pub(super) failure: Option<ErrorCode>,
    writes: WriteQueue,
    pub(super) letters: LetterQueue,
    /// The entry ends after its last write and its last dead letter.
    pub(super) is_retired: bool,
    /// True if a fetch has found the fetch lock in use.
    pub(super) is_contended: bool,
    /// Fetches that have held the fetch lock.
    pub(super) fetches: u64,
    /// Time for which fetches have held the fetch lock.
    pub(super) locked: Duration,
    /// Records whose lock has ended without an acknowledgement.
    expired: u64,
    /// Memory for records that is counted in [`Shared::tracked_bytes`].
    counted_bytes: usize,
}

/// The share coordinator has refused the epochs of an entry.
pub(crate) struct EpochsRefused;

/// Work that a method of an entry leaves to its caller.
#[must_use = "writes that nobody sends are never stored"]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Follow {
    /// No further action.
    Nothing,
    /// Starts a task that sends the writes of the entry.
    Write,
    /// Starts a task that writes dead letters of the entry.
    DeadLetters,
}

impl EntryState {
    /// True if no write and no dead letter waits.
    fn is_idle(&self) -> bool {
        self.writes.is_idle() && self.letters.is_idle()
    }
}

impl ShareEntry {
    /// Queues dead letters for writing. A machine that is no longer active leaves them to the next
    /// one, which loads them.
    fn send(&self, state: &mut EntryState, letters: Vec<DeadLetter>) -> Follow {
        if state.machine.phase() != SharePhase::Active {
            return Follow::Nothing;
        }
        let (starts_task, lost) = state.letters.push(letters, state.machine.start_offset());
        if lost > 0 {
            self.letter_counts().lost(lost);
        }
        if starts_task { Follow::DeadLetters } else { Follow::Nothing }
    }

    pub(super) fn new(
        number: u64,
        partition: &Arc<Partition>,
        group: &Arc<str>,
        shared: &Arc<Shared>,
    ) -> Self {
        let leader_epoch = partition.leadership().leader_epoch();
        let state = EntryState {
            machine: SharePartition::new(leader_epoch),
            failure: None,
            writes: WriteQueue::default(),
            letters: LetterQueue::default(),
            is_retired: false,
            is_contended: false,
            fetches: 0,
            locked: Duration::ZERO,
            expired: 0,
            counted_bytes: 0,
        };
        Self {
            number,
            group: group.clone(),
            partition: partition.clone(),
            leader_epoch,
            made_ms: steady_ms(),
            shared: shared.clone(),
            state: Mutex::new(state),
            waiters: Arc::default(),
            has_ended: AtomicBool::new(false),
            alarm_ms: AtomicI64::new(NEVER_MS),
        }
    }

    pub(crate) fn group(&self) -> &Arc<str> {
        &self.group
    }

    pub(crate) fn key(&self) -> PartitionPlace {
        (self.partition.topic_id(), self.partition.index())
    }

    pub(crate) fn partition(&self) -> &Arc<Partition> {
        &self.partition
    }

    /// Epoch in which this broker leads the partition.
    pub(crate) fn leader_epoch(&self) -> i32 {
        self.leader_epoch
    }

    /// Fetches that wait for records.
    pub(crate) fn waiters(&self) -> &Arc<Waiters> {
        &self.waiters
    }

    /// True unless the entry has ended, or the leader epoch.
    pub(crate) fn is_current(&self) -> bool {
        !self.has_ended() && self.partition.check_leader(-1).is_ok() && !self.is_outdated()
    }

    /// True if another entry has the partition, or will have it. A leader that may not lead for the
    /// moment keeps its entry.
    pub(crate) fn is_over(&self) -> bool {
        self.has_ended() || self.is_outdated()
    }

    /// True if this broker leads in a later epoch.
    pub(super) fn is_outdated(&self) -> bool {
        self.partition.leadership().leader_epoch() != self.leader_epoch
    }

    /// Ends the use of the entry. Writes that wait are still sent.
    pub(super) fn end(&self) {
        self.has_ended.store(true, Ordering::Release);
        let mut state = self.state.lock();
        state.machine.fence();
        self.cancel_alarm();
        drop(state);
        self.waiters.wake();
    }

    pub(super) fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Acquire)
    }

    /// Records that the group has a session again.
    pub(super) fn keep(&self) {
        self.state.lock().is_retired = false;
    }

    /// Records that the group has no session left. Returns true if the entry can end immediately.
    pub(super) fn retire(&self) -> bool {
        let mut state = self.state.lock();
        state.is_retired = true;
        state.is_idle()
    }

    /// True if the group still has no session, and neither a write nor a dead letter waits.
    pub(super) fn retire_again(&self) -> bool {
        let state = self.state.lock();
        state.is_retired && state.is_idle()
    }

    /// Lag of the group in the partition, and the time of its fetch lock.
    pub(super) fn shown(&self) -> ShareLag {
        let log_end = self.partition.log().high_watermark();
        let state = self.state.lock();
        let count = |records: i64| records.max(0).unsigned_abs();
        ShareLag {
            group: self.group.clone(),
            topic: self.partition.topic().to_owned(),
            partition: self.partition.index(),
            records: count(state.machine.lag(log_end)),
            in_flight: count(state.machine.in_flight_records()),
            in_flight_batches: state.machine.in_flight_batches() as u64,
            expired: state.expired,
            fetches: state.fetches,
            locked: state.locked,
        }
    }

    /// True if the state could not be used.
    pub(crate) fn has_failed(&self) -> bool {
        self.state.lock().failure.is_some()
    }

    /// Applies the state that the share coordinator has.
    pub(crate) fn load(self: &Arc<Self>, loaded: &LoadedState, group: &ShareGroup) -> Follow {
        let mut state = self.state.lock();
        let follow = match state.machine.load(loaded, &group.limits) {
            Ok(letters) => {
                let took_ms = steady_ms().saturating_sub(self.made_ms).unsigned_abs();
                self.shared.loads.add(Duration::from_millis(took_ms));
                self.send(&mut state, letters)
            }
            Err(error) => {
                tracing::error!(
                    group = &*self.group,
                    partition = self.partition.name(),
                    %error,
                    "the state of a shared partition cannot be used: reset the offsets of the group"
                );
                state.failure = Some(ErrorCode::UnknownServerError);
                Follow::Nothing
            }
        };
        self.settle(&mut state);
        drop(state);
        self.waiters.wake();
        follow
    }

    /// Records that the state cannot be loaded. The caller ends the entry.
    pub(crate) fn fail(&self, code: ErrorCode) {
        self.state.lock().failure = Some(code);
    }

    /// Acquires records that a fetch has read.
    pub(super) fn acquire(
        self: &Arc<Self>,
        request: &AcquireRequest,
        fetched: FetchedRange<'_>,
        group: &ShareGroup,
    ) -> Acquisition {
        let mut state = self.state.lock();
        let acquisition = state.machine.acquire(request, fetched, &group.limits, steady_ms());
        self.settle(&mut state);
        self.shared.counts.acquired(acquisition.count);
        acquisition
    }

    /// Applies acknowledgements of a member. The receiver gets the result once the changes are
    /// stored; none if nothing is to be stored.
    pub(crate) fn acknowledge(
        self: &Arc<Self>,
        member: &Arc<str>,
        batches: &[AckBatch<'_>],
        group: &ShareGroup,
    ) -> Result<(Option<oneshot::Receiver<Acknowledged>>, Follow), AckError> {
        let mut limits = group.limits.clone();
        if self.shared.is_overfull() {
            limits.max_entries = 0;
        }
        let mut state = self.state.lock();
        let write = state.machine.acknowledge(member, batches, &limits, steady_ms())?;
        self.shared.counts.acknowledged(batches);
        let (waiter, stored) = oneshot::channel();
        let stored = write.is_some().then_some(stored);
        let follow = Self::queue(&mut state, write, Some(waiter));
        self.settle(&mut state);
        Ok((stored, follow))
    }

    /// Releases the records of a member whose session has ended.
    pub(crate) fn release_member(self: &Arc<Self>, member: &str, group: &ShareGroup) -> Follow {
        let mut state = self.state.lock();
        let write = state.machine.release_member(member, &group.limits);
        let follow = Self::queue(&mut state, write, None);
        self.settle(&mut state);
        follow
    }

    /// Ends the locks that are due.
    pub(crate) fn tick(self: &Arc<Self>, group: &ShareGroup) -> Follow {
        let mut state = self.state.lock();
        let expired = state.machine.tick(&group.limits, steady_ms());
        state.expired += expired.records.max(0).unsigned_abs();
        let follow = Self::queue(&mut state, expired.write, None);
        self.settle(&mut state);
        drop(state);
        if expired.records > 0 {
            self.shared.counts.expired(expired.records);
            self.waiters.wake();
        }
        follow
    }

    /// Applies a new log start. Returns true if the start offset has moved.
    pub(super) fn log_start_moved(self: &Arc<Self>, log_start: i64) -> bool {
        let mut state = self.state.lock();
        let has_moved = state.machine.log_start_moved(log_start);
        self.settle(&mut state);
        has_moved
    }

    pub(super) fn queue(
        state: &mut EntryState,
        write: Option<StateWrite>,
        waiter: Option<oneshot::Sender<Acknowledged>>,
    ) -> Follow {
        let Some(write) = write else { return Follow::Nothing };
        if state.writes.push(Queued { write, waiter }) { Follow::Write } else { Follow::Nothing }
    }

    /// The next writes to send.
    ///
    /// # Errors
    /// None waits: the task that sends them ends. True if the entry is to end as well.
    pub(crate) fn next_writes(&self) -> Result<WriteBatch, bool> {
        let mut state = self.state.lock();
        state.writes.next().ok_or(state.is_retired)
    }

    /// Writes have ended.
    ///
    /// # Errors
    /// The entry is to end: its epochs were refused.
    pub(crate) fn wrote(
        self: &Arc<Self>,
        batch: WriteBatch,
        result: Result<(), ShareStateError>,
        group: &ShareGroup,
    ) -> Result<Follow, EpochsRefused> {
        let (mut wakes, now_ms) = (false, steady_ms());
        let (mut waiters, mut letters) = (Vec::new(), Vec::new());
        let mut state = self.state.lock();
        for (id, waiter) in batch.into_writes() {
            let written = state.machine.written(id, result.map_err(fault), &group.limits, now_ms);
            wakes |= written.wakes_fetches;
            letters.extend(written.dead_letters);
            waiters.extend(waiter);
        }
        let follow = self.send(&mut state, letters);
        self.settle(&mut state);
        let has_ended = state.machine.phase() == SharePhase::Fenced;
        drop(state);
        for waiter in waiters {
            // The connection of the request may have closed.
            let _ = waiter.send(result.map_err(state_error));
        }
        if wakes || has_ended {
            self.waiters.wake();
        }
        if has_ended { Err(EpochsRefused) } else { Ok(follow) }
    }

    /// Counts the memory for records, and sets the alarm for the next end of a lock.
    pub(super) fn settle(self: &Arc<Self>, state: &mut MutexGuard<'_, EntryState>) {
        let bytes = state.machine.tracked_bytes() + state.letters.bytes();
        let before = std::mem::replace(&mut state.counted_bytes, bytes);
        if bytes >= before {
            self.shared.tracked_bytes.fetch_add(bytes - before, Ordering::Relaxed);
        } else {
            self.shared.tracked_bytes.fetch_sub(before - bytes, Ordering::Relaxed);
        }
        let Some(deadline_ms) = state.machine.deadline_ms() else { return };
        let alarm_ms = self.alarm_ms.load(Ordering::Relaxed);
        // An alarm that is too early costs a look.
        if deadline_ms < alarm_ms && !self.has_ended() {
            self.alarm_ms.store(deadline_ms, Ordering::Relaxed);
            self.shared.timers.set(self.number, (alarm_ms, deadline_ms), Arc::downgrade(self));
        }
    }

    /// Processes an alarm that has fired.
    pub(super) fn alarm_fired(&self, at_ms: i64) {
        let _ = self.alarm_ms.compare_exchange(at_ms, NEVER_MS, Ordering::Relaxed, Ordering::Relaxed);
    }

    fn cancel_alarm(&self) {
        let alarm_ms = self.alarm_ms.swap(NEVER_MS, Ordering::Relaxed);
        self.shared.timers.cancel(self.number, alarm_ms);
    }
}

impl Drop for ShareEntry {
    fn drop(&mut self) {
        let counted = self.state.get_mut().counted_bytes;
        self.shared.tracked_bytes.fetch_sub(counted, Ordering::Relaxed);
        self.cancel_alarm();
    }
}
