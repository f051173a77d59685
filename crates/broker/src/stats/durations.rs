//! Durations by bucket.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Upper bounds of the buckets in microseconds; a last bucket has no bound.
pub const BOUNDS_US: [u64; 16] = [
    100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000,
    2_500_000, 5_000_000, 10_000_000,
];

/// Number of durations in each bucket, and their sum.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Durations {
    /// Number of durations in each bucket of [`BOUNDS_US`], and above the last bound.
    pub buckets: [u64; BOUNDS_US.len() + 1],
    /// Sum of the durations in nanoseconds.
    pub sum_ns: u64,
}

/// Counters of durations to which any thread may add.
#[derive(Debug, Default)]
pub(crate) struct SharedDurations(Cells);

impl SharedDurations {
    /// Counts a duration.
    pub(crate) fn add(&self, duration: Duration) {
        let (bucket, ns) = place(duration);
        self.0.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        self.0.sum_ns.fetch_add(ns, Ordering::Relaxed);
    }

    /// Durations counted so far.
    pub(crate) fn totals(&self) -> Durations {
        let mut totals = Durations::default();
        self.0.add_to(&mut totals);
        totals
    }
}

/// Counters of durations to which one thread adds.
#[derive(Debug, Default)]
pub(super) struct OwnDurations(Cells);

impl OwnDurations {
    pub(super) fn add(&self, duration: Duration) {
        let (bucket, ns) = place(duration);
        add(&self.0.buckets[bucket], 1);
        add(&self.0.sum_ns, ns);
    }

    pub(super) fn add_to(&self, totals: &mut Durations) {
        self.0.add_to(totals);
    }
}

#[derive(Debug, Default)]
struct Cells {
    buckets: [AtomicU64; BOUNDS_US.len() + 1],
    sum_ns: AtomicU64,
}

impl Cells {
    fn add_to(&self, totals: &mut Durations) {
        let read = |cell: &AtomicU64| cell.load(Ordering::Relaxed);
        totals.sum_ns += read(&self.sum_ns);
        totals.buckets.iter_mut().zip(&self.buckets).for_each(|(total, cell)| *total += read(cell));
    }
}

/// The bucket of a duration, and its nanoseconds.
fn place(duration: Duration) -> (usize, u64) {
    let ns = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
    (BOUNDS_US.iter().position(|bound| ns <= bound * 1000).unwrap_or(BOUNDS_US.len()), ns)
}

/// Adds to a counter that only this thread writes.
pub(super) fn add(cell: &AtomicU64, more: u64) {
    cell.store(cell.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
}
