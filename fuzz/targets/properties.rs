//! Fuzz target `properties`: the body is in `crates/fuzz/src/properties.rs`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| levada_fuzz::properties::run(input));
