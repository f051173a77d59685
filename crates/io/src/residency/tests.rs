//! Tests of queries of the page cache, on files that are evicted from it.

use std::sync::Arc;

use super::*;
use crate::Caps;
use crate::tests::{ALL_MEANS, chilled, content, file_of};

const PAGE: usize = 4096;
const LEN: usize = 300 * PAGE;

/// All combinations of means to query the page cache.
fn ways() -> [Means; 3] {
    let no_cachestat = Means { cachestat: false, ..ALL_MEANS };
    [ALL_MEANS, no_cachestat, Means { nowait_reads: false, ..no_cachestat }]
}

fn ask(extent: &Extent) -> [Residency; 3] {
    ways().map(|means| of(extent, means))
}

/// Cached bytes as the kernel counts them, if it counts any.
fn countable(bytes: usize) -> Option<u64> {
    Caps::probe().cachestat.works().then_some(bytes as u64)
}

#[test]
fn written_pages_are_resident() {
    let file = file_of(&content(LEN));
    for (offset, len) in [(0, 1), (0, LEN), (1, LEN - 2), (PAGE - 1, 2), (LEN - 1, 1), (7 * PAGE, 0)] {
        let extent = Extent { file: Arc::clone(&file), offset: offset as u64, len: len as u64 };
        assert_eq!(ask(&extent), [Residency::Resident; 3], "{offset} {len}");
        let expected = if len == 0 { Some(0) } else { countable(len) };
        assert_eq!(cached_bytes(&extent), expected, "{offset} {len}");
    }
}

#[test]
fn evicted_pages_are_cold() {
    if crate::tests::blind("evicted_pages_are_cold") {
        return;
    }
    let file = file_of(&content(LEN));
    let whole = Extent { file: Arc::clone(&file), offset: 0, len: LEN as u64 };
    // Each question in turn, because reading without waiting starts read-ahead.
    for means in ways() {
        let cold = chilled(&file);
        let answer = of(&whole, means);
        // Reading without waiting starts read-ahead, and a quick disk may be there by the next
        // page.
        let by_reading = !means.cachestat && means.nowait_reads;
        assert!(by_reading || (answer == Residency::Cold) == cold, "{means:?}: {answer:?}");
    }
}

#[test]
fn missing_pages_in_the_middle_are_found() {
    let file = file_of(&content(LEN));
    let whole = Extent { file: Arc::clone(&file), offset: 0, len: LEN as u64 };
    file.sync_all().unwrap();
    let middle = std::num::NonZeroU64::new(64 * PAGE as u64);
    for means in ways() {
        rustix::fs::fadvise(&file, 128 * PAGE as u64, middle, rustix::fs::Advice::DontNeed).unwrap();
        let cold = calls::cached_pages(file.as_fd(), 0, 0).is_ok_and(|pages| pages < 300);
        let answer = of(&whole, means);
        let by_reading = !means.cachestat && means.nowait_reads;
        assert!(by_reading || (answer == Residency::Partly) == cold, "{means:?}: {answer:?}");
    }
}

#[test]
fn bytes_beyond_file_end_are_not_resident() {
    let file = file_of(&content(PAGE));
    let beyond = Extent { file: Arc::clone(&file), offset: 0, len: 2 * PAGE as u64 };
    assert!(ask(&beyond).iter().all(|answer| *answer != Residency::Resident), "{:?}", ask(&beyond));
    assert_eq!(cached_bytes(&beyond), countable(PAGE));
    let far = Extent { file, offset: u64::MAX - 5, len: 100 };
    assert!(ask(&far).iter().all(|answer| *answer != Residency::Resident), "{:?}", ask(&far));
}

#[test]
fn a_file_without_pages_is_unknown_or_ready() {
    let file = Arc::new(std::fs::File::open("/proc/self/maps").unwrap());
    let extent = Extent { file, offset: 0, len: 10 };
    let nothing = Means { cachestat: false, nowait_reads: false, ..ALL_MEANS };
    assert_eq!(of(&extent, nothing), Residency::Unknown);
}

#[test]
fn range_is_cut_where_missing_pages_begin() {
    if crate::tests::blind("range_is_cut_where_missing_pages_begin") {
        return;
    }
    let file = file_of(&content(LEN));
    if !chilled(&file) {
        return;
    }
    // Exactly these, and no read-ahead: pages 100 to 139, and 200.
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::Random).unwrap();
    for (page, count) in [(100, 40), (200, 1)] {
        let mut bytes = vec![0; count * PAGE];
        std::os::unix::fs::FileExt::read_exact_at(&*file, &mut bytes, (page * PAGE) as u64).unwrap();
    }
    let lead = |offset: usize, end: usize| {
        let extent = Extent { file: Arc::clone(&file), offset: offset as u64, len: (end - offset) as u64 };
        super::lead(&extent, ALL_MEANS).unwrap()
    };
    let (missing, ready) = (|bytes| Lead::Missing(bytes as u64), |bytes| Lead::Ready(bytes as u64));
    assert_eq!(lead(5, LEN), missing(100 * PAGE - 5));
    assert_eq!(lead(100 * PAGE + 7, LEN), ready(40 * PAGE - 7));
    assert_eq!(lead(140 * PAGE, LEN), missing(160 * PAGE), "a page alone is not a part of its own");
    assert_eq!(
        lead(140 * PAGE, 201 * PAGE),
        missing(60 * PAGE),
        "but none is read after the last one that misses"
    );
    assert_eq!(lead(110 * PAGE, 120 * PAGE), ready(10 * PAGE));
    assert_eq!(lead(LEN - 1, LEN), missing(1));
    let whole = Extent { file: Arc::clone(&file), offset: 3, len: (LEN - 3) as u64 };
    let gaps: Vec<(u64, u64)> =
        missing_of(&whole).iter().map(|gap| (gap.offset / PAGE as u64, gap.len / PAGE as u64)).collect();
    assert_eq!(gaps, [(0, 100), (140, 60), (201, 99)]);
}

fn missing_of(extent: &Extent) -> Vec<Extent> {
    super::missing(extent).unwrap()
}
