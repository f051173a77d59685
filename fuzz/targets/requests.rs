//! Fuzz target `requests`: the body is in `crates/fuzz/src/requests.rs`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| levada_fuzz::requests::run(input));
