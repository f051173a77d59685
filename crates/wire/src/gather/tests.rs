//! Tests of `gather`.
