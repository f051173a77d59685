//! Counts of the work with the remote store, for metrics with Kafka's meaning.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts since the start.
#[derive(Debug, Default)]
pub(crate) struct TierCounts {
    /// Bytes of segments that were copied.
    pub(crate) copied_bytes: Count,
    /// Started copies.
    pub(crate) copy_requests: Count,
    /// Copies that have failed.
    pub(crate) copy_errors: Count,
    /// Started deletions of segments.
    pub(crate) delete_requests: Count,
    /// Deletions of segments that have failed.
    pub(crate) delete_errors: Count,
}

/// A count that only grows.
#[derive(Debug, Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    pub(crate) fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
