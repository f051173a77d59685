//! Size and seed of randomised tests, from the variables `LEVADA_TEST_SCALE` and
//! `LEVADA_TEST_SEED`.
//!
//! A test states its size at scale 1, which `cargo xtask test --all` runs, and calls [`scaled`] or
//! [`lasting`]. The short tier (`cargo xtask test`) sets 0.3. The soak (`cargo xtask soak`) sets
//! more, as the line `//! Soak: …` in the head of a test's file says. From [`LONG_SCALE`] on some
//! tests run in another form ([`is_long`], [`long_run`]).
//!
//! `LEVADA_TEST_SEED` is a number, which repeats a failed run, or `random`. Without it, black-box
//! tests draw a seed ([`seed`]), and simulations have the same seeds in each run ([`seeds`]).
//!
//! Values that are not valid end the test with a panic.

use std::ops::Range;
use std::time::Duration;

mod cost;
mod log_fields;
mod setting;

pub use cost::growth;
pub use log_fields::LogFields;
pub use setting::Count;
use setting::SeedChoice;

/// Scale from which a run is a long one.
pub const LONG_SCALE: f64 = 2.0;

/// Factor for the sizes of tests: `LEVADA_TEST_SCALE`, or 1.
pub fn scale() -> f64 {
    setting::scale(std::env::var("LEVADA_TEST_SCALE").ok().as_deref())
}

/// A number of rounds, cases or histories times the [`scale`], rounded; at least 1.
pub fn scaled<N: Count>(count: N) -> N {
    setting::scaled(count, scale())
}

/// Minimum of events in a run whose number of histories is [`scaled`]: the minimum at scale 1 times
/// the [`scale`], rounded down. It is 0 below scale 0.1, and if `LEVADA_TEST_SEED` is a number:
/// such runs have few histories.
pub fn least(count: usize) -> usize {
    setting::least(count, scale(), seed_choice())
}

/// The time multiplied by [`scale`].
pub fn lasting(time: Duration) -> Duration {
    time.mul_f64(scale())
}

/// True if tests run in their long form: from [`LONG_SCALE`] on.
pub fn is_long() -> bool {
    scale() >= LONG_SCALE
}

/// Duration of a long run that would last `time` at scale 1; none if the run is not a long one.
pub fn long_run(time: Duration) -> Option<Duration> {
    is_long().then(|| lasting(time))
}

/// The seed from `LEVADA_TEST_SEED`: the number, or a new one if the value is `random`. None if the
/// variable is not set.
pub fn given_seed() -> Option<u64> {
    match seed_choice() {
        SeedChoice::Fixed => None,
        SeedChoice::Random => Some(drawn()),
        SeedChoice::Number(seed) => Some(seed),
    }
}

/// The [`given_seed`], or a new one. Prints it, so that a failure can be repeated.
pub fn seed() -> u64 {
    let seed = given_seed().unwrap_or_else(drawn);
    println!("seed: LEVADA_TEST_SEED={seed}");
    seed
}

/// Seeds of this number of histories: from 0 on without `LEVADA_TEST_SEED`, from a new seed on if
/// it is `random`, and this seed alone if it is a number. Prints them.
pub fn seeds(count: u64) -> Range<u64> {
    let seeds = setting::seeds(count, seed_choice(), drawn);
    println!("seeds: {} from LEVADA_TEST_SEED={} on", seeds.end - seeds.start, seeds.start);
    seeds
}

fn seed_choice() -> SeedChoice {
    setting::seed_choice(std::env::var("LEVADA_TEST_SEED").ok().as_deref())
}

/// A new seed that is easy to type.
fn drawn() -> u64 {
    rand::random::<u32>().into()
}

#[cfg(test)]
mod tests;
