//! The fetch lock: one fetch at a time reads the log for a share partition.

use super::{SharePartition, SharePhase};

/// State of the fetch lock.
#[derive(Debug, Default)]
pub(super) struct FetchLock {
    /// The fetch that holds the lock, and the time since which it holds it.
    holder: Option<(u64, i64)>,
    /// Time at which the lock was last released.
    released_ms: Option<i64>,
    /// Time without a holder before the present one.
    idle_ms: i64,
}

/// Times of a fetch lock, for metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FetchLockTimes {
    /// Time for which the fetch held the lock, ms.
    pub held_ms: i64,
    /// Time in ms for which the lock was free before; 0 for the first fetch.
    pub idle_ms: i64,
}

impl FetchLockTimes {
    /// Share of the time, in percent, during which the lock was held.
    pub fn held_percent(&self) -> i64 {
        let total_ms = self.held_ms.saturating_add(self.idle_ms);
        match (self.held_ms, total_ms) {
            (_, 0) => 100,
            (0, _) => 100 / self.idle_ms,
            (held_ms, total_ms) => held_ms.saturating_mul(100) / total_ms,
        }
    }
}

impl SharePartition {
    /// Takes the fetch lock for a fetch, which the host numbers. Returns false if another fetch has
    /// it, or if the share partition is not active.
    pub fn take_fetch_lock(&mut self, fetch: u64, now_ms: i64) -> bool {
        if self.phase != SharePhase::Active || self.fetch_lock.holder.is_some() {
            return false;
        }
        let released_ms = self.fetch_lock.released_ms.unwrap_or(now_ms);
        self.fetch_lock.idle_ms = now_ms.saturating_sub(released_ms).max(0);
        self.fetch_lock.holder = Some((fetch, now_ms));
        true
    }

    /// Releases the fetch lock. Returns none, and changes nothing, if this fetch does not have it.
    pub fn release_fetch_lock(&mut self, fetch: u64, now_ms: i64) -> Option<FetchLockTimes> {
        let (_, since_ms) = self.fetch_lock.holder.take_if(|(holder, _)| *holder == fetch)?;
        self.fetch_lock.released_ms = Some(now_ms);
        let held_ms = now_ms.saturating_sub(since_ms).max(0);
        Some(FetchLockTimes { held_ms, idle_ms: self.fetch_lock.idle_ms })
    }

    /// True while a fetch has the fetch lock.
    pub fn has_fetch_lock(&self) -> bool {
        self.fetch_lock.holder.is_some()
    }
}
