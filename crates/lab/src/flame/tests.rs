//! Our own samples have the names of functions.

use std::time::{Duration, Instant};

use super::*;

#[inline(never)]
fn busy_for_the_stopwatch(time: Duration) -> u64 {
    let start = Instant::now();
    let mut sum = 0u64;
    while start.elapsed() < time {
        sum = std::hint::black_box(sum.wrapping_mul(31).wrapping_add(7));
    }
    sum
}

#[test]
fn own_samples_have_names() {
    let mut own = Own::default();
    own.enable();
    busy_for_the_stopwatch(Duration::from_millis(300));
    own.disable();
    let seen = own.finish();
    assert!(seen.keys().any(|stack| stack.contains("busy_for_the_stopwatch")), "{seen:?}");
}

#[test]
fn no_samples_are_no_picture() {
    assert_eq!(draw(&Stacks::new()), None);
}
