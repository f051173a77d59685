//! The timers of a coordinator: an action and the time at which it is due.

use std::collections::{BTreeMap, HashMap};

/// Alarms by name and by time, which is the monotonic clock's. Setting an alarm again moves it.
#[derive(Debug, Default)]
pub(super) struct Timers {
    now_ms: i64,
    by_time: BTreeMap<(i64, u64), (TimerKey, Alarm)>,
    by_key: HashMap<TimerKey, (i64, u64)>,
    /// Alarms that were due and are held.
    suspended: HashMap<TimerKey, Alarm>,
    set: u64,
}

/// Capacity of the table of alarms up to which it never shrinks.
const KEPT: usize = 1024;

/// The name of an alarm; there is at most one of each.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum TimerKey {
    /// The group waits for members to join.
    Join(String),
    /// The group waits for members to sync.
    Sync(String),
    /// The group waits for a sign of life from this member.
    Session(String, String),
    /// The group waits for this member to give partitions or tasks up.
    Revocation(String, String),
    /// The consumer group waits for this classic member to join again.
    MemberJoin(String, String),
    /// The consumer group waits for this classic member to sync.
    MemberSync(String, String),
    /// The first assignment of the streams group waits for more members.
    Assignment(String),
    /// Search for expired offsets.
    Expiry,
}

/// Action at a given time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Alarm {
    /// The generation starts with the members that are there.
    JoinOver,
    /// The first generation starts, or waits again if members have joined since.
    InitialDelayOver {
        /// Duration of this wait, ms.
        delay_ms: i64,
        /// Time that further waits may last in all.
        remaining_ms: i64,
    },
    /// Members that have not synced are removed.
    SyncOver {
        /// The generation they should have synced with.
        generation: i32,
    },
    /// The member is removed.
    SessionOver,
    /// The member is removed if it has not revoked its partitions or tasks.
    RevocationOver,
    /// The first assignment is made.
    AssignmentDelayOver,
    /// Expired offsets are removed.
    ExpiryDue,
}

impl Timers {
    /// Sets the present time.
    pub(super) fn advance(&mut self, now_ms: i64) {
        self.now_ms = now_ms;
    }

    /// The time, by the monotonic clock.
    pub(super) fn now_ms(&self) -> i64 {
        self.now_ms
    }

    /// Sets or moves an alarm to a time from now. Alarms of the same time fire in the order in
    /// which they were set.
    pub(super) fn set_in(&mut self, key: TimerKey, delay_ms: i64, alarm: Alarm) {
        self.cancel(&key);
        let at = (self.now_ms.saturating_add(delay_ms), self.set);
        self.set += 1;
        self.by_time.insert(at, (key.clone(), alarm));
        self.by_key.insert(key, at);
    }

    /// Cancels an alarm; does nothing if it is not set.
    pub(super) fn cancel(&mut self, key: &TimerKey) {
        self.suspended.remove(key);
        if let Some(at) = self.by_key.remove(key) {
            self.by_time.remove(&at);
            self.give_back();
        }
    }

    /// Keeps an alarm that has fired, until [`Timers::resume`] removes it, or another call sets or
    /// cancels it.
    pub(super) fn suspend(&mut self, key: TimerKey, alarm: Alarm) {
        self.suspended.insert(key, alarm);
    }

    /// Removes and returns a suspended alarm; none if it was set again or cancelled since.
    pub(super) fn resume(&mut self, key: &TimerKey) -> Option<Alarm> {
        self.suspended.remove(key)
    }

    /// Releases memory that only many alarms needed. A table that grows again has at least as many
    /// alarms set by then as it moves.
    fn give_back(&mut self) {
        let capacity = self.by_key.capacity();
        if capacity > KEPT && self.by_key.len() < capacity / 8 {
            self.by_key.shrink_to(capacity / 4);
        }
    }

    /// True if an alarm is set.
    pub(super) fn is_set(&self, key: &TimerKey) -> bool {
        self.by_key.contains_key(key)
    }

    /// Time of the next alarm.
    pub(super) fn next_ms(&self) -> Option<i64> {
        self.by_time.first_key_value().map(|((at_ms, _), _)| *at_ms)
    }

    /// Removes and returns the next alarm that is due.
    pub(super) fn due(&mut self) -> Option<(TimerKey, Alarm)> {
        if self.next_ms()? > self.now_ms {
            return None;
        }
        let (_, (key, alarm)) = self.by_time.pop_first()?;
        self.by_key.remove(&key);
        self.give_back();
        Some((key, alarm))
    }

    /// Cancels all alarms.
    pub(super) fn clear(&mut self) {
        self.by_time.clear();
        self.by_key.clear();
        self.suspended.clear();
    }
}
