//! Hostile clients of `/metrics`: clients that do not read, thousands of scrapes, heads without
//! end. The broker answers the next scrape, and its memory stays within bounds.
//!
//! Suite: short; 22 s; needs python

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use levada_tests::node::Kind;
use levada_tests::{Node, Tool, await_some, process};

const LIMIT: Duration = Duration::from_secs(60);

/// Maximum number of connections that the HTTP address has immediately.
const CONNECTIONS_MAX: usize = 64;

/// Bytes of a head without end that the broker refuses: four times as much as it takes.
const HEAD_REFUSED: usize = 4 * 64 * 1024;

/// Number of partitions of the topic: enough for a scrape of a megabyte.
const PARTITIONS: usize = 1000;

const REQUEST: &str = "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n";

/// A broker whose scrape takes a megabyte.
fn node() -> Option<Node> {
    if Kind::under_test() == Kind::Kafka {
        println!("left out: a promise of Levada's alone");
        return None;
    }
    let node = Node::started();
    let name = "n".repeat(200);
    Tool::python("topics.py").args([&node.bootstrap(), &name, &PARTITIONS.to_string()]).run();
    Some(node)
}

fn connect(node: &Node) -> TcpStream {
    let stream = TcpStream::connect(node.http_address()).expect("a connection");
    stream.set_read_timeout(Some(LIMIT)).expect("a timeout");
    stream
}

#[test]
fn slow_metrics_readers_neither_fill_memory_nor_block() {
    let Some(mut node) = node() else { return };
    let (_, text) = node.http("/metrics");
    let before = process::resident_bytes(node.pid());
    let slow: Vec<TcpStream> = (0..CONNECTIONS_MAX / 2)
        .map(|_| {
            let mut stream = connect(&node);
            write!(stream, "{REQUEST}").expect("a request");
            // The first bytes: the text has been made.
            stream.read_exact(&mut [0; 12]).expect("a status");
            stream
        })
        .collect();
    let (status, again) = node.http("/metrics");
    assert_eq!(status, 200, "{again}");
    let grown = process::resident_bytes(node.pid()).saturating_sub(before);
    let (one, all) = (text.len() as u64, slow.len() as u64);
    println!("{all} clients do not read {one} bytes each: {grown} bytes more");
    assert!(grown < one * all / 2, "{grown} bytes for {all} texts of {one}");
    drop(slow);
    node.stop();
}

#[test]
fn concurrent_scrapes_all_get_responses() {
    let Some(mut node) = node() else { return };
    let cpu = || process::cpu_ns(node.pid());
    let begun = cpu();
    node.http("/metrics");
    let one = (cpu() - begun).max(1);
    let begun = cpu();
    let request = REQUEST.replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n");
    let scrape = || {
        let mut stream = connect(&node);
        write!(stream, "{request}").expect("a request");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        let (head, text) = answer.split_once("\r\n\r\n").expect("a head");
        assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
        assert!(text.lines().any(|line| line == format!("levada_partitions {PARTITIONS}")), "{head}");
    };
    std::thread::scope(|scope| (0..CONNECTIONS_MAX).for_each(|_| drop(scope.spawn(scrape))));
    println!("one scrape: {one} ns; {CONNECTIONS_MAX} immediately: {} ns", cpu() - begun);
    for _ in 0..200 {
        assert_eq!(node.http("/metrics?topics=false").0, 200);
    }
    node.stop();
}

#[test]
fn endless_request_heads_are_refused_without_memory_growth() {
    let Some(mut node) = node() else { return };
    let before = process::resident_bytes(node.pid());
    let refused = |head: &str, more: &str, most: usize| {
        let mut stream = connect(&node);
        write!(stream, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n{head}")
            .expect("the beginning of a head");
        // Goes on until the broker has had enough: it answers or resets.
        for _ in 0..most / more.len() {
            if stream.write_all(more.as_bytes()).is_err() {
                break;
            }
        }
        let mut answer = Vec::new();
        let read = stream.read_to_end(&mut answer).map_err(|error| error.kind());
        let is_reset = matches!(read, Err(io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe));
        let answer = String::from_utf8_lossy(&answer).into_owned();
        assert!(is_reset || answer.starts_with("HTTP/1.1 4"), "{most} bytes: {read:?}: {answer}");
    };
    for most in [HEAD_REFUSED, 10 << 20] {
        refused("", "X-More: 1\r\n", most);
        refused("X-Long: ", &"a".repeat(1000), most);
        refused("", &"a".repeat(1000), most);
    }
    let grown = process::resident_bytes(node.pid()).saturating_sub(before);
    assert!(grown < 8 << 20, "{grown} bytes");
    // Heads that never end take the places of others for a few seconds, no longer.
    let waiting: Vec<TcpStream> = (0..CONNECTIONS_MAX)
        .map(|_| {
            let mut stream = connect(&node);
            write!(stream, "GET /metrics HTTP/1.1\r\n").expect("the beginning of a head");
            stream
        })
        .collect();
    await_some("a scrape", LIMIT, || (node.http("/metrics").0 == 200).then_some(()));
    drop(waiting);
    node.assert_running("attacked");
    node.stop();
}
