//! The right of this process to act as a leader in a cluster.
//!
//! A process that was stopped for longer than a session (a suspended machine, a debugger) comes
//! back with the leaderships of before, which other nodes may have by then. Each request asks the
//! lease by a clock that ran meanwhile, so that not even the first one after the pause is answered.
//! The lease is valid again once the metadata was read again. As in Kafka, it stays valid while the
//! process runs and no controller answers.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

#[cfg(test)]
mod tests;

/// The right to act as a leader. Times are milliseconds of a clock that also counts suspension.
#[derive(Debug)]
pub(crate) struct Lease {
    session_ms: i64,
    /// The last time that the process was known to run; none before the first.
    seen_ms: AtomicI64,
    /// Number of pauses that were longer than a session.
    pauses: AtomicU64,
    /// Number of pauses after which the metadata was read.
    confirmed: AtomicU64,
    is_revoked: AtomicBool,
}

impl Lease {
    /// A valid lease that outlives pauses of up to `session_ms`.
    pub(crate) fn new(session_ms: i64) -> Self {
        Self {
            session_ms,
            seen_ms: AtomicI64::new(i64::MAX),
            pauses: AtomicU64::new(0),
            confirmed: AtomicU64::new(0),
            is_revoked: AtomicBool::new(false),
        }
    }

    /// True if this process may act as a leader.
    pub(crate) fn is_valid(&self, now_ms: i64) -> bool {
        // In this order: a reader of the time after a pause also reads the pause.
        let seen_ms = self.seen_ms.load(Ordering::Acquire);
        now_ms.saturating_sub(seen_ms) <= self.session_ms
            && self.confirmed.load(Ordering::Acquire) == self.pauses.load(Ordering::Acquire)
            && !self.is_revoked.load(Ordering::Acquire)
    }

    /// Notes that the process runs. After a pause of more than a session the lease is not valid
    /// until [`Lease::confirm`]. Only one task calls this.
    pub(crate) fn tick(&self, now_ms: i64) {
        if now_ms.saturating_sub(self.seen_ms.load(Ordering::Acquire)) > self.session_ms {
            self.pauses.fetch_add(1, Ordering::AcqRel);
        }
        self.seen_ms.store(now_ms, Ordering::Release);
    }

    /// Number of pauses so far.
    pub(crate) fn pauses(&self) -> u64 {
        self.pauses.load(Ordering::Acquire)
    }

    /// Notes that the metadata was read after so many pauses, so that its leaderships are those in
    /// force.
    pub(crate) fn confirm(&self, pauses: u64) {
        self.confirmed.store(pauses, Ordering::Release);
    }

    /// Ends the lease for ever: another process has the registration of this one.
    pub(crate) fn revoke(&self) {
        self.is_revoked.store(true, Ordering::Release);
    }
}
