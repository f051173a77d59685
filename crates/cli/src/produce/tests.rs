//! Tests of how lines become records.

use std::borrow::Cow;
use std::io::{self, Seek as _, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use clap::Parser;
use indicatif::ProgressBar;
use levada_base::batch::{BatchView, Builder};
use levada_terminal::failure::{Cause, Failure};
use levada_wire::ApiKey;
use levada_wire::error_code::ErrorCode;
use levada_wire::messages::produce_response::{PartitionProduceResponse, TopicProduceResponse};
use levada_wire::messages::{InitProducerIdResponse, ProduceRequest, ProduceResponse};

use super::batches::{Batches, leaves_doubt};
use super::lines::{Input, Lines};
use super::producer::Producer;
use super::record::{Reader, Record, split_key};
use super::{Args, Led, feed, json, separator};
use crate::cluster::Cluster;
use crate::fake_broker::{Asked, FakeBroker};
use crate::kafka_error;

/// The command alone.
#[derive(Parser)]
struct Line {
    #[command(flatten)]
    args: Args,
}

fn arguments(words: &[&str]) -> Args {
    Line::try_parse_from(["produce", "clicks"].iter().chain(words)).unwrap().args
}

/// A broker with a topic `clicks`. Each batch is given to `take`, with its partition; the result is
/// the error code of the answer.
fn storing(
    leaders: &'static [i32],
    mut take: impl FnMut(&Asked, i32, Bytes) -> i16 + Send + 'static,
) -> FakeBroker {
    FakeBroker::start(move |asked| match asked.header.api {
        ApiKey::Metadata => asked.metadata(&[("clicks", 1, leaders)]),
        ApiKey::InitProducerId => asked.answer(&InitProducerIdResponse::default()),
        _ => {
            let request = asked.decoded::<ProduceRequest>();
            let one = &request.topic_data[0].partition_data[0];
            let error_code = take(asked, one.index, one.records.clone().unwrap());
            answered(asked, &request, error_code)
        }
    })
}

/// The answer about the only partition of a request.
fn answered(asked: &Asked, request: &ProduceRequest, error_code: i16) -> Option<Bytes> {
    let mut partition = PartitionProduceResponse::default();
    (partition.index, partition.error_code) = (request.topic_data[0].partition_data[0].index, error_code);
    let mut topic = TopicProduceResponse::default();
    topic.name = request.topic_data[0].name.clone();
    topic.partition_responses = vec![partition];
    let mut response = ProduceResponse::default();
    response.responses = vec![topic];
    if request.acks == 0 { Some(Bytes::new()) } else { asked.answer(&response) }
}

fn batches<'a>(broker: &FakeBroker, args: &'a Args) -> Batches<'a> {
    let mut cluster = Cluster::connect(&args.brokers).unwrap();
    assert!(args.brokers.names_any(), "{}", broker.address());
    let topic = cluster.topic("clicks", true, Led::These(args.partition.as_slice())).unwrap();
    Batches::new(cluster, topic, args).unwrap()
}

fn value(text: &'static str) -> Record<'static> {
    Record { value: Some(Cow::Borrowed(text.as_bytes())), ..Record::default() }
}

#[test]
fn lines_lose_their_end_and_nothing_else() {
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
fn half_a_line_does_not_block() {
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
    check(r#"{"value":"v","value_base64":"dg=="}"#, "both value and value_base64");
    check(r#"{"value_base64":"?"}"#, "value_base64 is not base64");
    check(r#"{"value":"v","headers":[{"value":"v"}]}"#, "a header has no key");
    check("", "EOF");
    check(r#"{"key":"k","vaule":"v"}"#, "at column 18");
    let message = json::record(br#"{"value":{"a":1}}"#).unwrap_err();
    assert!(!message.contains("line"), "the caller adds the number of the line: {message}");
}

#[test]
fn a_refusal_of_records_without_a_key_counts_the_lines_without_the_separator() {
    fn check(words: &[&str], lines: &[&str], expected: &str) {
        let args = arguments(words);
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

#[test]
fn lines_without_a_pause_are_sent_after_a_moment() {
    let sent = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&sent);
    let broker = storing(&[1], move |_, _, batch| {
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
    let mut batches = batches(&broker, &args);
    feed(&args, &mut batches, &mut Lines::new(reader), &ProgressBar::hidden(), &|| false).unwrap();
    assert_eq!(batches.acknowledged_records(), writing.join().unwrap());
}

#[test]
fn a_signal_sends_the_lines_that_were_read() {
    let broker = storing(&[1], |_, _, _| 0);
    let args = arguments(&["-b", broker.address()]);
    let (reader, mut writer) = io::pipe().unwrap();
    writer.write_all(b"a\nb\nc").unwrap();
    let mut batches = batches(&broker, &args);
    let checks = AtomicUsize::new(0);
    let is_asked = || checks.fetch_add(1, Ordering::SeqCst) >= 1;
    let ended = feed(&args, &mut batches, &mut Lines::new(reader), &ProgressBar::hidden(), &is_asked);
    assert!(matches!(ended, Err(Failure::Interrupted)), "{ended:?}");
    assert_eq!((batches.acknowledged_records(), batches.age()), (2, None));
    drop(writer);
}

#[test]
fn a_connection_that_the_broker_has_closed_loses_no_record() {
    for acks in ["0", "1"] {
        let stored = Arc::new(AtomicUsize::new(0));
        let seen = Arc::clone(&stored);
        let broker = storing(&[1], move |asked, _, _| {
            asked.close();
            seen.fetch_add(1, Ordering::SeqCst);
            0
        });
        let args = arguments(&["-b", broker.address(), "--acks", acks]);
        let mut batches = batches(&broker, &args);
        for count in 1..=3 {
            batches.push(&value("v"), 1).unwrap();
            batches.flush().unwrap();
            broker.await_closed(count);
        }
        assert_eq!(stored.load(Ordering::SeqCst), 3, "acks {acks}");
    }
}

#[test]
fn a_partition_without_a_leader_does_not_stop_the_others() {
    let partitions = Arc::new(std::sync::Mutex::new(Vec::new()));
    let seen = Arc::clone(&partitions);
    let broker = storing(&[-1, 1, -1, 2], move |_, partition, _| {
        seen.lock().unwrap().push(partition);
        0
    });
    let started = Instant::now();
    for words in [&["-p", "1"][..], &[]] {
        let args = arguments(&[&["-b", broker.address()], words].concat());
        let mut batches = batches(&broker, &args);
        for _ in 0..2 {
            batches.push(&value("v"), 1).unwrap();
            batches.flush().unwrap();
        }
    }
    assert_eq!(*partitions.lock().unwrap(), [1, 1, 1, 3]);
    assert!(started.elapsed() < Duration::from_secs(10), "no wait for leaders: {:?}", started.elapsed());
}

#[test]
fn refusals_that_pass_are_outlasted() {
    let mut codes = [5, 19, 20, 56, 0].into_iter();
    let broker = storing(&[1], move |_, _, _| codes.next().unwrap());
    let args = arguments(&["-b", broker.address()]);
    let mut batches = batches(&broker, &args);
    batches.push(&value("v"), 1).unwrap();
    batches.finish().unwrap();
    assert_eq!(batches.acknowledged_records(), 1);
}

/// A record for this partition.
fn aimed(partition: i32) -> Record<'static> {
    Record { partition: Some(partition), ..value("v") }
}

#[test]
fn records_of_a_partition_without_a_leader_wait_while_others_are_stored() {
    let has_leader = Arc::new(AtomicUsize::new(0));
    let seen = Arc::new(std::sync::Mutex::new(Vec::new()));
    let (led, stored) = (Arc::clone(&has_leader), Arc::clone(&seen));
    let broker = FakeBroker::start(move |asked| match asked.header.api {
        ApiKey::Metadata if led.load(Ordering::SeqCst) == 0 => asked.metadata(&[("clicks", 1, &[-1, 1])]),
        ApiKey::Metadata => asked.metadata(&[("clicks", 1, &[1, 1])]),
        ApiKey::InitProducerId => asked.answer(&InitProducerIdResponse::default()),
        _ => {
            let request = asked.decoded::<ProduceRequest>();
            let one = &request.topic_data[0].partition_data[0];
            let batch = one.records.as_ref().unwrap();
            stored.lock().unwrap().push((one.index, BatchView::parse(batch).unwrap().base_sequence()));
            answered(asked, &request, 0)
        }
    });
    let args = arguments(&["-b", broker.address()]);
    let mut batches = batches(&broker, &args);
    let started = Instant::now();
    for line in 1..=2 {
        for partition in [0, 1] {
            batches.push(&aimed(partition), line).unwrap();
        }
        batches.flush().unwrap();
    }
    assert_eq!(*seen.lock().unwrap(), [(1, 0), (1, 1)], "the other partition goes on");
    assert!(started.elapsed() < Duration::from_secs(10), "no wait for a leader: {:?}", started.elapsed());
    has_leader.store(1, Ordering::SeqCst);
    batches.finish().unwrap();
    assert_eq!(*seen.lock().unwrap(), [(1, 0), (1, 1), (0, 0), (0, 1)], "in their order, without a gap");
    assert_eq!(batches.acknowledged_records(), 4);
}

#[test]
fn records_that_wait_for_a_leader_too_long_are_given_up_and_their_partition_is_named() {
    let broker = storing(&[-1, 1], |_, partition, _| {
        assert_eq!(partition, 1);
        0
    });
    let args = arguments(&["-b", broker.address(), "--timeout", "300ms"]);
    let mut batches = batches(&broker, &args);
    let started = Instant::now();
    for partition in [0, 1, 0, 1] {
        batches.push(&aimed(partition), 1).unwrap();
        batches.flush().unwrap();
    }
    let failure = batches.finish().unwrap_err();
    assert!(failure.line().contains("clicks/0"), "{}", failure.line());
    assert_eq!((failure.cause(), batches.acknowledged_records()), (Cause::Code(5), 2));
    assert!(started.elapsed() < Duration::from_secs(30), "{:?}", started.elapsed());
    batches.push(&aimed(1), 1).unwrap();
    batches.finish().unwrap();
    assert_eq!(batches.acknowledged_records(), 3);
}

#[test]
fn a_batch_is_in_doubt_after_answers_that_follow_its_append() {
    let cases = [
        (Cause::Connection, true),
        (Cause::Code(7), true),
        (Cause::Code(20), true),
        (Cause::Code(19), false),
        (Cause::Code(6), false),
        (Cause::Other, false),
    ];
    for (cause, expected) in cases {
        assert_eq!(leaves_doubt(cause), expected, "{cause:?}");
    }
}

#[test]
fn headers_count_for_the_size_of_a_batch() {
    let counts = Arc::new(std::sync::Mutex::new(Vec::new()));
    let seen = Arc::clone(&counts);
    let broker = storing(&[1], move |_, _, batch| {
        assert!(batch.len() <= 1_000_000, "{} bytes", batch.len());
        seen.lock().unwrap().push(BatchView::parse(&batch).unwrap().record_count());
        0
    });
    let args = arguments(&["-b", broker.address()]);
    let mut batches = batches(&broker, &args);
    let large = vec![b'h'; 600_000];
    for line in 1..=2 {
        let mut record = value("v");
        record.headers = vec![(Cow::Borrowed(b"k"), Some(Cow::Borrowed(&large)))];
        batches.push(&record, line).unwrap();
    }
    batches.flush().unwrap();
    assert_eq!(*counts.lock().unwrap(), [1, 1]);
}

#[test]
fn a_broker_without_a_block_of_producer_ids_is_asked_again() {
    let mut asked_before = 0;
    let broker = FakeBroker::start(move |asked| match asked.header.api {
        ApiKey::InitProducerId => {
            asked_before += 1;
            let mut response = InitProducerIdResponse::default();
            response.error_code =
                if asked_before <= 2 { ErrorCode::CoordinatorLoadInProgress.code() } else { 0 };
            asked.answer(&response)
        }
        _ => asked.metadata(&[("clicks", 1, &[1])]),
    });
    let args = arguments(&["-b", broker.address()]);
    let mut cluster = Cluster::connect(&args.brokers).unwrap();
    let ended = Producer::new(&mut cluster).map(drop);
    assert!(ended.is_ok(), "{ended:?}");
}
