//! Seeds of simulations. Tests use fixed seeds, the soak random ones.

use std::ops::Range;

/// This number of seeds from zero on, or from `LEVADA_SIMULATION_SEED` on: a number, or `random`.
pub(crate) fn seeds(count: u64) -> Range<u64> {
    let first = match std::env::var("LEVADA_SIMULATION_SEED") {
        Err(_) => 0,
        Ok(random) if random == "random" => rand::random::<u32>().into(),
        Ok(number) => number.parse().expect("LEVADA_SIMULATION_SEED is a number, or `random`"),
    };
    println!("seeds: LEVADA_SIMULATION_SEED={first}, {count} of them");
    first..first + count
}
