//! Records that lose their lock without an acknowledgement: the lock ends, or the session of the
//! member.

use super::dead_letters::refused;
use super::ledger::{DeadLetterReason, RecordState, Run, length};
use super::limits::ShareLimits;
use super::write::{StateWrite, add_span};
use super::{SharePartition, SharePhase};

/// Effects of [`SharePartition::tick`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExpiredLocks {
    /// Number of records whose lock has ended.
    pub records: i64,
    /// The new states. They hold even if the write fails.
    pub write: Option<StateWrite>,
}

/// State of records after a delivery that was not acknowledged, or that was released.
pub(super) fn after_lock(run: &Run, limits: &ShareLimits) -> RecordState {
    if run.deliveries >= limits.delivery_limit {
        refused(DeadLetterReason::AttemptsExhausted, limits)
    } else {
        RecordState::Available
    }
}

impl SharePartition {
    /// Ends the locks that are due at `now_ms` of the monotonic clock. The records are available,
    /// so that waiting fetches may be served, or, after the last attempt, archived. Records with a
    /// pending change keep it.
    pub fn tick(&mut self, limits: &ShareLimits, now_ms: i64) -> ExpiredLocks {
        let due = self.ledger.leases_mut().take_due(now_ms);
        if due.is_empty() || self.phase != SharePhase::Active {
            return ExpiredLocks::default();
        }
        let (mut records, mut spans) = (0, Vec::new());
        self.ledger.change(self.start, i64::MAX, |_, first, run| {
            if !due.contains(&run.lease) {
                return None;
            }
            records += length(first, run.last);
            if run.is_pending {
                return None;
            }
            let released = run.settled(after_lock(&run, limits));
            add_span(&mut spans, first, &released);
            Some(released)
        });
        let write = (!spans.is_empty()).then(|| self.open_write(spans, false));
        ExpiredLocks { records, write }
    }

    /// Releases all records of a member whose session has ended. The delivery counts stay.
    pub fn release_member(&mut self, member: &str, limits: &ShareLimits) -> Option<StateWrite> {
        let leases = self.ledger.leases().of_member(member);
        if leases.is_empty() || self.phase != SharePhase::Active {
            return None;
        }
        let mut spans = Vec::new();
        self.ledger.change(self.start, i64::MAX, |_, first, run| {
            if !run.is_held() || !leases.contains(&run.lease) {
                return None;
            }
            let released = Run { state: after_lock(&run, limits), is_pending: true, ..run };
            add_span(&mut spans, first, &released);
            Some(released)
        });
        (!spans.is_empty()).then(|| self.open_write(spans, true))
    }
}
