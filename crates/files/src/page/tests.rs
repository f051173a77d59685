//! Sizes, times and frames of pages.

use super::*;

#[test]
fn sizes_have_binary_units_and_one_decimal() {
    let shown = [0, 1023, 1024, 1536, 1_048_524, 1_048_575, 1_048_576, 5_368_709_120, u64::MAX].map(size);
    let expected =
        ["0 B", "1023 B", "1.0 KiB", "1.5 KiB", "1023.9 KiB", "1.0 MiB", "1.0 MiB", "5.0 GiB", "16.0 EiB"];
    assert_eq!(shown, expected);
}

#[test]
fn times_are_minutes_in_utc() {
    assert_eq!(time(0), "1970-01-01 00:00");
    assert_eq!(time(1_796_040_059), "2026-11-30 12:00");
    assert_eq!(time(-1), "1969-12-31 23:59");
    assert_eq!(time(i64::MAX), "unknown");
}

#[test]
fn a_frame_fits_the_counted_memory() {
    let frame = page("", &html! {}).into_string();
    assert!(frame.len() <= FRAME_BYTES / 4 * 3, "{} bytes: no room for the head of a listing", frame.len());
    assert!(frame.contains("prefers-color-scheme:dark"), "{frame}");
}
