//! Loading of a share state, and gaps in it.

use super::kit::run;

#[test]
fn loading_restores_states_and_delivery_counts() {
    run("load 5 5-9 free 2, 10-14 done 1, 15-19 gone 3
         state -> 5-9 free 2, 10-14 done 1, 15-19 gone 3
         at -> start 5 end 19 next 5 complete 10
         fetch a 5-9 10-19 20-24 -> 5-9*3 20-24*1");
    run("load 0 -> ok
         at -> start 0 end 0 next 0 complete 0");
    run("load 10
         at -> start 10 end 10 next 10 complete 0");
    // Complete records at the start are dropped.
    run("load 5 5-9 done 2, 10-14 gone 1, 15-19 free 1, 20-24 done 1
         at -> start 15 end 24 next 15 complete 5");
    run("load 5 5-9 done 2, 10-14 gone 1
         state -> nothing
         at -> start 15 end 15 next 15 complete 0");
    // Records that were acquired have no member any more.
    run("load 0 0-4 held 2
         state -> 0-4 free 2");
}

#[test]
fn states_that_are_not_valid_are_refused() {
    let no_span = "the share state has a span of offsets that is not valid (first offset";
    for (load, error) in [
        ("load -1", "the share state has no start offset: -1".to_string()),
        ("load 5 4-9 free 1", format!("{no_span} 4)")),
        ("load 5 7-6 free 1", format!("{no_span} 7)")),
        ("load 5 5-9 free 1, 9-12 free 1", format!("{no_span} 9)")),
        ("load 5 10-12 free 1, 5-9 free 1", format!("{no_span} 5)")),
        ("load 0 0-9223372036854775807 free 1", format!("{no_span} 0)")),
        ("load 5 5-9 5 1", "the share state has the unknown delivery state 5".to_string()),
        ("load 5 5-9 -1 1", "the share state has the unknown delivery state -1".to_string()),
    ] {
        run(&format!("{load} -> {error}\n fetch a 5-9 -> nothing\n ack a 5-9:a -> not active"));
    }
}

#[test]
fn gaps_are_fetched_in_order_before_new_records() {
    run("load 10 21-30 done 2, 41-50 gone 1
         at -> start 10 end 50 next 10 complete 20
         fetch a at=10 10-15 -> 10-15*1
         at -> start 10 end 50 next 16 complete 20
         fetch a at=16 16-25 -> 16-20*1
         at -> start 10 end 50 next 31 complete 20
         fetch a at=31 26-60 -> 31-40*1 51-60*1
         at -> start 10 end 60 next 61 complete 20
         ack a 10-20:a
         at -> start 31 end 60 next 61 complete 10
         ack a 31-40:a 51-60:a
         at -> start 61 end 61 next 61 complete 0");
    // A gap in the middle, and available records before and after it.
    run("load 11 11-20 free 1, 31-40 free 1
         at -> start 11 end 40 next 11 complete 0
         fetch a 11-45 -> 11-20*2 21-30*1 31-40*2 41-45*1
         at -> start 11 end 45 next 46 complete 0");
    // The record limit ends the fetch in a gap, or after it.
    run("load 11 21-30 done 1, 41-50 free 1
         fetch a max=5 mode=records at=11 11-60 -> 11-15*1
         state -> 11-15 held 1 a, 16-20 free 0, 21-30 done 1, 41-50 free 1
         at -> start 11 end 50 next 16 complete 10
         fetch a max=10 mode=records at=16 11-60 -> 16-20*1 31-35*1
         at -> start 11 end 50 next 36 complete 10
         fetch a max=10 at=36 11-60 -> 36-40*1 41-50*2");
    run("load 11 21-30 done 1
         fetch a max=10 at=11 11-60 -> 11-20*1
         fetch a max=10 at=31 11-60 -> 31-60*1");
}

#[test]
fn gaps_without_records_are_skipped() {
    // The log begins after the gap, or in it.
    run("load 11 21-30 done 2, 41-50 gone 1
         fetch a at=11 21-35 36-60 -> 31-40*1 51-60*1
         at -> start 31 end 60 next 61 complete 10");
    run("load 11 21-30 done 2, 41-50 gone 1
         fetch a at=11 16-20 21-60 -> 16-20*1 31-40*1 51-60*1
         at -> start 16 end 60 next 61 complete 20");
    // A read that finds nothing to acquire still passes the gap.
    run("load 11 21-30 done 2, 41-50 gone 1
         fetch a at=11 21-30 -> nothing
         at -> start 31 end 50 next 31 complete 10
         fetch a at=31 41-50 -> nothing
         at -> start 51 end 51 next 51 complete 0");
    // A hole within the read is acquired, and reported by the client.
    run("load 10 15-20 done 2, 30-40 gone 1
         fetch a max=500 10-20 30-50 -> 10-14*1 21-29*1 41-50*1
         ack a 10-14:a 21-29:g 41-50:a
         at -> start 51 end 51 next 51 complete 0");
}

#[test]
fn unread_gaps_hold_back_the_start_offset() {
    run("load 11 11-20 free 1, 31-40 free 1
         fetch a 11-20 -> 11-20*2
         fetch b at=31 31-40 41-45 -> 31-40*2 41-45*1
         ack a 11-20:a
         ack b 31-45:a
         at -> start 21 end 45 next 21 complete 15
         fetch a at=21 21-30 -> 21-30*1
         ack a 21-30:a
         at -> start 46 end 46 next 46 complete 0");
}

#[test]
fn gaps_end_with_the_start_of_the_log() {
    run("load 5 15-20 free 1
         log 12 -> moved
         at -> start 12 end 20 next 12 complete 0
         log 16 -> moved
         state -> 16-20 free 1
         at -> start 16 end 20 next 16 complete 0");
    run("load 5 15-20 free 1
         log 30 -> moved
         at -> start 30 end 30 next 30 complete 0");
}

#[test]
fn batches_of_the_log_may_cross_loaded_spans() {
    run("load 5 5-9 done 1, 15-20 free 2
         fetch a at=10 0-17 18-25 -> 10-14*1 15-20*3 21-25*1
         state -> 10-14 held 1 a, 15-20 held 3 a, 21-25 held 1 a");
    run("load 12 12-14 free 1
         fetch a at=12 10-19 -> 12-14*2 15-19*1");
    run("load 5 15-18 free 2
         fetch a at=5 15-16 -> 15-16*3
         state -> 15-16 held 3 a, 17-18 free 2");
}
