//! Bytes that no honest client sends get Kafka's error or a closed connection; they cost no memory
//! and no other connection notices.
//!
//! Suite: long, alone; 8 s
//! Soak: scale 2.5, repeated, filter mutated_requests

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use levada_testing::{scaled, seed};
use levada_tests::node::Kind;
use levada_tests::raw::{self, Batch, Connection, Decoder, Encoder, Outcome};
use levada_tests::{Node, await_some, process};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, RngExt, SeedableRng};
use serde_json::Value;

const TOPIC: &str = "honest";
const SOON: Duration = Duration::from_secs(60);

const UNKNOWN_SERVER_ERROR: i16 = -1;
const CORRUPT_MESSAGE: i16 = 2;
const INVALID_REQUIRED_ACKS: i16 = 21;
const INVALID_RECORD: i16 = 87;

/// An honest client that asks all the time, on one connection.
struct Witness {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<(u32, Duration)>,
}

impl Witness {
    fn start(node: &Node) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let mut connection = Connection::open(node.address());
        let thread = std::thread::spawn(move || {
            let (mut calls, mut slowest) = (0, Duration::ZERO);
            while calls == 0 || !stopped.load(Ordering::Relaxed) {
                let start = Instant::now();
                let offset = end_offset(&mut connection);
                assert!(offset >= 1, "{offset}");
                slowest = slowest.max(start.elapsed());
                calls += 1;
                std::thread::sleep(Duration::from_millis(2));
            }
            (calls, slowest)
        });
        Self { stop, thread }
    }

    /// Fails if it was ever disturbed.
    fn assert_undisturbed(self, node: &mut Node) {
        self.stop.store(true, Ordering::Relaxed);
        let (calls, slowest) = self.thread.join().expect("the honest connection was served");
        println!("an honest connection made {calls} calls meanwhile, the slowest took {slowest:.1?}");
        assert!(calls > 0 && slowest < Duration::from_secs(2), "{calls} calls, {slowest:?}");
        node.assert_running("after bad input");
    }
}

/// A node with one topic that holds one record.
fn node() -> Node {
    let mut node = Node::new().option("auto.create.topics.enable", "true");
    node.start();
    let mut connection = Connection::open(node.address());
    let batch = Batch::of(&[b"honest"]).encode();
    await_some("the topic", SOON, || {
        connection.call(&raw::metadata(TOPIC, true));
        (raw::produce_error(&connection.call(&raw::produce(TOPIC, 1, &batch))) == 0).then_some(())
    });
    node
}

fn end_offset(connection: &mut Connection) -> i64 {
    raw::listed_offset(&connection.call(&raw::list_end_offset(TOPIC)))
}

fn assert_closed(node: &Node, what: &str, send: impl FnOnce(&mut Connection)) {
    let mut connection = Connection::open(node.address());
    send(&mut connection);
    assert_eq!(connection.outcome(SOON), Outcome::Closed, "{what}");
}

#[test]
fn bad_frames_close_their_connection_only() {
    let mut node = node();
    let witness = Witness::start(&node);
    let lengths =
        [("2 GB", i32::MAX), ("over the limit", (100 << 20) + 1), ("negative", -1), ("lowest", i32::MIN)];
    for (what, length) in lengths {
        assert_closed(&node, what, |connection| {
            connection.send_raw(&length.to_be_bytes()).expect("sent");
            // The broker may have closed already.
            let _ = connection.send_raw(&[0; 1000]);
        });
    }
    let unknown = |api: i16, version: i16| {
        [&api.to_be_bytes()[..], &version.to_be_bytes(), &[0, 0, 0, 7, 0, 0]].concat()
    };
    for (api, version) in [(999, 0), (-1, 0), (3, 99), (0, -1), (1, 3)] {
        let what = format!("API {api} version {version}");
        assert_closed(&node, &what, |connection| {
            connection.send_frame(&unknown(api, version)).expect("sent")
        });
    }
    for request in raw::samples(TOPIC) {
        // Half the request in a frame of that length.
        if request.len() > 12 {
            let what = format!("half of {:?}", &request[..4]);
            assert_closed(&node, &what, |connection| {
                connection.send_frame(&request[..4 + (request.len() - 4) / 2]).expect("sent");
                connection.finish_sending();
            });
        }
        // The whole length, half the bytes, and then no more.
        assert_closed(&node, "a frame that ends early", |connection| {
            connection.send_raw(&(request.len() as u32).to_be_bytes()).expect("sent");
            connection.send_raw(&request[..request.len() / 2]).expect("sent");
            connection.finish_sending();
        });
    }
    assert_closed(&node, "HTTP", |connection| connection.send_raw(b"GET / HTTP/1.1\r\n\r\n").expect("sent"));
    let hello = [&[0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3][..], &[0; 500]].concat();
    assert_closed(&node, "TLS", |connection| connection.send_raw(&hello).expect("sent"));
    witness.assert_undisturbed(&mut node);
    node.stop();
}

#[test]
fn unknown_api_versions_version_gets_version_zero() {
    let mut node = node();
    let mut connection = Connection::open(node.address());
    let response = connection.call(&raw::future_api_versions());
    let mut response = Decoder::new(&response);
    assert_eq!((response.i32(), response.i16()), (7, 35), "version 0 of the response, UNSUPPORTED_VERSION");
    assert_eq!((response.i32(), response.i16()), (1, 18), "it names its own versions only");
    connection.call(&raw::api_versions(0));
    node.stop();
}

#[test]
fn bad_batches_are_refused_and_leave_no_trace() {
    let mut node = node();
    let witness = Witness::start(&node);
    let mut connection = Connection::open(node.address());
    let before = end_offset(&mut connection);
    let good = Batch::of(&[b"one", b"two", b"three"]);
    let more = Batch { claimed_count: Some(4), claimed_last_delta: Some(3), ..good.clone() };
    let fewer = Batch { claimed_count: Some(2), claimed_last_delta: Some(1), ..good.clone() };
    let table = [
        ("wrong CRC", Batch { break_crc: true, ..good.clone() }.encode(), CORRUPT_MESSAGE),
        (
            "count is not last delta + 1",
            Batch { claimed_count: Some(2), ..good.clone() }.encode(),
            INVALID_RECORD,
        ),
        ("claims more records than it has", more.encode(), INVALID_RECORD),
        ("claims fewer records than it has", fewer.encode(), INVALID_RECORD),
        (
            "claims 2^31-1 records",
            Batch { claimed_count: Some(i32::MAX), ..good.clone() }.encode(),
            INVALID_RECORD,
        ),
        ("its first offset is not 0", Batch { base_offset: 5, ..good.clone() }.encode(), INVALID_RECORD),
        (
            "a control batch from a client",
            Batch { attributes: 0x20, ..good.clone() }.encode(),
            INVALID_RECORD,
        ),
    ];
    for (what, batch, error) in table {
        let response = connection.call(&raw::produce(TOPIC, 1, &batch));
        assert_eq!(raw::produce_error(&response), error, "{what}");
    }
    let response = connection.call(&raw::produce(TOPIC, 7, &good.encode()));
    assert_eq!(raw::produce_error(&response), INVALID_REQUIRED_ACKS);
    // Compressed with garbage inside.
    for codec in 1..=4 {
        let garbage = Batch { attributes: codec, ..good.clone() }.encode();
        let response = connection.call(&raw::produce(TOPIC, 1, &garbage));
        assert_ne!(raw::produce_error(&response), 0, "codec {codec}");
    }
    assert_eq!(end_offset(&mut connection), before, "nothing was appended");
    let response = connection.call(&raw::produce(TOPIC, 1, &good.encode()));
    assert_eq!(raw::produce_error(&response), 0);
    assert_eq!(end_offset(&mut connection), before + 3);
    witness.assert_undisturbed(&mut node);
    node.stop();
}

#[test]
fn highly_compressed_records_disturb_no_other_client() {
    let mut node = node();
    let witness = Witness::start(&node);
    let mut connection = Connection::open(node.address());
    let zeroes = |megabytes: usize| {
        let batch = Batch { gzip: true, ..Batch::of(&[&vec![0; megabytes << 20]]) };
        batch.encode()
    };
    let before = end_offset(&mut connection);
    let response = connection.call(&raw::produce(TOPIC, 1, &zeroes(4)));
    assert_eq!(raw::produce_error(&response), 0);
    assert_eq!(end_offset(&mut connection), before + 1);
    if node.kind() == Kind::Levada {
        let response = connection.call(&raw::produce(TOPIC, 1, &zeroes(130)));
        assert_eq!(raw::produce_error(&response), INVALID_RECORD);
        assert_eq!(end_offset(&mut connection), before + 1);
    }
    witness.assert_undisturbed(&mut node);
    node.stop();
}

#[test]
fn a_claimed_length_costs_no_memory() {
    if Kind::under_test() == Kind::Kafka {
        println!("left out: a promise of Levada's alone");
        return;
    }
    let mut node = node();
    let before = process::resident_bytes(node.pid());
    let claims: Vec<Connection> = (0..50)
        .map(|_| {
            let mut connection = Connection::open(node.address());
            connection.send_raw(&(90u32 << 20).to_be_bytes()).expect("sent");
            connection.send_raw(&raw::fetch(TOPIC, 0, 1)[..10]).expect("sent");
            connection
        })
        .collect();
    // A response to a later question shows that the claims have been read.
    end_offset(&mut Connection::open(node.address()));
    let after = process::peak_bytes(node.pid());
    println!("{} claims of 90 MB: {} kB more", claims.len(), after.saturating_sub(before) / 1024);
    assert!(after < before + (30 << 20), "{before} → {after}");
    node.assert_running("after claims");
    node.stop();
}

/// Changes a valid request in one to four places.
fn mutate(request: &mut Vec<u8>, random: &mut StdRng) {
    for _ in 0..random.random_range(1..=4) {
        // The API key stays, so that the mutations reach the API's own code.
        let at = random.random_range(2..request.len());
        match random.random_range(0..6) {
            0 => request[at] = random.random(),
            1 => request[at] ^= 1 << random.random_range(0..8),
            2 => request.truncate(at.max(4)),
            3 => {
                let length = random.random_range(1..20);
                let mut noise = vec![0; length];
                random.fill_bytes(&mut noise);
                request.splice(at..at, noise);
            }
            4 => {
                let extreme = *[0i32, -1, 1, i32::MAX, i32::MIN, 0x00ff_ffff].choose(random).expect("some");
                let end = (at + 4).min(request.len());
                request[at..end].copy_from_slice(&extreme.to_be_bytes()[..end - at]);
            }
            _ => {
                let end = random.random_range(at..=request.len());
                let again = request[at..end].to_vec();
                request.splice(at..at, again);
            }
        }
    }
}

/// Number of requests that are mutated: enough to reach every API several times.
const MUTATIONS: u32 = 4_000;

#[test]
fn mutated_requests_affect_no_other_client() {
    let mut node = node();
    let witness = Witness::start(&node);
    let mut random = StdRng::seed_from_u64(seed());
    let samples = raw::samples(TOPIC);
    for sample in &samples {
        let outcome = Connection::open(node.address()).try_call(sample);
        assert!(outcome.is_ok(), "the broker does not answer the valid request {sample:?}: {outcome:?}");
    }
    let (mut answered, mut closed, mut silent) = (0, 0, 0);
    let mut connection = Connection::open(node.address());
    for _ in 0..scaled(MUTATIONS) {
        let mut request = samples.choose(&mut random).expect("some").clone();
        mutate(&mut request, &mut random);
        let sent = connection.send_frame(&request);
        let outcome =
            if sent.is_ok() { connection.outcome(Duration::from_millis(30)) } else { Outcome::Closed };
        match outcome {
            Outcome::Response(_) => answered += 1,
            Outcome::Closed => closed += 1,
            // The request may legally wait, or need no response.
            Outcome::Silence => silent += 1,
        }
        if !matches!(outcome, Outcome::Response(_)) {
            connection = Connection::open(node.address());
        }
    }
    let peak = process::peak_bytes(node.pid());
    println!("{answered} answered, {closed} closed, {silent} silent; at most {} MB in memory", peak >> 20);
    let few = scaled(100_u32);
    assert!(answered > few && closed > few, "mutations reach both outcomes");
    if node.kind() == Kind::Levada {
        assert!(peak < 256 << 20, "{peak}");
    }
    witness.assert_undisturbed(&mut node);
    node.stop();
}

/// As in Kafka, what a group would have to remember is bound by `max.message.bytes` of its topic.
#[test]
fn oversized_assignment_is_refused_and_group_continues() {
    let mut node = node();
    let mut connection = Connection::open(node.address());
    let joined = await_some("a coordinator", SOON, || {
        connection.call(&raw::find_coordinator("weighty"));
        let joined = raw::joined(&connection.call(&raw::join_group("weighty")));
        (joined.error == 0).then_some(joined)
    });
    let sync = |connection: &mut Connection, bytes: usize| {
        let request = raw::sync_group("weighty", (joined.generation, &joined.member), &vec![7; bytes]);
        raw::sync_error(&connection.call(&request))
    };
    assert_eq!(sync(&mut connection, 3 << 20), UNKNOWN_SERVER_ERROR);
    let again = raw::joined(&connection.call(&raw::join_group("weighty")));
    assert_eq!(again.error, 0, "the group takes members");
    node.stop();
}

/// An encoder with the first fields of a request.
fn head(key: i16, version: i16) -> Encoder {
    Encoder::default().i16(key).i16(version).i32(7).string("raw")
}

#[test]
fn repeated_names_get_one_result() {
    let mut node = node();
    let mut connection = Connection::open(node.address());
    if node.kind() == Kind::Levada {
        let said = connection.call(&head(15, 0).i32(3).string("a").string("b").string("a").done());
        let mut said = Decoder::new(&said);
        assert_eq!((said.i32(), said.i32()), (7, 2), "correlation id and groups");
        await_some("a coordinator", SOON, || {
            connection.call(&raw::find_coordinator("twice"));
            let twice = head(9, 1).string("twice").i32(2).string(TOPIC).i32(3).i32(0).i32(0).i32(1);
            let said = connection.call(&twice.string(TOPIC).i32(2).i32(1).i32(0).done());
            let mut said = Decoder::new(&said);
            assert_eq!((said.i32(), said.i32(), said.string()), (7, 1, TOPIC.to_string()), "topics");
            let partitions = said.i32();
            let (_, _, _, error) = (said.i32(), said.i64(), said.string(), said.i16());
            // Not yet a coordinator: everything is refused as it was asked.
            (error == 0).then(|| assert_eq!(partitions, 2))
        });
    }
    let said = connection.call(&head(3, 4).i32(3).string(TOPIC).string("none").string(TOPIC).i8(0).done());
    let mut said = Decoder::new(&said);
    assert_eq!((said.i32(), said.i32(), said.i32()), (7, 0, 1), "throttling and brokers");
    let (_, _, _, rack, _, _) =
        (said.i32(), said.string(), said.i32(), said.i16(), said.string(), said.i32());
    assert_eq!((rack, said.i32()), (-1, 2), "topics");
    node.stop();
}

#[test]
fn transactions_cannot_write_to_internal_topics() {
    const TOPIC_AUTHORIZATION_FAILED: i16 = 29;
    let mut node = node();
    let mut connection = Connection::open(node.address());
    let (id, epoch) = await_some("a coordinator", SOON, || {
        connection.call(&raw::find_coordinator("group"));
        connection.call(&head(10, 1).string("inner").i8(1).done());
        let said = connection.call(&head(22, 1).string("inner").i32(60_000).done());
        let mut said = Decoder::new(&said);
        let (_, _, error, id, epoch) = (said.i32(), said.i32(), said.i16(), said.i64(), said.i16());
        (error == 0).then_some((id, epoch))
    });
    for topic in ["__consumer_offsets", "__transaction_state"] {
        let add = head(24, 1).string("inner").i64(id).i16(epoch).i32(1).string(topic).i32(1).i32(0);
        let said = connection.call(&add.done());
        let mut said = Decoder::new(&said);
        let (_, _, topics, name) = (said.i32(), said.i32(), said.i32(), said.string());
        let (partitions, index, error) = (said.i32(), said.i32(), said.i16());
        assert_eq!((topics, &*name, partitions, index, error), (1, topic, 1, 0, TOPIC_AUTHORIZATION_FAILED));
    }
    node.stop();
}

#[test]
fn audit_log_summarizes_a_flood_of_refusals() {
    if Kind::under_test() == Kind::Kafka {
        return println!("not run: Kafka writes another log");
    }
    const REFUSED: usize = 5_000;
    let mut node = Node::new();
    let path = node.scratch().join("audit.log");
    node = node
        .option("levada.audit.log", &path.display().to_string())
        .option("authorizer.class.name", "org.apache.kafka.metadata.authorizer.StandardAuthorizer");
    node.start();
    let head = Encoder::default().i16(1).i16(4).i32(3).string("raw");
    let head = head.i32(-1).i32(0).i32(0).i32(1 << 20).i8(0).i32(i32::try_from(REFUSED).expect("few"));
    let fetch = (0..REFUSED)
        .fold(head, |fetch, at| fetch.string(&format!("t{at}")).i32(1).i32(0).i64(0).i32(1 << 20));
    Connection::open(node.address()).call(&fetch.done());
    let (lines, left_out) = await_some("the number of lines left out", SOON, || {
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        let whole = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let is_refusal = |line: &Value| line["event"] == "authorization" || line["of"] == "authorization";
        let refused: Vec<Value> = whole.filter(is_refusal).collect();
        let left_out = refused.iter().find(|line| line["event"] == "left_out")?;
        assert_eq!(
            (&left_out["principal"], &left_out["host"]),
            (&"User:ANONYMOUS".into(), &"127.0.0.1".into())
        );
        Some((refused.len() as u64 - 1, left_out["count"].as_u64().expect("a number")))
    });
    assert!((100..200).contains(&lines), "{lines} lines");
    assert_eq!(lines + left_out, REFUSED as u64);
    node.stop();
}
