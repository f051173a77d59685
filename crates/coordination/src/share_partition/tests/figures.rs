//! Figures, the fetch lock, phases, and the memory of tracked records.

use crate::share_partition::leases::{Lease, LeaseId};
use crate::share_partition::ledger::Run;
use crate::share_partition::{FetchLockTimes, LoadedState, SharePartition, SharePhase};

use super::kit::{Rig, limits, run};

#[test]
fn share_entries_use_little_memory() {
    let record = size_of::<(i64, Run)>();
    let batch = record + size_of::<(i64, i64)>();
    let lock = size_of::<Option<Lease>>() + size_of::<(i64, LeaseId)>();
    assert_eq!((record, batch, lock), (24, 40, 48));
    // The nodes of a map may be half empty, and a vector too.
    assert!(2 * record <= 64, "a record that is tracked alone");
    assert!(2 * (batch + lock) <= 200, "a batch that is tracked whole, with its own lock");
}

#[test]
fn lag_counts_records_that_are_not_complete() {
    let mut rig = Rig::new();
    assert_eq!(rig.partition.lag(100), 100);
    assert_eq!(rig.partition.lag(-5), 0);
    let state = LoadedState { state_epoch: 9, start_offset: 10, spans: Vec::new() };
    rig.partition = SharePartition::new(4);
    assert_eq!((rig.partition.phase(), rig.partition.state_epoch()), (SharePhase::Loading, -1));
    rig.partition.load(&state, &limits()).unwrap();
    assert_eq!((rig.partition.phase(), rig.partition.state_epoch()), (SharePhase::Active, 9));
    assert_eq!(rig.partition.leader_epoch(), 4);
    assert_eq!(rig.partition.lag(100), 90);
    assert!(rig.partition.load(&state, &limits()).is_err());
    rig.partition.fence();
    assert_eq!(rig.partition.phase(), SharePhase::Fenced);
}

#[test]
fn the_next_fetch_follows_releases_and_locks() {
    run("at -> start 0 end 0 next 0 complete 0
         fetch a 0-9 -> 0-9*1
         fetch b 10-19 -> 10-19*1
         at -> start 0 end 19 next 20 complete 0
         ack b 15-15:r
         at -> start 0 end 19 next 15 complete 0
         ack a 3-3:r
         at -> start 0 end 19 next 3 complete 0
         fetch c at=3 0-9 -> 3-3*2
         at -> start 0 end 19 next 15 complete 0
         fetch c at=15 10-19 -> 15-15*2
         at -> start 0 end 19 next 20 complete 0
         pass 30000
         at -> start 0 end 19 next 0 complete 0
         fetch a 0-4 -> 0-2*2 3-3*3 4-4*2
         at -> start 0 end 19 next 5 complete 0");
    // Single records, far from each other.
    run("fetch a 0-999 -> 0-999*1
         ack a 511-511:r
         ack a 255-256:r
         at -> start 0 end 999 next 255 complete 0
         fetch b max=1 mode=records 0-999 -> 255-255*2
         at -> start 0 end 999 next 256 complete 0
         fetch b max=1 mode=records 0-999 -> 256-256*2
         at -> start 0 end 999 next 511 complete 0
         fetch b max=1 mode=records 0-999 -> 511-511*2
         at -> start 0 end 999 next 1000 complete 0");
}

#[test]
fn share_fetch_lock_is_exclusive() {
    let mut partition = Rig::new().partition;
    assert!(partition.take_fetch_lock(1, 100));
    assert!(!partition.take_fetch_lock(2, 100));
    assert!(!partition.take_fetch_lock(1, 100));
    assert_eq!(partition.release_fetch_lock(2, 130), None);
    assert!(partition.has_fetch_lock());
    assert_eq!(partition.release_fetch_lock(1, 130), Some(FetchLockTimes { held_ms: 30, idle_ms: 0 }));
    assert_eq!(partition.release_fetch_lock(1, 130), None);
    assert!(partition.take_fetch_lock(2, 160));
    assert_eq!(partition.release_fetch_lock(2, 170), Some(FetchLockTimes { held_ms: 10, idle_ms: 30 }));
    partition.fence();
    assert!(!partition.take_fetch_lock(3, 200));
    assert!(!SharePartition::new(0).take_fetch_lock(1, 0));
}

#[test]
fn fetch_lock_reports_its_duration() {
    for (held_ms, idle_ms, percent) in [(0, 0, 100), (0, 10, 10), (10, 0, 100), (10, 30, 25), (30, 10, 75)] {
        assert_eq!(FetchLockTimes { held_ms, idle_ms }.held_percent(), percent, "{held_ms} of {idle_ms}");
    }
}
