//! The append lane of a partition: the order in which batches enter the log, and the grouping of
//! concurrent batches.
//!
//! A thread that submits a batch to an idle lane writes it immediately. Batches that arrive during
//! that write form the next group, which the same thread then writes with one vectored write. This
//! is group commit without a timer, and without a switch to another thread in the absence of
//! competition (see `docs/decisions/2026-11-21-appends.md`).
//!
//! The queue is bounded by the connections: each has at most one request in flight, and a request
//! carries at most one batch per partition.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use levada_log::{Append, AppendError, LogError, Writer};
use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot};

use crate::replica::submitted::{AppendResult, Submitted, offline};

mod holds;

use self::holds::WriterHold;
pub(super) use self::holds::last_for as holds_last_for;

/// The lane of one partition. Shared by all shards.
pub(crate) struct AppendLane {
    queue: Mutex<Queue>,
    /// None once the log is closed or deleted, or a write has panicked.
    writer: Mutex<Option<Writer>>,
    log: Arc<levada_log::Partition>,
    storage_warning: RepeatedWarning,
    longest_turns_ns: [AtomicU64; Work::ALL.len()],
    /// Time since which a thread has held the writer, ns; 0 if none does.
    held_since_ns: AtomicU64,
    /// Wakes the tasks that wait for a writer that does not return.
    given_up: Notify,
}

/// A disk that stays full would otherwise fill the operator's log as well.
const WARNING_INTERVAL_MS: u64 = 30_000;

/// Time of the last log line about a repeated failure.
#[derive(Debug, Default)]
pub(crate) struct RepeatedWarning(AtomicI64);

impl RepeatedWarning {
    /// True if a line should be logged now; then false for half a minute.
    pub(crate) fn is_due(&self, now_ms: i64) -> bool {
        let last_ms = self.0.load(Ordering::Relaxed);
        let due = now_ms.abs_diff(last_ms) >= WARNING_INTERVAL_MS;
        due && self.0.compare_exchange(last_ms, now_ms, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }
}

#[derive(Default)]
struct Queue {
    /// True while a thread writes; it checks `waiting` before it ends.
    busy: bool,
    waiting: VecDeque<Job>,
}

struct Job {
    append: Append,
    done: oneshot::Sender<AppendResult>,
}

/// Purpose for which a lane's writer is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Writing a group of batches, and the new segment that may take.
    Append,
    /// Everything else: retention, expiry of producers, the swaps of compaction, a changed
    /// configuration.
    Housekeeping,
}

impl Work {
    /// Each kind, with its name.
    pub const ALL: [(Self, &'static str); 2] =
        [(Self::Append, "append"), (Self::Housekeeping, "housekeeping")];
}

/// State of a lane's queue after a thread has written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Backlog {
    /// The lane is idle, or another thread writes.
    Empty,
    /// The lane waits for [`AppendLane::drain`].
    Remaining,
}

/// Groups that a thread writes before its other connections continue.
const GROUPS_PER_TURN: usize = 8;

/// At most this many batches enter the log with one vectored write (the kernel takes 1 024 pieces).
const GROUP_BATCHES_MAX: usize = 512;
const _: () = assert!(GROUP_BATCHES_MAX <= 1024, "a group is one vectored write");

impl AppendLane {
    pub(crate) fn new(writer: Writer) -> Self {
        let log = writer.partition().clone();
        Self {
            queue: Mutex::default(),
            writer: Mutex::new(Some(writer)),
            log,
            storage_warning: RepeatedWarning::default(),
            longest_turns_ns: [const { AtomicU64::new(0) }; Work::ALL.len()],
            held_since_ns: AtomicU64::new(0),
            given_up: Notify::new(),
        }
    }

    /// Appends a checked batch, or queues it after the write that is running.
    ///
    /// Blocks for the duration of writes to the page cache, including those of a few queued groups.
    /// `wrote` is called after each group, outside all locks, so that the caller can wake the
    /// waiters for data. If the result has a backlog, the caller must call [`AppendLane::drain`].
    pub(crate) fn submit(&self, append: Append, now_ms: i64, wrote: impl Fn()) -> (Submitted, Backlog) {
        {
            let mut queue = self.queue.lock();
            if queue.busy {
                let (done, answer) = oneshot::channel();
                queue.waiting.push_back(Job { append, done });
                return (Submitted::queued(answer, &self.log), Backlog::Empty);
            }
            queue.busy = true;
        }
        let _broken = BrokenOnPanic(self);
        let mut own = self.write(&mut [append], now_ms);
        wrote();
        let left = self.drain(now_ms, wrote);
        (Submitted::written_now(own.pop().expect("one batch in, one result out")), left)
    }

    /// Queues a checked batch without a write, so that nothing blocks. True if the lane was idle:
    /// the caller must call [`AppendLane::drain`].
    pub(crate) fn enqueue(&self, append: Append) -> (Submitted, bool) {
        let (done, answer) = oneshot::channel();
        let mut queue = self.queue.lock();
        queue.waiting.push_back(Job { append, done });
        let was_idle = !std::mem::replace(&mut queue.busy, true);
        (Submitted::queued(answer, &self.log), was_idle)
    }

    /// Writes the backlog, group by group, until it is empty or other connections should continue.
    /// Only for the thread that received the backlog.
    pub(crate) fn drain(&self, now_ms: i64, wrote: impl Fn()) -> Backlog {
        let _broken = BrokenOnPanic(self);
        for _ in 0..GROUPS_PER_TURN {
            let group: Vec<Job> = {
                let mut queue = self.queue.lock();
                debug_assert!(queue.busy, "a lane is drained by the thread that made it busy");
                if queue.waiting.is_empty() {
                    queue.busy = false;
                    return Backlog::Empty;
                }
                let count = queue.waiting.len().min(GROUP_BATCHES_MAX);
                queue.waiting.drain(..count).collect()
            };
            let (mut appends, waiters): (Vec<_>, Vec<_>) =
                group.into_iter().map(|job| (job.append, job.done)).unzip();
            let results = self.write(&mut appends, now_ms);
            wrote();
            for (result, waiter) in results.into_iter().zip(waiters) {
                // A connection that has closed needs no response.
                let _ = waiter.send(result);
            }
        }
        Backlog::Remaining
    }

    /// True if some thread writes, so that the next batch is queued.
    pub(crate) fn is_busy(&self) -> bool {
        self.queue.lock().busy
    }

    fn write(&self, group: &mut [Append], now_ms: i64) -> Vec<AppendResult> {
        let results = match &mut *self.writer.lock() {
            Some(writer) => {
                let _hold = WriterHold::begin(self, Work::Append);
                let results = writer.append(group, now_ms);
                assert_eq!(results.len(), group.len(), "one result for each batch of a group");
                if let Some(error) = results.iter().find_map(storage_error) {
                    writer.partition().report_refused_append(error);
                }
                results
            }
            None => {
                return group.iter().map(|_| Err(offline(&self.log).into())).collect();
            }
        };
        if let Some(error) = results.iter().find_map(storage_error) {
            self.warn(error, now_ms);
        }
        results
    }

    /// Logs the cause of a storage error for the operator; the client only gets an error code.
    fn warn(&self, error: &LogError, now_ms: i64) {
        // The directory has its own line.
        if !matches!(error, LogError::Refuses { .. }) && self.storage_warning.is_due(now_ms) {
            tracing::error!(%error, "cannot append batches; free disk space, or raise the limit of file descriptors");
        }
    }

    /// Reads the writer's state without waiting; none while the writer is held, or once the log is
    /// closed.
    pub(crate) fn look_at_writer<T>(&self, look: impl FnOnce(&Writer) -> T) -> Option<T> {
        self.writer.try_lock()?.as_ref().map(look)
    }

    /// Housekeeping with the writer (rolling, truncating); none once the log is closed. Appends
    /// wait during the call, so `work` must be short.
    pub(crate) fn with_writer<T>(&self, work: impl FnOnce(&mut Writer) -> T) -> Option<T> {
        let mut writer = self.writer.lock();
        let _hold = WriterHold::begin(self, Work::Housekeeping);
        writer.as_mut().map(work)
    }

    /// Like [`AppendLane::with_writer`], but `work` also runs without a writer, after which nothing
    /// is appended.
    pub(crate) fn with_writer_if_any<T>(&self, work: impl FnOnce(Option<&mut Writer>) -> T) -> T {
        let mut writer = self.writer.lock();
        let _hold = WriterHold::begin(self, Work::Housekeeping);
        work(writer.as_mut())
    }

    /// Like [`AppendLane::with_writer`], for batches of a leader: the duration counts as appending.
    pub(crate) fn replicate<T>(&self, work: impl FnOnce(&mut Writer) -> T) -> Option<T> {
        let _broken = OfflineOnPanic(self);
        let mut writer = self.writer.lock();
        let _hold = WriterHold::begin(self, Work::Append);
        writer.as_mut().map(work)
    }

    /// The longest time that this work has held the writer since the start: the longest delay of
    /// appends.
    pub(crate) fn longest_turn(&self, work: Work) -> Duration {
        Duration::from_nanos(self.longest_turns_ns[work as usize].load(Ordering::Relaxed))
    }

    /// Time for which a thread has held the writer, for an append or for housekeeping that keeps
    /// appends waiting; none if no thread holds it. Does not wait.
    pub(crate) fn held_for(&self) -> Option<Duration> {
        holds::time_since(self.held_since_ns.load(Ordering::Relaxed))
    }

    /// Ends the waits for [`AppendLane::waits_in_vain`].
    pub(crate) fn give_up_waiting(&self) {
        self.given_up.notify_waiters();
    }

    /// Waits until the work that holds the writer is found not to return.
    pub(crate) async fn waits_in_vain(&self) {
        self.given_up.notified().await;
    }

    /// Removes the writer for closing or deletion: later appends find the log offline.
    pub(crate) fn take_writer(&self) -> Option<Writer> {
        self.writer.lock().take()
    }
}

fn storage_error(result: &AppendResult) -> Option<&LogError> {
    match result {
        Err(AppendError::Storage(error)) => Some(error),
        _ => None,
    }
}

/// If a write panics, the content of the log is unknown: the log goes offline. Lives longer than
/// the lock of the writer.
struct OfflineOnPanic<'a>(&'a AppendLane);

impl Drop for OfflineOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.log.abandon();
            drop(self.0.take_writer());
            tracing::error!(log = %self.0.log.dir().display(), "partition offline: a write to its log panicked; restart the broker to recover the log");
        }
    }
}

/// If the thread that writes panics, the waiters of the lane get an error.
struct BrokenOnPanic<'a>(&'a AppendLane);

impl Drop for BrokenOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            drop(OfflineOnPanic(self.0));
            let mut queue = self.0.queue.lock();
            queue.busy = false;
            queue.waiting.clear();
        }
    }
}

#[cfg(test)]
mod tests;
