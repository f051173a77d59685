//! Counts of share groups since the start.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use levada_coordination::share_partition::AckBatch;
use parking_lot::RwLock;

use crate::source::{ACKNOWLEDGEMENTS, DeadLetterCounts};

/// Groups whose dead letters are counted by group. Those of further groups are counted together,
/// under the empty name, which no group has.
const GROUPS_MAX: usize = 10_000;

/// Counts since the start.
#[derive(Debug, Default)]
pub(super) struct ShareCounts {
    acquired: AtomicU64,
    expired: AtomicU64,
    acknowledged: [AtomicU64; ACKNOWLEDGEMENTS.len()],
    letters: RwLock<GroupLetters>,
}

/// Counts of dead letters by group, from the start with the empty name.
#[derive(Debug)]
struct GroupLetters(BTreeMap<Arc<str>, Arc<LetterCounts>>);

impl Default for GroupLetters {
    fn default() -> Self {
        Self(BTreeMap::from([(Arc::from(""), Arc::default())]))
    }
}

/// Counts of dead letters of a group since the start.
#[derive(Debug, Default)]
pub(crate) struct LetterCounts {
    written: AtomicU64,
    given_up: AtomicU64,
    requests: AtomicU64,
    failed_requests: AtomicU64,
}

impl LetterCounts {
    /// Counts a batch of dead letters that is about to be sent.
    pub(crate) fn sent(&self) {
        self.requests.fetch_add(1, Ordering::Relaxed);
    }

    /// Dead letters were written.
    pub(crate) fn written(&self, records: u64) {
        self.written.fetch_add(records, Ordering::Relaxed);
    }

    /// Counts dead letters that are abandoned because the last attempt to write their batch has
    /// failed.
    pub(crate) fn given_up(&self, records: u64) {
        self.given_up.fetch_add(records, Ordering::Relaxed);
        self.failed_requests.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts dead letters that are abandoned before a batch was built for them.
    pub(super) fn lost(&self, records: u64) {
        self.given_up.fetch_add(records, Ordering::Relaxed);
    }

    /// The counts.
    fn shown(&self) -> DeadLetterCounts {
        let count = |of: &AtomicU64| of.load(Ordering::Relaxed);
        DeadLetterCounts {
            written: count(&self.written),
            given_up: count(&self.given_up),
            requests: count(&self.requests),
            failed_requests: count(&self.failed_requests),
        }
    }
}

impl ShareCounts {
    /// Counts of the dead letters of a group, which begin with the first call.
    pub(super) fn letters(&self, group: &Arc<str>) -> Arc<LetterCounts> {
        if let Some(counts) = self.letters.read().0.get(group) {
            return counts.clone();
        }
        let GroupLetters(letters) = &mut *self.letters.write();
        let name = if letters.len() <= GROUPS_MAX { group.clone() } else { Arc::from("") };
        letters.entry(name).or_default().clone()
    }

    /// Dead letters of each group whose count has begun.
    pub(super) fn dead_letters(&self) -> Vec<(Arc<str>, DeadLetterCounts)> {
        self.letters.read().0.iter().map(|(group, counts)| (group.clone(), counts.shown())).collect()
    }

    /// Records were acquired.
    pub(super) fn acquired(&self, records: i64) {
        self.acquired.fetch_add(records.max(0).unsigned_abs(), Ordering::Relaxed);
    }

    /// Counts records whose locks have expired.
    pub(super) fn expired(&self, records: i64) {
        self.expired.fetch_add(records.max(0).unsigned_abs(), Ordering::Relaxed);
    }

    /// Records were acknowledged. A batch has one kind, or one for each record.
    pub(super) fn acknowledged(&self, batches: &[AckBatch<'_>]) {
        for batch in batches {
            let each = if batch.types.len() == 1 { batch.last.abs_diff(batch.first) + 1 } else { 1 };
            for kind in batch.types {
                let count = usize::try_from(*kind).ok().and_then(|kind| self.acknowledged.get(kind));
                count.into_iter().for_each(|count| {
                    count.fetch_add(each, Ordering::Relaxed);
                });
            }
        }
    }

    /// Records that were acquired, and how many of them lost their lock by expiry.
    pub(super) fn deliveries(&self) -> (u64, u64) {
        (self.acquired.load(Ordering::Relaxed), self.expired.load(Ordering::Relaxed))
    }

    /// Records that were acknowledged, in the order of [`ACKNOWLEDGEMENTS`].
    pub(super) fn acknowledgements(&self) -> [u64; ACKNOWLEDGEMENTS.len()] {
        std::array::from_fn(|kind| self.acknowledged[kind].load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn acknowledgements_are_counted_by_record_and_kind() {
        let counts = ShareCounts::default();
        counts.acknowledged(&[
            AckBatch { first: 10, last: 19, types: &[1] },
            AckBatch { first: 20, last: 22, types: &[2, 3, 2] },
            AckBatch { first: 23, last: 23, types: &[9] },
        ]);
        assert_eq!(counts.acknowledgements(), [0, 10, 2, 1, 0]);
        counts.acquired(7);
        counts.expired(3);
        assert_eq!(counts.deliveries(), (7, 3));
    }

    #[test]
    fn dead_letters_are_counted_by_group() {
        let counts = ShareCounts::default();
        let orders = counts.letters(&Arc::from("orders"));
        orders.sent();
        orders.written(4);
        orders.given_up(2);
        counts.letters(&Arc::from("orders")).lost(3);
        let letters = DeadLetterCounts { written: 4, given_up: 5, requests: 1, failed_requests: 1 };
        let others = (Arc::from(""), DeadLetterCounts::default());
        assert_eq!(counts.dead_letters(), [others, (Arc::from("orders"), letters)]);
    }

    #[test]
    fn further_groups_share_a_count_of_dead_letters() {
        let counts = ShareCounts::default();
        for number in 0..GROUPS_MAX + 2 {
            counts.letters(&Arc::from(format!("group {number}"))).lost(1);
        }
        let shown = counts.dead_letters();
        assert_eq!(shown.len(), GROUPS_MAX + 1);
        assert_eq!((&*shown[0].0, shown[0].1.given_up), ("", 2));
        counts.letters(&Arc::from("group 0")).lost(1);
        assert_eq!(counts.dead_letters()[1].1.given_up, 2, "a counted group keeps its count");
    }
}
