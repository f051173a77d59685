//! Setbacks by their number.

use super::*;

#[test]
fn lasting_setback_is_logged_once_and_brief_never() {
    let mut setbacks = Setbacks::default();
    let told: Vec<u32> = (1..100).filter(|_| setbacks.is_worth_a_word("lost")).collect();
    assert_eq!(told, [PATIENCE]);
    for _ in 1..PATIENCE {
        assert!(!setbacks.is_worth_a_word("no leader"));
    }
    assert!(setbacks.is_worth_a_word("no leader"), "each reason is told");
}

#[test]
fn logged_setback_reasons_are_bounded() {
    let mut setbacks = Setbacks::default();
    for number in 0..1_000 {
        setbacks.is_worth_a_word(&number.to_string());
    }
    assert_eq!(setbacks.0.len(), REASONS_MAX);
}
