//! The right of this process to act as a leader in a cluster.
//!
//! A process that was stopped until its session ended (a suspended machine, a debugger) resumes
//! with its old leaderships, which other nodes may have by then. The session began with the last
//! heartbeat, so the pause may be shorter than a session. Each request checks the lease by a clock
//! that runs during the pause, so that not even the first request after it is answered. The lease
//! is valid again once the broker has read the metadata again. As in Kafka, it stays valid while
//! the process runs and no controller responds.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use levada_cluster::lifecycle::LifecycleTimes;

#[cfg(test)]
mod tests;

/// Shortest pause that ends a lease, ms: a busy machine runs the task that notes the time late.
const PAUSE_MS_MIN: i64 = 1_500;

/// Time in ms within which two threads notice the end of the same pause.
const JUST_NOW_MS: i64 = 5_000;

/// Ticks in the shortest pause that ends a lease. Each wakes an idle process.
const TICKS: u64 = 6;

/// Part of a session, in percent, for the way of a heartbeat to the controller.
const HEARTBEAT_PERCENT: i64 = 10;

/// The right to act as a leader. Times are milliseconds of a clock that also counts suspension.
#[derive(Debug)]
pub(crate) struct Lease {
    pause_ms: i64,
    /// The last time at which the process is known to have run; none before the first.
    seen_ms: AtomicI64,
    /// Number of pauses that ended the lease.
    pauses: AtomicU64,
    /// Number of pauses after which the metadata was read.
    confirmed: AtomicU64,
    is_revoked: AtomicBool,
}

impl Lease {
    /// A valid lease that outlives pauses after which the session of the last heartbeat still runs:
    /// the last one may have been an interval before the pause.
    pub(crate) fn new(times: &LifecycleTimes) -> Self {
        let way_ms = times.session_ms / 100 * HEARTBEAT_PERCENT;
        let pause_ms = times.session_ms.saturating_sub(times.heartbeat_ms).saturating_sub(way_ms);
        Self {
            pause_ms: pause_ms.max(PAUSE_MS_MIN),
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
        now_ms.saturating_sub(seen_ms) <= self.pause_ms
            && self.confirmed.load(Ordering::Acquire) == self.pauses.load(Ordering::Acquire)
            && !self.is_revoked.load(Ordering::Acquire)
    }

    /// Notes that the process runs. After too long a pause the lease is not valid until
    /// [`Lease::confirm`]. Only one task calls this.
    pub(crate) fn tick(&self, now_ms: i64) {
        if now_ms.saturating_sub(self.seen_ms.load(Ordering::Acquire)) > self.pause_ms {
            self.pauses.fetch_add(1, Ordering::AcqRel);
        }
        self.seen_ms.store(now_ms, Ordering::Release);
    }

    /// Interval at which to call [`Lease::tick`]: a small part of the shortest pause that ends the
    /// lease. A pause that is shorter by one interval may end it as well.
    pub(crate) fn interval(&self) -> Duration {
        Duration::from_millis(self.pause_ms.unsigned_abs() / TICKS)
    }

    /// Longest pause that does not end the lease, ms.
    pub(crate) fn pause_ms(&self) -> i64 {
        self.pause_ms
    }

    /// Number of pauses so far.
    pub(crate) fn pauses(&self) -> u64 {
        self.pauses.load(Ordering::Acquire)
    }

    /// Confirms that the metadata was read after this number of pauses, so that its leaderships are
    /// in force.
    pub(crate) fn confirm(&self, pauses: u64) {
        assert!(pauses <= self.pauses(), "only pauses that have ended are confirmed");
        self.confirmed.store(pauses, Ordering::Release);
    }

    /// Ends the lease for ever: another process has the registration of this one.
    pub(crate) fn revoke(&self) {
        self.is_revoked.store(true, Ordering::Release);
    }
}

/// Pauses of a thread other than the ticking one. If it ran while a lease ended, the process was
/// not suspended: only the ticking thread was delayed.
#[derive(Debug, Default)]
pub(crate) struct Witness {
    seen_ms: Option<i64>,
    paused_ms: Option<i64>,
}

impl Witness {
    /// Notes that the thread runs. A pause is at least half of one that ends a lease.
    pub(crate) fn note(&mut self, now_ms: i64, pause_ms: i64) {
        if self.seen_ms.is_some_and(|seen_ms| now_ms - seen_ms > pause_ms / 2) {
            self.paused_ms = Some(now_ms);
        }
        self.seen_ms = Some(now_ms);
    }

    /// True if a pause of the thread has ended just now, so that both threads were suspended.
    pub(crate) fn was_paused(&self, now_ms: i64) -> bool {
        self.paused_ms.is_some_and(|paused_ms| now_ms - paused_ms <= JUST_NOW_MS)
    }
}
