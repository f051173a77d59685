//! The follower's side of a partition, and the throttle of its followers; also the role that this
//! node has after a change of leadership.

use std::sync::Arc;

use levada_log::{LogError, Writer};

use super::Partition;
use crate::replica::led::Led;

impl Partition {
    /// Like [`Partition::led`], if this node leads in this leader epoch; none if it does not, or no
    /// longer does. Waits for a change in progress, and for an append.
    pub(crate) fn led_in(&self, leader_epoch: i32) -> Option<Option<Arc<Led>>> {
        let leads = self.lane.with_writer(|_| {
            let leadership = self.leadership.load();
            let leads = leadership.is_leader() && leadership.leader_epoch() == leader_epoch;
            leads.then(|| self.led())
        });
        leads.flatten()
    }

    /// Runs a follower's work on the log; none if this node does not follow, or not in this leader
    /// epoch.
    pub(crate) fn follow<T>(&self, leader_epoch: i32, work: impl FnOnce(&mut Writer) -> T) -> Option<T> {
        let done = self.lane.replicate(|writer| {
            let leadership = self.leadership.load();
            let follows = !leadership.is_leader() && leadership.leader_epoch() == leader_epoch;
            (follows && !self.is_deleted()).then(|| work(writer))
        });
        done.flatten()
    }

    /// Syncs the records that must be on the device before the leader counts them, by the settings
    /// of the topic.
    pub(crate) fn sync_replicated(&self) -> Result<(), LogError> {
        let is_due = self.syncs.is_due() && self.log.durable() < self.log.log_end();
        if is_due { self.log.flush().map(drop) } else { Ok(()) }
    }

    /// Time for which a throttle leaves the records out of this follower's fetches, ms. None if it
    /// does not.
    pub(crate) fn throttled_ms(&self, replica: i32) -> Option<i64> {
        let pause_ms = self.replication.as_ref()?.throttles().leader.pause_ms(self)?;
        let is_lagging = self.led()?.view(|leader| !leader.isr().contains(&replica))?;
        is_lagging.then_some(pause_ms)
    }

    /// Counts record bytes that were sent to a follower.
    pub(crate) fn sent_to_follower(&self, bytes: u64) {
        if let Some(replication) = &self.replication {
            replication.throttles().leader.record(self, bytes);
        }
    }

    /// True if a line should be logged that the leader's records could not be used.
    pub(crate) fn take_replication_warning(&self, now_ms: i64) -> bool {
        self.replication_warning.is_due(now_ms)
    }
}
