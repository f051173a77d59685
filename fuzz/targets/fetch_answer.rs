//! Fuzz target `fetch_answer`: the body is in `crates/fuzz/src/fetch_answer.rs`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| levada_fuzz::fetch_answer::run(input));
