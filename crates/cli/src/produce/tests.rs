//! Tests of how lines become records.

use std::borrow::Cow;

use levada_log::batch::{BatchView, Builder};

use super::lines::Lines;
use super::producer::Producer;
use super::record::{Reader, Record, split_key};
use super::{Args, json, separator};
use crate::failure::{Cause, Failure};
use crate::kafka_error;

#[test]
fn lines_lose_their_end_and_nothing_else() {
    fn check(input: &[u8], expected: &[&[u8]]) {
        let mut lines = Lines::new(input);
        let mut found: Vec<Vec<u8>> = Vec::new();
        while let Some(line) = lines.next().unwrap() {
            found.push(line.to_vec());
        }
        assert_eq!(found, expected);
    }
    check(b"", &[]);
    check(b"a\nb", &[b"a", b"b"]);
    check(b"a\r\n\n\xff\n", &[b"a\r", b"", b"\xff"]);
}

#[test]
fn keys_end_at_the_first_separator() {
    assert_eq!(split_key(b"k::v::w", b"::"), (Some(&b"k"[..]), &b"v::w"[..]));
    assert_eq!(split_key(b":v", b":"), (Some(&b""[..]), &b"v"[..]));
    assert_eq!(split_key(b"v", b":"), (None, &b"v"[..]));
    assert_eq!(split_key(b"", b"::"), (None, &b""[..]));
}

#[test]
fn separators_have_escapes() {
    fn check(text: &str, expected: &[u8]) {
        assert_eq!(separator(text).map(|one| one.bytes), Ok(expected.to_vec()), "{text}");
    }
    check(":", b":");
    check("\\t", b"\t");
    check("=>\\x00", b"=>\0");
    check("\\\\", b"\\");
    for text in ["", "\\", "\\q"] {
        separator(text).unwrap_err();
    }
}

#[test]
fn a_line_of_json_is_what_consume_has_printed() {
    let line = br#"{"topic":"t","partition":2,"offset":7,"timestamp_ms":9,"key":null,"value_base64":"dv8=",
        "headers":[{"key":"a","value":"1"},{"key":"b","value":null}]}"#;
    let bytes = |bytes: &'static [u8]| Cow::Borrowed(bytes);
    let expected = Record {
        key: None,
        value: Some(bytes(b"v\xff")),
        headers: vec![(bytes(b"a"), Some(bytes(b"1"))), (bytes(b"b"), None)],
        timestamp_ms: Some(9),
        partition: Some(2),
    };
    assert_eq!(json::record(line), Ok(expected));
    let tombstone = Record { key: Some(bytes(b"k")), ..Record::default() };
    assert_eq!(json::record(br#"{"key":"k","value":null}"#), Ok(tombstone));
}

#[test]
fn a_line_of_json_that_is_not_understood_is_no_tombstone() {
    fn check(line: &str, expected: &str) {
        let message = json::record(line.as_bytes()).unwrap_err();
        assert!(message.contains(expected), "{line}: {message}");
    }
    check(r#"{"key":"k"}"#, "a tombstone has \"value\": null");
    check(r#"{"key":"k","vaule":"v"}"#, "unknown field `vaule`");
    check(r#"{"value":{"a":1}}"#, "expected a string");
    check(r#"{"value":"v","value_base64":"dg=="}"#, "both there");
    check(r#"{"value_base64":"?"}"#, "value_base64 is not base64");
    check(r#"{"value":"v","headers":[{"value":"v"}]}"#, "a header has no key");
    check("", "EOF");
    check(r#"{"key":"k","vaule":"v"}"#, "at column 18");
    let message = json::record(br#"{"value":{"a":1}}"#).unwrap_err();
    assert!(!message.contains("line"), "the caller adds the number of the line: {message}");
}

#[test]
fn a_refusal_of_records_without_a_key_counts_the_lines_without_the_separator() {
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }
    fn check(words: &[&str], lines: &[&str], expected: &str) {
        let words = ["produce", "clicks"].iter().chain(words);
        let args = Line::try_parse_from(words).unwrap().args;
        let mut reader = Reader::new(&args);
        for line in lines {
            reader.read(line.as_bytes(), 1).unwrap();
        }
        let failure = kafka_error::check(87, "produce to clicks/0", None).unwrap_err();
        let Failure::Failed { next, cause, .. } = reader.explained(failure) else {
            panic!("another failure")
        };
        assert_eq!((cause, next.as_deref()), (Cause::Code(87), Some(expected)));
    }
    check(&[], &["a"], "a compacted topic needs keys: --key-separator");
    let lacking = "lines of the form KEY|VALUE, or another --key-separator: 2 of 3 lines have no \"|\"";
    check(&["-k", "|"], &["a", "b|c", "d"], lacking);
    check(&["-k", "|"], &["b|c"], "a compacted topic needs keys: --key-separator");
    let json = "a compacted topic needs keys: a field \"key\" in each line";
    check(&["--input", "json"], &[r#"{"value":"v"}"#], json);
}

#[test]
fn batches_of_a_partition_are_numbered_one_after_the_other() {
    let mut producer = Producer::known(7, 3);
    let mut sequence = |partition: i32, count: usize| {
        let mut builder = Builder::new();
        for _ in 0..count {
            builder.push(0, None, Some(b"v"));
        }
        let batch = producer.number(partition, builder).build().unwrap();
        let view = BatchView::parse(&batch).unwrap();
        assert_eq!((view.producer_id(), view.producer_epoch()), (7, 3));
        view.base_sequence()
    };
    assert_eq!((sequence(0, 2), sequence(0, 3), sequence(1, 1), sequence(0, 1)), (0, 2, 0, 5));
}
