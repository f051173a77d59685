//! Reach of the copies, by table.

use super::*;
use crate::expiry::tests::{copied, passes, segment};
use crate::segment::{RemoteSegment, SegmentState};

fn deleted(cache: &mut SegmentCache, segment: &RemoteSegment) {
    passes(cache, segment, SegmentState::DeleteStarted);
    passes(cache, segment, SegmentState::DeleteFinished);
}

#[test]
fn the_latest_epoch_with_a_copy_decides() {
    let mut cache = SegmentCache::default();
    assert_eq!(highest_copied(&cache, &[(0, 0)], (0, 100)), None);
    assert_eq!(first_copied(&cache, &[(0, 0)]), None);
    copied(&mut cache, &segment(1, (10, 19), &[(1, 10)]));
    copied(&mut cache, &segment(2, (20, 39), &[(1, 20), (2, 30)]));
    let lineage = [(0, 0), (1, 10), (2, 30), (3, 50)];
    assert_eq!(highest_copied(&cache, &lineage, (0, 100)), Some(39));
    assert_eq!(first_copied(&cache, &lineage), Some(10));
    // The log has lost a part of what a former leader has copied.
    assert_eq!(highest_copied(&cache, &[(1, 10), (2, 30), (3, 35)], (0, 100)), Some(34));
    assert_eq!(highest_copied(&cache, &[(1, 10), (4, 25)], (0, 100)), Some(24));
    assert_eq!(highest_copied(&cache, &[(1, 10), (2, 30)], (0, 35)), Some(34));
    assert_eq!(highest_copied(&cache, &[(7, 10)], (0, 35)), None);
}

#[test]
fn deleted_copies_above_log_start_do_not_count() {
    let mut cache = SegmentCache::default();
    let lineage = [(1, 0), (2, 30)];
    let segments = [segment(1, (0, 19), &[(1, 0)]), segment(2, (20, 39), &[(1, 20), (2, 30)])];
    segments.iter().for_each(|segment| copied(&mut cache, segment));
    assert_eq!(highest_copied(&cache, &lineage, (0, 100)), Some(39));
    deleted(&mut cache, &segments[1]);
    assert_eq!(highest_copied(&cache, &lineage, (0, 100)), Some(19), "a copy that came late");
    assert_eq!(highest_copied(&cache, &lineage, (40, 100)), Some(39), "retention");
    deleted(&mut cache, &segments[0]);
    assert_eq!(highest_copied(&cache, &lineage, (0, 100)), None, "remote storage was off");
    assert_eq!(highest_copied(&cache, &lineage, (20, 100)), None, "the rest is to be copied");
}

#[test]
fn segments_are_copied_at_either_limit() {
    for ((ms, bytes), (age_ms, newer_bytes), expected) in [
        ((0, 0), (0, 0), true),
        ((0, 100), (0, 0), true),
        ((100, 0), (0, 0), true),
        ((100, 100), (99, 99), false),
        ((100, 100), (100, 0), true),
        ((100, 100), (0, 100), true),
        ((100, -1), (99, u64::MAX), false),
        ((-1, 100), (i64::MAX, 99), false),
        ((-1, -1), (i64::MAX, u64::MAX), false),
        ((100, -1), (-1, 0), true),
    ] {
        let lag = CopyLag { ms, bytes };
        assert_eq!(lag.is_reached(age_ms, newer_bytes), expected, "{lag:?} {age_ms} {newer_bytes}");
    }
}

#[test]
fn lost_beginning_of_lineage_is_noticed() {
    let lineage: &[EpochStart] = &[(3, 20), (4, 30)];
    for (lineage, log_start, local_start, lost) in [
        (lineage, 0, 20, Some(20)),
        (lineage, 19, 25, Some(20)),
        (lineage, 20, 25, None),
        // All records are on the disk.
        (lineage, 0, 0, None),
        (&[], 0, 10, Some(10)),
        (&[], 10, 10, None),
    ] {
        assert_eq!(
            lost_before(lineage, log_start, local_start),
            lost,
            "{lineage:?}, {log_start}, {local_start}"
        );
    }
}
