//! Counter of the partitions that have gone offline: a cheap sign to check all of them.

use std::sync::atomic::{AtomicU64, Ordering};

/// Number of partitions of this process that have gone offline.
static OUTAGES: AtomicU64 = AtomicU64::new(0);

/// Number of partitions of this process that have gone offline so far; incremented after the
/// partition is offline.
pub fn outages() -> u64 {
    OUTAGES.load(Ordering::Acquire)
}

pub(super) fn count() {
    OUTAGES.fetch_add(1, Ordering::Release);
}
