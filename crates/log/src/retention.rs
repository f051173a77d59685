//! The segments that exceed `retention.ms` or `retention.bytes`, or end before the log start, by
//! Kafka's rules: a decision that uses neither clock nor disk.

use crate::LogConfig;

#[cfg(test)]
mod tests;

/// Facts about one segment for the decision, besides its time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SegmentSpan {
    /// The base of the next segment; the log's end for the last one.
    pub(crate) end: i64,
    pub(crate) size_bytes: u64,
}

/// The marks and the time that the decision is made at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RetentionInput {
    pub(crate) log_start: i64,
    pub(crate) high_watermark: i64,
    /// Segments that end above it stay, unless they end before the log start: remote storage does
    /// not have them yet. `i64::MAX` for a log that is not copied.
    pub(crate) copied_end: i64,
    pub(crate) now_ms: i64,
}

/// Number of the oldest segments to delete. All of them may go: then a new one is rolled first. An
/// empty last segment stays, and so does everything that reaches beyond the high watermark. The
/// last segment of a log that is copied may be among them: rolled, it can be copied.
///
/// `newest_ms` returns the largest timestamp in a segment, or when it was last written if its
/// batches carry none. It may have to read the segment's index: it is called in order, and for no
/// segment after the first that stays.
///
/// # Errors
/// An error of `newest_ms`.
pub(crate) fn expired<E>(
    segments: &[SegmentSpan],
    config: &LogConfig,
    at: RetentionInput,
    newest_ms: impl Fn(usize) -> Result<i64, E>,
) -> Result<usize, E> {
    let removable = segments
        .iter()
        .enumerate()
        .take_while(|(index, segment)| {
            let empty_last = index + 1 == segments.len() && segment.size_bytes == 0;
            let is_copied = segment.end <= at.copied_end.max(at.log_start) || index + 1 == segments.len();
            segment.end <= at.high_watermark && !empty_last && is_copied
        })
        .count();
    let removable = &segments[..removable];
    // The last segment holds the log's end: a moved start alone does not take it.
    let sealed = &removable[..removable.len().min(segments.len().saturating_sub(1))];
    let mut gone = sealed.iter().take_while(|segment| segment.end <= at.log_start).count();
    let (retention_bytes, retention_ms) = config.local_limits();
    if let Ok(limit) = u64::try_from(retention_bytes) {
        let total: u64 = segments[gone..].iter().map(|segment| segment.size_bytes).sum();
        let mut excess = total.saturating_sub(limit);
        while let Some(segment) = removable.get(gone).filter(|segment| segment.size_bytes <= excess) {
            // An empty segment in front takes nothing off, and must not go on the account of
            // nothing.
            if excess == 0 {
                break;
            }
            excess -= segment.size_bytes;
            gone += 1;
        }
    }
    if retention_ms >= 0 {
        while gone < removable.len() && at.now_ms.saturating_sub(newest_ms(gone)?) > retention_ms {
            gone += 1;
        }
    }
    Ok(gone)
}
