//! Fuzz target `tls`: the body is in `crates/fuzz/src/tls.rs`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| levada_fuzz::tls::run(input));
