//! Batches of idempotent producers that were refused for a reason that passes. Their producers send
//! them again, and later batches that are on their way already as well. A later batch must not
//! enter the log before them, because a log without records of a producer accepts any first
//! sequence number. Nor may it be refused as out of order: some clients then raise their epoch, and
//! send batches again that other partitions have.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use levada_base::batch::BatchView;

#[cfg(test)]
mod tests;

/// Id and epoch of a producer.
type ProducerEpoch = (i64, i16);

/// Maximum number of producers. At this number all are forgotten.
const PRODUCERS_MAX: usize = 1000;

/// Time after which a refused batch is forgotten: five times the default delivery timeout of
/// clients. Another leader may have stored it, which this log does not know.
const KEPT: Duration = Duration::from_secs(600);

/// The reason for which a batch was refused that its producer sends again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passing {
    /// The storage did not accept the batch.
    Storage,
    /// This broker does not lead the log, or led it in another epoch.
    Leadership,
    /// Too few replicas are in sync, or the transaction could not be verified yet.
    Replicas,
}

/// The lowest refused batch of a producer since the log's last batch of the producer.
#[derive(Clone, Copy, Debug)]
struct Lowest {
    epoch: i16,
    sequence: i32,
    reason: Passing,
    /// Time of the last refusal.
    at: Instant,
}

impl Lowest {
    fn is_over(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.at) >= KEPT
    }
}

/// The lowest refused batch of each producer.
#[derive(Debug, Default)]
pub(crate) struct Refused {
    count: AtomicUsize,
    lowest: Mutex<HashMap<i64, Lowest>>,
}

impl Refused {
    /// Notes a batch of an idempotent producer; any other changes nothing.
    pub(crate) fn note(&self, records: &[u8], reason: Passing) {
        let Ok(batch) = BatchView::parse(records) else { return };
        if batch.producer_id() >= 0 && !batch.is_control() {
            let producer = (batch.producer_id(), batch.producer_epoch());
            self.add(producer, batch.base_sequence(), (reason, Instant::now()));
        }
    }

    fn add(&self, (producer_id, epoch): ProducerEpoch, sequence: i32, (reason, at): (Passing, Instant)) {
        let mut all = self.lowest.lock();
        if all.len() >= PRODUCERS_MAX && !all.contains_key(&producer_id) {
            all.clear();
        }
        let now = Lowest { epoch, sequence, reason, at };
        let lowest = all.entry(producer_id).or_insert(now);
        if lowest.epoch != epoch || !is_after(sequence, lowest.sequence) || lowest.is_over(at) {
            *lowest = now;
        }
        self.count.store(all.len(), Ordering::Relaxed);
    }

    /// True if no batch was refused that its producer has yet to send again. One load.
    pub(crate) fn is_empty(&self) -> bool {
        self.count.load(Ordering::Relaxed) == 0
    }

    /// The earlier refused batch that must be stored before this one.
    pub(crate) fn before(
        &self,
        (producer_id, epoch): ProducerEpoch,
        sequence: i32,
        now: Instant,
    ) -> Option<(i32, Passing)> {
        let all = self.lowest.lock();
        let lowest = all.get(&producer_id).filter(|lowest| lowest.epoch == epoch && !lowest.is_over(now))?;
        is_after(sequence, lowest.sequence).then_some((lowest.sequence, lowest.reason))
    }

    /// Forgets a producer: the log has accepted a batch of it, or its transaction ends. One load if
    /// nothing was refused.
    pub(crate) fn forget(&self, producer_id: i64) {
        if !self.is_empty() {
            let mut all = self.lowest.lock();
            all.remove(&producer_id);
            self.count.store(all.len(), Ordering::Relaxed);
        }
    }
}

/// True if one sequence number comes after the other: they wrap from the largest `i32` to 0.
fn is_after(one: i32, other: i32) -> bool {
    (1..=i32::MAX / 2).contains(&(one.wrapping_sub(other) & i32::MAX))
}
