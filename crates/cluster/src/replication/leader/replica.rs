//! State of one follower, as the leader knows it from the follower's fetches.

use super::{BrokerStanding, FollowerFetch, NO_BROKER_EPOCH};

/// Offset of a follower that has not fetched yet: less than every offset of a log.
const UNKNOWN: i64 = -1;

/// State of one follower.
#[derive(Clone, Debug)]
pub(super) struct Follower {
    /// Broker id of the follower.
    pub(super) id: i32,
    pub(super) log_end: i64,
    pub(super) log_start: i64,
    /// Broker epoch of the latest fetch; `None` before it.
    pub(super) broker_epoch: Option<i64>,
    /// Highest log end of the leader at the fetches so far.
    leader_end: i64,
    fetched_ms: Option<i64>,
    /// The last time at which the follower had the leader's whole log.
    caught_up_ms: Option<i64>,
}

impl Follower {
    /// A follower that has not fetched.
    pub(super) fn new(id: i32) -> Self {
        Self {
            id,
            log_end: UNKNOWN,
            log_start: UNKNOWN,
            broker_epoch: None,
            leader_end: UNKNOWN,
            fetched_ms: None,
            caught_up_ms: None,
        }
    }

    /// Begins a leader epoch. A member of the ISR counts as caught up, so that it has time for a
    /// fetch; another replica does not limit the high watermark before it has caught up.
    pub(super) fn begin_epoch(&mut self, is_in_sync: bool, epoch_start: i64, now_ms: i64) {
        let since = is_in_sync.then_some(now_ms);
        if self.broker_epoch.is_some() {
            (self.leader_end, self.fetched_ms) = (epoch_start, since);
        }
        self.caught_up_ms = since;
    }

    /// Applies a fetch of the follower.
    pub(super) fn take(&mut self, fetch: &FollowerFetch, now_ms: i64) {
        let caught_up_ms = match fetch.offset {
            offset if offset >= fetch.leader_end => Some(now_ms),
            // The follower has everything that the leader had at its previous fetch.
            offset if offset >= self.leader_end => self.fetched_ms,
            _ => None,
        };
        self.caught_up_ms = self.caught_up_ms.max(caught_up_ms);
        (self.log_end, self.log_start) = (fetch.offset, fetch.log_start);
        self.leader_end = self.leader_end.max(fetch.leader_end);
        (self.fetched_ms, self.broker_epoch) = (Some(now_ms), Some(fetch.broker_epoch));
    }

    /// True if the follower has the whole log, or had it within the last `lag_ms_max`.
    pub(super) fn is_caught_up(&self, leader_end: i64, now_ms: i64, lag_ms_max: i64) -> bool {
        let in_time = |caught_up_ms| now_ms.saturating_sub(caught_up_ms) <= lag_ms_max;
        self.log_end == leader_end || self.caught_up_ms.is_some_and(in_time)
    }

    /// True if the controller would let the follower into the ISR: its broker is alive and not
    /// stopping, and its fetches have the broker epoch of the registration.
    pub(super) fn is_eligible(&self, standing: Option<BrokerStanding>) -> bool {
        let Some(standing) = standing.filter(|standing| !standing.is_fenced && !standing.is_stopping) else {
            return false;
        };
        self.broker_epoch.is_some_and(|epoch| epoch == NO_BROKER_EPOCH || epoch == standing.epoch)
    }
}
