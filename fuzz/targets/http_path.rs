//! Fuzz target `http_path`: the body is in `crates/fuzz/src/http_path.rs`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| levada_fuzz::http_path::run(input));
