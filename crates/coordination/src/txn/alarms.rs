//! The timers of a coordinator: an action and the time at which it is due.

use std::collections::BTreeSet;

/// Timers, and their times by the monotonic clock.
#[derive(Debug, Default)]
pub(super) struct Alarms {
    now_ms: i64,
    abort_scan: Option<i64>,
    expiry_scan: Option<i64>,
    resumes: BTreeSet<(i64, String)>,
}

impl Alarms {
    /// Sets the present time.
    pub(super) fn advance(&mut self, now_ms: i64) {
        self.now_ms = now_ms;
    }

    /// The latest time that the alarms have received.
    pub(super) fn now_ms(&self) -> i64 {
        self.now_ms
    }

    /// Schedules a check for transactions that exceed their timeout, unless one is scheduled.
    pub(super) fn abort_scan_in(&mut self, delay_ms: i64) {
        self.abort_scan.get_or_insert(self.now_ms.saturating_add(delay_ms));
    }

    /// Schedules a check for unused transactional ids, unless one is scheduled.
    pub(super) fn expiry_scan_in(&mut self, delay_ms: i64) {
        self.expiry_scan.get_or_insert(self.now_ms.saturating_add(delay_ms));
    }

    /// Schedules the continuation of the end of this id's transaction.
    pub(super) fn resume_in(&mut self, delay_ms: i64, transactional_id: String) {
        self.resumes.insert((self.now_ms.saturating_add(delay_ms), transactional_id));
    }

    /// Time of the next alarm.
    pub(super) fn next_ms(&self) -> Option<i64> {
        let resume = self.resumes.first().map(|(at_ms, _)| *at_ms);
        [self.abort_scan, self.expiry_scan, resume].into_iter().flatten().min()
    }

    /// True if the check for transactions that exceed their timeout is due.
    pub(super) fn is_abort_scan_due(&mut self) -> bool {
        self.abort_scan.take_if(|at_ms| *at_ms <= self.now_ms).is_some()
    }

    /// True if the check for unused transactional ids is due.
    pub(super) fn is_expiry_scan_due(&mut self) -> bool {
        self.expiry_scan.take_if(|at_ms| *at_ms <= self.now_ms).is_some()
    }

    /// Removes and returns an id whose transaction is to continue.
    pub(super) fn due_resume(&mut self) -> Option<String> {
        let (at_ms, _) = self.resumes.first()?;
        if *at_ms > self.now_ms {
            return None;
        }
        self.resumes.pop_first().map(|(_, transactional_id)| transactional_id)
    }
}
