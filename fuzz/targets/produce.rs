//! Fuzz target `produce`: the body is in `crates/fuzz/src/produce.rs`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| levada_fuzz::produce::run(input));
