//! Limits of a share group. Its configuration may change while the machine runs, so that each call
//! gets the limits in force.

/// Limits of a share group.
#[derive(Clone, Debug)]
pub struct ShareLimits {
    /// Offsets between the start offset and the end offset (`share.partition.max.record.locks`).
    /// One batch may exceed the limit.
    pub max_record_locks: u32,
    /// Number of times that a record is delivered (`share.delivery.count.limit`).
    pub delivery_limit: u16,
    /// Duration of a lock in ms (`share.record.lock.duration.ms`).
    pub lock_duration_ms: u32,
    /// True if members may renew locks (`share.renew.acknowledge.enable`).
    pub renew_enabled: bool,
    /// True if rejected records go to a dead letter queue.
    pub dead_letters: bool,
    /// Entries for records of the share partition. Acknowledgements and acquisitions that need more
    /// are refused.
    pub max_entries: usize,
}

/// Smallest number of deliveries after which records are isolated.
const FIRST_ISOLATED: u16 = 2;

impl ShareLimits {
    /// Number of deliveries from which on a batch is delivered in smaller parts: half of the
    /// attempts, rounded up.
    pub(super) fn isolated_from(&self) -> u16 {
        self.delivery_limit.div_ceil(2).max(FIRST_ISOLATED)
    }

    /// True if the next delivery of a record is the last one, so that the record is delivered
    /// singly.
    pub(super) fn is_last_attempt(&self, deliveries: u16) -> bool {
        self.delivery_limit > 2 && deliveries == self.delivery_limit - 1
    }

    pub(super) fn max_record_locks(&self) -> i64 {
        self.max_record_locks.into()
    }

    pub(super) fn lock_end_ms(&self, now_ms: i64) -> i64 {
        now_ms.saturating_add(self.lock_duration_ms.into())
    }
}
