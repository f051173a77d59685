//! Time for which a directory refuses records.

use super::*;

#[test]
fn a_refusal_lasts_two_seconds_and_longer_if_it_follows_another() {
    let mut state = Acceptance::default();
    let mut now_ms = 1_000;
    for seconds in [2, 4, 8, 16, 32, 64, 64] {
        assert!(state.refuse(now_ms) && !state.refuse(now_ms), "once");
        assert!(!state.takes_probe(now_ms + seconds * 1_000 - 1), "{seconds} s");
        now_ms += seconds * 1_000;
        assert!(state.takes_probe(now_ms) && !state.takes_probe(now_ms), "one thread at a time");
        assert!(!state.probed(false, now_ms), "still full");
        assert!(state.takes_probe(now_ms) && state.probed(true, now_ms));
        now_ms += RELAPSE_MS - 1;
    }
    now_ms += 1;
    assert!(state.refuse(now_ms) && state.takes_probe(now_ms + HOLD_MS));
}

#[test]
fn a_directory_without_a_reserve_gets_one_and_a_refusal_meanwhile_lasts() {
    let mut state = Acceptance::default();
    assert!(state.takes_probe(0) && state.refuse(1));
    assert!(!state.probed(true, 2), "the refusal is newer");
    assert!(!state.takes_probe(3) && state.takes_probe(1 + HOLD_MS) && state.probed(true, 1 + HOLD_MS));
    assert!(!state.takes_probe(i64::MAX), "it has one");
}
