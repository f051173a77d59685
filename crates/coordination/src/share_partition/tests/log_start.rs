//! The start of the log moves: by retention, or because records were deleted.

use super::kit::run;

#[test]
fn records_below_the_log_start_are_dropped() {
    run("log 0 -> same
         log 10 -> moved
         at -> start 10 end 10 next 10 complete 0
         log 10 -> same
         log 5 -> same
         fetch a 10-14 -> 10-14*1");
    // Held and available records, within a batch, at its end, and past all.
    run("fetch a 0-4 -> 0-4*1
         fetch b 5-9 -> 5-9*1
         ack a 0-4:r
         log 7 -> moved
         state -> 7-9 held 1 b
         at -> start 7 end 9 next 10 complete 0
         log 9 -> moved
         state -> 9-9 held 1 b
         log 10 -> moved
         at -> start 10 end 10 next 10 complete 0
         deadline -> none");
    run("fetch a 0-9 -> 0-9*1
         log 20 -> moved
         at -> start 20 end 20 next 20 complete 0
         fetch a at=20 20-24 -> 20-24*1
         at -> start 20 end 24 next 25 complete 0");
    run("log 12
         fetch a batch=5 2-9 10-16 -> 12-16*1
         at -> start 12 end 16 next 17 complete 0");
}

#[test]
fn the_start_offset_passes_complete_records_and_holes() {
    run("fetch a 0-4 -> 0-4*1
         fetch a 5-9 -> 5-9*1
         fetch a at=10 20-24 -> 20-24*1
         ack a 5-9:a
         at -> start 0 end 24 next 25 complete 5
         log 3 -> moved
         at -> start 3 end 24 next 25 complete 5
         log 7 -> moved
         at -> start 20 end 24 next 25 complete 0
         log 21 -> moved
         at -> start 21 end 24 next 25 complete 0");
    run("fetch a 0-9 -> 0-9*1
         ack a 4-6:a
         log 5 -> moved
         at -> start 7 end 9 next 10 complete 0");
}

#[test]
fn acknowledgements_below_the_start_have_no_effect() {
    run("fetch a 0-4 -> 0-4*1
         fetch a 5-9 -> 5-9*1
         log 7
         ack a 0-4:a -> nothing
         ack b 0-6:x -> nothing
         ack a 0-9:r -> 7-9 free 1
         at -> start 7 end 9 next 7 complete 0");
    run("fetch a 0-9 -> 0-9*1
         log 3
         ack a 0-9:aaaarrrraa -> 3-3 done 1, 4-7 free 1, 8-9 done 1
         at -> start 4 end 9 next 4 complete 2");
    run("fetch a 0-9 -> 0-9*1
         log 10
         ack a 5-12:a -> invalid state");
}

#[test]
fn locks_above_the_log_start_continue() {
    run("fetch a 0-9 -> 0-9*1
         pass 20000
         log 5
         deadline -> 10000
         pass 10000 -> 5-9 free 1
         log 8
         fetch b at=8 0-9 -> 8-9*2
         end b -> 8-9 free 2");
    run("limits attempts=2
         load 0 0-9 free 1
         fetch a 0-9 -> 0-9*2
         log 5
         pass 30000 -> 5-9 gone 2
         at -> start 10 end 10 next 10 complete 0");
    run("fetch a 0-9 -> 0-9*1
         ack a 0-9:n
         log 4
         pass 30000 -> 4-9 free 1");
}

#[test]
fn pending_changes_below_the_start_end_with_it() {
    run("fetch a 0-9 -> 0-9*1
         hold
         ack a 0-4:a 5-9:r
         log 7 -> moved
         state -> 7-9 free! 1 a
         at -> start 7 end 9 next 10 complete 0
         write fail -> quiet
         state -> 7-9 held 1 a
         ack a 7-9:a
         at -> start 7 end 9 next 10 complete 3
         write ok -> wakes
         at -> start 10 end 10 next 10 complete 0");
    run("fetch a 0-9 -> 0-9*1
         hold
         ack a 0-9:a
         log 20 -> moved
         write ok -> quiet
         at -> start 20 end 20 next 20 complete 0");
    run("fetch a 0-4 -> 0-4*1
         fetch a 5-9 -> 5-9*1
         hold
         ack a 0-9:a
         log 3
         at -> start 3 end 9 next 10 complete 7
         write fail -> quiet
         at -> start 3 end 9 next 10 complete 0
         state -> 3-4 held 1 a, 5-9 held 1 a");
}

#[test]
fn advancing_start_offset_frees_record_slots() {
    run("limits locks=10
         fetch a 0-9 -> 0-9*1
         can -> no
         log 4
         can -> yes
         fetch a 10-13 14-19 -> 10-13*1
         can -> no");
}
