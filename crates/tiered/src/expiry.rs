//! The choice of the remote segments to delete: by size, by time, by the log's start, and segments
//! of leader epochs that the log no longer has.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::Arc;

use levada_wire::Uuid;

use crate::cache::SegmentCache;
use crate::copying::highest_copied;
use crate::lineage::{within_lineage, without_empty_epochs};
use crate::segment::{EpochStart, RemoteSegment, SegmentState};

/// Facts about a log, and its limits.
#[derive(Clone, Copy, Debug)]
pub struct LogFacts<'a> {
    /// Leader epochs of the log and their first offsets, in order.
    pub lineage: &'a [EpochStart],
    /// First offset of the log.
    pub log_start: i64,
    /// Offset after the last.
    pub log_end: i64,
    /// First offset and bytes of each local segment.
    pub local: &'a [(i64, u64)],
    /// `retention.bytes`; negative for no limit.
    pub retention_bytes: i64,
    /// `retention.ms`; negative for no limit.
    pub retention_ms: i64,
    /// Time of the choice.
    pub now_ms: i64,
}

/// Remote segments to delete.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExpiredSegments {
    /// The segments, in the order of deletion.
    pub segments: Vec<Arc<RemoteSegment>>,
    /// New first offset of the log, which is in force before the deletions; `None` if it stays.
    pub log_start: Option<i64>,
}

/// Chooses the segments to delete: all whose deletion has begun, and then epoch by epoch and oldest
/// first, up to the first that stays. Segments whose copying is in progress (`in_copy`) stay, and
/// all later ones. Segments of epochs before the lineage stay if the lineage begins after the log:
/// a part of it is lost.
pub fn expired(cache: &SegmentCache, log: LogFacts<'_>, in_copy: &BTreeSet<Uuid>) -> ExpiredSegments {
    let lineage = without_empty_epochs(log.lineage);
    let mut choice = Choice {
        log,
        breached_bytes: breached_bytes(cache, log, &lineage),
        lineage,
        chosen: BTreeSet::new(),
        expired: ExpiredSegments::default(),
    };
    for segment in cache.list().filter(|segment| segment.state == SegmentState::DeleteStarted) {
        if !in_copy.contains(&segment.id.id) {
            choice.take(segment);
        }
    }
    'epochs: for at in 0..choice.lineage.len() {
        for segment in cache.list_epoch(choice.lineage[at].0) {
            if in_copy.contains(&segment.id.id) || !choice.consider(segment) {
                break 'epochs;
            }
        }
    }
    if let Some((first, start)) = log.lineage.first()
        && *start <= log.log_start
    {
        for segment in cache.list() {
            if segment.epochs.iter().all(|(epoch, _)| epoch < first) && !in_copy.contains(&segment.id.id) {
                choice.take(segment);
            }
        }
    }
    choice.expired
}

/// Bytes by which the log exceeds its limit; 0 without a limit. Segments before the log's start are
/// no part of the log.
fn breached_bytes(cache: &SegmentCache, log: LogFacts<'_>, lineage: &[EpochStart]) -> u64 {
    let Ok(limit) = u64::try_from(log.retention_bytes) else { return 0 };
    let only_local = only_local_bytes(cache, log);
    if only_local + cache.copied_bytes() <= limit {
        return 0;
    }
    let counted = cache.list().filter(|segment| {
        let is_ours = segment.epochs.iter().any(|(epoch, _)| lineage.iter().any(|(own, _)| own == epoch));
        is_ours
            && segment.state == SegmentState::CopyFinished
            && segment.end_offset >= log.log_start
            && within_lineage(segment, log.log_end, lineage)
    });
    (only_local + bytes_once(counted.collect())).saturating_sub(limit)
}

/// Bytes of copies that do not overlap: after an election, two leaders may have copied the same
/// records. Of those that overlap, the first one counts, so that the sum is not above the bytes of
/// all records.
fn bytes_once(mut copies: Vec<&Arc<RemoteSegment>>) -> u64 {
    copies.sort_by_key(|copy| (copy.start_offset, Reverse(copy.end_offset)));
    let (mut bytes, mut end) = (0, -1);
    for copy in copies {
        if copy.start_offset > end {
            bytes += bytes_of(copy);
            end = copy.end_offset;
        }
    }
    bytes
}

/// Bytes of the local segments that the store does not have. It follows from the same metadata as
/// the bytes in the store, so that no segment counts twice.
fn only_local_bytes(cache: &SegmentCache, log: LogFacts<'_>) -> u64 {
    let copied = highest_copied(cache, log.lineage, (log.log_start, log.log_end)).unwrap_or(-1);
    log.local.iter().filter(|(base, _)| *base > copied).map(|(_, bytes)| bytes).sum()
}

fn bytes_of(segment: &RemoteSegment) -> u64 {
    u64::try_from(segment.size).unwrap_or(0)
}

/// The choice so far.
struct Choice<'a> {
    log: LogFacts<'a>,
    lineage: Vec<EpochStart>,
    breached_bytes: u64,
    chosen: BTreeSet<Uuid>,
    expired: ExpiredSegments,
}

impl Choice<'_> {
    /// Returns false if the segment ends the choice: it stays, and is part of the log.
    fn consider(&mut self, segment: &Arc<RemoteSegment>) -> bool {
        if self.chosen.contains(&segment.id.id) {
            return true;
        }
        if self.is_before_start(segment) {
            self.take(segment);
            return true;
        }
        if !within_lineage(segment, self.log.log_end, &self.lineage) {
            return true;
        }
        let is_expired = self.is_old(segment) || self.is_excess(segment);
        if is_expired {
            let after = segment.end_offset.saturating_add(1);
            self.expired.log_start = self.expired.log_start.max(Some(after));
            self.take(segment);
        }
        is_expired
    }

    fn take(&mut self, segment: &Arc<RemoteSegment>) {
        if self.chosen.insert(segment.id.id) {
            self.expired.segments.push(segment.clone());
        }
    }

    /// True if the records were deleted by a client, or by retention in an earlier round.
    fn is_before_start(&self, segment: &RemoteSegment) -> bool {
        let first = self.lineage.first().map(|(epoch, _)| *epoch);
        let is_early = |first| segment.epochs.iter().all(|(epoch, _)| *epoch <= first);
        first.is_some_and(is_early) && segment.end_offset < self.log.log_start
    }

    fn is_old(&mut self, segment: &RemoteSegment) -> bool {
        let until_ms = self.log.now_ms.saturating_sub(self.log.retention_ms);
        let is_old = self.log.retention_ms >= 0 && until_ms >= 0 && segment.max_timestamp_ms < until_ms;
        if is_old {
            self.breached_bytes = self.breached_bytes.saturating_sub(bytes_of(segment));
        }
        is_old
    }

    fn is_excess(&mut self, segment: &RemoteSegment) -> bool {
        let left = self.breached_bytes.checked_sub(bytes_of(segment));
        match left.filter(|_| self.breached_bytes > 0) {
            Some(left) => {
                self.breached_bytes = left;
                true
            }
            None => false,
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
