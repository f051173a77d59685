//! Facts that are logged when they change.

use super::*;

#[test]
fn a_fact_is_told_until_it_changes() {
    let told = Told::default();
    let found = [(1, 0, 5), (1, 0, 5), (1, 3, 5), (1, 3, 5), (2, 3, 5)];
    assert_eq!(found.map(|fact| told.is_new(fact)), [true, false, true, false, true]);
    told.clear();
    assert!(told.is_new((2, 3, 5)), "the fact was over");
}
