//! Refused batches of several producers and epochs.

use super::*;

const STORAGE: Passing = Passing::Storage;

#[test]
fn a_later_batch_waits_for_the_lowest_one_that_was_refused() {
    let refused = Refused::default();
    let one = (1, 0);
    assert_eq!(refused.before(one, 5), None);
    refused.add(one, 5, STORAGE);
    refused.add(one, 3, Passing::Replicas);
    refused.add(one, 7, STORAGE);
    assert_eq!(refused.before(one, 4), Some((3, Passing::Replicas)));
    assert_eq!(refused.before((2, 0), 4), None);
    assert_eq!(refused.before(one, 3), None);
    refused.forget(1);
    assert_eq!(refused.before(one, 4), None);
}

#[test]
fn sequence_numbers_wrap() {
    let refused = Refused::default();
    refused.add((1, 0), 5, STORAGE);
    refused.add((1, 0), i32::MAX - 5, STORAGE);
    assert_eq!(refused.before((1, 0), 5), Some((i32::MAX - 5, STORAGE)));
    assert_eq!(refused.before((1, 0), i32::MAX - 5), None);
}

#[test]
fn another_epoch_begins_again() {
    let refused = Refused::default();
    refused.add((1, 0), 3, STORAGE);
    assert_eq!(refused.before((1, 1), 9), None);
    refused.add((1, 1), 3, STORAGE);
    refused.add((1, 2), 4, STORAGE);
    assert_eq!(refused.before((1, 2), 5), Some((4, STORAGE)));
}

#[test]
fn the_memory_of_producers_is_bounded() {
    let refused = Refused::default();
    (0..).take(10 * PRODUCERS_MAX).for_each(|id| refused.add((id, 0), 0, STORAGE));
    assert!(refused.lowest.lock().len() <= PRODUCERS_MAX);
}
