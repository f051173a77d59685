//! ShareWork that is due later: locks that end, and members that have left.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::entry::ShareEntry;
use super::{MemberKey, PartitionPlace};

/// ShareWork for the task that drives entries.
pub(crate) enum ShareWork {
    /// A lock of the entry may have ended.
    Tick(Arc<ShareEntry>),
    /// The session of a member has ended, with these partitions.
    Release(MemberKey, Vec<PartitionPlace>),
}

/// Alarms of entries, and members whose records are to be released. An entry has one alarm at most,
/// and a session that ends is one departure, so that both are bounded.
#[derive(Default)]
pub(super) struct Timers {
    queue: Mutex<Queue>,
    changed: Notify,
}

#[derive(Default)]
struct Queue {
    /// Alarms by time and by number of the entry.
    alarms: BTreeMap<(i64, u64), Weak<ShareEntry>>,
    departed: VecDeque<(MemberKey, Vec<PartitionPlace>)>,
}

impl Timers {
    /// Replaces the alarm of an entry.
    pub(super) fn set(&self, number: u64, (former_ms, at_ms): (i64, i64), entry: Weak<ShareEntry>) {
        let mut queue = self.queue.lock();
        queue.alarms.remove(&(former_ms, number));
        let is_first = queue.alarms.first_key_value().is_none_or(|((first_ms, _), _)| at_ms < *first_ms);
        queue.alarms.insert((at_ms, number), entry);
        drop(queue);
        if is_first {
            self.changed.notify_one();
        }
    }

    /// Cancels the alarm of an entry.
    pub(super) fn cancel(&self, number: u64, at_ms: i64) {
        self.queue.lock().alarms.remove(&(at_ms, number));
    }

    pub(super) fn add_departed(&self, member: MemberKey, partitions: Vec<PartitionPlace>) {
        self.queue.lock().departed.push_back((member, partitions));
        self.changed.notify_one();
    }

    /// Waits for the next work that is due. Not for use by two tasks at the same time.
    pub(super) async fn next(&self, now_ms: impl Fn() -> i64) -> ShareWork {
        loop {
            let wait = match self.take(now_ms()) {
                Ok(work) => return work,
                Err(wait) => wait,
            };
            match wait {
                Some(wait) => drop(tokio::time::timeout(wait, self.changed.notified()).await),
                None => self.changed.notified().await,
            }
        }
    }

    /// Work that is due, or else the time until the next one; `Err(None)` without an alarm.
    fn take(&self, now_ms: i64) -> Result<ShareWork, Option<Duration>> {
        let mut queue = self.queue.lock();
        if let Some((member, partitions)) = queue.departed.pop_front() {
            return Ok(ShareWork::Release(member, partitions));
        }
        while let Some(first) = queue.alarms.first_entry() {
            let (at_ms, _) = *first.key();
            if at_ms > now_ms {
                return Err(Some(Duration::from_millis((at_ms - now_ms).unsigned_abs())));
            }
            // The entry may be gone.
            if let Some(entry) = first.remove().upgrade() {
                entry.alarm_fired(at_ms);
                return Ok(ShareWork::Tick(entry));
            }
        }
        Err(None)
    }
}
