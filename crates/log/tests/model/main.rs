//! A partition against a plain vector: random appends, rolls, cuts, crashes and reopenings, after
//! each of which every question that can be asked must have the vector's answer.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod check;
mod damage;
mod kit;
#[path = "../no_sync/mod.rs"]
mod no_sync;
mod run;
mod vector;

use proptest::prelude::*;

use kit::steps;

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), max_shrink_iters: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_log_is_a_vector(steps in steps(), config in kit::config()) {
        run::run(&steps, config);
    }
}

/// More by hand: `LEVADA_MODEL_CASES=10000 cargo test --release -p levada-log --test model`.
fn cases() -> u32 {
    std::env::var("LEVADA_MODEL_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(16)
}
