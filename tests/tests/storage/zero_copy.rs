//! A large fetch moves its records by splice or sendfile: the kernel's own record of system calls
//! shows no record byte in user memory, and the broker's counters say the same.
//!
//! Suite: long; 2 s; needs python, strace

use levada_tests::node::Kind;
use levada_tests::trace::{self, Call};
use levada_tests::{Node, Tool};

/// 64 MB of records that do not compress, in one partition.
const RECORDS: usize = 800;
const SIZE: usize = 80_000;

/// Bytes that `/metrics` counts for a path.
fn counted(node: &Node, path: &str) -> f64 {
    let name = format!("levada_transfer_bytes_total{{path=\"{path}\"}}");
    let metrics = node.metrics();
    let sample = metrics.iter().find(|(found, _)| *found == name);
    sample.unwrap_or_else(|| panic!("no {name} in {metrics:?}")).1
}

fn moved<'a>(calls: &'a [Call], name: &'static str) -> impl Iterator<Item = &'a Call> {
    calls.iter().filter(move |call| call.name == name)
}

/// Calls that read from a log into user memory.
fn lifted(calls: &[Call]) -> impl Iterator<Item = &Call> {
    let reads = ["read", "readv", "pread64", "preadv", "preadv2"];
    calls.iter().filter(move |call| reads.contains(&call.name.as_str()) && call.touches(".log"))
}

#[test]
fn record_bytes_never_enter_user_memory() {
    let mut node = Node::new();
    if node.kind() == Kind::Kafka {
        println!("left out: a promise of Levada's alone");
        return;
    }
    node.start();
    Tool::python("topics.py").args([&node.bootstrap(), "large", "1"]).run();
    let mut fill = Tool::python("fill.py");
    fill.args([&node.bootstrap(), "large", "1", "0"]).arg(RECORDS.to_string()).arg(SIZE.to_string()).run();
    node.stop();

    let record = node.scratch().join("strace");
    node.wrap(&["strace", "-f", "-y", "-s", "0", "-e", trace::CALLS, "-o", &record.display().to_string()]);
    node.start();
    let mut read = Tool::python("journal.py");
    let said = read.args([&node.bootstrap(), "large", "1"]).run();
    assert_eq!(said.stdout.lines().count(), RECORDS);
    let counters = ["splice", "sendfile", "read_write"].map(|path| (path, counted(&node, path)));
    node.stop();

    let mut calls = trace::read(&record);
    // Before the first record moves, the broker tries on files of its own what this machine can do.
    let first =
        calls.iter().position(|call| ["splice", "sendfile"].contains(&&*call.name) && call.touches(".log"));
    let probing = calls.drain(..first.expect("records left by splice or sendfile")).collect::<Vec<_>>();
    let read_at_start = trace::bytes(lifted(&probing));
    let total = (RECORDS * SIZE) as u64;
    let spliced = trace::bytes(moved(&calls, "splice").filter(|call| call.is_socket(2)));
    let sent_file = trace::bytes(moved(&calls, "sendfile").filter(|call| call.is_socket(0)));
    let read_from_log = trace::bytes(lifted(&calls));
    let mapped = calls.iter().filter(|call| call.name == "mmap" && call.touches(".log")).count();
    println!(
        "{total} bytes of values: splice {spliced}, sendfile {sent_file}, read from logs {read_from_log}"
    );
    println!("counted: {counters:?}; read from logs while it started: {read_at_start}");

    assert!(spliced + sent_file >= total, "moved without lifting: {spliced} + {sent_file} of {total}");
    // Searching the log reads a window of headers for each fetch: not record data to send.
    assert!(read_from_log < total / 50, "{read_from_log} bytes of the log were read into user memory");
    assert_eq!(mapped, 0, "a log was mapped into user memory");
    assert!(read_at_start < total / 50, "{read_at_start} bytes of the log were read on the way up");
    assert_eq!(counters[0].1, spliced as f64, "bytes counted for splice");
    assert_eq!(counters[1].1, sent_file as f64, "bytes counted for sendfile");
}
