//! Tests of the confirmation of an action.

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
