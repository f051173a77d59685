//! Records that are on the disk only: they arrive as they are, somebody else than the shard waits for them, and they do
//! not stay in memory at the cost of what others read.

use std::fs::{self, File};
use std::io::IoSliceMut;
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

fn replay(wrapper: &[&str]) {
    let mut node = Node::new().option("log.segment.bytes", &SEGMENT_BYTES.to_string());
    node.wrap(wrapper);
    node.start();
    let mut connection = Connection::open(node.address());
    assert_eq!(raw::topic_error(&connection.call(&raw::create_topic(TOPIC, 1))), 0);
    for number in 0..BATCHES {
        let value = vec![u8::try_from(number % 251).expect("below 251"); 60_000];
        let batch = Batch::of(&[&value]).encode();
        assert_eq!(raw::produce_error(&connection.call(&raw::produce(TOPIC, 1, &batch))), 0);
    }
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
    let sum = |name: &str| -> f64 {
        let metrics = node.metrics();
        metrics.iter().filter(|(sample, _)| sample.starts_with(name)).map(|(_, value)| value).sum()
    };
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
    file.sync_data().expect("written back");
    rustix::fs::fadvise(&file, 0, None, Advice::DontNeed).expect("advice");
    let mut byte = [0];
    let read = rustix::io::preadv2(&file, &mut [IoSliceMut::new(&mut byte)], 0, ReadWriteFlags::NOWAIT);
    read == Err(Errno::AGAIN)
}
