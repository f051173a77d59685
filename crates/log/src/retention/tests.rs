//! Retention, table by table.

use std::convert::Infallible;

use super::{RetentionInput, SegmentSpan, expired};
use crate::{LogConfig, Tiering};

/// Segments as (end, size, newest); limits as (bytes, ms); marks as (log start, high watermark);
/// now is 1 000.
fn check(segments: &[(i64, u64, i64)], limits: (i64, i64), marks: (i64, i64), gone: usize) {
    let spans =
        segments.iter().map(|(end, size_bytes, _)| SegmentSpan { end: *end, size_bytes: *size_bytes });
    let spans: Vec<SegmentSpan> = spans.collect();
    let config = LogConfig { retention_bytes: limits.0, retention_ms: limits.1, ..LogConfig::default() };
    let at =
        RetentionInput { log_start: marks.0, high_watermark: marks.1, copied_end: i64::MAX, now_ms: 1_000 };
    let newest_ms = |at: usize| Ok::<i64, Infallible>(segments[at].2);
    assert_eq!(expired(&spans, &config, at, newest_ms), Ok(gone), "{segments:?} {limits:?} {marks:?}");
}

#[test]
fn retention_without_limits_deletes_nothing() {
    check(&[], (0, 0), (0, 0), 0);
    check(&[(10, 100, 5), (20, 100, 6)], (-1, -1), (0, 20), 0);
    check(&[(0, 0, 5)], (0, 0), (0, 0), 0);
}

#[test]
fn time_retention_stops_at_first_young_segment() {
    let segments = [(10, 100, 100), (20, 100, 900), (30, 100, 200)];
    check(&segments, (-1, 800), (0, 30), 1);
    check(&segments, (-1, 899), (0, 30), 1);
    check(&segments, (-1, 900), (0, 30), 0);
    check(&segments, (-1, 50), (0, 30), 3);
    check(&segments, (-1, 50), (0, 29), 2);
    check(&[(10, 100, 100), (10, 0, 100)], (-1, 0), (0, 10), 1);
    // A timestamp of the future keeps its segment, and those after it.
    check(&[(10, 100, 5_000), (20, 100, 1)], (-1, 0), (0, 20), 0);
}

#[test]
fn size_retention_removes_whole_segments_above_limit() {
    let segments = [(10, 100, 900), (20, 100, 900), (30, 50, 900)];
    check(&segments, (250, -1), (0, 30), 0);
    check(&segments, (151, -1), (0, 30), 0);
    check(&segments, (150, -1), (0, 30), 1);
    check(&segments, (50, -1), (0, 30), 2);
    check(&segments, (0, -1), (0, 30), 3);
    check(&segments, (0, -1), (0, 15), 1);
    check(&[(5, 0, 900), (10, 100, 900)], (100, -1), (0, 10), 0);
}

#[test]
fn segments_below_log_start_go_except_the_last() {
    let segments = [(10, 100, 900), (20, 100, 900), (30, 50, 900)];
    check(&segments, (-1, -1), (9, 30), 0);
    check(&segments, (-1, -1), (10, 30), 1);
    check(&segments, (-1, -1), (30, 30), 2);
    // Bytes that the raised start has taken count no more against the size.
    check(&segments, (150, -1), (10, 30), 1);
    check(&segments, (149, -1), (10, 30), 1);
    check(&segments, (50, -1), (10, 30), 2);
}

#[test]
fn copied_segments_are_deleted_by_local_limits() {
    let gone = |copied_end: i64, log_start: i64| {
        let spans =
            [(10, 100), (20, 100), (30, 100)].map(|(end, size_bytes)| SegmentSpan { end, size_bytes });
        let config = LogConfig {
            tiering: Tiering::Copied,
            retention_bytes: -1,
            retention_ms: -1,
            local_retention_bytes: -1,
            local_retention_ms: 0,
            ..LogConfig::default()
        };
        let at = RetentionInput { log_start, high_watermark: 30, copied_end, now_ms: 1_000 };
        expired(&spans, &config, at, |_| Ok::<i64, Infallible>(0)).unwrap()
    };
    assert_eq!([gone(0, 0), gone(9, 0), gone(10, 0)], [0, 0, 1]);
    // Deleted records need no copy.
    assert_eq!(gone(0, 10), 1);
    // All before the last segment are copied: it is rolled, to be copied next.
    assert_eq!(gone(20, 0), 3);
}
