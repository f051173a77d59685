//! Tests of how lines become records.

use std::borrow::Cow;
use std::io::{self, Seek as _, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use clap::Parser;
use indicatif::ProgressBar;
use levada_base::batch::BatchView;
use levada_client::fake_broker::FakeBroker;
use levada_client::{Producer, Record};
use levada_terminal::failure::{Cause, Failure};

use super::lines::{Input, Lines};
use super::record::{Reader, split_key};
use super::schemas::Encoders;
use super::{Args, Led, feed, json, separator};
use crate::kafka_error;
use crate::notices::Reporter;

/// The command alone.
#[derive(Parser)]
struct Line {
    #[command(flatten)]
    args: Args,
}

fn arguments(words: &[&str]) -> Args {
    Line::try_parse_from(["produce", "clicks"].iter().chain(words)).unwrap().args
}

fn producer(args: &Args) -> Producer<'static> {
    let mut cluster = args.brokers.connect().unwrap();
    let topic = cluster.topic("clicks", true, Led::These(args.partition.as_slice())).unwrap();
    Producer::new(cluster, topic, args.options(), &Reporter).unwrap()
}

#[test]
fn produce_strips_only_line_ends() {
    fn check(input: &[u8], expected: &[&[u8]]) {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(input).unwrap();
        file.rewind().unwrap();
        let mut lines = Lines::new(file);
        assert!(lines.are_complete());
        let mut found: Vec<Vec<u8>> = Vec::new();
        while let Input::Line(line) = lines.next(Duration::ZERO).unwrap() {
            found.push(line.to_vec());
        }
        assert_eq!(found, expected);
        assert_eq!(lines.next(Duration::ZERO).unwrap(), Input::End);
        assert!(!lines.has_rest());
    }
    check(b"", &[]);
    check(b"a\nb", &[b"a", b"b"]);
    check(b"a\r\n\n\xff\n", &[b"a\r", b"", b"\xff"]);
}

#[test]
fn incomplete_input_line_does_not_block() {
    let (reader, mut writer) = io::pipe().unwrap();
    let mut lines = Lines::new(reader);
    assert!(!lines.are_complete());
    assert_eq!(lines.next(Duration::ZERO).unwrap(), Input::Pause);
    writer.write_all(b"a\nb").unwrap();
    assert_eq!(lines.next(Duration::ZERO).unwrap(), Input::Line(b"a"));
    assert_eq!(lines.next(Duration::ZERO).unwrap(), Input::Pause);
    writer.write_all(b"c\nd\ne").unwrap();
    assert_eq!(lines.next(Duration::ZERO).unwrap(), Input::Line(b"bc"));
    lines.close();
    assert_eq!(lines.next(Duration::ZERO).unwrap(), Input::Line(b"d"));
    assert_eq!(lines.next(Duration::ZERO).unwrap(), Input::End);
    assert!(lines.number() == 3 && lines.has_rest(), "the e is no line");
}

#[test]
fn keys_end_at_the_first_separator() {
    assert_eq!(split_key(b"k::v::w", b"::"), (Some(&b"k"[..]), &b"v::w"[..]));
    assert_eq!(split_key(b":v", b":"), (Some(&b""[..]), &b"v"[..]));
    assert_eq!(split_key(b"v", b":"), (None, &b"v"[..]));
    assert_eq!(split_key(b"", b"::"), (None, &b""[..]));
}

#[test]
fn separator_escapes_are_decoded() {
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
fn json_input_line_matches_consume_output() {
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
    let none = Encoders::default();
    assert_eq!(json::record(line, &none), Ok(expected));
    let tombstone = Record { key: Some(bytes(b"k")), ..Record::default() };
    assert_eq!(json::record(br#"{"key":"k","value":null}"#, &none), Ok(tombstone));
}

#[test]
fn invalid_json_line_is_no_tombstone() {
    fn check(line: &str, expected: &str) {
        let message = json::record(line.as_bytes(), &Encoders::default()).unwrap_err();
        assert!(message.contains(expected), "{line}: {message}");
    }
    check(r#"{"key":"k"}"#, "write \"value\": null for a tombstone");
    check(r#"{"key":"k","vaule":"v"}"#, "unknown field `vaule`");
    check(r#"{"value":{"a":1}}"#, "expected a string");
    check(r#"{"value":"v","value_base64":"dg=="}"#, "both value and value_base64");
    check(r#"{"value_base64":"?"}"#, "value_base64 is not base64");
    check(r#"{"value":"v","headers":[{"value":"v"}]}"#, "a header has no key");
    check("", "EOF");
    check(r#"{"key":"k","vaule":"v"}"#, "at column 18");
    let message = json::record(br#"{"value":{"a":1}}"#, &Encoders::default()).unwrap_err();
    assert!(!message.contains("line"), "the caller adds the number of the line: {message}");
}

#[test]
fn missing_key_refusal_counts_lines_without_separator() {
    fn check(words: &[&str], lines: &[&str], expected: &str) {
        let args = arguments(words);
        let mut reader = Reader::new(&args, Encoders::default());
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
fn continuous_input_is_sent_before_batch_fills() {
    let sent = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&sent);
    let broker = FakeBroker::storing(&[1], move |_, _, batch| {
        seen.fetch_add(BatchView::parse(&batch).unwrap().record_count() as usize, Ordering::SeqCst);
        0
    });
    let args = arguments(&["-b", broker.address()]);
    let (reader, mut writer) = io::pipe().unwrap();
    let writing = thread::spawn(move || {
        let started = Instant::now();
        let mut written = 0;
        while sent.load(Ordering::SeqCst) == 0 {
            assert!(started.elapsed() < Duration::from_secs(30), "{written} lines wait");
            // A line each 10 to 100 microseconds: never a pause, and far from a full batch.
            writer.write_all(b"a\n").unwrap();
            written += 1;
            thread::sleep(Duration::from_micros(10));
        }
        written
    });
    let mut producer = producer(&args);
    feed(
        Reader::new(&args, Encoders::default()),
        &mut producer,
        &mut Lines::new(reader),
        &ProgressBar::hidden(),
        &|| false,
    )
    .unwrap();
    assert_eq!(producer.acknowledged_records(), writing.join().unwrap());
}

#[test]
fn signal_sends_lines_already_read() {
    let broker = FakeBroker::storing(&[1], |_, _, _| 0);
    let args = arguments(&["-b", broker.address()]);
    let (reader, mut writer) = io::pipe().unwrap();
    writer.write_all(b"a\nb\nc").unwrap();
    let mut producer = producer(&args);
    let checks = AtomicUsize::new(0);
    let is_asked = || checks.fetch_add(1, Ordering::SeqCst) >= 1;
    let ended = feed(
        Reader::new(&args, Encoders::default()),
        &mut producer,
        &mut Lines::new(reader),
        &ProgressBar::hidden(),
        &is_asked,
    );
    assert!(matches!(ended, Err(Failure::Interrupted)), "{ended:?}");
    assert_eq!((producer.acknowledged_records(), producer.age()), (2, None));
    drop(writer);
}

#[test]
fn input_size_is_counted_from_file_position() {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(b"a\nbb\nccc\n").unwrap();
    std::io::Seek::seek(&mut file, io::SeekFrom::Start(2)).unwrap();
    let mut lines = Lines::new(file);
    assert_eq!((lines.size(), lines.taken_bytes()), (Some(7), 0));
    assert_eq!(lines.next(Duration::ZERO).unwrap(), Input::Line(b"bb"));
    assert_eq!(lines.taken_bytes(), 3);
    let (pipe, _writer) = io::pipe().unwrap();
    assert_eq!(Lines::new(pipe).size(), None);
}
