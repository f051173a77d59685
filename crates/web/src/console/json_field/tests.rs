//! Tests of the filter by a field.

use super::*;

#[test]
fn a_field_is_found_by_path_and_value() {
    let json = br#"{"order":{"id":7,"paid":true,"note":null,"items":[{"sku":"a=b"},{"sku":"c"}]}}"#;
    let is_in = |text: &str| JsonField::parse(text).unwrap().is_in(json);
    for found in [
        "order.id=7",
        " order.id = 7 ",
        "order.paid=true",
        "order.note=null",
        "order.items.0.sku=a=b",
        "order.items.1.sku=c",
    ] {
        assert!(is_in(found), "{found}");
    }
    for missing in ["order.id=70", "id=7", "order.items.2.sku=c", "order.items.x=c", "order.id.x=7", "order="]
    {
        assert!(!is_in(missing), "{missing}");
    }
}

#[test]
fn large_values_and_other_text_have_no_fields() {
    let field = JsonField::parse("a=1").unwrap();
    assert!(!field.is_in(b"a=1") && !field.is_in(b"") && !field.is_in(&[0xff]));
    let padded = |spaces: usize| format!("{{\"a\":1{}}}", " ".repeat(spaces));
    assert!(field.is_in(padded(1000).as_bytes()));
    assert!(!field.is_in(padded(BYTES_MAX).as_bytes()));
}

#[test]
fn a_field_without_value_is_refused() {
    for text in ["order.id", "=7", " =7"] {
        assert!(JsonField::parse(text).unwrap_err().contains("write order.id=7"), "{text}");
    }
}
