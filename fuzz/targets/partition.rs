//! Fuzz target `partition`: the body is in `crates/fuzz/src/partition.rs`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| levada_fuzz::partition::run(input));
