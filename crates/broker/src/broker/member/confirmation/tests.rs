//! Answers before and after a pause.

use super::*;

fn heard(answered_ms: i64, now_ms: i64, applied: i64) -> Heard {
    Heard { since_fetch_ms: Some(now_ms - answered_ms), high_watermark: 100, applied }
}

#[test]
fn response_from_before_pause_confirms_nothing() {
    let mut proof = Confirmation::default();
    assert!(!proof.hears(heard(10, 10, 99), 10), "nothing is in doubt");
    proof.ask(20_000);
    assert!(!proof.hears(heard(10, 20_000, 99), 20_000), "of before the pause");
    assert!(!proof.hears(heard(20_010, 20_500, 99), 20_500), "it waited in the socket, perhaps");
    assert!(!proof.hears(heard(20_011, 20_600, 99), 20_600), "the same one, by another clock");
    assert!(proof.hears(heard(20_510, 21_000, 99), 21_000));
    assert!(!proof.hears(heard(21_010, 21_500, 99), 21_500), "nothing is in doubt any more");
}

#[test]
fn unapplied_metadata_records_delay_confirmation() {
    let mut proof = Confirmation::default();
    proof.ask(1_000);
    assert!(!proof.hears(heard(1_100, 1_100, 50), 1_100));
    assert!(!proof.hears(heard(1_200, 1_200, 98), 1_200));
    assert!(proof.hears(heard(1_200, 1_300, 99), 1_300));
}

#[test]
fn unanswered_confirmation_proves_nothing() {
    let mut proof = Confirmation::default();
    proof.ask(0);
    let nothing = Heard { since_fetch_ms: None, high_watermark: 0, applied: -1 };
    assert!((0..100_000).step_by(500).all(|now_ms| !proof.hears(nothing, now_ms)));
}
