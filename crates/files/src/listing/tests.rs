//! The memory of listings under way.

use super::*;

#[test]
fn listings_that_clients_have_still_to_receive_keep_to_the_budget() {
    let budget = ListingBudget::new(100);
    let first = budget.hold(vec![b'a'; 60]).unwrap();
    assert!(matches!(budget.hold(vec![b'b'; 60]), Err(ListingFault::NoRoom)));
    let second = budget.clone().hold(vec![b'c'; 40]).unwrap();
    assert!(matches!(budget.hold(vec![b'd'; 1]), Err(ListingFault::NoRoom)));
    let part = first.slice(50..);
    drop(first);
    assert!(matches!(budget.hold(vec![b'e'; 1]), Err(ListingFault::NoRoom)), "a part is still held");
    assert_eq!(part, "aaaaaaaaaa");
    drop((part, second));
    assert_eq!(budget.hold(vec![b'f'; 100]).unwrap().len(), 100);
}
