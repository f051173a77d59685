//! Fuzz target `metadata`: the body is in `crates/fuzz/src/metadata.rs`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| levada_fuzz::metadata::run(input));
