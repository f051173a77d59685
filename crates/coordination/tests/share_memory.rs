//! Memory of a share partition: the bytes that records and batches in flight take, as the allocator
//! counts them, and nothing once all are complete.

use std::alloc::System;
use std::sync::Arc;

use levada_coordination::share_partition::{
    AckBatch, AcquireMode, AcquireRequest, FetchedBatch, FetchedRange, LoadedState, ShareLimits,
    SharePartition,
};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Bytes of a record that is tracked alone.
const RECORD_BYTES: usize = 64;

/// Bytes of a batch that is tracked whole, with its own lock.
const BATCH_BYTES: usize = 200;

const LIMITS: ShareLimits = ShareLimits {
    max_record_locks: 1_000_000,
    delivery_limit: 5,
    lock_duration_ms: 30_000,
    renew_enabled: true,
    dead_letters: false,
    max_entries: 1_000_000,
};

fn live_bytes() -> usize {
    let stats = ALLOCATOR.stats();
    stats.bytes_allocated - stats.bytes_deallocated
}

fn partition() -> SharePartition {
    let mut partition = SharePartition::new(0);
    let empty = LoadedState { state_epoch: 0, start_offset: 0, spans: Vec::new() };
    partition.load(&empty, &LIMITS).expect("an empty state is valid");
    partition
}

fn fetch(partition: &mut SharePartition, member: &Arc<str>, base: i64, last: i64, now_ms: i64) {
    let request = AcquireRequest {
        member: Arc::clone(member),
        mode: AcquireMode::Batches,
        max_records: i32::MAX,
        batch_size: 500,
    };
    let batches = [FetchedBatch { base, last, is_aborted: false }];
    let fetched = FetchedRange { fetch_offset: base, batches: &batches };
    assert_eq!(partition.acquire(&request, fetched, &LIMITS, now_ms).count, last - base + 1);
}

fn accept(partition: &mut SharePartition, member: &Arc<str>, first: i64, last: i64) {
    let batch = AckBatch { first, last, types: &[1] };
    let write = partition.acknowledge(member, &[batch], &LIMITS, 0).expect("the records are held");
    let write = write.expect("the records have changed");
    partition.written(write.id, Ok(()), &LIMITS, 0);
}

/// Bytes of `count` entries that `make` adds, for one.
fn bytes_of_one(
    count: usize,
    partition: &mut SharePartition,
    make: impl FnOnce(&mut SharePartition),
) -> usize {
    let before = live_bytes();
    make(partition);
    (live_bytes() - before).div_ceil(count)
}

#[test]
fn in_flight_records_use_little_memory() {
    let member: Arc<str> = Arc::from("0b1c7b1e-7a4c-4a55-9a64-8f4d5a6b7c8d");
    let mut whole = partition();
    let batch_bytes = bytes_of_one(5_000, &mut whole, |partition| {
        (0..5_000).for_each(|index| fetch(partition, &member, 10 * index, 10 * index + 9, index));
    });
    assert_eq!(whole.in_flight_batches(), 5_000);
    let mut alone = partition();
    let record_bytes = bytes_of_one(10_000, &mut alone, |partition| {
        fetch(partition, &member, 0, 9_999, 0);
        (0..5_000).for_each(|index| accept(partition, &member, 2 * index + 1, 2 * index + 1));
    });
    assert_eq!(alone.tracked().count(), 10_000);
    println!("{batch_bytes} bytes a batch, {record_bytes} bytes a record");
    assert!(batch_bytes <= BATCH_BYTES, "a batch that is tracked whole takes {batch_bytes} bytes");
    assert!(record_bytes <= RECORD_BYTES, "a record that is tracked alone takes {record_bytes} bytes");

    let before = live_bytes();
    let held = 5_000 * batch_bytes + 10_000 * record_bytes;
    (0..5_000).for_each(|index| accept(&mut whole, &member, 10 * index, 10 * index + 9));
    (0..5_000).for_each(|index| accept(&mut alone, &member, 2 * index, 2 * index));
    assert_eq!((whole.tracked_bytes(), alone.tracked_bytes()), (0, 0));
    assert!(before - live_bytes() > held * 9 / 10, "complete records take memory");
}
