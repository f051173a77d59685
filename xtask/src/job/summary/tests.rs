//! Suites within and beyond their expected time.

use std::time::Duration;

use super::is_outgrown;

#[test]
fn suite_overrun_is_judged_absolutely_and_relatively() {
    let table = [
        (10, 35, 1.0, false),
        (10, 41, 1.0, true),
        (20, 59, 1.0, false),
        (20, 61, 1.0, true),
        (20, 61, 1.1, false),
        (20, 61, 0.5, true),
        (100, 290, 1.0, false),
        (100, 301, 1.0, true),
    ];
    for (expected, took, pace, outgrown) in table {
        let is_outgrown = is_outgrown(Duration::from_secs(expected), Duration::from_secs(took), pace);
        assert_eq!(is_outgrown, outgrown, "{took} s instead of {expected} s at {pace}");
    }
}
