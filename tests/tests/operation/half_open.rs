//! Twenty thousand unfinished TLS handshakes: clients with a connection are served as before.
//!
//! Suite: long, alone; 102 s

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use levada_tests::node::Kind;
use levada_tests::pki::{Authority, Flaw};
use levada_tests::raw::{self, Batch, Connection};
use levada_tests::{Node, await_some, process};

const HALF_OPEN: usize = 20_000;
/// A process may not have descriptors for all of them.
const FLOODS: usize = 4;
/// Floods, each beside one that goes elsewhere.
const PAIRS: usize = 2;
/// Memory that the broker may take for them: at most 8192 handshakes are open immediately
/// (`docs/operating/limits.md`), with a few KiB each.
const HALF_OPEN_BYTES_MAX: u64 = 96 << 20;
/// Time that a client is watched; by then the broker has ended the last of those that were begun.
const WATCHED: Duration = Duration::from_secs(12);
const SOON: Duration = Duration::from_secs(60);

/// A process of `half_open`, and what it says first. It ends with this value.
struct Companion(Child);

impl Companion {
    fn new(arguments: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_half_open"));
        let child = command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        Self(child.expect("it starts"))
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        let output = self.0.stdout.as_mut().expect("stdout was asked for");
        BufReader::new(output).read_line(&mut line).expect("a line");
        line.trim().to_string()
    }
}

impl Drop for Companion {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

/// The time within which 99 of 100 requests are answered, small produces and fetches by turns,
/// while there are `flooded` half-open handshakes at an address.
fn p99(node: &Node, flooded: Option<SocketAddr>) -> Duration {
    let mut client = Connection::open(node.address());
    let requests =
        [raw::produce("live", 1, &Batch::of(&[&[7; 100]]).encode()), raw::fetch("live", 0, 1 << 10)];
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let watching = scope.spawn(|| {
            let mut took = Vec::new();
            while !over.load(Ordering::Relaxed) {
                for request in &requests {
                    let asked = Instant::now();
                    client.call(request);
                    took.push(asked.elapsed());
                }
            }
            took
        });
        let began = Instant::now();
        let address = flooded.map(|address| address.to_string());
        let part = (HALF_OPEN / FLOODS).to_string();
        let mut floods: Vec<Companion> = address
            .iter()
            .flat_map(|address| {
                let from = |number: usize| format!("127.0.0.{}", 2 + number);
                (0..FLOODS)
                    .map(|number| Companion::new(&["flood", &from(number), address, &part]))
                    .collect::<Vec<_>>()
            })
            .collect();
        let said: Vec<String> = floods.iter_mut().map(Companion::line).collect();
        let opened = began.elapsed();
        std::thread::park_timeout(WATCHED.saturating_sub(opened));
        over.store(true, Ordering::Relaxed);
        assert!(said.iter().all(|said| *said == format!("{part} connections")), "{said:?}");
        let mut took = watching.join().expect("every request is answered");
        took.sort_unstable();
        let p99 = took[took.len() * 99 / 100];
        println!(
            "{} half-open in {opened:?}: {} requests, p99 {p99:?}",
            floods.len() * HALF_OPEN / FLOODS,
            took.len()
        );
        p99
    })
}

#[test]
fn half_open_flood_of_20000_slows_no_client() {
    if Kind::under_test() == Kind::Kafka {
        return println!("not run: it is about Levada's handshakes");
    }
    let mut node = Node::new();
    let authority = Authority::new(&node.scratch().join("pki"));
    let secure = node.listen("SECURE", "SSL");
    let store = authority.issue("broker", Flaw::None).display().to_string();
    node = node.option("listener.name.secure.ssl.keystore.location", &store);
    node.start();
    let mut client = Connection::open(node.address());
    await_some("the topic", SOON, || {
        (raw::topic_error(&client.call(&raw::create_topic("live", 1))) != 0).then_some(())
    });
    let mut sink = Companion::new(&["sink"]);
    let elsewhere = sink.line().parse().expect("an address");
    let quiet = p99(&node, None);
    let before = process::resident_bytes(node.pid());
    // The flooding client takes processors as well, on this machine: each flood is held against the
    // same one elsewhere, right before it, and the best of some pairs counts, because other work
    // disturbs one side of a pair as readily as the other.
    let pairs: Vec<(Duration, Duration)> =
        (0..PAIRS).map(|_| (p99(&node, Some(elsewhere)), p99(&node, Some(secure)))).collect();
    let grown = process::peak_bytes(node.pid()).saturating_sub(before);
    println!("p99: {quiet:?} in quiet, (elsewhere, here) {pairs:?}; {} MiB more", grown >> 20);
    let ratios = pairs.iter().map(|(alone, flooded)| flooded.as_secs_f64() / alone.as_secs_f64());
    let best = ratios.fold(f64::INFINITY, f64::min);
    assert!(best <= 1.5, "beside half-open handshakes requests take {best:.2} times as long");
    assert!(grown <= HALF_OPEN_BYTES_MAX, "{} MiB more, for handshakes that nobody finishes", grown >> 20);
    node.assert_running("after the flood");
    node.stop();
}
