//! Tests of the history of lags.

use super::{GROUPS_MAX, KEPT_MS, LagHistory, LagSample, STEP_MS};

fn sample(at_ms: i64, records: u64) -> LagSample {
    LagSample { at_ms, records, seconds: None }
}

#[test]
fn lag_samples_20_seconds_apart_last_one_hour() {
    let history = LagHistory::default();
    for at in (0..=3 * KEPT_MS).step_by(5_000) {
        history.record([("g", sample(at, 7))].into_iter(), at);
    }
    let samples = history.of("g");
    assert_eq!(samples.len() as i64, KEPT_MS / STEP_MS + 1);
    assert!(samples.windows(2).all(|pair| pair[0].at_ms + STEP_MS <= pair[1].at_ms));
    history.record(std::iter::empty(), 5 * KEPT_MS);
    assert_eq!(history.of("g"), []);
}

#[test]
fn lag_histories_of_groups_are_bounded() {
    let history = LagHistory::default();
    let names: Vec<String> = (0..2 * GROUPS_MAX).map(|at| at.to_string()).collect();
    history.record(names.iter().map(|name| (name.as_str(), sample(0, 1))), 0);
    assert_eq!(names.iter().filter(|name| !history.of(name).is_empty()).count(), GROUPS_MAX);
}

#[test]
fn lag_history_continues_after_clock_moves_back() {
    let history = LagHistory::default();
    history.record([("g", sample(1_000_000, 1))].into_iter(), 1_000_000);
    history.record([("g", sample(500_000, 2))].into_iter(), 500_000);
    assert_eq!(history.of("g"), [sample(500_000, 2)]);
}
