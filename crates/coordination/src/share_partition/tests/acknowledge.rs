//! Acknowledgements: of whole batches, of parts, record by record, and refused ones.

use std::sync::Arc;

use levada_testing::growth;

use crate::share_partition::AckBatch;

use super::kit::{Rig, run};

#[test]
fn each_acknowledgement_type_sets_its_state() {
    for (letter, written, after) in [
        ("g", "0-9 gone 1", "start 10 end 10 next 10 complete 0"),
        ("a", "0-9 done 1", "start 10 end 10 next 10 complete 0"),
        ("r", "0-9 free 1", "start 0 end 9 next 0 complete 0"),
        ("x", "0-9 gone 1", "start 10 end 10 next 10 complete 0"),
        ("n", "nothing", "start 0 end 9 next 10 complete 0"),
    ] {
        run(&format!("fetch a 0-9 -> 0-9*1\n ack a 0-9:{letter} -> {written}\n at -> {after}"));
    }
}

#[test]
fn acknowledgement_types_may_differ_within_batch() {
    run("fetch a 0-9 -> 0-9*1
         ack a 0-9:aaaggrrxxa -> 0-2 done 1, 3-4 gone 1, 5-6 free 1, 7-8 gone 1, 9-9 done 1
         at -> start 5 end 9 next 5 complete 3
         state -> 5-6 free 1, 7-8 gone 1, 9-9 done 1");
    // Parts of a batch, in several requests.
    run("fetch a 0-9 -> 0-9*1
         ack a 4-5:a -> 4-5 done 1
         state -> 0-3 held 1 a, 4-5 done 1, 6-9 held 1 a
         at -> start 0 end 9 next 10 complete 2
         ack a 0-3:a -> 0-3 done 1
         at -> start 6 end 9 next 10 complete 0
         ack a 9-9:x 
         ack a 6-8:a
         at -> start 10 end 10 next 10 complete 0");
    // Several batches in a request, and a batch that spans several tracked ones.
    run("fetch a 0-4 -> 0-4*1
         fetch a 5-9 -> 5-9*1
         fetch a 10-14 -> 10-14*1
         ack a 0-2:a 5-6:x 8-12:r -> 0-2 done 1, 5-6 gone 1, 8-12 free 1
         state -> 3-4 held 1 a, 5-6 gone 1, 7-7 held 1 a, 8-12 free 1, 13-14 held 1 a");
    // Types for each offset across tracked batches and a hole between them.
    run("fetch a 0-1 -> 0-1*1
         fetch a at=2 5-6 -> 5-6*1
         ack a 0-6:araaaxr -> 0-0 done 1, 1-1 free 1, 5-5 gone 1, 6-6 free 1");
}

#[test]
fn neighbours_in_the_same_state_are_one_entry() {
    run("fetch a 0-9 -> 0-9*1
         ack a 1-1:a
         ack a 3-3:a
         ack a 2-2:a
         state -> 0-0 held 1 a, 1-3 done 1, 4-9 held 1 a
         ack a 4-9:aaaaaa
         state -> 0-0 held 1 a, 1-9 done 1");
    // The bounds of batches count when the records are acquired again.
    run("fetch a 0-4 -> 0-4*1
         fetch a 5-9 -> 5-9*1
         ack a 0-9:r
         state -> 0-9 free 1
         fetch b 0-9 -> 0-4*2 5-9*2");
}

#[test]
fn records_outside_the_tracked_ones_are_refused() {
    run("ack a 0-0:a -> invalid state
         fetch a 5-9 -> 5-9*1
         ack a 5-10:a -> invalid request
         ack a 10-14:a -> invalid request
         ack a 0-4:a -> nothing
         ack a 2-6:a -> 5-6 done 1");
    run("load 5 15-19 free 1
         ack a 10-12:a -> invalid state
         fetch a at=15 15-19 -> 15-19*2
         ack a 12-19:a -> invalid state
         ack a 15-19:a -> 15-19 done 2");
}

#[test]
fn invalid_share_acknowledgements_are_refused() {
    run("fetch a 0-9 -> 0-9*1
         ack a 5-4:a -> invalid request
         ack a 5-6:aaa -> invalid request
         ack a 5-6: -> invalid request
         ack a 5-6:ab -> invalid request
         ack a 5-6:b -> invalid request
         ack a 5-6:a 3-4:a -> invalid request
         ack a 5-6:a 6-7:a -> invalid state
         ack a 0-9223372036854775807:a -> invalid request
         ack a 0-0:b -> invalid request
         state -> 0-9 held 1 a");
    run("load 5
         ack a 0-3:b -> invalid request
         ack a 0-3:a -> nothing");
}

#[test]
fn only_the_member_with_the_lock_acknowledges() {
    run("fetch a 0-4 -> 0-4*1
         fetch b 5-9 -> 5-9*1
         ack b 0-4:a -> invalid state
         ack b 2-2:a -> invalid state
         ack a 0-9:a -> invalid state
         ack a 0-4:a -> 0-4 done 1
         ack a 5-9:a -> invalid state
         ack b 5-6:r
         fetch a at=5 5-9 -> 5-6*2
         ack b 5-6:a -> invalid state
         ack a 5-6:a -> 5-6 done 2");
}

#[test]
fn records_without_a_lock_are_refused() {
    run("fetch a 0-9 -> 0-9*1
         ack a 0-4:r 8-8:a
         ack a 2-2:a -> invalid state
         ack a 0-9:a -> invalid state
         ack a 8-8:a -> invalid state
         pass 30000
         ack a 5-5:a -> invalid state");
    run("limits entries=3
         fetch a 0-9 -> 0-9*1
         ack a 2-2:a -> 2-2 done 1
         ack a 4-4:a -> too many
         ack a 0-1:a
         ack a 3-9:a
         at -> start 10 end 10 next 10 complete 0");
}

#[test]
fn a_refused_request_changes_nothing() {
    run("fetch a 0-4 -> 0-4*1
         fetch a 5-9 -> 5-9*1
         fetch b 10-14 -> 10-14*1
         ack a 0-4:a 5-6:r 10-14:a -> invalid state
         ack a 0-2:n 10-14:a -> invalid state
         ack a 0-4:a 5-9:a 12-20:a -> invalid request
         ack a 0-4:arxgn 5-9:b -> invalid request
         state -> 0-4 held 1 a, 5-9 held 1 a, 10-14 held 1 b
         at -> start 0 end 14 next 15 complete 0
         pass 30000 -> 0-14 free 1");
}

#[test]
fn renewal_restarts_the_record_lock() {
    run("fetch a 0-9 -> 0-9*1
         pass 20000 -> nothing
         deadline -> 10000
         ack a 0-9:n -> nothing
         deadline -> 30000
         pass 29999 -> nothing
         pass 1 -> 0-9 free 1
         deadline -> none
         ack a 0-9:n -> invalid state");
    // Some records of a batch, with other results beside.
    run("fetch a 0-9 -> 0-9*1
         pass 20000 -> nothing
         ack a 0-5:nnaarr -> 2-3 done 1, 4-5 free 1
         state -> 0-1 held 1 a, 2-3 done 1, 4-5 free 1, 6-9 held 1 a
         pass 10000 -> 6-9 free 1
         pass 20000 -> 0-1 free 1");
    run("limits renew=no
         fetch a 0-9 -> 0-9*1
         ack a 0-9:n -> invalid state
         ack a 0-1:an -> invalid state
         state -> 0-9 held 1 a
         pass 30000 -> 0-9 free 1");
    // Renewed records can be acknowledged.
    run("fetch a 0-9 -> 0-9*1
         ack a 0-9:n
         ack a 0-9:a -> 0-9 done 1");
}

#[test]
fn release_on_last_attempt_archives_the_record() {
    run("limits attempts=2
         fetch a 0-9 -> 0-9*1
         ack a 0-9:r -> 0-9 free 1
         fetch a 0-9 -> 0-9*2
         ack a 5-9:r -> 5-9 gone 2
         ack a 0-4:r -> 0-4 gone 2
         at -> start 10 end 10 next 10 complete 0");
    // The limit in force counts, at each release.
    run("limits attempts=3
         load 0 0-4 free 1
         fetch a 0-4 -> 0-4*2
         limits attempts=2
         ack a 0-2:r -> 0-2 gone 2
         limits attempts=4
         ack a 3-4:r -> 3-4 free 2
         at -> start 3 end 4 next 3 complete 0");
}

#[test]
fn extreme_offsets_do_not_overflow() {
    let bounds = [i64::MIN, -1, 0, 4, 9, 10, i64::MAX - 1, i64::MAX];
    for first in bounds {
        for last in bounds {
            let mut rig = Rig::new();
            run_line(&mut rig, 10);
            for types in [&[][..], &[1], &[2, 1], &[1; 10]] {
                let batches = [AckBatch { first, last, types }, AckBatch { first: last, last, types: &[3] }];
                let result = rig.partition.acknowledge(&Arc::from("a"), &batches, &rig.limits, i64::MAX);
                if let Ok(Some(write)) = result {
                    rig.partition.written(write.id, Ok(()), &rig.limits, i64::MIN);
                }
            }
            rig.partition.dead_letters_done(&[(first, last), (last, first)]);
            rig.partition.tick(&rig.limits, first);
            rig.partition.log_start_moved(last);
            assert!(rig.partition.start_offset() >= 0 && rig.partition.next_fetch_offset() >= 0);
        }
    }
}

#[test]
fn the_cost_of_many_batches_is_linear() {
    let prepare = |count: usize| {
        let mut rig = Rig::new();
        rig.limits.max_entries = usize::MAX;
        let records = 2 * count as i64;
        run_line(&mut rig, records);
        let batches: Vec<i64> = (0..count as i64).map(|index| 2 * index).collect();
        move || {
            let batch = |first: &i64| AckBatch { first: *first, last: *first, types: &[1] };
            let batches: Vec<AckBatch<'_>> = batches.iter().map(batch).collect();
            let write = rig.partition.acknowledge(&Arc::from("a"), &batches, &rig.limits, rig.now_ms);
            let write = write.expect("they are held").expect("they have changed");
            assert_eq!(write.spans.len(), batches.len());
            rig.partition.written(write.id, Ok(()), &rig.limits, rig.now_ms);
            assert_eq!(rig.partition.start_offset(), 1);
        }
    };
    let factor = growth(4_000, prepare);
    assert!(factor < 24.0, "eight times the batches cost {factor} times the time");
}

/// One batch of records for the member `a`.
fn run_line(rig: &mut Rig, records: i64) {
    use crate::share_partition::{AcquireMode, AcquireRequest, FetchedBatch, FetchedRange};
    rig.limits.max_record_locks = u32::MAX;
    let request = AcquireRequest {
        member: Arc::from("a"),
        mode: AcquireMode::Batches,
        max_records: i32::MAX,
        batch_size: i32::MAX,
    };
    let batches = [FetchedBatch { base: 0, last: records - 1, is_aborted: false }];
    let fetched = FetchedRange { fetch_offset: 0, batches: &batches };
    let acquired = rig.partition.acquire(&request, fetched, &rig.limits, rig.now_ms);
    assert_eq!(acquired.count, records);
}
