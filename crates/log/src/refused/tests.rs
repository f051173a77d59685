//! Refused batches of several producers and epochs.

use super::*;

const STORAGE: Passing = Passing::Storage;

#[test]
fn later_batch_waits_for_lowest_refused_one() {
    let (refused, now) = (Refused::default(), Instant::now());
    let one = (1, 0);
    assert_eq!(refused.before(one, 5, now), None);
    refused.add(one, 5, (STORAGE, now));
    refused.add(one, 3, (Passing::Replicas, now));
    refused.add(one, 7, (STORAGE, now));
    assert_eq!(refused.before(one, 4, now), Some((3, Passing::Replicas)));
    assert_eq!(refused.before((2, 0), 4, now), None);
    assert_eq!(refused.before(one, 3, now), None);
    refused.forget(1);
    assert_eq!(refused.before(one, 4, now), None);
}

#[test]
fn sequence_numbers_wrap() {
    let (refused, now) = (Refused::default(), Instant::now());
    refused.add((1, 0), 5, (STORAGE, now));
    refused.add((1, 0), i32::MAX - 5, (STORAGE, now));
    assert_eq!(refused.before((1, 0), 5, now), Some((i32::MAX - 5, STORAGE)));
    assert_eq!(refused.before((1, 0), i32::MAX - 5, now), None);
}

#[test]
fn new_producer_epoch_resets_refusals() {
    let (refused, now) = (Refused::default(), Instant::now());
    refused.add((1, 0), 3, (STORAGE, now));
    assert_eq!(refused.before((1, 1), 9, now), None);
    refused.add((1, 1), 3, (STORAGE, now));
    refused.add((1, 2), 4, (STORAGE, now));
    assert_eq!(refused.before((1, 2), 5, now), Some((4, STORAGE)));
}

#[test]
fn the_memory_of_producers_is_bounded() {
    let (refused, now) = (Refused::default(), Instant::now());
    (0..).take(10 * PRODUCERS_MAX).for_each(|id| refused.add((id, 0), 0, (STORAGE, now)));
    assert!(refused.lowest.lock().len() <= PRODUCERS_MAX);
}

#[test]
fn refused_batch_stops_delaying_producer_after_timeout() {
    let (refused, now) = (Refused::default(), Instant::now());
    refused.add((1, 0), 3, (STORAGE, now));
    assert_eq!(refused.before((1, 0), 9, now + KEPT / 2), Some((3, STORAGE)));
    // The producer still tries.
    refused.add((1, 0), 3, (STORAGE, now + KEPT / 2));
    assert_eq!(refused.before((1, 0), 9, now + KEPT), Some((3, STORAGE)));
    assert_eq!(refused.before((1, 0), 9, now + 2 * KEPT), None);
    refused.add((1, 0), 9, (STORAGE, now + 2 * KEPT));
    assert_eq!(refused.before((1, 0), 10, now + 2 * KEPT), Some((9, STORAGE)));
}
