//! The choice, by table.

use super::*;
use crate::segment::{RemoteSegmentId, SegmentUpdate, TopicIdPartition};

/// A segment of 100 bytes whose largest timestamp is its end offset.
pub(crate) fn segment(id: u8, (start, end): (i64, i64), epochs: &[EpochStart]) -> RemoteSegment {
    RemoteSegment {
        id: RemoteSegmentId { partition: TopicIdPartition::default(), id: Uuid::from_bytes([id; 16]) },
        start_offset: start,
        end_offset: end,
        max_timestamp_ms: end,
        broker_id: 1,
        event_timestamp_ms: 0,
        size: 100,
        epochs: epochs.to_vec(),
        custom_metadata: None,
        state: SegmentState::CopyStarted,
        txn_index_empty: true,
    }
}

pub(crate) fn passes(cache: &mut SegmentCache, segment: &RemoteSegment, state: SegmentState) {
    let update = SegmentUpdate {
        id: segment.id.clone(),
        broker_id: 1,
        event_timestamp_ms: 0,
        custom_metadata: None,
        state,
    };
    cache.update(&update).unwrap();
}

pub(crate) fn copied(cache: &mut SegmentCache, segment: &RemoteSegment) {
    cache.add(segment).unwrap();
    passes(cache, segment, SegmentState::CopyFinished);
}

const LINEAGE: &[EpochStart] = &[(0, 0)];
const LOG: LogFacts<'_> = LogFacts {
    lineage: LINEAGE,
    log_start: 0,
    log_end: 100,
    local: &[(30, 100)],
    retention_bytes: -1,
    retention_ms: -1,
    now_ms: 1_000,
};

/// Three segments of ten offsets each.
fn three() -> SegmentCache {
    let mut cache = SegmentCache::default();
    for at in 0..3_u8 {
        let start = i64::from(at) * 10;
        copied(&mut cache, &segment(at, (start, start + 9), &[(0, start)]));
    }
    cache
}

fn check(cache: &SegmentCache, log: LogFacts<'_>, ids: &[u8], log_start: Option<i64>) {
    let found = expired(cache, log, &BTreeSet::new());
    let found_ids: Vec<u8> = found.segments.iter().map(|segment| segment.id.id.to_bytes()[0]).collect();
    assert_eq!((&*found_ids, found.log_start), (ids, log_start), "{log:?}");
}

#[test]
fn remote_retention_without_limits_deletes_nothing() {
    check(&three(), LOG, &[], None);
    check(&SegmentCache::default(), LogFacts { retention_bytes: 0, retention_ms: 0, ..LOG }, &[], None);
}

#[test]
fn remote_size_retention_counts_the_whole_log() {
    check(&three(), LogFacts { retention_bytes: 400, ..LOG }, &[], None);
    check(&three(), LogFacts { retention_bytes: 301, ..LOG }, &[], None);
    check(&three(), LogFacts { retention_bytes: 300, ..LOG }, &[0], Some(10));
    check(&three(), LogFacts { retention_bytes: 0, ..LOG }, &[0, 1, 2], Some(30));
}

#[test]
fn copied_local_segments_count_once() {
    let local = &[(10, 100), (20, 100), (29, 100), (30, 100)];
    let log = LogFacts { local, ..LOG };
    check(&three(), LogFacts { retention_bytes: 301, ..log }, &[], None);
    check(&three(), LogFacts { retention_bytes: 300, ..log }, &[0], Some(10));
    // The store has nothing.
    let none = SegmentCache::default();
    assert_eq!(breached_bytes(&none, LogFacts { retention_bytes: 300, ..log }, LINEAGE), 100);
}

#[test]
fn records_with_two_copies_count_once() {
    let mut cache = three();
    // Another leader has copied the records of the second segment, and some of the third.
    copied(&mut cache, &segment(8, (10, 19), &[(0, 10)]));
    copied(&mut cache, &segment(9, (15, 24), &[(0, 15)]));
    check(&cache, LogFacts { retention_bytes: 400, ..LOG }, &[], None);
    check(&cache, LogFacts { retention_bytes: 300, ..LOG }, &[0], Some(10));
}

#[test]
fn segments_before_the_start_do_not_count() {
    let log = LogFacts { log_start: 10, lineage: &[(0, 10)], ..LOG };
    check(&three(), LogFacts { retention_bytes: 201, ..log }, &[0], None);
    check(&three(), LogFacts { retention_bytes: 200, ..log }, &[0, 1], Some(20));
}

#[test]
fn time_retention_stops_at_first_young_copy() {
    check(&three(), LogFacts { retention_ms: 980, ..LOG }, &[0, 1], Some(20));
    check(&three(), LogFacts { retention_ms: 991, ..LOG }, &[], None);
    // Old segments are taken off the excess.
    check(&three(), LogFacts { retention_ms: 990, retention_bytes: 300, ..LOG }, &[0], Some(10));
    // A clock before the epoch of time deletes nothing.
    check(&three(), LogFacts { retention_ms: 5, now_ms: 4, ..LOG }, &[], None);
}

#[test]
fn segments_below_start_are_deleted_without_moving_it() {
    check(&three(), LogFacts { log_start: 10, lineage: &[(0, 10)], ..LOG }, &[0], None);
    check(&three(), LogFacts { log_start: 19, lineage: &[(0, 19)], ..LOG }, &[0], None);
    check(&three(), LogFacts { log_start: 30, lineage: &[(1, 30)], ..LOG }, &[0, 1, 2], None);
}

#[test]
fn size_retention_ignores_discarded_histories() {
    let mut cache = three();
    // A former leader has copied offsets 5 to 25 in epoch 0, but the log has epoch 1 from 20 on.
    copied(&mut cache, &segment(9, (5, 25), &[(0, 5)]));
    let log = LogFacts { lineage: &[(0, 0), (1, 20)], ..LOG };
    check(&cache, LogFacts { retention_ms: 980, ..log }, &[0, 1], Some(20));
    // Once no epoch of the log is as early, the segment is garbage.
    check(&cache, LogFacts { lineage: &[(1, 40)], log_start: 40, ..log }, &[0, 1, 2, 9], None);
    // The lineage has lost the epochs of the log's first records.
    check(&cache, LogFacts { lineage: &[(1, 40)], log_start: 39, ..log }, &[], None);
}

#[test]
fn started_remote_deletion_is_finished() {
    // Also after segments that stay.
    for id in 0..3 {
        let mut cache = three();
        let start = i64::from(id) * 10;
        let started = segment(id, (start, start + 9), &[(0, start)]);
        passes(&mut cache, &started, SegmentState::DeleteStarted);
        check(&cache, LOG, &[id], None);
        let in_copy = [started.id.id].into();
        assert_eq!(expired(&cache, LOG, &in_copy), ExpiredSegments::default());
        passes(&mut cache, &started, SegmentState::DeleteFinished);
        check(&cache, LOG, &[], None);
    }
}

#[test]
fn a_copy_in_progress_holds_back_later_ones() {
    let all = LogFacts { retention_ms: 0, ..LOG };
    let in_copy = [Uuid::from_bytes([1; 16])].into();
    let found = expired(&three(), all, &in_copy);
    assert_eq!((found.segments.len(), found.log_start), (1, Some(10)));
}
