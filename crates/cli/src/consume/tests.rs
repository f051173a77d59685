//! Tests of offsets and formats.

use bytes::Bytes;
use levada_base::batch::{Header, Record};
use levada_client::{FetchedRecord, Offsets};
use serde_json::json;

use super::format::{self, Template};
use super::limit::{Limit, Until, nearer};
use super::schemas::Parts;
use super::start::{Start, before_end, in_range, or_end};
use super::topics::Wanted;

mod reading;
mod sharing;

#[test]
fn consume_start_positions_are_parsed() {
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
fn consume_start_is_clamped_to_the_log() {
    let ends = offsets([100, 3]);
    let starts = offsets([0, 2]);
    assert_eq!(before_end(&starts, &ends, 10), offsets([90, 2]));
    assert_eq!(or_end(&offsets([7, -1]), &ends), offsets([7, 3]));
    assert_eq!(nearer(offsets([50, 50]), &ends), offsets([50, 3]));
}

/// Offsets of the partitions of one topic.
fn offsets<const N: usize>(offsets: [i64; N]) -> Offsets {
    (0..).zip(offsets).map(|(partition, offset)| (("t".to_owned(), partition), offset)).collect()
}

#[test]
fn consume_offset_outside_log_names_partition() {
    let (starts, ends) = (offsets([0, 2]), offsets([100, 3]));
    in_range(3, &starts, &ends).unwrap();
    for (offset, expected) in [
        (101, "t/0 does not hold offset 101: it holds 0 to 100"),
        (4, "t/1 does not hold offset 4: it holds 2 to 3"),
        (1, "t/1 does not hold offset 1: it holds 2 to 3"),
    ] {
        assert_eq!(in_range(offset, &starts, &ends).unwrap_err().line(), expected);
    }
}

#[test]
fn consume_end_positions_are_parsed() {
    assert_eq!("42".parse(), Ok(Until::Offset(42)));
    assert_eq!("@1700000000000".parse(), Ok(Until::Time(1_700_000_000_000)));
    for text in ["-1", "@", "latest", "99999999999999999999"] {
        text.parse::<Until>().expect_err(text);
    }
    let times = "after the @, expected a time such as 2026-11-21T06:30:00Z, 2026-11-21 or";
    for text in ["@foo", "@2026-11-21T06:30:00Z+99"] {
        assert!(text.parse::<Until>().unwrap_err().starts_with(times), "{text}");
        assert!(text.parse::<Start>().unwrap_err().starts_with(times), "{text}");
    }
    assert!(Limit::new(true, None).is_due() && !Limit::new(false, None).is_due());
    assert!(!Limit::new(false, Some(Until::Time(i64::MAX))).is_due(), "a time to come");
    assert!(Limit::new(false, Some(Until::Time(0))).is_due());
}

#[test]
fn caret_topic_is_pattern_for_whole_names() {
    let wanted = |texts: &[&str]| Wanted::new(&texts.iter().map(|one| (*one).to_owned()).collect::<Vec<_>>());
    let both = wanted(&["clicks", "^logs-.*"]).unwrap();
    assert_eq!(
        (both.names().collect::<Vec<_>>(), both.expression()),
        (vec!["clicks"], Some("^logs-.*".to_owned()))
    );
    assert_eq!(wanted(&["^a|b", "^c"]).unwrap().expression(), Some("(?:^a|b)|(?:^c)".to_owned()));
    let failure = wanted(&["^(a"]).unwrap_err();
    assert!(failure.line().contains("^(a is not a regular expression"), "{failure:?}");
}

fn record() -> Record {
    let headers = [Header { key: b"a", value: Some(b"1") }, Header { key: b"b", value: None }];
    Record {
        offset_delta: 0,
        timestamp_delta: 0,
        key: None,
        value: Some(Bytes::from_static(b"v\xff")),
        headers: headers.into_iter().collect(),
    }
}

fn shown(record: &Record) -> FetchedRecord<'_> {
    FetchedRecord { topic: "t", partition: 2, offset: 7, timestamp_ms: 9, deliveries: None, record }
}

#[test]
fn formats_print_fields_and_escapes() {
    fn check(format: &str, expected: &[u8]) {
        let mut out = Vec::new();
        format
            .parse::<Template>()
            .unwrap()
            .print(&mut out, (&shown(&record()), &Parts::default()), false)
            .unwrap();
        assert_eq!(out, expected, "{format}");
    }
    check("%v\\n", b"v\xff\n");
    check("%s", b"v\xff");
    check("%t/%p@%o %T [%k] %K %V %h", b"t/2@7 9 [] -1 2 a=1,b=");
    check("100%%\\t\\\\\\x41\\0", b"100%\t\\A\0");
    check("é%p", "é2".as_bytes());
    check("%d", b"1");
    check("", b"");
    let mut out = Vec::new();
    "\\x1b%v"
        .parse::<Template>()
        .unwrap()
        .print(&mut out, (&shown(&record()), &Parts::default()), true)
        .unwrap();
    assert_eq!(out, b"\x1bv\\xff", "only the format steers a terminal");
}

#[test]
fn invalid_output_formats_name_the_mistake() {
    fn check(format: &str, expected: &str) {
        let message = format.parse::<Template>().unwrap_err();
        assert!(message.contains(expected), "{format}: {message}");
    }
    check("%", "a lone %");
    check("%q", "no field %q");
    check("a\\", "a lone \\");
    check("\\q", "unknown escape \\q");
    check("\\x4", "two hexadecimal digits");
    check("\\xzz", "two hexadecimal digits");
}

#[test]
fn json_output_preserves_all_bytes() {
    let expected = json!({
        "topic": "t", "partition": 2, "offset": 7, "timestamp_ms": 9, "key": null, "value_base64": "dv8=",
        "headers": [{ "key": "a", "value": "1" }, { "key": "b", "value": null }],
    });
    let json =
        |shown: &FetchedRecord<'_>| serde_json::to_value(format::json(shown, &Parts::default())).unwrap();
    assert_eq!(json(&shown(&record())), expected);
    let record = record();
    let redelivered = FetchedRecord { deliveries: Some(3), ..shown(&record) };
    assert_eq!(json(&redelivered)["deliveries"], 3);
}
