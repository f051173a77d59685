//! State that all compactions share: the offset at which the last compaction of each log ended,
//! logs in progress or excluded, the rate limit, and statistics. It uses no disk; the time is a
//! parameter, except for waiting.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};

use levada_log::compact::Counts;
use parking_lot::Mutex;

use crate::replica::TopicPartition;
use crate::replica::pace::Pace;

/// Progress, pace and totals of compaction.
#[derive(Default)]
pub(crate) struct Cleaner {
    book: Mutex<Book>,
    pace: Pace,
    totals: Totals,
}

#[derive(Default)]
struct Book {
    /// The offset from which compaction continues.
    checkpoints: BTreeMap<TopicPartition, i64>,
    /// Logs in progress, with the smallest offset to which each was truncated during the
    /// compaction.
    busy: BTreeMap<TopicPartition, i64>,
    uncleanable: BTreeSet<TopicPartition>,
}

#[derive(Default)]
struct Totals {
    runs: AtomicU64,
    read_bytes: AtomicU64,
    written_bytes: AtomicU64,
    dirtiest_percent: AtomicU64,
    backlog_bytes: AtomicU64,
}

/// Figures of compaction for `/metrics`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CleanerStats {
    /// Number of logs compacted so far, each time again.
    pub runs: u64,
    /// Bytes read to learn keys and to be rewritten.
    pub read_bytes: u64,
    /// Bytes of compacted segments.
    pub written_bytes: u64,
    /// The largest share of bytes that compaction has not seen, of all compacted logs.
    pub dirtiest_percent: u64,
    /// Bytes of log that compaction has not processed and could process now, of all compacted logs.
    pub backlog_bytes: u64,
    /// Number of partitions that cannot be compacted until the next start.
    pub uncleanable: u64,
}

impl Cleaner {
    /// Continues from checkpoints of an earlier process.
    pub(crate) fn new(checkpoints: BTreeMap<TopicPartition, i64>) -> Self {
        let book = Mutex::new(Book { checkpoints, ..Book::default() });
        Self { book, ..Self::default() }
    }

    /// End offset of the last compaction of a log.
    pub(crate) fn checkpoint(&self, key: &TopicPartition) -> Option<i64> {
        self.book.lock().checkpoints.get(key).copied()
    }

    /// Lowers the checkpoint of a log that ends at this offset, because compaction has not seen the
    /// records that will be appended there. True if the checkpoint was beyond it.
    pub(crate) fn lower(&self, key: &TopicPartition, log_end: i64) -> bool {
        let mut book = self.book.lock();
        if let Some(truncated) = book.busy.get_mut(key) {
            *truncated = log_end.min(*truncated);
        }
        let beyond = book.checkpoints.get_mut(key).filter(|checkpoint| **checkpoint > log_end);
        beyond.map(|checkpoint| *checkpoint = log_end).is_some()
    }

    /// The first uncleaned offset of each log.
    pub(crate) fn checkpoints(&self) -> BTreeMap<TopicPartition, i64> {
        self.book.lock().checkpoints.clone()
    }

    /// True if a log may be chosen.
    pub(crate) fn is_free(&self, key: &TopicPartition) -> bool {
        let book = self.book.lock();
        !book.busy.contains_key(key) && !book.uncleanable.contains(key)
    }

    /// Reserves a log for the caller; false if another thread has it.
    pub(crate) fn take(&self, key: &TopicPartition) -> bool {
        let mut book = self.book.lock();
        let is_free = !book.busy.contains_key(key);
        if is_free {
            book.busy.insert(key.clone(), i64::MAX);
        }
        is_free
    }

    /// Returns a log that was not compacted, or not to the end.
    pub(crate) fn give_back(&self, key: &TopicPartition) {
        self.book.lock().busy.remove(key);
    }

    /// Returns a log that was compacted up to `end`, unless it `is_gone`. If the log was truncated
    /// during the compaction, records from that offset on were not compacted.
    pub(crate) fn done(&self, key: &TopicPartition, end: i64, is_gone: impl Fn() -> bool) {
        let mut book = self.book.lock();
        let truncated = book.busy.remove(key);
        // The deletion of a topic is recorded before its partitions are dropped here.
        if !is_gone() {
            book.checkpoints.insert(key.clone(), truncated.map_or(end, |truncated| end.min(truncated)));
        }
    }

    /// Excludes a log from compaction until the next start.
    pub(crate) fn exclude(&self, key: &TopicPartition) {
        self.book.lock().uncleanable.insert(key.clone());
    }

    /// Drops a partition whose topic has been deleted; true if it had a checkpoint.
    pub(crate) fn forget(&self, key: &TopicPartition) -> bool {
        let mut book = self.book.lock();
        book.uncleanable.remove(key);
        book.checkpoints.remove(key).is_some()
    }

    /// Counts bytes read or written and waits as `bytes_per_second` requires; `false` once the
    /// broker stops.
    pub(crate) fn go_on(&self, bytes: u64, bytes_per_second: f64) -> bool {
        self.pace.go_on(bytes, bytes_per_second)
    }

    /// Ends all compactions soon.
    pub(crate) fn halt(&self) {
        self.pace.halt();
    }

    /// Counts the result of the compaction of a log.
    pub(crate) fn count(&self, counts: &Counts) {
        let totals = &self.totals;
        totals.runs.fetch_add(1, Ordering::Relaxed);
        totals.read_bytes.fetch_add(counts.mapped_bytes + counts.read_bytes, Ordering::Relaxed);
        totals.written_bytes.fetch_add(counts.written_bytes, Ordering::Relaxed);
    }

    /// Notes the largest share of bytes not seen yet, and the number of such bytes in all logs.
    pub(crate) fn note_dirt(&self, ratio: f64, bytes: u64) {
        self.totals.dirtiest_percent.store((ratio * 100.0) as u64, Ordering::Relaxed);
        self.totals.backlog_bytes.store(bytes, Ordering::Relaxed);
    }

    /// Counts of compaction since the start.
    pub(crate) fn stats(&self) -> CleanerStats {
        let totals = &self.totals;
        CleanerStats {
            runs: totals.runs.load(Ordering::Relaxed),
            read_bytes: totals.read_bytes.load(Ordering::Relaxed),
            written_bytes: totals.written_bytes.load(Ordering::Relaxed),
            dirtiest_percent: totals.dirtiest_percent.load(Ordering::Relaxed),
            backlog_bytes: totals.backlog_bytes.load(Ordering::Relaxed),
            uncleanable: self.book.lock().uncleanable.len() as u64,
        }
    }
}

#[cfg(test)]
mod tests;
