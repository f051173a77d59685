//! Tests of the confirmation of an action, and of the retention in words.

use super::*;

#[test]
fn a_name_with_space_around_it_can_be_confirmed() {
    let typed = |text: &str| Fields(vec![("confirm".to_owned(), text.to_owned())]);
    for (text, name) in [("orders", "orders"), (" billing ", " billing "), ("billing", " billing ")] {
        assert!(confirmed(&typed(text), name).is_ok(), "{text:?} for {name:?}");
    }
    assert!(confirmed(&typed("order"), "orders").is_err());
    assert!(confirmed(&Fields::default(), "orders").is_err());
}

#[test]
fn a_retention_that_the_visitor_may_not_see_is_not_unlimited() {
    assert_eq!(retention(None), "—");
    assert_eq!(retention(Some(("-1", "-1"))), "unlimited");
    assert_eq!(retention(Some(("604800000", "-1"))), format::millis(604_800_000));
}
