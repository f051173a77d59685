//! The alarms a coordinator has set: what is to happen at what time if nothing else happens before.

use std::collections::BTreeSet;

/// What is due by itself, and when.
#[derive(Debug, Default)]
pub(super) struct Alarms {
    /// Look for transactions that take too long.
    pub(super) abort_scan: Option<i64>,
    /// Look for transactional ids that nobody uses.
    pub(super) expiry_scan: Option<i64>,
    resumes: BTreeSet<(i64, String)>,
}

impl Alarms {
    /// Go on with the end of this id's transaction at that time.
    pub(super) fn resume_at(&mut self, at_ms: i64, transactional_id: String) {
        self.resumes.insert((at_ms, transactional_id));
    }

    /// When the next alarm goes off.
    pub(super) fn next_ms(&self) -> Option<i64> {
        let resume = self.resumes.first().map(|(at_ms, _)| *at_ms);
        [self.abort_scan, self.expiry_scan, resume].into_iter().flatten().min()
    }

    /// Takes out an id whose transaction is to be gone on with.
    pub(super) fn due_resume(&mut self, now_ms: i64) -> Option<String> {
        let (at_ms, _) = self.resumes.first()?;
        if *at_ms > now_ms {
            return None;
        }
        self.resumes.pop_first().map(|(_, transactional_id)| transactional_id)
    }
}
