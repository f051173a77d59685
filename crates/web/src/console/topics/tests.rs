//! Tests of the confirmation of an action, and of the retention in words.

use super::*;

#[test]
fn name_with_surrounding_spaces_can_be_confirmed() {
    let typed = |text: &str| Fields(vec![("confirm".to_owned(), text.to_owned())]);
    for (text, name) in [("orders", "orders"), (" billing ", " billing "), ("billing", " billing ")] {
        assert!(confirmed(&typed(text), name).is_ok(), "{text:?} for {name:?}");
    }
    assert!(confirmed(&typed("order"), "orders").is_err());
    assert!(confirmed(&Fields::default(), "orders").is_err());
}

#[test]
fn hidden_retention_is_not_shown_as_unlimited() {
    assert_eq!(retention(None), "—");
    assert_eq!(retention(Some(("-1", "-1"))), "unlimited");
    assert_eq!(retention(Some(("604800000", "-1"))), format::millis(604_800_000));
}
