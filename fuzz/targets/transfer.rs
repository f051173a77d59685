//! Fuzz target `transfer`: the body is in `crates/fuzz/src/transfer.rs`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| levada_fuzz::transfer::run(input));
