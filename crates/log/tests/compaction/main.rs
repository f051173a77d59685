//! A compacted log against a plain list of batches: random appends, transactions, tombstones,
//! compactions, crashes amid their swaps and reopenings, after each of which the log holds exactly
//! what the list does, and the last value of each key that was ever written.
//!
//! Soak: scale 21, repeated

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod golden;
mod list;
#[path = "../no_sync/mod.rs"]
mod no_sync;
mod run;
mod steps;

use levada_testing::scaled;
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), max_shrink_iters: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn compacted_log_keeps_latest_record_of_each_key(steps in steps::steps(), config in steps::config()) {
        run::run(&steps, config);
    }
}

fn cases() -> u32 {
    scaled(24)
}
