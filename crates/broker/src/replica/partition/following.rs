//! The side of a partition that follows another leader, and the throttle of those that follow this
//! one; also the role that this node has once a change of leadership is through.

use std::sync::Arc;

use levada_log::{LogError, Writer};

use super::Partition;
use crate::replica::led::Led;

impl Partition {
    /// As [`Partition::led`], if this node leads in this leader epoch; none if it does not, or no
    /// longer does. Waits for a change in progress, and for an append.
    pub(crate) fn led_in(&self, leader_epoch: i32) -> Option<Option<Arc<Led>>> {
        let leads = self.lane.with_writer(|_| {
            let leadership = self.leadership.load();
            let leads = leadership.is_leader() && leadership.leader_epoch() == leader_epoch;
            leads.then(|| self.led())
        });
        leads.flatten()
    }

    /// Does a follower's work on the log; none if this node does not follow in this leader epoch,
    /// or not any more.
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

    /// True if a throttle leaves the records out of this follower's fetch.
    pub(crate) fn holds_back(&self, replica: i32) -> bool {
        let throttle = self.replication.as_ref().map(|replication| &replication.throttles().leader);
        let is_lagging = || self.led().and_then(|led| led.view(|leader| !leader.isr().contains(&replica)));
        throttle.is_some_and(|throttle| throttle.holds_back(self)) && is_lagging().unwrap_or(false)
    }

    /// Counts record bytes that went to a follower.
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
