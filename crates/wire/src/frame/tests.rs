//! Tests of `frame`.
