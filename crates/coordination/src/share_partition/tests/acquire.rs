//! Acquisition of new records and of records to be delivered again.

use std::sync::Arc;

use crate::share_partition::{
    AcquireMode, AcquireRequest, Acquisition, FetchedBatch, FetchedRange, SharePartition,
};

use super::kit::{Rig, limits, run};

#[test]
fn new_records_are_acquired_by_whole_batches() {
    // One record, several, and a soft limit that falls into a batch or on its end.
    run("fetch a max=10 0-0 -> 0-0*1
         at -> start 0 end 0 next 1 complete 0
         state -> 0-0 held 1 a");
    run("fetch a max=10 10-14 -> 10-14*1
         at -> start 10 end 14 next 15 complete 0");
    run("fetch a max=10 0-29 -> 0-29*1
         at -> start 0 end 29 next 30 complete 0");
    run("fetch a max=20 0-9 10-24 25-29 -> 0-24*1
         state -> 0-24 held 1 a
         fetch a max=20 25-29 -> 25-29*1
         at -> start 0 end 29 next 30 complete 0");
    run("fetch a max=10 0-9 10-19 -> 0-9*1
         at -> start 0 end 9 next 10 complete 0");
}

#[test]
fn share_acquire_needs_records_and_free_locks() {
    run("fetch a -> nothing
         fetch a max=0 0-9 -> nothing
         fetch a max=-1 0-9 -> nothing
         at -> start 0 end 0 next 0 complete 0
         state -> nothing");
    // Records below the start offset.
    run("load 20
         fetch a 0-9 10-19 -> nothing
         fetch a 10-24 -> 20-24*1");
    // A read that has left out records.
    run("fetch a at=5 5-9 -> nothing
         fetch a at=0 5-9 -> 5-9*1
         fetch a at=11 11-19 -> nothing
         at -> start 5 end 9 next 10 complete 0");
    // Records that are held, whatever batches the log has.
    run("fetch a 0-9 -> 0-9*1
         fetch b 0-9 -> nothing
         fetch b 0-4 -> nothing
         fetch b 3-12 -> 10-12*1
         state -> 0-9 held 1 a, 10-12 held 1 b");
}

#[test]
fn new_records_are_divided_at_batch_bounds() {
    run("fetch a batch=5 0-29 -> 0-29*1");
    run("fetch a batch=5 2-6 7-11 12-16 17-41 -> 2-6*1 7-11*1 12-16*1 17-41*1");
    run("fetch a batch=10 0-3 4-7 8-11 12-15 16-19 -> 0-11*1 12-19*1");
    run("fetch a batch=10 max=10 0-3 4-7 8-11 12-15 -> 0-11*1
         state -> 0-11 held 1 a");
    run("fetch a batch=0 0-0 1-1 -> 0-0*1 1-1*1");
    // A hole between batches belongs to the part before it.
    run("fetch a batch=5 0-4 20-24 -> 0-19*1 20-24*1");
    // The first batch begins before the first record that is new.
    run("load 3
         fetch a batch=5 0-4 5-9 10-14 -> 3-9*1 10-14*1");
}

#[test]
fn offset_gaps_are_acquired_with_adjacent_records() {
    // One read over a hole: the client reports the gap. Two reads: the hole is not tracked.
    run("fetch a 0-9 20-29 -> 0-29*1
         ack a 0-9:a 10-19:g 20-29:a -> 0-9 done 1, 10-19 gone 1, 20-29 done 1
         at -> start 30 end 30 next 30 complete 0");
    run("fetch a 0-9 -> 0-9*1
         fetch a at=10 20-29 -> 20-29*1
         state -> 0-9 held 1 a, 20-29 held 1 a
         ack a 0-9:a
         at -> start 20 end 29 next 30 complete 0");
    run("load 5
         fetch a at=5 50-59 -> 50-59*1
         at -> start 50 end 59 next 60 complete 0");
}

#[test]
fn released_records_are_acquired_before_new_ones() {
    run("fetch a 0-4 -> 0-4*1
         fetch a 5-9 -> 5-9*1
         ack a 3-6:r
         at -> start 0 end 9 next 3 complete 0
         fetch b 0-4 5-9 10-14 -> 3-4*2 5-6*2 10-14*1
         state -> 0-2 held 1 a, 3-6 held 2 b, 7-9 held 1 a, 10-14 held 1 b
         at -> start 0 end 14 next 15 complete 0");
    // A fetch that reads less than the tracked batch, and one that begins in it.
    run("fetch a 0-9 -> 0-9*1
         ack a 0-9:r
         fetch b 0-4 -> 0-4*2
         fetch c at=5 5-19 -> 5-9*2 10-19*1");
    run("fetch a 0-9 -> 0-9*1
         ack a 0-9:r
         fetch b at=4 4-6 -> 4-6*2
         state -> 0-3 free 1, 4-6 held 2 b, 7-9 free 1
         at -> start 0 end 9 next 0 complete 0");
}

#[test]
fn strict_record_limit_is_exact() {
    run("fetch a max=5 mode=records 10-19 -> 10-14*1
         state -> 10-14 held 1 a, 15-19 free 0
         at -> start 10 end 19 next 15 complete 0
         fetch b max=3 mode=records at=15 10-19 -> 15-17*1
         fetch b max=20 mode=records at=18 10-19 20-29 -> 18-19*1 20-29*1
         at -> start 10 end 29 next 30 complete 0");
    run("fetch a max=12 mode=records 0-4 5-9 10-14 15-19 -> 0-11*1
         state -> 0-11 held 1 a, 12-14 free 0
         at -> start 0 end 14 next 12 complete 0");
    run("fetch a max=50 mode=records 0-4 5-9 -> 0-9*1");
    run("fetch a max=1 mode=records batch=1 0-4 5-9 -> 0-0*1
         at -> start 0 end 4 next 1 complete 0");
    // Tracked batches count too.
    run("fetch a 0-9 -> 0-9*1
         ack a 0-9:r
         fetch b max=3 mode=records 0-9 -> 0-2*2
         ack b 1-1:r
         fetch b max=3 mode=records 0-9 -> 1-1*3 3-4*2
         state -> 0-0 held 2 b, 1-1 held 3 b, 2-2 held 2 b, 3-4 held 2 b, 5-9 free 1");
    // The limit falls into the second of two tracked batches.
    run("fetch a 0-4 -> 0-4*1
         fetch a 5-9 -> 5-9*1
         ack a 0-9:r
         fetch b max=7 mode=records 0-4 5-9 10-14 -> 0-4*2 5-6*2");
    // A member with whole batches takes the rest.
    run("fetch a max=2 mode=records 0-9 -> 0-1*1
         fetch b max=2 0-9 10-19 -> 2-9*1");
}

#[test]
fn record_locks_bound_the_records_in_flight() {
    run("limits locks=20
         fetch a 0-9 -> 0-9*1
         can -> yes
         fetch a 10-24 -> 10-24*1
         can -> no
         fetch a 25-29 -> nothing
         ack a 0-4:a
         can -> no
         ack a 5-9:a
         can -> yes
         fetch a max=500 25-26 27-31 32-36 -> 25-31*1");
    // Room in the middle is used, and nothing past the end offset.
    run("limits locks=20
         fetch a 0-9 -> 0-9*1
         fetch a 10-29 -> 10-29*1
         ack a 5-5:r
         can -> yes
         fetch b at=5 0-9 10-29 30-39 -> 5-5*2
         can -> no
         ack a 20-29:r
         at -> start 0 end 29 next 20 complete 0
         fetch b at=20 10-29 30-39 -> 20-29*2");
    // The limit may change at any time.
    run("limits locks=10
         fetch a 0-9 -> 0-9*1
         can -> no
         limits locks=11
         can -> yes
         fetch a 10-14 15-19 -> 10-14*1
         limits locks=5
         can -> no
         fetch a 15-19 -> nothing
         ack a 0-14:a
         can -> yes");
}

#[test]
fn records_that_the_log_lost_are_archived() {
    // Whole batches, the end of one, and the start offset moves.
    run("fetch a 0-4 -> 0-4*1
         fetch a 5-9 -> 5-9*1
         fetch a 10-14 -> 10-14*1
         ack a 0-14:r
         fetch b at=0 10-14 -> 10-14*2
         at -> start 10 end 14 next 15 complete 0");
    run("fetch a 0-9 -> 0-9*1
         ack a 5-9:r
         fetch b at=5 20-24 -> 20-24*1
         state -> 0-4 held 1 a, 5-9 gone 1, 20-24 held 1 b
         at -> start 0 end 24 next 25 complete 5
         ack a 0-4:a
         at -> start 20 end 24 next 25 complete 0");
    // A pending release is lost too, and stays so.
    run("fetch a 0-4 -> 0-4*1
         hold
         ack a 0-4:r
         fetch b at=0 10-14 -> 10-14*1
         state -> 10-14 held 1 b
         write fail -> quiet
         state -> 10-14 held 1 b");
    // All records are lost.
    run("fetch a 0-4 -> 0-4*1
         ack a 0-4:r
         fetch b at=0 7-9 -> 7-9*1
         at -> start 7 end 9 next 10 complete 0");
}

#[test]
fn records_of_aborted_transactions_are_not_delivered() {
    run("fetch a 0-4 5-9x 10-14 -> 0-4*1 10-14*1
         state -> 0-4 held 1 a, 5-9 gone 1, 10-14 held 1 a
         at -> start 0 end 14 next 15 complete 5
         ack a 5-9:a -> invalid state
         ack a 0-4:a 10-14:a
         at -> start 15 end 15 next 15 complete 0");
    // Only aborted records: the start offset passes them immediately.
    run("fetch a 0-4x 5-9x -> nothing
         at -> start 10 end 10 next 10 complete 0");
    run("fetch a batch=5 0-4x 5-9 10-11x 12-14 -> 5-9*1 12-14*1");
    // Records before the limit count, delivered or not.
    run("fetch a max=7 mode=records 0-4x 5-9 -> 5-6*1");
    // A batch that begins before the start offset.
    run("load 3
         fetch a 0-4x 5-6 -> 5-6*1
         at -> start 5 end 6 next 7 complete 0");
}

fn acquire(partition: &mut SharePartition, fetch_offset: i64, bounds: &[(i64, i64)]) -> Acquisition {
    let request = AcquireRequest {
        member: Arc::from("a"),
        mode: AcquireMode::Batches,
        max_records: 10,
        batch_size: 100,
    };
    let batch = |(base, last): &(i64, i64)| FetchedBatch { base: *base, last: *last, is_aborted: false };
    let batches: Vec<FetchedBatch> = bounds.iter().map(batch).collect();
    partition.acquire(&request, FetchedRange { fetch_offset, batches: &batches }, &limits(), 0)
}

#[test]
fn sent_batches_span_the_acquired_records() {
    let mut partition = Rig::new().partition;
    assert_eq!(acquire(&mut partition, 0, &[(0, 3), (4, 7), (8, 12), (13, 20)]).batches, 0..3);
    assert_eq!(acquire(&mut partition, 0, &[(0, 3), (4, 7), (8, 12), (13, 20)]).batches, 3..4);
    assert_eq!(acquire(&mut partition, 0, &[(0, 3), (13, 20)]).batches, 0..0);
    assert_eq!(acquire(&mut partition, 0, &[(13, 20), (21, 22), (25, 30)]).batches, 1..3);
}

#[test]
fn unordered_or_invalid_batches_are_harmless() {
    let bounds = [i64::MIN, -1, 0, 3, 9, i64::MAX - 1, i64::MAX];
    for fetch_offset in bounds {
        for first in bounds {
            for last in bounds {
                let mut partition = Rig::new().partition;
                for batch in [(first, last), (last, first), (0, 5), (first, first)] {
                    acquire(&mut partition, fetch_offset, &[batch, (first, last)]);
                    acquire(&mut partition, fetch_offset, &[batch]);
                    partition.next_fetch_offset();
                }
                partition.log_start_moved(last);
                partition.tick(&limits(), i64::MAX);
                assert!(partition.in_flight_records() >= 0);
            }
        }
    }
}
