//! Tests of the record that a form describes.

use levada_base::batch;

use super::*;

fn fields(pairs: &[(&str, &str)]) -> Fields {
    Fields(pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect())
}

#[test]
fn produce_form_becomes_the_described_record() {
    let form = fields(&[
        ("key", "AAH/"),
        ("key-form", "base64"),
        ("value", "one\r\ntwo "),
        ("value-form", "text"),
        ("headers", "trace: a:b\r\n\r\nempty:"),
        ("codec", "zstd"),
    ]);
    let bytes = batch(&form).unwrap();
    let view = batch::check(&bytes).unwrap();
    assert_eq!(view.compression().unwrap(), Compression::Zstd);
    let record = batch::records(&bytes).unwrap().next().unwrap().unwrap();
    assert_eq!(record.key.as_deref(), Some(&[0, 1, 255][..]));
    assert_eq!(record.value.as_deref(), Some(&b"one\ntwo "[..]));
    let headers: Vec<_> = record.headers.iter().map(|one| (one.key, one.value)).collect();
    assert_eq!(headers, [(&b"trace"[..], Some(&b"a:b"[..])), (b"empty", Some(b""))]);
}

#[test]
fn only_a_null_value_is_a_tombstone() {
    let tombstone = batch(&fields(&[("key", "k"), ("value", ""), ("value-form", "null")])).unwrap();
    assert_eq!(batch::records(&tombstone).unwrap().next().unwrap().unwrap().value, None);
    let empty = batch(&fields(&[("key", "k"), ("value", ""), ("value-form", "text")])).unwrap();
    assert_eq!(batch::records(&empty).unwrap().next().unwrap().unwrap().value.as_deref(), Some(&b""[..]));
}

#[test]
fn typed_key_is_written_and_empty_text_omitted() {
    let key = |text, form| {
        let bytes = batch(&fields(&[("key", text), ("key-form", form)])).unwrap();
        batch::records(&bytes).unwrap().next().unwrap().unwrap().key.map(|key| key.to_vec())
    };
    assert_eq!(key("my-key", "text"), Some(b"my-key".to_vec()));
    assert_eq!([key("", "text"), key("", "null")], [None, None]);
    assert_eq!(key("", "base64"), Some(Vec::new()));
}

#[test]
fn wrong_fields_are_named() {
    let text = |pairs| batch(&fields(pairs)).unwrap_err().text();
    assert!(text(&[("key", "k"), ("key-form", "null")]).contains("The key is marked as absent, but"));
    assert!(text(&[("value", "v"), ("value-form", "null")]).contains("The value is marked as absent, but"));
    assert!(text(&[("value", "%"), ("value-form", "base64")]).contains("value is not Base64"));
    assert!(text(&[("headers", "none")]).contains("\"none\" is not a header"));
}
