//! Fuzz target `directory`: the body is in `crates/fuzz/src/directory.rs`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| levada_fuzz::directory::run(input));
