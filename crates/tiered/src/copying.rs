//! The state of copying that follows from the metadata: how far the copies of a log reach, and
//! where the log begins with them.

use crate::cache::SegmentCache;
use crate::segment::EpochStart;

/// The last offset of a log with the records from `log_start` to `log_end` (exclusive) that needs
/// no copy, `None` if there is none: the store has it, or retention has deleted it from the store.
/// `lineage` has the leader epochs of the log: the latest of them with such an offset decides. A
/// copy that was deleted above the log's start (an attempt that failed, remote storage that was off
/// for a time) does not count.
pub fn highest_copied(
    cache: &SegmentCache,
    lineage: &[EpochStart],
    (log_start, log_end): (i64, i64),
) -> Option<i64> {
    (0..lineage.len()).rev().find_map(|at| {
        let epoch = lineage[at].0;
        let expired = || cache.highest_offset(epoch).filter(|highest| *highest < log_start);
        let highest = cache.highest_readable(epoch).or_else(expired)?;
        let end = lineage.get(at + 1).map_or(log_end, |next| next.1);
        // The store may have records of the epoch that this log has lost.
        Some(highest.min(end - 1))
    })
}

/// The first offset of a log, with its segments in the store; `None` if the store has none of them.
pub fn first_copied(cache: &SegmentCache, lineage: &[EpochStart]) -> Option<i64> {
    lineage.iter().find_map(|(epoch, _)| cache.list_epoch(*epoch).first().map(|first| first.start_offset))
}

/// The first offset of a log whose leader epoch is known, if records before it are in the store
/// alone (`log_start` below `local_start`): the log has lost a part of its lineage, and does not
/// tell its remote segments of earlier epochs from those of other histories.
pub fn lost_before(lineage: &[EpochStart], log_start: i64, local_start: i64) -> Option<i64> {
    let first = lineage.first().map_or(local_start, |(_, start)| *start);
    (log_start < first.min(local_start)).then_some(first)
}

/// Limits at which a closed segment is copied: one of the two is enough. 0 copies it immediately, a
/// negative value disables the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyLag {
    /// Age of the last record in milliseconds.
    pub ms: i64,
    /// Bytes of the log after the segment.
    pub bytes: i64,
}

impl CopyLag {
    /// True if a segment is to be copied whose last record has this age, and after which the log
    /// has `newer_bytes`. A record from the future does not delay its segment.
    pub fn is_reached(self, age_ms: i64, newer_bytes: u64) -> bool {
        let is_old = self.ms > 0 && (age_ms < 0 || age_ms >= self.ms);
        let is_far = u64::try_from(self.bytes).is_ok_and(|bytes| bytes > 0 && newer_bytes >= bytes);
        self.ms == 0 || self.bytes == 0 || is_old || is_far
    }
}

#[cfg(test)]
mod tests;
