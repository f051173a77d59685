//! The published offsets of a log, and the transactions that limit the last stable offset.
//!
//! The writer moves the log end offset. The high watermark is the offset below which all in-sync
//! replicas have the log. The last stable offset is the first offset of a transaction that is open,
//! or whose marker is at or above the high watermark; without one it is the high watermark. It is
//! derived on each read, so that two threads can move the other two at the same time. The order of
//! the atomic operations is such that a reader may see an offset that is too low, but never one
//! that is too high.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicI64, Ordering};

use parking_lot::Mutex;

/// Value for no transaction: above every offset.
const NONE: i64 = i64::MAX;

/// The published offsets of one log.
#[derive(Debug)]
pub(crate) struct Marks {
    log_start: AtomicI64,
    high_watermark: AtomicI64,
    log_end: AtomicI64,
    pub(crate) recovery_point: AtomicI64,
    pub(crate) durable: AtomicI64,
    /// First offset of the oldest open transaction. Only the writer stores it.
    first_open: AtomicI64,
    /// First offset of the oldest transaction that is open, or among `ended`.
    first_unstable: AtomicI64,
    /// Offset of the first marker in `ended`.
    first_marker: AtomicI64,
    /// First offset and marker of transactions whose marker is not below the high watermark.
    ended: Mutex<BTreeMap<i64, i64>>,
}

/// The marks a log starts with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Start {
    pub(crate) log_start: i64,
    /// Upper bound of the high watermark; the mark is never outside the log.
    pub(crate) high_watermark: i64,
    pub(crate) log_end: i64,
    pub(crate) first_open: Option<i64>,
    pub(crate) recovery_point: i64,
}

/// A transaction and the marker that has ended it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ended {
    pub(crate) first_offset: i64,
    pub(crate) marker_offset: i64,
}

impl Marks {
    pub(crate) fn new(start: Start) -> Self {
        let first_open = start.first_open.unwrap_or(NONE);
        Self {
            log_start: start.log_start.into(),
            high_watermark: start.high_watermark.clamp(start.log_start, start.log_end).into(),
            log_end: start.log_end.into(),
            recovery_point: start.recovery_point.into(),
            durable: start.recovery_point.into(),
            first_open: first_open.into(),
            first_unstable: first_open.into(),
            first_marker: NONE.into(),
            ended: Mutex::default(),
        }
    }

    pub(crate) fn log_start(&self) -> i64 {
        self.log_start.load(Ordering::Acquire)
    }

    pub(crate) fn high_watermark(&self) -> i64 {
        self.high_watermark.load(Ordering::Acquire)
    }

    pub(crate) fn last_stable(&self) -> i64 {
        // In this order: a transaction that begins after the first of these loads begins above the
        // loaded mark.
        let high = self.high_watermark();
        let unstable = self.first_unstable.load(Ordering::Acquire);
        unstable.min(high).max(self.log_start())
    }

    pub(crate) fn log_end(&self) -> i64 {
        self.log_end.load(Ordering::Acquire)
    }

    /// Records the transactions of a write, before the log's end covers it.
    pub(crate) fn note_transactions(&self, first_open: Option<i64>, ended: &[Ended]) {
        let first_open = first_open.unwrap_or(NONE);
        // Nearly always nothing has begun or ended.
        if ended.is_empty() && first_open == self.first_open.load(Ordering::Relaxed) {
            return;
        }
        let mut all = self.ended.lock();
        all.extend(ended.iter().map(|one| (one.first_offset, one.marker_offset)));
        self.first_open.store(first_open, Ordering::Relaxed);
        self.settle(&all);
    }

    /// Raises the log end offset.
    pub(crate) fn extend(&self, log_end: i64, dir: &Path) {
        let end = self.log_end();
        assert!(log_end >= end, "log end {log_end} of {} is before the published {end}", dir.display());
        self.log_end.store(log_end, Ordering::Release);
    }

    /// Raises the high watermark, to the log's end at most; a lower one changes nothing.
    pub(crate) fn raise_high_watermark(&self, offset: i64) {
        let offset = offset.min(self.log_end());
        self.high_watermark.fetch_max(offset, Ordering::AcqRel);
        if offset > self.first_marker.load(Ordering::Acquire) {
            let mut ended = self.ended.lock();
            let high = self.high_watermark();
            ended.retain(|_, marker| *marker >= high);
            self.settle(&ended);
        }
    }

    /// Moves the log's start up to an offset within the log that all replicas have.
    pub(crate) fn raise_log_start(&self, offset: i64) {
        let (start, high) = (self.log_start(), self.high_watermark());
        assert!(start <= offset && offset <= high, "log start {offset} is not within {start}..={high}");
        self.log_start.store(offset, Ordering::Release);
    }

    /// Lowers the log end; no mark is above `end` afterwards.
    pub(crate) fn lower(&self, end: i64) {
        for mark in
            [&self.log_start, &self.high_watermark, &self.log_end, &self.recovery_point, &self.durable]
        {
            mark.fetch_min(end, Ordering::AcqRel);
        }
    }

    /// Replaces the transactions after the log was cut at its end. A transaction whose marker was
    /// cut off is open again.
    pub(crate) fn restart_transactions(&self, first_open: Option<i64>) {
        let mut ended = self.ended.lock();
        let end = self.log_end();
        ended.retain(|_, marker| *marker < end);
        self.first_open.store(first_open.unwrap_or(NONE), Ordering::Relaxed);
        self.settle(&ended);
    }

    /// Makes a log without local records end at `offset`, and begin there or, with a remote part,
    /// before it. The caller has lowered all marks to these offsets.
    pub(crate) fn restart(&self, log_start: i64, offset: i64) {
        let mut ended = self.ended.lock();
        ended.clear();
        self.first_open.store(NONE, Ordering::Relaxed);
        self.settle(&ended);
        for mark in [&self.log_end, &self.high_watermark, &self.durable, &self.recovery_point] {
            mark.fetch_max(offset, Ordering::AcqRel);
        }
        self.log_start.fetch_max(log_start, Ordering::AcqRel);
    }

    /// Publishes the mark that follows from the transactions. Under the lock.
    fn settle(&self, ended: &BTreeMap<i64, i64>) {
        let first_ended = ended.first_key_value().map_or(NONE, |(first, _)| *first);
        let first_open = self.first_open.load(Ordering::Relaxed);
        self.first_marker.store(ended.values().min().copied().unwrap_or(NONE), Ordering::Release);
        self.first_unstable.store(first_open.min(first_ended), Ordering::Release);
    }

    /// The order of the marks. Called where they move, by a thread that keeps others from moving
    /// them: between two stores a reader may see another order.
    pub(crate) fn assert_ordered(&self, dir: &Path) {
        let (start, high, end) = (self.log_start(), self.high_watermark(), self.log_end());
        assert!(
            start <= high && high <= end,
            "marks of {} are out of order: log start {start}, high watermark {high}, log end {end}",
            dir.display()
        );
    }
}

#[cfg(test)]
mod tests;
