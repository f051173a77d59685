//! Records on their way to the dead letter queue.

use super::kit::run;

#[test]
fn refused_records_wait_for_their_dead_letters() {
    run("limits letters=yes
         fetch a 0-9 -> 0-9*1
         ack a 0-9:xxaaggrraa -> 0-1 dead 1, 2-3 done 1, 4-5 gone 1, 6-7 free 1, 8-9 done 1
         letters -> 0-1 rejected 1
         at -> start 0 end 9 next 6 complete 6
         fetch a 0-9 -> 6-7*2
         ack a 0-1:a -> invalid state
         letters done 0-1 -> 0-1 gone 1
         at -> start 6 end 9 next 10 complete 2");
    run("limits letters=yes attempts=2
         load 0 0-4 free 1
         fetch a 0-4 -> 0-4*2
         ack a 0-1:r 2-2:x -> 0-2 dead 2
         letters -> 0-1 exhausted 2, 2-2 rejected 2
         pass 30000 -> 3-4 dead 2
         letters -> 3-4 exhausted 2
         letters done 0-0 1-4 -> 0-4 gone 2
         at -> start 5 end 5 next 5 complete 0");
    run("limits letters=yes attempts=2
         load 0 0-4 free 1
         fetch a 0-4 -> 0-4*2
         end a -> 0-4 dead 2
         letters -> 0-4 exhausted 2");
}

#[test]
fn dead_letters_follow_the_write() {
    run("limits letters=yes
         fetch a 0-9 -> 0-9*1
         hold
         ack a 0-4:x
         letters -> nothing
         write fail
         letters -> nothing
         state -> 0-9 held 1 a
         ack a 0-4:x
         letters done 0-4 -> nothing
         write ok
         letters -> 0-4 rejected 1");
    // A lock that has ended: the record is not delivered again, whatever becomes of the write.
    run("limits letters=yes attempts=2
         load 0 0-4 free 1
         fetch a 0-4 -> 0-4*2
         hold
         pass 30000 -> 0-4 dead 2
         letters -> nothing
         write fail
         letters -> 0-4 exhausted 2
         letters done 0-4 -> 0-4 gone 2
         at -> start 0 end 4 next 5 complete 5
         write fail -> wakes
         at -> start 5 end 5 next 5 complete 0");
    // An acknowledgement is taken back after the end of the last lock.
    run("limits letters=yes attempts=2
         load 0 0-4 free 1
         fetch a 0-4 -> 0-4*2
         hold
         ack a 0-4:a
         pass 30000 -> nothing
         write fail
         letters -> 0-4 exhausted 2");
}

#[test]
fn the_next_leader_writes_missing_dead_letters() {
    run("limits letters=yes attempts=5
         load 0 0-4 dead 1, 5-9 dead 5, 10-14 free 1
         letters -> 0-4 rejected 1, 5-9 exhausted 5
         letters done 0-9 -> 0-4 gone 1, 5-9 gone 5
         at -> start 10 end 14 next 10 complete 0");
    run("limits letters=no
         load 0 0-4 dead 1, 10-14 free 1
         letters -> nothing
         state -> 10-14 free 1");
}

#[test]
fn dead_letters_of_deleted_records_do_not_matter() {
    run("limits letters=yes
         fetch a 0-9 -> 0-9*1
         ack a 0-9:x
         log 5
         letters done 0-2 -> nothing
         letters done 0-9 -> 5-9 gone 1
         letters done 0-9 -> nothing
         at -> start 10 end 10 next 10 complete 0");
}

#[test]
fn gaps_and_lost_records_have_no_dead_letters() {
    run("limits letters=yes
         fetch a 0-4 5-9x -> 0-4*1
         ack a 0-4:g
         letters -> nothing
         fetch a 10-14 -> 10-14*1
         ack a 10-14:r
         fetch a at=10 20-24 -> 20-24*1
         letters -> nothing");
}
