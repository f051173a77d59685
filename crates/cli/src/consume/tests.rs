//! Tests of offsets and formats.

use std::collections::BTreeMap;

use bytes::Bytes;
use levada_log::batch::{Header, Record};
use serde_json::json;

use super::{
    format::{Shown, Template},
    start::{Start, before_end, or_end},
};

#[test]
fn starts_are_words_offsets_distances_and_times() {
    let cases = [
        ("earliest", Start::Earliest),
        ("start", Start::Earliest),
        ("latest", Start::Latest),
        ("end", Start::Latest),
        ("42", Start::Offset(42)),
        ("-5", Start::BeforeEnd(5)),
        ("@1700000000000", Start::Time(1_700_000_000_000)),
    ];
    for (text, expected) in cases {
        assert_eq!(text.parse(), Ok(expected), "{text}");
    }
    for text in ["", "-", "@", "x", "1.5", "--5", "+5", "é", "99999999999999999999"] {
        text.parse::<Start>().expect_err(text);
    }
}

#[test]
fn distances_and_times_stay_inside_the_log() {
    let ends = BTreeMap::from([(0, 100), (1, 3)]);
    let starts = BTreeMap::from([(0, 0), (1, 2)]);
    assert_eq!(before_end(&starts, &ends, 10), BTreeMap::from([(0, 90), (1, 2)]));
    assert_eq!(or_end(&BTreeMap::from([(0, 7), (1, -1)]), &ends), BTreeMap::from([(0, 7), (1, 3)]));
}

fn record() -> Record {
    let header = |key: &'static str, value| Header { key: Bytes::from_static(key.as_bytes()), value };
    Record {
        offset_delta: 0,
        timestamp_delta: 0,
        key: None,
        value: Some(Bytes::from_static(b"v\xff")),
        headers: vec![header("a", Some(Bytes::from_static(b"1"))), header("b", None)],
    }
}

fn shown(record: &Record) -> Shown<'_> {
    Shown { topic: "t", partition: 2, offset: 7, timestamp_ms: 9, record }
}

#[test]
fn formats_print_fields_and_escapes() {
    fn check(format: &str, expected: &[u8]) {
        let mut out = Vec::new();
        format.parse::<Template>().unwrap().print(&mut out, &shown(&record())).unwrap();
        assert_eq!(out, expected, "{format}");
    }
    check("%v\\n", b"v\xff\n");
    check("%s", b"v\xff");
    check("%t/%p@%o %T [%k] %K %V %h", b"t/2@7 9 [] -1 2 a=1,b=");
    check("100%%\\t\\\\\\x41\\0", b"100%\t\\A\0");
    check("é%p", "é2".as_bytes());
    check("", b"");
}

#[test]
fn wrong_formats_name_what_is_wrong() {
    fn check(format: &str, expected: &str) {
        let message = format.parse::<Template>().unwrap_err();
        assert!(message.contains(expected), "{format}: {message}");
    }
    check("%", "a lone %");
    check("%q", "no field %q");
    check("a\\", "a lone \\");
    check("\\q", "no escape \\q");
    check("\\x4", "two hexadecimal digits");
    check("\\xzz", "two hexadecimal digits");
}

#[test]
fn json_loses_no_bytes() {
    let expected = json!({
        "topic": "t", "partition": 2, "offset": 7, "timestamp_ms": 9, "key": null, "value_base64": "dv8=",
        "headers": [{ "key": "a", "value": "1" }, { "key": "b", "value": null }],
    });
    assert_eq!(shown(&record()).json(), expected);
}
