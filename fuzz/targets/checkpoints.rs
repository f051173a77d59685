//! Fuzz target `checkpoints`: the body is in `crates/fuzz/src/checkpoints.rs`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| levada_fuzz::checkpoints::run(input));
