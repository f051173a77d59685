//! Progress of the recovery after an unclean shutdown: pending partitions and finished work.
//! `publishing/recovery.rs` has the threads.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use levada_wire::Uuid;
use parking_lot::{Condvar, Mutex};

use crate::replica::opening::Missing;

/// Progress of the recovery of all logs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecoveryProgress {
    /// Number of partitions that were to be recovered at the start.
    pub total: usize,
    /// Number of partitions that are not served yet.
    pub left: usize,
    /// Bytes of log that were read and checked.
    pub checked_bytes: u64,
}

/// The recovery of one start; there is nothing to it if the last stop was clean.
#[derive(Default)]
pub struct Recovery {
    queue: Mutex<VecDeque<Missing>>,
    state: Mutex<State>,
    ended: Condvar,
    checked_bytes: Arc<AtomicU64>,
}

#[derive(Default)]
struct State {
    total: usize,
    left: usize,
    threads: usize,
    is_halted: bool,
}

impl Recovery {
    /// Progress of the recovery.
    pub fn progress(&self) -> RecoveryProgress {
        let state = self.state.lock();
        RecoveryProgress {
            total: state.total,
            left: state.left,
            checked_bytes: self.checked_bytes.load(Ordering::Relaxed),
        }
    }

    /// Waits until the recovery has ended, for at most `limit`; true if it has. Unless it was
    /// halted, every partition is then served or offline.
    pub fn wait(&self, limit: Duration) -> bool {
        let mut state = self.state.lock();
        self.ended.wait_while_for(&mut state, |state| state.threads > 0, limit);
        state.threads == 0
    }

    pub(super) fn checked_bytes(&self) -> Arc<AtomicU64> {
        self.checked_bytes.clone()
    }

    /// Ends the recovery because the broker stops: the next start recovers the remaining logs.
    pub(crate) fn halt(&self) {
        self.state.lock().is_halted = true;
        self.queue.lock().clear();
    }

    pub(crate) fn is_halted(&self) -> bool {
        self.state.lock().is_halted
    }

    /// Begins to recover the partitions, with this number of threads.
    pub(crate) fn begin(&self, missing: Vec<Missing>, threads: usize) {
        let mut state = self.state.lock();
        (state.total, state.left, state.threads) = (missing.len(), missing.len(), threads);
        self.queue.lock().extend(missing);
    }

    /// Counts a partition that is recovered, or cannot be.
    pub(crate) fn partition_done(&self) {
        let mut state = self.state.lock();
        state.left -= 1;
        if state.left == 0 {
            tracing::info!(partitions = state.total, "recovery is complete");
        }
    }

    /// Removes a partition that no thread is recovering; true if there was one. The caller counts
    /// it with [`Recovery::partition_done`].
    pub(crate) fn withdraw(&self, topic_id: Uuid, index: i32) -> bool {
        let mut queue = self.queue.lock();
        let is_it = |one: &Missing| (one.identity.topic_id, one.identity.index) == (topic_id, index);
        queue.iter().position(is_it).and_then(|at| queue.remove(at)).is_some()
    }

    /// The next partition to be recovered.
    pub(crate) fn next(&self) -> Option<Missing> {
        self.queue.lock().pop_front()
    }

    /// Records that one of the threads has ended.
    pub(crate) fn thread_done(&self) {
        self.state.lock().threads -= 1;
        self.ended.notify_all();
    }
}
