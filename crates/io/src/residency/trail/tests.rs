//! Tests of the trail.

use super::*;
use crate::tests::file_of;

const MIB: u64 = 1 << 20;

fn warmed(brought_in: impl Into<Vec<Extent>>) -> Warmed {
    Warmed { there: 0, brought_in: brought_in.into() }
}

/// Ranges in MiB: offset and length.
fn check(brought_in: &[(u64, u64)], ripe: &[(u64, u64)], left: &[(u64, u64)]) {
    let file = file_of(b"");
    let mut trail = Trail::default();
    for (offset, len) in brought_in {
        let (offset, len) = (offset * MIB, len * MIB);
        trail.follow(warmed([Extent { file: Arc::clone(&file), offset, len }]));
    }
    let in_mib = |ranges: Vec<Extent>| -> Vec<(u64, u64)> {
        ranges.iter().map(|range| (range.offset / MIB, range.len / MIB)).collect()
    };
    assert_eq!(in_mib(trail.ripe()), ripe, "{brought_in:?}");
    assert!(trail.ripe().is_empty(), "{brought_in:?}: dropped twice");
    assert_eq!(in_mib(trail.finish()), left, "{brought_in:?}");
    assert!(trail.is_empty());
}

#[test]
fn trail_keeps_the_last_bytes() {
    check(&[], &[], &[]);
    check(&[(0, 1)], &[], &[(0, 1)]);
    check(&[(0, 4)], &[], &[(0, 4)]);
    check(&[(0, 4), (4, 4)], &[(0, 4)], &[(4, 4)]);
}

#[test]
fn a_cut_falls_between_large_pages() {
    check(&[(0, 5)], &[], &[(0, 5)]);
    check(&[(0, 7)], &[(0, 2)], &[(2, 5)]);
    check(&[(1, 6)], &[(1, 1)], &[(2, 5)]);
}

#[test]
fn trail_drops_no_pages_between_ranges() {
    check(&[(0, 1), (8, 4)], &[(0, 1)], &[(8, 4)]);
    check(&[(0, 1), (2, 1), (4, 4)], &[(0, 1), (2, 1)], &[(4, 4)]);
    // A range read again, or one before.
    check(&[(0, 4), (2, 1), (1, 1)], &[], &[(0, 4)]);
    check(&[(20, 4), (0, 4)], &[(20, 4)], &[(0, 4)]);
}

#[test]
fn trail_separates_files() {
    let (one, other) = (file_of(b"one"), file_of(b"other"));
    let again = Arc::new(one.try_clone().unwrap());
    let mut trail = Trail::default();
    for (file, offset) in [(&one, 0), (&again, 3), (&other, 6)] {
        trail.follow(warmed([Extent { file: Arc::clone(file), offset, len: 3 }]));
    }
    assert_eq!(trail.len(), 9);
    let left: Vec<(u64, u64)> = trail.finish().iter().map(|range| (range.offset, range.len)).collect();
    assert_eq!(left, [(0, 6), (6, 3)]);
}

#[test]
fn trail_tracks_ranges_of_its_last_request() {
    let (one, other) = (file_of(b"one"), file_of(b"other"));
    let extent = |file: &Arc<_>, offset, len| Extent { file: Arc::clone(file), offset, len };
    let mut trail = Trail::default();
    trail.ask([extent(&one, 0, 10), extent(&one, 20, 10)]);
    assert!(trail.is_under_way(&extent(&one, 0, 10)) && trail.is_under_way(&extent(&one, 22, 3)));
    assert!(!trail.is_under_way(&extent(&one, 5, 6)) && !trail.is_under_way(&extent(&other, 0, 10)));
    trail.ask([extent(&other, 0, 10)]);
    assert!(!trail.is_under_way(&extent(&one, 0, 10)) && trail.is_under_way(&extent(&other, 0, 10)));
    assert!(trail.is_empty(), "asking brings nothing in");
}

#[test]
fn trail_keeps_no_file_open() {
    let file = file_of(b"");
    let closed = Arc::downgrade(&file);
    let extent = Extent { file, offset: 0, len: 8 * MIB };
    let mut trail = Trail::default();
    trail.ask([extent.clone()]);
    trail.follow(warmed([extent]));
    assert_eq!(closed.strong_count(), 0, "a deleted file would keep its blocks");
    assert!(trail.ripe().is_empty() && trail.finish().is_empty());
}
