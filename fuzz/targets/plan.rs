//! Fuzz target `plan`: the body is in `crates/fuzz/src/plan.rs`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| levada_fuzz::plan::run(input));
