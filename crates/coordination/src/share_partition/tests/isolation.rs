//! Isolation of records that were delivered often.

use super::kit::run;

#[test]
fn isolation_parts_shrink_with_each_delivery() {
    run("limits attempts=7
         load 0 0-19 free 4
         fetch a 0-19 -> 0-9*5
         pass 30000
         fetch a 0-19 -> 0-4*6
         pass 30000
         fetch a 0-19 -> 0-0*7
         fetch a at=1 0-19 -> 1-1*7
         fetch a at=2 0-19 -> 2-2*7
         fetch a at=3 0-19 -> 3-3*7
         fetch a at=4 0-19 -> 4-4*7
         fetch a at=5 0-19 -> 5-9*6
         fetch a at=10 0-19 -> 10-19*5
         fetch a at=20 0-19 20-29 -> 20-29*1");
}

#[test]
fn the_first_isolated_delivery_depends_on_the_limit() {
    for (attempts, count, acquired) in [
        (2, 1, "0-7*2"),
        (2, 2, "0-3*3"),
        (3, 1, "0-7*2"),
        (3, 2, "0-0*3"),
        (5, 2, "0-7*3"),
        (5, 3, "0-3*4"),
        (5, 4, "0-0*5"),
        (6, 2, "0-7*3"),
        (6, 3, "0-3*4"),
        (6, 4, "0-1*5"),
        (6, 5, "0-0*6"),
        (10, 4, "0-7*5"),
        (10, 5, "0-3*6"),
        (10, 8, "0-0*9"),
    ] {
        run(&format!("limits attempts={attempts}\n load 0 0-7 free {count}\n fetch a 0-7 -> {acquired}"));
    }
}

#[test]
fn isolated_records_are_delivered_alone() {
    // Other batches go first, and nothing after them.
    run("load 0 0-4 free 2, 5-9 gone 3, 10-14 free 3
         fetch a 0-14 15-19 -> 0-4*3
         fetch a at=10 10-14 15-19 -> 10-11*4
         fetch a at=12 10-14 15-19 -> 12-13*4
         fetch a at=14 10-14 15-19 -> 14-14*4
         fetch a at=15 15-19 -> 15-19*1");
    run("load 5 15-19 free 2, 20-22 gone 3, 26-30 free 3
         fetch a at=5 7-19 20-27 -> 7-14*1 15-19*3 23-25*1
         at -> start 7 end 30 next 26 complete 3
         fetch a at=26 20-27 -> 26-27*4");
}

#[test]
fn last_delivery_attempt_has_one_record() {
    run("load 15 15-34 free 2
         fetch a 15-34 -> 15-34*3
         ack a 17-17:r 20-20:r
         fetch a at=17 15-34 -> 17-17*4 20-20*4
         ack a 15-34:r
         fetch a at=15 15-34 -> 15-16*4
         fetch a at=17 15-34 -> 17-17*5
         fetch a at=18 15-34 -> 18-19*4
         fetch a at=20 15-34 -> 20-20*5
         fetch a at=21 15-34 -> 21-30*4");
    // A record limit of one, and the whole batch at its last attempt.
    run("load 0 0-4 free 4
         fetch a max=1 mode=records 0-4 -> 0-0*5
         fetch a 0-4 -> 1-1*5");
}

#[test]
fn unacquirable_records_do_not_cause_isolation() {
    // Held, complete, or with a pending release.
    run("load 0 0-4 free 1
         fetch a 0-4 -> 0-4*2
         ack a 0-0:r
         fetch b 0-4 -> 0-0*3
         ack a 1-4:r
         fetch a at=1 0-4 -> 1-4*3");
    run("load 0 0-4 free 2, 5-9 free 1
         fetch a 0-4 -> 0-4*3
         hold
         ack a 0-4:r
         fetch b 0-9 10-14 -> 5-9*2 10-14*1");
}
