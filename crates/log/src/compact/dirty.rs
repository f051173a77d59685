//! The dirty section of a log: its start, its end, and its size by Kafka's rules, without a clock.

use std::sync::Arc;

use crate::disk::Disk;
use crate::partition::Partition;
use crate::segment::Segment;
use crate::{LogConfig, LogError};

/// Section that compaction can process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirtySection {
    /// The first offset that has not been compacted: that of the checkpoint, unless the log no
    /// longer contains it.
    pub first_dirty: i64,
    /// End of the section: the base offset of a segment. The section excludes the active segment,
    /// offsets from the last stable offset on, and records younger than `min.compaction.lag.ms`.
    pub end: i64,
    /// Bytes of the segments before.
    pub clean_bytes: u64,
    /// Bytes of the segments in between.
    pub dirty_bytes: u64,
    /// Time by which the oldest of these records has exceeded `max.compaction.lag.ms`; 0 if none
    /// has.
    pub overdue_ms: i64,
}

impl DirtySection {
    /// Computes the section of a log; `checkpoint` is the end of the last compaction. Reads at most
    /// a header of each segment in between.
    ///
    /// # Errors
    /// A failing disk.
    pub fn of(
        partition: &Partition,
        config: &LogConfig,
        checkpoint: Option<i64>,
        now_ms: i64,
    ) -> Result<Self, LogError> {
        loop {
            let segments = partition.segments.load_full();
            match Self::among(&segments, partition, config, (checkpoint, now_ms)) {
                // A file may have lost its name to retention meanwhile.
                Err(_) if !Arc::ptr_eq(&segments, &partition.segments.load()) => {}
                found => return found,
            }
        }
    }

    fn among(
        segments: &[Arc<Segment>],
        partition: &Partition,
        config: &LogConfig,
        (checkpoint, now_ms): (Option<i64>, i64),
    ) -> Result<Self, LogError> {
        let (log_start, log_end) = (partition.log_start(), partition.log_end());
        // A checkpoint outside the log is invalid: the whole log counts as dirty.
        let first_dirty =
            checkpoint.filter(|offset| (log_start..=log_end).contains(offset)).unwrap_or(log_start);
        let active = segments.len().saturating_sub(1);
        let from = holding(segments, first_dirty).min(active);
        let unseen = &segments[from..active];
        let disk = &*partition.disk;
        let mut limit = partition.last_stable();
        if config.min_compaction_lag_ms > 0 {
            limit = limit.min(first_younger(unseen, disk, now_ms - config.min_compaction_lag_ms)?);
        }
        let to = holding(segments, limit.max(first_dirty)).min(active);
        let end = segments.get(to).map_or(log_end, |segment| segment.base());
        let size = |segments: &[Arc<Segment>]| segments.iter().map(|segment| segment.size()).sum();
        let clean = segments.partition_point(|segment| segment.base() < first_dirty);
        Ok(Self {
            first_dirty,
            end,
            clean_bytes: size(&segments[..clean]),
            dirty_bytes: size(&segments[from..to.max(from)]),
            overdue_ms: overdue_ms(unseen, disk, now_ms.saturating_sub(config.max_compaction_lag_ms))?,
        })
    }

    /// The share of bytes that compaction has not seen; 0 in an empty log.
    pub fn ratio(&self) -> f64 {
        match self.clean_bytes + self.dirty_bytes {
            0 => 0.0,
            total => self.dirty_bytes as f64 / total as f64,
        }
    }

    /// True if compaction is due by `min.cleanable.dirty.ratio`.
    pub fn is_due(&self, min_ratio: f64) -> bool {
        self.dirty_bytes > 0 && (self.overdue_ms > 0 || self.ratio() > min_ratio)
    }
}

/// The segment that holds an offset.
fn holding(segments: &[Arc<Segment>], offset: i64) -> usize {
    segments.partition_point(|segment| segment.base() <= offset).saturating_sub(1)
}

/// Base offset of the first segment that has a record later than `time_ms`.
fn first_younger(segments: &[Arc<Segment>], disk: &dyn Disk, time_ms: i64) -> Result<i64, LogError> {
    for segment in segments {
        if segment.newest_ms(disk)? > time_ms {
            return Ok(segment.base());
        }
    }
    Ok(i64::MAX)
}

/// Time in ms by which the earliest first batch of the segments is older than `time_ms`.
fn overdue_ms(segments: &[Arc<Segment>], disk: &dyn Disk, time_ms: i64) -> Result<i64, LogError> {
    let mut earliest = i64::MAX;
    // Without a limit, nothing needs to be read.
    for segment in segments.iter().filter(|_| time_ms > 0) {
        let mut scan = segment.scan(disk, 0..segment.size(), levada_base::batch::HEADER_LEN)?;
        if let Some(head) = scan.next()? {
            let timestamp = scan.header(&head)?.max_timestamp();
            earliest = if timestamp > 0 { earliest.min(timestamp) } else { earliest };
        }
    }
    Ok(time_ms.saturating_sub(earliest).max(0))
}
