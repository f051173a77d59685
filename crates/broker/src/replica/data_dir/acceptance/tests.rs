//! Time for which a directory refuses records.

use super::*;

#[test]
fn directory_refusal_lasts_2_seconds_doubling_on_relapse() {
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
fn earlier_reserve_probe_does_not_end_newer_refusal() {
    let mut state = Acceptance::default();
    assert!(state.takes_probe(0) && state.refuse(1));
    assert!(!state.probed(true, 2), "the refusal is newer");
    assert!(!state.takes_probe(3) && state.takes_probe(1 + HOLD_MS) && state.probed(true, 1 + HOLD_MS));
    assert!(!state.takes_probe(i64::MAX), "it has one");
}
