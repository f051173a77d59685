//! Fuzz target `fetch`: the body is in `crates/fuzz/src/fetch.rs`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| levada_fuzz::fetch::run(input));
