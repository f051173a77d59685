//! Numbers of lines that are logged, and their length.

use super::*;

#[test]
fn log_pace_admits_burst_then_one_per_second() {
    let pace = LogPace::default();
    let told = (0..100).filter(|_| pace.admit(0).is_some()).count();
    assert_eq!(told, 10);
    assert_eq!(pace.admit(1000), Some(90));
    assert_eq!(pace.admit(1000), None);
    assert_eq!((0..100).filter(|_| pace.admit(60_000).is_some()).count(), 10);
}

#[test]
fn a_larger_burst_is_logged_immediately() {
    let pace = LogPace::of(1000);
    assert_eq!((0..2000).filter(|_| pace.admit(7).is_some()).count(), 1000);
    assert_eq!(pace.admit(1007), Some(1000));
}

#[test]
fn suppressed_log_lines_are_counted() {
    let pace = LogPace::default();
    pace.leave_out(3);
    assert_eq!(pace.admit(0), Some(3));
}

#[test]
fn client_texts_are_truncated_at_character_boundaries() {
    let long = "é".repeat(200_000);
    assert_eq!(Shortened(&long).to_string(), "é".repeat(500));
    assert_eq!(shortened(&format!("x{long}")), format!("x{}", "é".repeat(499)));
    assert_eq!((shortened("ann"), shortened("")), ("ann", ""));
}
