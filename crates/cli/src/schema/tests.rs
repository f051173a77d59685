//! Tests of the names of schemas.

use super::*;

#[test]
fn schema_argument_is_id_or_subject() {
    let subject = |text: &str| text.parse::<Chosen>().unwrap().subject(Some("t-value".to_owned())).unwrap();
    assert_eq!("12".parse::<Chosen>().unwrap().number(), Some(12));
    assert_eq!("12#shop.Order".parse::<Chosen>().unwrap().number(), Some(12));
    assert_eq!(subject("orders"), ("orders".to_owned(), None));
    assert_eq!(subject("orders:3"), ("orders".to_owned(), Some(3)));
    assert_eq!(subject("orders:latest#M"), ("orders".to_owned(), None));
    assert_eq!(subject(":.staging:orders"), (":.staging:orders".to_owned(), None));
    assert_eq!(subject("latest"), ("t-value".to_owned(), None));
    let alone = "latest".parse::<Chosen>().unwrap().subject(None).unwrap_err();
    assert!(alone.line().contains("SUBJECT:latest"), "{alone:?}");
    for text in ["", "#M", "a:99999999999"] {
        text.parse::<Chosen>().unwrap_err();
    }
}

#[test]
fn references_have_name_subject_and_version() {
    let expected = Reference { name: "a/b.proto".to_owned(), subject: "x:y".to_owned(), version: 2 };
    assert_eq!(reference("a/b.proto=x:y:2"), Ok(expected));
    for text in ["", "a", "a=b", "a=b:c"] {
        reference(text).unwrap_err();
    }
}
