//! Fuzz target `sasl`: the body is in `crates/fuzz/src/sasl.rs`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| levada_fuzz::sasl::run(input));
