//! A partition against a plain vector: random appends, rolls, cuts, crashes and reopenings, after
//! each of which every question that can be asked must have the vector's answer.
//!
//! Soak: scale 31, repeated

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod check;
mod damage;
mod kit;
#[path = "../no_sync/mod.rs"]
mod no_sync;
mod run;
mod vector;

use levada_testing::scaled;
use proptest::prelude::*;

use kit::steps;

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), max_shrink_iters: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_log_operations_match_a_vector(steps in steps(), config in kit::config()) {
        run::run(&steps, config);
    }
}

fn cases() -> u32 {
    scaled(16)
}
