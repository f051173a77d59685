//! The profiler samples while a stopwatch runs, and only then. The test has its own process,
//! because stopwatches of other tests would also start the profiler.

use std::time::{Duration, Instant};

use levada_lab::cpu::Stopwatch;
use levada_lab::flame::{draw, finish, start};

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
fn profiler_samples_only_while_a_stopwatch_runs() {
    let with = start().expect("a sampler");
    busy_for_the_stopwatch(Duration::from_millis(100));
    let watch = Stopwatch::start();
    watch.elapsed();
    let nothing = finish().expect("samples");
    assert!(nothing.values().sum::<u64>() <= 5, "with {with}: {nothing:?}");
    start().expect("a sampler");
    let watch = Stopwatch::start();
    busy_for_the_stopwatch(Duration::from_millis(500));
    watch.elapsed();
    let seen = finish().expect("samples");
    assert!(seen.values().sum::<u64>() >= 20, "with {with}: {seen:?}");
    let svg = draw(&seen).expect("a picture");
    assert!(svg.contains("<svg") && svg.contains("busy_for"), "{svg}");
}
