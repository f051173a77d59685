//! Samples of the timer have the names of functions.

use std::time::{Duration, Instant};

use super::*;

#[test]
fn samples_of_own_process_have_symbol_names() {
    let mut own = Own::default();
    own.enable();
    let start = Instant::now();
    while start.elapsed() < Duration::from_millis(300) {}
    own.disable();
    let seen = own.finish();
    assert!(seen.keys().any(|stack| stack.contains("samples_of_own_process_have_symbol_names")), "{seen:?}");
}

#[test]
fn empty_samples_yield_no_picture() {
    assert_eq!(draw(&Seen::new()), None);
}
