//! Fuzz target `batch`: the body is in `crates/fuzz/src/batch.rs`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| levada_fuzz::batch::run(input));
