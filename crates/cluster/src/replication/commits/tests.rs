//! Tests of the waiters for the high watermark.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

#[test]
fn waiters_leave_in_the_order_of_their_offsets() {
    let mut commits = Commits::default();
    commits.wait(20, "b");
    commits.wait(10, "a");
    commits.wait(30, "c");
    assert_eq!(commits.reached(9).next(), None);
    assert_eq!(commits.reached(29).collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(commits.lost().collect::<Vec<_>>(), ["c"]);
    assert!(commits.is_empty());
}

#[test]
fn largest_offset_releases_all_waiters() {
    let mut commits = Commits::default();
    commits.wait(i64::MAX, ());
    assert_eq!(commits.reached(i64::MAX).count(), 1);
}

#[derive(Clone, Debug)]
enum Op {
    Wait(i64),
    Reached(i64),
    Cancel(usize),
    Lost,
}

proptest! {
    #[test]
    fn commit_waiters_complete_once_not_before_their_offset(ops in proptest::collection::vec(prop_oneof![
        6 => (0..50_i64).prop_map(Op::Wait),
        4 => (0..50_i64).prop_map(Op::Reached),
        2 => (0..40_usize).prop_map(Op::Cancel),
        1 => Just(Op::Lost),
    ], 0..60)) {
        let mut commits = Commits::default();
        let mut tickets = Vec::new();
        let mut waiting: BTreeSet<(i64, usize)> = BTreeSet::new();
        for op in ops {
            match op {
                Op::Wait(offset) => {
                    waiting.insert((offset, tickets.len()));
                    tickets.push(commits.wait(offset, (offset, tickets.len())));
                }
                Op::Reached(high) => {
                    for waiter in commits.reached(high) {
                        prop_assert!(waiter.0 <= high);
                        prop_assert!(waiting.remove(&waiter));
                    }
                    prop_assert!(waiting.iter().all(|waiter| waiter.0 > high));
                }
                Op::Cancel(at) => {
                    if let Some(ticket) = tickets.get(at) {
                        let cancelled = commits.cancel(*ticket);
                        prop_assert_eq!(cancelled.is_some(), cancelled.is_some_and(|waiter| waiting.remove(&waiter)));
                    }
                }
                Op::Lost => {
                    let lost: BTreeSet<_> = commits.lost().collect();
                    prop_assert_eq!(&lost, &waiting);
                    waiting.clear();
                }
            }
            prop_assert_eq!(commits.len(), waiting.len());
        }
    }
}
