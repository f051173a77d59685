//! Tests of `cursor`.
