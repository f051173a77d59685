//! Fuzz target `http_range`: the body is in `crates/fuzz/src/http_range.rs`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| levada_fuzz::http_range::run(input));
