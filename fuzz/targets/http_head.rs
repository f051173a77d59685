//! Fuzz target `http_head`: the body is in `crates/fuzz/src/http_head.rs`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| levada_fuzz::http_head::run(input));
