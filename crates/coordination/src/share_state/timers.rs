//! The timers of a coordinator of share-group state.

/// Timers, and their times by the monotonic clock.
#[derive(Debug, Default)]
pub(super) struct Timers {
    now_ms: i64,
    cold_scan: Option<i64>,
    prune: Option<i64>,
    round: Option<i64>,
}

impl Timers {
    /// Sets the present time.
    pub(super) fn advance(&mut self, now_ms: i64) {
        self.now_ms = now_ms;
    }

    /// Schedules a scan for old snapshots, unless one is scheduled.
    pub(super) fn cold_scan_in(&mut self, delay_ms: i64) {
        self.cold_scan.get_or_insert(self.now_ms.saturating_add(delay_ms));
    }

    /// Schedules a deletion of records, unless one is scheduled.
    pub(super) fn prune_in(&mut self, delay_ms: i64) {
        self.prune.get_or_insert(self.now_ms.saturating_add(delay_ms));
    }

    /// Schedules a round of scans, unless one is scheduled.
    pub(super) fn round_in(&mut self, delay_ms: i64) {
        self.round.get_or_insert(self.now_ms.saturating_add(delay_ms));
    }

    /// Time of the next timer.
    pub(super) fn next_ms(&self) -> Option<i64> {
        [self.cold_scan, self.prune, self.round].into_iter().flatten().min()
    }

    /// True if a scan for old snapshots is due.
    pub(super) fn is_cold_scan_due(&mut self) -> bool {
        self.cold_scan.take_if(|at_ms| *at_ms <= self.now_ms).is_some()
    }

    /// True if a deletion of records is due.
    pub(super) fn is_prune_due(&mut self) -> bool {
        self.prune.take_if(|at_ms| *at_ms <= self.now_ms).is_some()
    }

    /// True if a round of scans is due.
    pub(super) fn is_round_due(&mut self) -> bool {
        self.round.take_if(|at_ms| *at_ms <= self.now_ms).is_some()
    }
}
