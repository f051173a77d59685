//! Counts of a partition's traffic, and of the upkeep of all logs.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use crate::stats::{Durations, SharedDurations};

/// Traffic of one partition since the broker serves it.
#[derive(Debug, Default)]
pub(crate) struct Traffic {
    bytes_in: AtomicU64,
    records_in: AtomicU64,
    batches_in: AtomicU64,
    bytes_out: AtomicU64,
    failed_produces: AtomicU64,
    failed_fetches: AtomicU64,
}

/// Sums of the traffic of all partitions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TrafficTotals {
    /// Record bytes appended for producers.
    pub bytes_in: u64,
    /// Number of records appended for producers.
    pub records_in: u64,
    /// Number of batches appended for producers.
    pub batches_in: u64,
    /// Record bytes in responses to consumers.
    pub bytes_out: u64,
    /// Number of batches of producers that were refused.
    pub failed_produces: u64,
    /// Number of fetches of the partition that ended with an error.
    pub failed_fetches: u64,
}

fn add(counter: &AtomicU64, more: u64) {
    counter.fetch_add(more, Ordering::Relaxed);
}

impl Traffic {
    /// Counts an appended batch of a producer.
    pub(crate) fn produced(&self, bytes: u64, records: u64) {
        add(&self.bytes_in, bytes);
        add(&self.records_in, records);
        add(&self.batches_in, 1);
    }

    /// Counts a refused batch of a producer.
    pub(crate) fn produce_failed(&self) {
        add(&self.failed_produces, 1);
    }

    /// Counts the bytes of records in a response to a consumer.
    pub(crate) fn fetched(&self, bytes: u64) {
        if bytes > 0 {
            add(&self.bytes_out, bytes);
        }
    }

    /// A fetch ended with an error.
    pub(crate) fn fetch_failed(&self) {
        add(&self.failed_fetches, 1);
    }

    /// Adds this traffic to `totals`.
    pub(crate) fn add_to(&self, totals: &mut TrafficTotals) {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        totals.bytes_in += read(&self.bytes_in);
        totals.records_in += read(&self.records_in);
        totals.batches_in += read(&self.batches_in);
        totals.bytes_out += read(&self.bytes_out);
        totals.failed_produces += read(&self.failed_produces);
        totals.failed_fetches += read(&self.failed_fetches);
    }
}

/// Work on logs since the start.
#[derive(Debug, Default)]
pub(crate) struct Upkeep {
    flushes: SharedDurations,
    retention_segments: AtomicU64,
    retention_bytes: AtomicU64,
}

impl Upkeep {
    /// Measures a flush of `log`, unless there was nothing to flush.
    pub(crate) fn flush<E>(
        &self,
        log: &levada_log::Partition,
        flush: impl FnOnce(&levada_log::Partition) -> Result<i64, E>,
    ) -> Result<i64, E> {
        let (begun, before) = (Instant::now(), log.durable());
        let flushed = flush(log);
        if flushed.is_err() || log.durable() > before {
            self.flushes.add(begun.elapsed());
        }
        flushed
    }

    /// Counts segments that retention has deleted.
    pub(crate) fn retired(&self, segments: u64, bytes: u64) {
        add(&self.retention_segments, segments);
        add(&self.retention_bytes, bytes);
    }

    /// Durations of flushes.
    pub(crate) fn flushes(&self) -> Durations {
        self.flushes.totals()
    }

    /// Segments and bytes that retention has deleted.
    pub(crate) fn retention(&self) -> (u64, u64) {
        (self.retention_segments.load(Ordering::Relaxed), self.retention_bytes.load(Ordering::Relaxed))
    }
}
