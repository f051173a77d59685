//! Records that are on the disk only: they arrive as they are, somebody else than the shard waits for them, and they do
//! not stay in memory at the cost of what others read.

use std::fs::{self, File};
use std::io::IoSliceMut;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use levada_tests::Node;
use levada_tests::node::Kind;
use levada_tests::raw::{self, Batch, Connection};
use rustix::fs::Advice;
use rustix::io::{Errno, ReadWriteFlags};

const TOPIC: &str = "cold";
const SEGMENT_BYTES: usize = 4 << 20;
/// More than a reader leaves behind in memory, several times.
const BATCHES: usize = 640;

#[test]
fn a_replay_of_evicted_segments_is_read_by_others_and_leaves_no_trace() {
    replay(&[]);
}

/// Threads do what the ring does elsewhere.
#[test]
fn so_it_does_where_no_ring_is_allowed() {
    let launcher = env!("CARGO_BIN_EXE_restricted");
    replay(&[launcher, "--deny", "io_uring_setup,io_uring_enter,io_uring_register=EPERM", "--"]);
}

/// A broker with several finished segments that keeps in memory what `levada.replay.cache` says.
fn filled(wrapper: &[&str], kept: &str) -> (Node, Connection) {
    let mut node = Node::new().option("log.segment.bytes", &SEGMENT_BYTES.to_string());
    if node.kind() != Kind::Kafka {
        node = node.option("levada.replay.cache", kept);
    }
    node.wrap(wrapper);
    node.start();
    let mut connection = Connection::open(node.address());
    assert_eq!(raw::topic_error(&connection.call(&raw::create_topic(TOPIC, 1))), 0);
    for number in 0..BATCHES {
        let value = vec![u8::try_from(number % 251).expect("below 251"); 60_000];
        let batch = Batch::of(&[&value]).encode();
        assert_eq!(raw::produce_error(&connection.call(&raw::produce(TOPIC, 1, &batch))), 0);
    }
    (node, connection)
}

fn sum(node: &Node, name: &str) -> f64 {
    let metrics = node.metrics();
    metrics.iter().filter(|(sample, _)| sample.starts_with(name)).map(|(_, value)| value).sum()
}

fn replay(wrapper: &[&str]) {
    let (mut node, mut connection) = filled(wrapper, "never");
    let segments = sealed_segments(&node);
    assert!(segments.len() >= 8, "{segments:?}");
    let evicted = segments.iter().filter(|(path, _)| evict(path)).count();

    for (path, base_offset) in &segments {
        let response = connection.call(&raw::fetch(TOPIC, *base_offset, 16 << 20));
        assert!(response.ends_with(&fs::read(path).expect("the segment")), "{}", path.display());
        // What the comparison has read is not the broker's doing.
        evict(path);
    }
    if node.kind() == Kind::Kafka || evicted < segments.len() {
        return println!(
            "the rest is not checked: it takes a Levada, and a file system that lets go of pages"
        );
    }
    let sum = |name: &str| sum(&node, name);
    let bytes: u64 = segments.iter().map(|(path, _)| fs::metadata(path).expect("the segment").len()).sum();
    let (warmed, dropped) =
        (sum("levada_transfer_warmed_bytes"), sum("levada_transfer_dropped_behind_bytes"));
    let around = sum("levada_transfer_bytes_total{path=\"uring_read\"}");
    println!(
        "{bytes} bytes replayed: {around} read around memory, {warmed} brought in, {dropped} dropped again"
    );
    // The rest was read ahead by the time that it was asked for.
    assert!(around + warmed >= bytes as f64 / 3.0, "shards waited for the disk");
    assert!(around + dropped >= bytes as f64 * 0.5, "a replay stays in memory");
    assert_eq!(sum("levada_transfer_fallbacks_total{cause=\"cold_read\"}"), 0.0);
    assert!(around == 0.0 || wrapper.is_empty(), "no ring was allowed");
    node.stop();
}

/// Where pages are missing in a segment that is in memory otherwise, and how many bytes.
const GAP: (u64, u64) = (1 << 20, 256 << 10);

/// Puts a finished segment into memory but for a gap; `None` where that cannot be had.
fn gapped(node: &Node) -> Option<(PathBuf, i64)> {
    let (path, base_offset) = sealed_segments(node).swap_remove(3);
    if node.kind() == Kind::Kafka || !evict(&path) {
        println!("not checked: it takes a Levada, and a file system that lets go of pages");
        return None;
    }
    let file = File::open(&path).expect("the segment");
    // Nothing is read ahead into the gap.
    rustix::fs::fadvise(&file, 0, None, Advice::Random).expect("advice");
    let len = file.metadata().expect("the segment").len();
    for (offset, end) in [(0, GAP.0), (GAP.0 + GAP.1, len)] {
        let mut bytes = vec![0; usize::try_from(end - offset).expect("a segment")];
        file.read_exact_at(&mut bytes, offset).expect("the segment");
    }
    Some((path, base_offset))
}

/// Reads a segment with a gap several times, each time by a connection of its own; how many bytes came from the disk by each pass, and how
/// many were dropped in all.
fn passes(wrapper: &[&str], kept: &str) -> Option<(Vec<f64>, f64)> {
    let (mut node, _) = filled(wrapper, kept);
    let (path, base_offset) = gapped(&node)?;
    let expected = fs::metadata(&path).expect("the segment").len();
    let from_disk = || sum(&node, "levada_replay_around_bytes") + sum(&node, "levada_transfer_warmed_bytes");
    let dropped = || sum(&node, "levada_transfer_dropped_behind_bytes");
    let (mut passes, mut before) = (Vec::new(), from_disk());
    for _ in 0..3 {
        let mut connection = Connection::open(node.address());
        let response = connection.call(&raw::fetch(TOPIC, base_offset, 16 << 20));
        assert!(response.len() as u64 > expected, "{} bytes of {expected}", response.len());
        drop(connection);
        // What is dropped is dropped when the connection has ended.
        let around = sum(&node, "levada_replay_around_bytes") > 0.0;
        let due =
            from_disk() - before + if kept == "never" && !around { dropped() } else { f64::NEG_INFINITY };
        let start = std::time::Instant::now();
        while dropped() < due && start.elapsed() < std::time::Duration::from_secs(20) {
            std::thread::yield_now();
        }
        let after = from_disk();
        passes.push(after - before);
        before = after;
    }
    let dropped = dropped();
    node.stop();
    Some((passes, dropped))
}

#[test]
fn only_missing_pages_are_read_and_their_neighbours_stay() {
    let Some((passes, dropped)) = passes(&[], "never") else { return };
    assert_eq!((passes, dropped), (vec![GAP.1 as f64; 3], 0.0));
}

#[test]
fn so_they_do_where_no_ring_is_allowed() {
    let launcher = env!("CARGO_BIN_EXE_restricted");
    let wrapper = [launcher, "--deny", "io_uring_setup,io_uring_enter,io_uring_register=EPERM", "--"];
    let Some((passes, dropped)) = passes(&wrapper, "never") else { return };
    assert_eq!((passes, dropped), (vec![GAP.1 as f64; 3], 3.0 * GAP.1 as f64));
}

#[test]
fn what_was_read_once_is_there_for_the_next_reader() {
    let Some((passes, dropped)) = passes(&[], "always") else { return };
    assert_eq!((passes, dropped), (vec![GAP.1 as f64, 0.0, 0.0], 0.0));
}

/// Path and base offset of each segment but the last.
fn sealed_segments(node: &Node) -> Vec<(PathBuf, i64)> {
    let entries = fs::read_dir(node.data().join(format!("{TOPIC}-0"))).expect("the partition");
    let logs = entries
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "log"));
    let base =
        |path: &PathBuf| path.file_stem().and_then(|stem| stem.to_str()?.parse().ok()).expect("a number");
    let mut segments: Vec<_> = logs.map(|path| (path.clone(), base(&path))).collect();
    segments.sort_by_key(|(_, base)| *base);
    segments.pop();
    segments
}

/// Whether the kernel has let go of the file's pages.
fn evict(path: &PathBuf) -> bool {
    let file = File::open(path).expect("the segment");
    // The question below must not start the kernel's read-ahead.
    rustix::fs::fadvise(&file, 0, None, Advice::Random).expect("advice");
    file.sync_data().expect("written back");
    rustix::fs::fadvise(&file, 0, None, Advice::DontNeed).expect("advice");
    let mut byte = [0];
    let read = rustix::io::preadv2(&file, &mut [IoSliceMut::new(&mut byte)], 0, ReadWriteFlags::NOWAIT);
    read == Err(Errno::AGAIN)
}
