//! Tests of the plan in a form.

use super::{Move, change};

#[test]
fn reset_move_round_trips_and_malformed_is_refused() {
    let one = Move { place: ("a.b-c_d".to_owned(), 3), old: 7, new: 0 };
    let read = Move::decoded(&one.coded()).expect("it was just written");
    assert_eq!((read.place, read.old, read.new), (one.place, 7, 0));
    for text in ["", "t", "t/0/1", "t/0/1/2/3", "t/x/1/2", "t/0/1/99999999999999999999"] {
        assert!(Move::decoded(text).is_none(), "{text}");
    }
}

#[test]
fn offset_change_sum_does_not_overflow() {
    let one = |old, new| Move { place: ("t".to_owned(), 0), old, new };
    let moves = [one(i64::MAX, 0), one(i64::MAX, 5), one(3, 10)];
    assert_eq!(change(&moves), (7, 2 * i128::from(i64::MAX) - 5));
}
