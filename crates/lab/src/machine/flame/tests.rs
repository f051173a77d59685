//! Samples of the timer have the names of functions.

use std::time::{Duration, Instant};

use super::*;

#[test]
fn own_samples_have_names() {
    let mut own = Own::default();
    own.enable();
    let start = Instant::now();
    while start.elapsed() < Duration::from_millis(300) {}
    own.disable();
    let seen = own.finish();
    assert!(seen.keys().any(|stack| stack.contains("own_samples_have_names")), "{seen:?}");
}

#[test]
fn empty_samples_yield_no_picture() {
    assert_eq!(draw(&Seen::new()), None);
}
