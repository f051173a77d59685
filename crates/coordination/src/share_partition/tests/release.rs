//! Locks that end, and members that leave.

use super::kit::run;

#[test]
fn locks_end_after_their_time() {
    run("fetch a 0-9 -> 0-9*1
         deadline -> 30000
         pass 29999 -> nothing
         pass 1 -> 0-9 free 1
         deadline -> none
         at -> start 0 end 9 next 0 complete 0
         fetch b 0-9 -> 0-9*2
         pass 30000 -> 0-9 free 2");
    // Each acquisition has its own time, whatever the order.
    run("fetch a 0-4 -> 0-4*1
         pass 10000
         limits lock=15000
         fetch a 5-9 -> 5-9*1
         limits lock=30000
         deadline -> 15000
         pass 15000 -> 5-9 free 1
         deadline -> 5000
         pass 5000 -> 0-4 free 1");
    // Late ticks end several locks together.
    run("fetch a 0-4 -> 0-4*1
         pass 1
         fetch b 5-9 -> 5-9*1
         pass 90000 -> 0-9 free 1");
}

#[test]
fn partial_batch_locks_expire() {
    run("fetch a 0-9 -> 0-9*1
         ack a 2-4:a 7-7:r
         pass 30000 -> 0-1 free 1, 5-6 free 1, 8-9 free 1
         state -> 0-1 free 1, 2-4 done 1, 5-9 free 1
         fetch b max=3 mode=records 0-9 -> 0-1*2 5-5*2
         pass 30000 -> 0-1 free 2, 5-5 free 2");
    run("fetch a 0-9 -> 0-9*1
         ack a 0-9:a
         deadline -> none
         pass 30000 -> nothing");
}

#[test]
fn expired_lock_on_last_attempt_archives_record() {
    run("limits attempts=2
         load 0 0-4 free 1, 5-9 free 0
         fetch a 0-9 -> 0-4*2 5-9*1
         pass 30000 -> 0-4 gone 2, 5-9 free 1
         at -> start 5 end 9 next 5 complete 0
         fetch a 5-9 -> 5-9*2
         pass 30000 -> 5-9 gone 2
         at -> start 10 end 10 next 10 complete 0");
}

#[test]
fn ended_locks_hold_even_if_the_write_fails() {
    run("fetch a 0-9 -> 0-9*1
         hold
         pass 30000 -> 0-9 free 1
         state -> 0-9 free 1
         fetch b 0-4 -> 0-4*2
         write fail -> quiet
         state -> 0-4 held 2 b, 5-9 free 1");
    // The start offset moves when the write has ended.
    run("limits attempts=2
         load 0 0-4 free 1
         fetch a 0-4 -> 0-4*2
         hold
         pass 30000 -> 0-4 gone 2
         at -> start 0 end 4 next 5 complete 5
         write fail -> wakes
         at -> start 5 end 5 next 5 complete 0");
}

#[test]
fn members_that_leave_release_their_records() {
    run("fetch a 0-4 -> 0-4*1
         fetch b 5-9 -> 5-9*1
         fetch a 10-14 -> 10-14*1
         end c -> nothing
         end a -> 0-4 free 1, 10-14 free 1
         end a -> nothing
         state -> 0-4 free 1, 5-9 held 1 b, 10-14 free 1
         fetch b 0-14 -> 0-4*2 10-14*2
         end b -> 0-4 free 2, 5-9 free 1, 10-14 free 2");
    // Only records that are held: others stay as they are.
    run("fetch a 0-9 -> 0-9*1
         ack a 0-9:araxgaarra
         state -> 1-1 free 1, 2-2 done 1, 3-4 gone 1, 5-6 done 1, 7-8 free 1, 9-9 done 1
         end a -> nothing");
    run("fetch a 0-9 -> 0-9*1
         ack a 5-9:a
         fetch b 10-12 -> 10-12*1
         end a -> 0-4 free 1
         end b -> 10-12 free 1
         deadline -> none");
}

#[test]
fn release_on_leave_keeps_delivery_counts() {
    run("limits attempts=3
         load 0 0-4 free 2
         fetch a 0-0 -> 0-0*3
         fetch a 1-4 -> 1-1*3
         fetch a 2-4 -> 2-2*3
         end a -> 0-2 gone 3
         at -> start 3 end 4 next 3 complete 0");
    run("limits attempts=2
         load 0 0-4 free 1
         fetch a 0-4 -> 0-4*2
         ack a 1-1:a
         end a -> 0-0 gone 2, 2-4 gone 2
         state -> nothing
         at -> start 5 end 5 next 5 complete 0");
}

#[test]
fn a_pending_release_is_rolled_back() {
    run("fetch a 0-9 -> 0-9*1
         hold
         end a -> 0-9 free 1
         state -> 0-9 free! 1 a
         fetch b 0-9 -> nothing
         end a -> nothing
         write fail -> quiet
         state -> 0-9 held 1 a
         end a -> 0-9 free 1
         write ok -> wakes
         state -> 0-9 free 1");
}
