//! Role of the log in the current leadership. A leader epoch whose beginning cannot be stored is
//! attempted again after a pause, which doubles with each failure.

use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};

use levada_log::{LogError, Writer};
use levada_process::clock::uptime_ms;

use super::Partition;
use crate::replica::leadership::Leadership;

/// The pause after the first failure. Housekeeping makes the attempts, and is about as frequent.
const FIRST_PAUSE_MS: i64 = 4_000;
/// The longest pause is the first one times 2 to this power: about a minute.
const MOST_DOUBLINGS: u32 = 4;

/// Attempts to lead in an epoch whose beginning could not be stored.
#[derive(Debug, Default)]
pub(super) struct Unstored {
    failures: AtomicU32,
    /// Time of the first of these failures.
    since_ms: AtomicI64,
    next_ms: AtomicI64,
}

impl Unstored {
    /// Counts a failure; returns the pause before the next attempt, ms.
    fn failed(&self, now_ms: i64) -> i64 {
        let before = self.failures.fetch_add(1, Ordering::Relaxed);
        if before == 0 {
            self.since_ms.store(now_ms, Ordering::Relaxed);
        }
        let pause_ms = FIRST_PAUSE_MS << before.min(MOST_DOUBLINGS);
        self.next_ms.store(now_ms + pause_ms, Ordering::Relaxed);
        pause_ms
    }

    /// True if the pause has ended.
    fn is_due(&self, now_ms: i64) -> bool {
        now_ms >= self.next_ms.load(Ordering::Relaxed)
    }
}

/// Applies the leadership to the log. If the beginning of the epoch cannot be stored, the node does
/// not lead, and the failure is returned as well.
pub(super) fn take_role(writer: &mut Writer, mut leadership: Leadership) -> (Leadership, Option<LogError>) {
    let mut failure = None;
    if leadership.is_leader() && leadership.is_replicated() {
        // Followers that ask where the epoch before ended must hear the same after a crash.
        if let Err(error) = writer.lead(leadership.leader_epoch()) {
            writer.partition().report_refused_append(&error);
            failure = Some(error);
            leadership = leadership.unstored();
        }
    } else if leadership.is_leader() {
        writer.set_leader_epoch(leadership.leader_epoch());
    }
    if !leadership.is_leader() {
        writer.resign();
    }
    writer.set_sole_replica(leadership.is_alone());
    (leadership, failure)
}

impl Partition {
    /// True if an attempt to store the beginning of the leader epoch is due.
    pub(crate) fn is_epoch_to_be_stored(&self, now_ms: i64) -> bool {
        let is_wanted = self.leadership.load().is_unstored() && !self.is_deleted() && !self.log.is_offline();
        is_wanted && !self.is_in_doubt() && self.unstored.is_due(now_ms)
    }

    /// Ends the leadership, and fails the requests that still hold the partition.
    pub(super) fn leave_service(&self) {
        self.deleted.store(true, Ordering::Release);
        if let Some(led) = self.led.swap(None) {
            led.resign();
        }
        self.waiters.wake();
    }

    /// True if this node should lead since this time or earlier and cannot, while another replica
    /// is in sync.
    pub(in crate::replica) fn holds_up_since(&self, time_ms: i64) -> bool {
        let has_failed = self.unstored.failures.load(Ordering::Relaxed) > 0;
        has_failed && self.unstored.since_ms.load(Ordering::Relaxed) <= time_ms && {
            let leadership = self.leadership.load();
            leadership.is_unstored() && leadership.in_sync() > 1
        }
    }

    /// Logs an attempt that failed.
    pub(super) fn note_attempt(&self, leadership: &Leadership, failure: Option<&LogError>) {
        let Some(error) = failure else {
            self.unstored.failures.store(0, Ordering::Relaxed);
            return;
        };
        let next_attempt_ms = self.unstored.failed(uptime_ms());
        tracing::error!(
            partition = self.name(),
            leader_epoch = leadership.leader_epoch(),
            next_attempt_ms,
            %error,
            "cannot store the beginning of a leader epoch: no broker leads the partition until this one can"
        );
    }
}

#[cfg(test)]
mod tests {
    //! The pauses between attempts.

    use super::*;

    #[test]
    fn unstored_epoch_retry_doubles_to_one_minute() {
        let unstored = Unstored::default();
        assert!(unstored.is_due(0));
        let pauses: Vec<i64> = (0..7).map(|_| unstored.failed(100) / FIRST_PAUSE_MS).collect();
        assert_eq!(pauses, [1, 2, 4, 8, 16, 16, 16]);
        assert!(
            !unstored.is_due(100 + 16 * FIRST_PAUSE_MS - 1) && unstored.is_due(100 + 16 * FIRST_PAUSE_MS)
        );
    }
}
