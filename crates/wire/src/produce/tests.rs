//! Tests of `produce`.
