//! Fuzz target `frames`: the body is in `crates/fuzz/src/frames.rs`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| levada_fuzz::frames::run(input));
