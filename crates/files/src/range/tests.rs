//! The ranges of RFC 9110's examples, and those that want too much.

use proptest::prelude::*;

use super::{RANGES_MAX, Ranges, Span, resolve};

fn one(start: u64, end: u64) -> Ranges {
    Ranges::One(Span { start, end })
}

#[test]
fn range_is_cut_at_file_end() {
    for (field, ranges) in [
        ("bytes=0-499", one(0, 499 + 1)),
        ("bytes=9500-", one(9500, 10000)),
        ("bytes=-500", one(9500, 10000)),
        ("bytes=-20000", one(0, 10000)),
        ("BYTES=9999-99999999999999999999999", one(9999, 10000)),
        ("bytes=10000-", Ranges::Unsatisfiable),
        ("bytes=-0", Ranges::Unsatisfiable),
        ("bytes=99999999999999999999999-", Ranges::Unsatisfiable),
        ("bytes=0-0, ,10000-", one(0, 1)),
    ] {
        assert_eq!(resolve(field.as_bytes(), 10000), ranges, "{field}");
    }
    let spans = vec![Span { start: 500, end: 601 }, Span { start: 9999, end: 10000 }];
    assert_eq!(resolve(b"bytes= 500-600 , -1", 10000), Ranges::Many(spans));
}

#[test]
fn range_from_start_of_empty_file_is_whole() {
    for field in ["bytes=0-", "bytes=0-99", "bytes=-5", "bytes=0-,1-"] {
        assert_eq!(resolve(field.as_bytes(), 0), Ranges::Whole, "{field}");
    }
    assert_eq!(resolve(b"bytes=1-", 0), Ranges::Unsatisfiable);
}

#[test]
fn malformed_range_field_is_ignored() {
    for field in [
        "bytes",
        "bytes=",
        "bytes=,",
        "bytes=1",
        "bytes=2-1",
        "bytes=a-",
        "bytes=-",
        "bytes=1-2-3",
        "lines=1-2",
        "bytes=0-1,x",
    ] {
        assert_eq!(resolve(field.as_bytes(), 10), Ranges::Whole, "{field}");
    }
}

#[test]
fn ranges_with_overflowing_sum_are_ignored() {
    assert_eq!(resolve(b"bytes=7-,44-,4-", u64::MAX), Ranges::Whole);
}

#[test]
fn ranges_larger_than_the_file_are_ignored() {
    assert_eq!(resolve(b"bytes=0-9,0-9", 10), Ranges::Whole);
    let many = vec!["0-0"; RANGES_MAX + 1].join(",");
    assert_eq!(resolve(format!("bytes={many}").as_bytes(), 1000), Ranges::Whole);
}

proptest! {
    #[test]
    fn every_range_lies_in_the_file(field in "bytes=[0-9, -]{0,30}", len in 0_u64..1000) {
        let spans = match resolve(field.as_bytes(), len) {
            Ranges::One(span) => vec![span],
            Ranges::Many(spans) => spans,
            Ranges::Whole | Ranges::Unsatisfiable => Vec::new(),
        };
        prop_assert!(spans.iter().all(|span| span.start < span.end && span.end <= len));
        prop_assert!(spans.iter().map(|span| span.len()).sum::<u64>() <= len);
    }
}
