//! Memory that the records of a batch take, counted over the whole process.

use std::alloc::System;

use levada_base::batch::{self, Builder};
use levada_base::compress::Compression;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Number of headers of the record, with two bytes each.
const HEADERS: usize = 1 << 20;
const HEADER_BYTES: usize = 2;

#[test]
fn small_headers_take_memory_bounded_by_their_bytes() {
    let mut builder = Builder::new().compression(Compression::Zstd);
    builder.push_with_headers(0, Some(b"key"), None, &vec![(&b""[..], None); HEADERS]);
    let bytes = builder.build().unwrap();
    assert!(bytes.len() < HEADERS * HEADER_BYTES / 100, "{} bytes in the request", bytes.len());
    let region = Region::new(ALLOCATOR);
    let records: Vec<_> = batch::records(&bytes).unwrap().map(Result::unwrap).collect();
    let change = region.change();
    let held = change.bytes_allocated - change.bytes_deallocated;
    assert_eq!(records[0].headers.len(), HEADERS);
    // The buffer of the expanded batch grows by doubling.
    assert!(held < 4 * HEADERS * HEADER_BYTES, "{held} bytes for {HEADERS} headers");
}
