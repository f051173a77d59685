//! The right of this process to act as a leader in a cluster.
//!
//! A process that was stopped for longer than a session (a suspended machine, a debugger) comes
//! back with the leaderships of before, which other nodes may have by then. Each request asks the
//! lease by a clock that ran meanwhile, so that not even the first one after the pause is answered.
//! The lease is valid again once the metadata was read anew. As in Kafka, it stays valid while the
//! process runs and no controller answers.

use std::sync::atomic::{AtomicI64, AtomicU8, Ordering};

#[cfg(test)]
mod tests;

const VALID: u8 = 0;
const PAUSED: u8 = 1;
const REVOKED: u8 = 2;

/// The right to act as a leader. Times are milliseconds of a clock that nobody stops.
#[derive(Debug)]
pub(crate) struct Lease {
    session_ms: i64,
    /// The last time that the process was known to run; none before the first.
    seen_ms: AtomicI64,
    state: AtomicU8,
}

impl Lease {
    /// A valid lease that outlives pauses of up to `session_ms`.
    pub(crate) fn new(session_ms: i64) -> Self {
        Self { session_ms, seen_ms: AtomicI64::new(i64::MAX), state: AtomicU8::new(VALID) }
    }

    /// True if this process may act as a leader.
    pub(crate) fn is_valid(&self, now_ms: i64) -> bool {
        // In this order: who sees the time after a pause also sees what was noted before it.
        let seen_ms = self.seen_ms.load(Ordering::Acquire);
        now_ms.saturating_sub(seen_ms) <= self.session_ms && self.state.load(Ordering::Acquire) == VALID
    }

    /// Notes that the process runs; to be called several times in a session. Returns true if the
    /// process has paused for longer than a session: the lease is not valid until
    /// [`Lease::confirm`].
    pub(crate) fn tick(&self, now_ms: i64) -> bool {
        let has_paused = now_ms.saturating_sub(self.seen_ms.load(Ordering::Acquire)) > self.session_ms;
        if has_paused {
            // A lease that was revoked stays so.
            let _ = self.state.compare_exchange(VALID, PAUSED, Ordering::AcqRel, Ordering::Acquire);
        }
        self.seen_ms.store(now_ms, Ordering::Release);
        has_paused
    }

    /// The leaderships are those of the metadata after the pause.
    pub(crate) fn confirm(&self) {
        let _ = self.state.compare_exchange(PAUSED, VALID, Ordering::AcqRel, Ordering::Acquire);
    }

    /// Another process has the registration of this one: the lease is never valid again.
    pub(crate) fn revoke(&self) {
        self.state.store(REVOKED, Ordering::Release);
    }
}
