//! Fuzz target `records`: the body is in `crates/fuzz/src/records.rs`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| levada_fuzz::records::run(input));
