//! Fuzz target `proxy_header`: the body is in `crates/fuzz/src/proxy_header.rs`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| levada_fuzz::proxy_header::run(input));
