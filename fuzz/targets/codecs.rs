//! Fuzz target `codecs`: the body is in `crates/fuzz/src/codecs.rs`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| levada_fuzz::codecs::run(input));
