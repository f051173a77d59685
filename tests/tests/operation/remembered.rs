//! State that clients create in the broker through a socket and then abandon: connections, halves
//! of requests and of authentications, waiting fetches, fetch sessions, idempotent producers.
//! Repeated rounds do not leave ever more memory in use.
//!
//! Suite: long, alone; 3 s
//! Soak: scale 10

use std::time::Duration;

use levada_testing::scaled;
use levada_tests::node::Kind;
use levada_tests::raw::{self, Batch, Connection, Decoder, Encoder};
use levada_tests::{Node, await_some, process};

const TOPIC: &str = "remembered";
/// The allocator keeps some freed memory; one leaked entry of any kind comes to more over a round
/// of the long form.
const KEPT_MAX: u64 = 6 << 20;
const ROUNDS_MAX: usize = 6;
const SOON: Duration = Duration::from_secs(60);

/// Number of things of each kind in a round.
fn count() -> i64 {
    i64::from(scaled(1_000_u32))
}

/// A broker with short expiration times, and its listener with SASL.
struct Target {
    node: Node,
    guarded: std::net::SocketAddr,
}

impl Target {
    fn start() -> Self {
        let mut node = Node::new()
            .option("producer.id.expiration.ms", "500")
            .option("producer.id.expiration.check.interval.ms", "100")
            .option("max.incremental.fetch.session.cache.slots", "200")
            .option("inter.broker.listener.name", "PLAINTEXT")
            .option("sasl.enabled.mechanisms", "SCRAM-SHA-256");
        let guarded = node.listen("CLIENT", "SASL_PLAINTEXT");
        node.start();
        let created = Connection::open(node.address()).call(&raw::create_topic(TOPIC, 1));
        assert_eq!(raw::topic_error(&created), 0);
        Self { node, guarded }
    }

    /// Sum of the series of a metric.
    fn metric(&self, name: &str) -> f64 {
        let metrics = self.node.metrics();
        let is_of = |sample: &str| sample.split('{').next() == Some(name);
        let found: Vec<f64> =
            metrics.iter().filter(|(sample, _)| is_of(sample)).map(|(_, value)| *value).collect();
        assert!(!found.is_empty(), "{name} in /metrics");
        found.iter().sum()
    }

    /// Waits until the broker has noticed that every client has disconnected.
    fn await_silence(&self) {
        await_some("the end of all connections", SOON, || {
            (self.metric("levada_connections") == 0.0).then_some(())
        });
        await_some("the memory of requests", SOON, || {
            (self.metric("levada_request_bytes_held") == 0.0).then_some(())
        });
    }
}

/// Makes `count` things of a kind, each for a number of its own, and abandons them, again and again
/// until a round adds nothing. The allocator's share depends on how many are open at a time, so one
/// round may add to it; a leak adds in every round.
fn check(target: &Target, kind: &str, abandon: &mut dyn FnMut(i64)) {
    let mut round = |number: i64| {
        let first = number * count();
        (first..first + count()).for_each(&mut *abandon);
        target.await_silence();
        process::resident_bytes(target.node.pid())
    };
    let mut resident = vec![round(0)];
    while resident.len() < ROUNDS_MAX {
        let before = resident[resident.len() - 1];
        resident.push(round(resident.len() as i64));
        if resident[resident.len() - 1] <= before + KEPT_MAX {
            println!("{kind}: bytes resident after each round: {resident:?}");
            return;
        }
    }
    panic!("{kind}: each round leaves more memory in use, in bytes: {resident:?}");
}

/// Fetch 11 of partition 0 that opens a separate session.
fn fetch_session() -> Vec<u8> {
    let head = Encoder::default().i16(1).i16(11).i32(7).string("raw");
    let request = head.i32(-1).i32(0).i32(0).i32(1 << 20).i8(0).i32(0).i32(0);
    let partition = request.i32(1).string(TOPIC).i32(1).i32(0).i32(-1).i64(0).i64(-1).i32(1 << 20);
    partition.i32(0).string("").done()
}

/// DescribeProducers of partition 0: the response is longer, the more producers have state.
fn describe_producers() -> Vec<u8> {
    let head = Encoder::default().i16(61).i16(0).i32(7).string("raw").varint(0);
    let topic = head.varint(2).compact_string(TOPIC).varint(2).i32(0);
    topic.varint(0).varint(0).done()
}

#[test]
fn state_abandoned_by_clients_frees_its_memory() {
    if Kind::under_test() == Kind::Kafka {
        return println!("not run: the figures are Levada's");
    }
    let mut target = Target::start();
    let (address, guarded) = (target.node.address(), target.guarded);
    check(&target, "connections", &mut |_| {
        Connection::open(address).call(&raw::api_versions(0));
    });
    check(&target, "halves of requests", &mut |_| {
        let mut connection = Connection::open(address);
        connection.send_raw(&(1_u32 << 20).to_be_bytes()).expect("a connection that lives");
        connection.send_raw(&[0; 40_000]).expect("a connection that lives");
    });
    check(&target, "halves of authentications", &mut |_| {
        let handshake = Encoder::default().i16(17).i16(1).i32(7).string("eve").string("SCRAM-SHA-256").done();
        let mut connection = Connection::open(guarded);
        connection.call(&handshake);
        let first = Encoder::default().i16(36).i16(1).i32(7).string("eve").bytes(b"n,,n=eve,r=nonce").done();
        connection.send_frame(&first).expect("a connection that lives");
    });
    check(&target, "fetches that wait", &mut |_| {
        let request = raw::waiting_fetch(TOPIC, 0, 1 << 20, 600_000);
        Connection::open(address).send_frame(&request).expect("a connection that lives");
    });
    let mut opened = 0;
    check(&target, "fetch sessions", &mut |_| {
        let answer = Connection::open(address).call(&fetch_session());
        let mut answer = Decoder::new(&answer);
        let (_, _, error, session) = (answer.i32(), answer.i32(), answer.i16(), answer.i32());
        assert_eq!(error, 0);
        opened += i64::from(session != 0);
    });
    assert!(opened >= 200, "{opened} fetch sessions were opened");
    let forgotten = Connection::open(address).call(&describe_producers()).len();
    let mut connection = None;
    check(&target, "idempotent producers", &mut |number| {
        let open = connection.get_or_insert_with(|| Connection::open(address));
        let batch = Batch { producer: (1_000_000 + number, 0, 0), ..Batch::of(&[b"record"]) }.encode();
        assert_eq!(raw::produce_error(&open.call(&raw::produce(TOPIC, 1, &batch))), 0);
        if (number + 1) % count() == 0 {
            await_some("producers to be forgotten", SOON, || {
                (open.call(&describe_producers()).len() == forgotten).then_some(())
            });
            connection = None;
        }
    });
    target.node.stop();
}
