//! Fetches from an entry: the claim of its fetch lock, and the acquisition of records.

use std::sync::Arc;
use std::time::Duration;

use levada_coordination::share_partition::{AcquireRequest, Acquisition, FetchedRange, SharePhase};
use levada_process::clock::steady_ms;
use levada_wire::error_code::ErrorCode;
use tokio::sync::Notify;

use super::ShareGroup;
use super::entry::{ShareEntry, ShareRefusal};

/// Outcome of [`ShareEntry::claim`].
pub(crate) enum Claim {
    /// The fetch reads the log.
    Taken {
        /// Lock that admits one fetch of the entry at a time.
        lease: FetchLease,
        /// First offset to read.
        offset: i64,
        /// Number of records that can be acquired; none if a record from the offset on was acquired
        /// before.
        new_max: Option<i64>,
    },
    /// No records can be acquired now; the waiters of the entry are woken when that changes.
    Later,
    /// Like [`Claim::Later`], because there are no records before the given offset.
    Empty,
    /// Like [`Claim::Later`], because the memory for acquired records is used up.
    Full,
    /// The fetch gets no records from this entry.
    Refused(ShareRefusal),
}

/// The fetch lock of an entry, released when dropped.
pub(crate) struct FetchLease {
    entry: Arc<ShareEntry>,
    fetch: u64,
    /// The fetch that holds the lock; it does not wake itself.
    sleeper: Arc<Notify>,
}

impl ShareEntry {
    /// Acquires the fetch lock for a fetch of this number, which sleeps on `sleeper`. With `upto`,
    /// it does so only if there are records before that offset.
    pub(crate) fn claim(
        self: &Arc<Self>,
        (fetch, sleeper): (u64, &Arc<Notify>),
        group: &ShareGroup,
        upto: Option<i64>,
    ) -> Claim {
        if let Err(code) = self.partition().check_leader(-1) {
            return Claim::Refused(ShareRefusal::Code(code));
        }
        if self.is_outdated() {
            return Claim::Refused(ShareRefusal::Ended);
        }
        let mut state = self.state.lock();
        if let Some(code) = state.failure {
            return Claim::Refused(ShareRefusal::Code(code));
        }
        match state.machine.phase() {
            SharePhase::Loading => return Claim::Later,
            SharePhase::Active => {}
            SharePhase::Failed => return Claim::Refused(ShareRefusal::Code(ErrorCode::UnknownServerError)),
            SharePhase::Fenced => return Claim::Refused(ShareRefusal::Ended),
        }
        if state.machine.has_fetch_lock() {
            state.is_contended = true;
            return Claim::Later;
        }
        if !state.machine.can_acquire(&group.limits) {
            return Claim::Later;
        }
        let offset = state.machine.next_fetch_offset();
        if upto.is_some_and(|upto| offset >= upto) {
            return Claim::Empty;
        }
        if self.shared.is_full() {
            return Claim::Full;
        }
        if !state.machine.take_fetch_lock(fetch, steady_ms()) {
            return Claim::Later;
        }
        let new_max = state.machine.new_max(offset, &group.limits);
        drop(state);
        let lease = FetchLease { entry: self.clone(), fetch, sleeper: sleeper.clone() };
        Claim::Taken { lease, offset, new_max }
    }
}

impl FetchLease {
    /// Acquires records that were read for this fetch.
    pub(crate) fn acquire(
        &self,
        request: &AcquireRequest,
        fetched: FetchedRange<'_>,
        group: &ShareGroup,
    ) -> Acquisition {
        self.entry.acquire(request, fetched, group)
    }

    /// Offset from which the next fetch reads.
    pub(crate) fn next_fetch_offset(&self) -> i64 {
        self.entry.state.lock().machine.next_fetch_offset()
    }

    /// Applies a new log start. Returns true if the start offset has moved.
    pub(crate) fn log_start_moved(&self, log_start: i64) -> bool {
        self.entry.log_start_moved(log_start)
    }
}

impl Drop for FetchLease {
    fn drop(&mut self) {
        let mut state = self.entry.state.lock();
        // A lock that another fetch has taken meanwhile is not this one's.
        if let Some(times) = state.machine.release_fetch_lock(self.fetch, steady_ms()) {
            state.fetches += 1;
            state.locked += Duration::from_millis(times.held_ms.unsigned_abs());
        }
        let is_contended = std::mem::take(&mut state.is_contended);
        drop(state);
        if is_contended {
            self.entry.waiters.wake_others(&self.sleeper);
        }
    }
}
