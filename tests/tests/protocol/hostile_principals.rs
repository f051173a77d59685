//! Greedy clients beside others: many connections of one user repeat the costliest requests that
//! queue for a resource, and another client waits for at most a few of them. Expressions cost a
//! shard at most one turn, and silent clients block no other client of the HTTP address. The bounds
//! are in docs/operating/hostile-requests.md.
//!
//! The broker has one processor, so that the times contain the work of all clients. Times count for
//! release builds only; the smallest of a few tries counts.
//!
//! Suite: long, alone; 40 s; share faults

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use levada_tests::raw::{self, Batch, Connection, Decoder, Encoder};
use levada_tests::{Node, await_some, paths, process};

const MIB: usize = 1 << 20;
/// Processor time that an expression takes of the shard.
const SHARD_MAX: Duration = Duration::from_millis(50);
/// Time that another client waits while an expression is compared.
const BESIDE_EXPRESSION_MAX: Duration = Duration::from_millis(250);
/// Time that another client's work waits in the same queue as a greedy client's.
const TURN_MAX: Duration = Duration::from_secs(3);
/// Time that another client's small work waits, which has separate places.
const SMALL_MAX: Duration = Duration::from_secs(1);
/// Time in which a probe of the HTTP address is answered.
const PROBE_MAX: Duration = Duration::from_secs(1);
/// Number of measurements of a time that is above its bound.
const TRIES: usize = 5;
/// Number of connections of the greedy client.
const GREEDY: usize = 16;
const SOON: Duration = Duration::from_secs(30);

const AUTHORIZER: &str = "org.apache.kafka.metadata.authorizer.StandardAuthorizer";
const PLAIN: &str = "org.apache.kafka.common.security.plain.PlainLoginModule";
const TOKEN: &str = "an-http-token-of-the-test";
/// As large as an expression may be, and matched state by state.
const HOSTILE: &str = "(?:[a-m]?[!-~]?){1000}X";

/// A broker on one processor, a listener for all users, and one for the user eve.
struct Target {
    node: Node,
    guarded: SocketAddr,
}

impl Target {
    fn start() -> Self {
        let mut node = Node::new()
            .option("authorizer.class.name", AUTHORIZER)
            .option("super.users", "User:ANONYMOUS")
            .option("inter.broker.listener.name", "PLAINTEXT")
            .option("sasl.enabled.mechanisms", "PLAIN")
            .option("transaction.state.log.num.partitions", "1")
            .option("offsets.topic.num.partitions", "1")
            .option("levada.http.token", TOKEN)
            .option(
                "listener.name.client.plain.sasl.jaas.config",
                &format!("{PLAIN} required user_eve=\"eve\";"),
            );
        node.wrap(&["sh", "-c", "taskset -c 0 \"$@\"; exit $?", "sh"]);
        let guarded = node.listen("CLIENT", "SASL_PLAINTEXT");
        node.start();
        Self { node, guarded }
    }

    fn eve(&self) -> Connection {
        let mut connection = Connection::open(self.guarded);
        let head = |key: i16| Encoder::default().i16(key).i16(1).i32(7).string("eve");
        connection.call(&head(17).string("PLAIN").done());
        let said = connection.call(&head(36).bytes(b"\0eve\0eve").done());
        let mut said = Decoder::new(&said);
        assert_eq!((said.i32(), said.i16()), (7, 0), "eve comes in");
        connection
    }

    fn anybody(&self) -> Connection {
        Connection::open(self.node.address())
    }

    fn create(&self, topic: &str) {
        assert_eq!(raw::topic_error(&self.anybody().call(&raw::create_topic(topic, 1))), 0, "{topic}");
        self.node.await_metadata();
    }

    /// Does `work` while eve repeats a request on many connections, each of which has had a
    /// response.
    fn beside<T>(&self, request: &[u8], work: impl FnOnce() -> T) -> T {
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            let (begun, begins) = std::sync::mpsc::channel();
            for _ in 0..GREEDY {
                let (mut eve, begun, is_over) = (self.eve(), begun.clone(), &is_over);
                scope.spawn(move || {
                    begun.send(()).expect("the test waits");
                    while !is_over.load(Ordering::Relaxed) {
                        eve.call(request);
                    }
                });
            }
            // Also if the work fails: the scope waits for its threads.
            let _over = Over(&is_over);
            (0..GREEDY).for_each(|_| begins.recv().expect("a connection of eve"));
            work()
        })
    }
}

/// Sets a flag when it is dropped.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn is_debug() -> bool {
    paths::binary().components().any(|part| part.as_os_str() == "debug")
}

fn elapsed(work: impl FnOnce()) -> Duration {
    let begun = Instant::now();
    work();
    begun.elapsed()
}

/// The smallest of a few measurements, if the first is above the bound.
fn smallest(bound: Duration, mut measure: impl FnMut() -> Duration) -> Duration {
    let mut smallest = measure();
    for _ in 1..TRIES {
        if smallest <= bound {
            break;
        }
        smallest = smallest.min(measure());
    }
    smallest
}

fn assert_within(figure: Duration, bound: Duration, what: &str) {
    println!("{what}: {} ms", figure.as_millis());
    assert!(is_debug() || figure <= bound, "{what}: {figure:?}, at most {bound:?}");
}

/// ListTransactions 2 by an expression.
fn list_transactions(pattern: &str) -> Vec<u8> {
    let head = Encoder::default().i16(66).i16(2).i32(7).string("raw").varint(0);
    head.varint(1).varint(1).i64(-1).compact_string(pattern).varint(0).done()
}

/// The number of transactional ids in a response to it, or its error.
fn listed(answer: &[u8]) -> Result<u32, i16> {
    let mut answer = Decoder::new(answer);
    let (_, _, _) = (answer.i32(), answer.varint(), answer.i32());
    match answer.i16() {
        0 => {
            answer.varint();
            Ok(answer.varint() - 1)
        }
        error => Err(error),
    }
}

#[test]
fn costly_expression_blocks_no_shard() {
    const IDS: usize = 300;
    const INVALID: i16 = 128;
    let mut target = Target::start();
    let mut anybody = target.anybody();
    await_some("a transaction coordinator", SOON, || {
        anybody.call(&Encoder::default().i16(10).i16(1).i32(7).string("raw").string("x").i8(1).done());
        let begin =
            |id: &str| Encoder::default().i16(22).i16(1).i32(7).string("raw").string(id).i32(60_000).done();
        let answer = anybody.call(&begin(&format!("{:060}", 0)));
        let mut answer = Decoder::new(&answer);
        let (_, _, error) = (answer.i32(), answer.i32(), answer.i16());
        (error == 0).then(|| (1..IDS).for_each(|id| drop(anybody.call(&begin(&format!("{id:060}"))))))
    });
    assert_eq!(listed(&anybody.call(&list_transactions("0*7"))), Ok(1));
    assert_eq!(listed(&anybody.call(&list_transactions("(?:[a-m]?[!-~]?){3000}X"))), Err(INVALID));
    let shard = || Duration::from_nanos(process::cpu_ns_of(target.node.pid(), "shard-"));
    let (mut eve, request) = (target.eve(), list_transactions(HOSTILE));
    for (asker, what) in [(&mut eve, "without permissions"), (&mut anybody, "with all permissions")] {
        let taken = smallest(SHARD_MAX, || {
            let before = shard();
            assert_eq!(listed(&asker.call(&request)), Ok(0));
            shard() - before
        });
        assert_within(taken, SHARD_MAX, &format!("the shard's time for ListTransactions, {what}"));
    }
    let mut other = target.anybody();
    let produce = raw::metadata("none", false);
    let waited = smallest(BESIDE_EXPRESSION_MAX, || {
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            let longest = scope.spawn(|| {
                let mut longest = Duration::ZERO;
                while !is_over.load(Ordering::Relaxed) {
                    longest = longest.max(elapsed(|| drop(other.call(&produce))));
                }
                longest
            });
            anybody.call(&request);
            is_over.store(true, Ordering::Relaxed);
            longest.join().expect("the other client")
        })
    });
    assert_within(waited, BESIDE_EXPRESSION_MAX, "another client beside ListTransactions");
    target.node.assert_running("after expressions");
    target.node.stop();
}

#[test]
fn greedy_client_delays_others_by_one_turn() {
    let mut target = Target::start();
    target.create("bombs");
    target.create("small");
    target.node.levada("config set topic small compression.type=zstd").run();
    target.node.levada("config set topic bombs max.message.bytes=2000000").run();
    target.node.levada("acl add User:eve --allow all --topic bombs").run();
    let bomb = Batch { gzip: true, ..Batch::of(&[&vec![0; 100 * MIB]]) }.encode();
    let (bomb, small) =
        (raw::produce("bombs", -1, &bomb), raw::produce("small", -1, &Batch::of(&[b"x"]).encode()));
    let mut other = target.anybody();
    assert_eq!(raw::produce_error(&target.eve().call(&bomb)), 0);
    assert_eq!(raw::produce_error(&other.call(&small)), 0);
    let waited = target.beside(&bomb, || {
        smallest(SMALL_MAX, || elapsed(|| assert_eq!(raw::produce_error(&other.call(&small)), 0)))
    });
    assert_within(waited, SMALL_MAX, "a small batch beside expansions");

    let search = |topic: &str, time: i64| {
        let head = Encoder::default().i16(2).i16(1).i32(7).string("raw").i32(-1).i32(1);
        head.string(topic).i32(1).i32(0).i64(time).done()
    };
    let waited = target.beside(&search("bombs", 1_600_000_000_000), || {
        smallest(SMALL_MAX, || {
            elapsed(|| assert_eq!(raw::listed_offset(&other.call(&search("small", 1))), 0))
        })
    });
    assert_within(waited, SMALL_MAX, "a search beside large ones");

    // DescribeConfigs of many topics that are not there, and Metadata of many.
    let mut configs = Encoder::default().i16(32).i16(4).i32(7).string("raw").varint(0).varint(60_001);
    for number in 0..60_000 {
        configs = configs.i8(2).compact_string(&format!("t{number:07}")).varint(0).varint(0);
    }
    let configs = configs.i8(0).i8(0).varint(0).done();
    let mut metadata = Encoder::default().i16(3).i16(4).i32(7).string("raw").i32(4_000);
    for number in 0..4_000 {
        metadata = metadata.string(&format!("some.topic.name.that.is.not.there-{number:05}"));
    }
    let metadata = metadata.i8(0).done();
    let waited = target.beside(&configs, || smallest(TURN_MAX, || elapsed(|| drop(other.call(&metadata)))));
    assert_within(waited, TURN_MAX, "a large request beside larger ones");
    target.node.assert_running("after a greedy client");
    target.node.stop();
}

#[test]
fn silent_http_clients_do_not_block_probes() {
    let mut target = Target::start();
    let address = target.node.http_address();
    let probe = || {
        let mut stream = TcpStream::connect(address).expect("a connection");
        stream.set_read_timeout(Some(SOON)).expect("a timeout");
        let head = format!(
            "GET /healthz HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {TOKEN}\r\nConnection: close\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).expect("the broker reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    };
    for begun in [
        "",
        "G",
        "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "POST /login HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n",
    ] {
        let held: Vec<TcpStream> = (0..100)
            .map(|_| {
                let mut stream = TcpStream::connect(address).expect("a connection");
                // The broker may have closed it already.
                let _ = stream.write_all(begun.as_bytes());
                stream
            })
            .collect();
        let waited = smallest(PROBE_MAX, || elapsed(probe));
        assert_within(waited, PROBE_MAX, &format!("a probe beside 100 connections that have sent {begun:?}"));
        drop(held);
    }
    target.node.assert_running("after silent clients");
    target.node.stop();
}
