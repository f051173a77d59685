//! Requests that a client sends without waiting for the responses to those before: each is
//! answered, in order, and none is kept waiting by one after it.
//!
//! Suite: short; 2 s
//! Soak: controllers 3

use std::time::Duration;

use levada_tests::Node;
use levada_tests::node::Kind;
use levada_tests::raw::{self, Batch, Connection, Outcome};

const TOPIC: &str = "pipelined";
const SOON: Duration = Duration::from_secs(60);
/// Longer than any test here takes.
const LONG_MS: i32 = 60_000;

fn node() -> Node {
    let node = Node::started();
    let created = Connection::open(node.address()).call(&raw::create_topic(TOPIC, 1));
    assert_eq!(raw::topic_error(&created), 0);
    node.await_metadata();
    node
}

fn produce(acks: i16) -> Vec<u8> {
    raw::produce(TOPIC, acks, &Batch::of(&[b"value"]).encode())
}

/// All requests, with their lengths, for one write; the correlation ids count from 0.
fn together(requests: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (id, request) in (0i32..).zip(requests) {
        bytes.extend(u32::try_from(request.len()).expect("a small request").to_be_bytes());
        bytes.extend(&request[..4]);
        bytes.extend(id.to_be_bytes());
        bytes.extend(&request[8..]);
    }
    bytes
}

/// The next responses are to these requests, in this order.
#[track_caller]
fn check(connection: &mut Connection, ids: impl IntoIterator<Item = i32>) {
    for id in ids {
        match connection.outcome(SOON) {
            Outcome::Response(answer) => assert_eq!(answer[..4], id.to_be_bytes(), "expected answer {id}"),
            other => panic!("instead of answer {id}: {other:?}"),
        }
    }
}

#[test]
fn responses_keep_request_order_for_all_apis() {
    let mut node = node();
    let mut connection = Connection::open(node.address());
    let kinds = [
        produce(1),
        raw::api_versions(0),
        produce(-1),
        raw::fetch(TOPIC, 0, 1 << 20),
        produce(0),
        raw::metadata(TOPIC, false),
        raw::waiting_fetch(TOPIC, i64::MAX / 2, 1 << 20, 1),
        raw::list_end_offset(TOPIC),
        raw::find_coordinator("group"),
    ];
    let requests: Vec<_> = kinds.iter().cycle().take(kinds.len() * 50).cloned().collect();
    let ids = |from: usize| {
        let answered = (from..requests.len()).filter(|id| id % kinds.len() != 4);
        answered.map(|id| i32::try_from(id).expect("few"))
    };
    connection.send_raw(&together(&requests)).expect("sent");
    check(&mut connection, ids(0));
    // Cut anywhere.
    for part in together(&requests).chunks(777) {
        connection.send_raw(part).expect("sent");
    }
    connection.finish_sending();
    check(&mut connection, ids(0));
    assert_eq!(connection.outcome(SOON), Outcome::Closed);
    let end = Connection::open(node.address()).call(&raw::list_end_offset(TOPIC));
    assert_eq!(raw::listed_offset(&end), 2 * 3 * 50);
    node.stop();
}

#[test]
fn response_does_not_wait_for_later_long_poll() {
    let mut node = node();
    let mut connection = Connection::open(node.address());
    let waiting = raw::waiting_fetch(TOPIC, 2, 1 << 20, LONG_MS);
    connection.send_raw(&together(&[produce(1), produce(1), waiting])).expect("sent");
    check(&mut connection, 0..2);
    Connection::open(node.address()).call(&produce(1));
    check(&mut connection, 2..3);
    node.stop();
}

#[test]
fn response_is_not_delayed_by_acks_zero_request() {
    let mut node = node();
    let mut connection = Connection::open(node.address());
    connection.send_raw(&together(&[produce(1), produce(0)])).expect("sent");
    check(&mut connection, 0..1);
    node.stop();
}

#[test]
fn earlier_responses_are_sent_before_connection_closes() {
    let mut node = node();
    let end_of_time = [0x7f; 8];
    let nonsense = [&20u32.to_be_bytes()[..], &[0xff; 20]].concat();
    let refused_in_silence = together(&[raw::produce(TOPIC, 0, b"no batch")]);
    for behind in [&end_of_time[..], &nonsense, &0u32.to_be_bytes(), &refused_in_silence] {
        let mut connection = Connection::open(node.address());
        let sent = [&together(&[produce(1), raw::api_versions(0)]), behind].concat();
        connection.send_raw(&sent).expect("sent");
        check(&mut connection, 0..2);
        assert_eq!(connection.outcome(SOON), Outcome::Closed, "{behind:?}");
    }
    node.stop();
}

#[test]
fn responses_to_batched_requests_share_a_write() {
    if Kind::under_test() == Kind::Kafka {
        println!("left out: Kafka sends each answer by itself");
        return;
    }
    let mut node = node();
    let mut connection = Connection::open(node.address());
    let calls = || -> f64 {
        let calls = |(name, _): &(String, f64)| name.starts_with("levada_transfer_calls_total");
        node.metrics().into_iter().filter(calls).map(|(_, count)| count).sum()
    };
    let before = calls();
    let requests = vec![raw::api_versions(0); 10];
    for _ in 0..20 {
        connection.send_raw(&together(&requests)).expect("sent");
        check(&mut connection, 0..10);
    }
    let sends = calls() - before;
    // A call is counted when it has returned, which may be after its bytes have arrived.
    assert!((19.0..=21.0).contains(&sends), "{sends} calls for 20 times ten answers");
    node.stop();
}
