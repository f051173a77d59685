//! The `levada` binary.

fn main() {}
