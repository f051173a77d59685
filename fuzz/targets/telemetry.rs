//! Fuzz target `telemetry`: the body is in `crates/fuzz/src/telemetry.rs`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| levada_fuzz::telemetry::run(input));
