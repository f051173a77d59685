//! Changes that wait for their write.

use super::kit::run;

#[test]
fn pending_records_can_be_neither_acquired_nor_acknowledged() {
    run("fetch a 0-9 -> 0-9*1
         hold
         ack a 0-4:a 5-9:r
         state -> 0-4 done! 1 a, 5-9 free! 1 a
         at -> start 0 end 9 next 10 complete 5
         fetch b 0-9 -> nothing
         ack a 0-4:a -> invalid state
         ack a 5-5:a -> invalid state
         end a -> nothing
         write ok -> wakes
         at -> start 5 end 9 next 5 complete 0
         state -> 5-9 free 1");
}

#[test]
fn failed_share_write_rolls_back_changes() {
    run("fetch a 0-9 -> 0-9*1
         hold
         ack a 0-9:aarrxxggaa
         at -> start 0 end 9 next 10 complete 8
         write fail -> quiet
         state -> 0-9 held 1 a
         at -> start 0 end 9 next 10 complete 0
         ack a 0-9:a
         write ok -> wakes
         at -> start 10 end 10 next 10 complete 0");
    // Other writes do not matter.
    run("fetch a 0-9 -> 0-9*1
         hold
         ack a 0-4:a
         ack a 5-9:a
         write fail
         state -> 0-4 held 1 a, 5-9 done! 1 a
         write ok -> quiet
         at -> start 0 end 9 next 10 complete 5
         ack a 0-4:a
         write ok -> wakes
         at -> start 10 end 10 next 10 complete 0");
}

#[test]
fn expired_locks_take_effect_after_rollback() {
    run("fetch a 0-9 -> 0-9*1
         hold
         ack a 0-4:a
         pass 30000 -> 5-9 free 1
         state -> 0-4 done! 1 a, 5-9 free 1
         deadline -> none
         write fail -> wakes
         state -> 0-9 free 1
         at -> start 0 end 9 next 0 complete 0");
    run("fetch a 0-9 -> 0-9*1
         hold
         ack a 0-4:a
         pass 30000
         write ok -> wakes
         at -> start 5 end 9 next 5 complete 0");
    // The last attempt.
    run("limits attempts=2
         load 0 0-9 free 1
         fetch a 0-9 -> 0-9*2
         hold
         ack a 0-4:a
         pass 30000 -> 5-9 gone 2
         write fail -> wakes
         at -> start 10 end 10 next 10 complete 0");
    run("limits attempts=2
         load 0 0-9 free 1
         fetch a 0-9 -> 0-9*2
         hold
         ack a 0-9:r -> 0-9 gone 2
         at -> start 0 end 9 next 10 complete 10
         write fail -> quiet
         state -> 0-9 held 2 a
         at -> start 0 end 9 next 10 complete 0");
}

#[test]
fn the_start_offset_waits_for_pending_records() {
    run("fetch a 0-4 -> 0-4*1
         fetch a 5-9 -> 5-9*1
         hold
         ack a 0-4:a
         ack a 5-9:a
         write ok -> wakes
         at -> start 5 end 9 next 10 complete 5
         write ok -> wakes
         at -> start 10 end 10 next 10 complete 0");
    run("fetch a 0-9 -> 0-9*1
         hold
         ack a 5-9:a
         write ok -> quiet
         ack a 0-2:a
         write ok -> wakes
         at -> start 3 end 9 next 10 complete 5
         ack a 3-4:a
         write ok -> wakes
         at -> start 10 end 10 next 10 complete 0");
}

#[test]
fn released_records_wake_fetches() {
    run("fetch a 0-9 -> 0-9*1
         hold
         ack a 5-9:r
         ack a 0-0:n
         write ok -> wakes
         ack a 2-3:x
         write ok -> quiet");
}

#[test]
fn fenced_share_partition_refuses_everything() {
    for end in ["fenced", "gone"] {
        run(&format!(
            "fetch a 0-9 -> 0-9*1
             hold
             ack a 0-4:a
             ack a 5-6:a
             write {end}
             ack a 0-4:a -> not active
             fetch a 10-19 -> nothing
             end a -> nothing
             log 5 -> same
             pass 30000 -> nothing
             write ok"
        ));
    }
}
