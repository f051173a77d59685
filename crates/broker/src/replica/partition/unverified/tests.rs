//! Refused batches of several producers and epochs.

use super::*;

#[test]
fn a_later_batch_waits_for_the_lowest_one_that_was_refused() {
    let unverified = Unverified::default();
    let one = (1, 0);
    assert_eq!(unverified.admit(one, 5), Ok(()));
    unverified.refused(one, 5);
    unverified.refused(one, 3);
    unverified.refused(one, 7);
    assert_eq!(unverified.admit(one, 4), Err(3));
    assert_eq!(unverified.admit((2, 0), 4), Ok(()));
    assert_eq!(unverified.admit(one, 3), Ok(()));
    assert_eq!(unverified.admit(one, 4), Ok(()));
}

#[test]
fn sequence_numbers_wrap() {
    let unverified = Unverified::default();
    unverified.refused((1, 0), 5);
    unverified.refused((1, 0), i32::MAX - 5);
    assert_eq!(unverified.admit((1, 0), 5), Err(i32::MAX - 5));
    assert_eq!(unverified.admit((1, 0), i32::MAX - 5), Ok(()));
    assert_eq!(unverified.admit((1, 0), 5), Ok(()));
}

#[test]
fn another_epoch_and_the_end_of_the_transaction_begin_again() {
    let unverified = Unverified::default();
    unverified.refused((1, 0), 3);
    assert_eq!(unverified.admit((1, 1), 9), Ok(()));
    unverified.refused((1, 1), 3);
    unverified.refused((1, 2), 4);
    assert_eq!(unverified.admit((1, 2), 5), Err(4));
    unverified.forget(1);
    assert_eq!(unverified.admit((1, 2), 5), Ok(()));
}

#[test]
fn the_memory_of_producers_is_bounded() {
    let unverified = Unverified::default();
    (0..).take(10 * PRODUCERS_MAX).for_each(|id| unverified.refused((id, 0), 0));
    assert!(unverified.0.lock().len() <= PRODUCERS_MAX);
}
