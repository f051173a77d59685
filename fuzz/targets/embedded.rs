//! Fuzz target `embedded`: the body is in `crates/fuzz/src/embedded.rs`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| levada_fuzz::embedded::run(input));
