//! Records that are on the disk only: they arrive unchanged, another thread than the shard waits
//! for them, and they do not stay in memory at the cost of other readers' pages.
//!
//! Suite: long, alone; 10 s

use std::fs::{self, File};
use std::io::IoSliceMut;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

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
fn evicted_segment_replay_leaves_no_cached_pages() {
    replay(&[]);
}

/// Threads do the work of the ring.
#[test]
fn evicted_segment_replay_works_without_ring() {
    let launcher = env!("CARGO_BIN_EXE_restricted");
    replay(&[launcher, "--deny", "io_uring_setup,io_uring_enter,io_uring_register=EPERM", "--"]);
}

/// A broker with several finished segments and this value of `levada.replay.cache`.
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
        // Pages read by the comparison are not the broker's.
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
    // The rest had been read ahead by the time of its request.
    assert!(around + warmed >= bytes as f64 / 3.0, "shards waited for the disk");
    assert!(around + dropped >= bytes as f64 * 0.5, "a replay stays in memory");
    assert_eq!(sum("levada_transfer_fallbacks_total{cause=\"cold_read\"}"), 0.0);
    assert!(around == 0.0 || wrapper.is_empty(), "no ring was allowed");
    node.stop();
}

/// Positions of missing pages in a segment that is otherwise in memory, and number of their bytes.
const GAP: (u64, u64) = (1 << 20, 256 << 10);

/// Number of repetitions of a round because the kernel evicted pages in between.
const ATTEMPTS: usize = 5;

/// A finished segment that is read completely, and one like it that is not read.
struct Gapped {
    path: PathBuf,
    base_offset: i64,
    /// Loses pages only if the kernel takes them away: the broker never touches it.
    control: PathBuf,
}

impl Gapped {
    /// Two finished segments; `None` if the file system keeps pages in spite of a request to drop
    /// them.
    fn choose(node: &Node) -> Option<Self> {
        let mut segments = sealed_segments(node);
        if node.kind() == Kind::Kafka || !evict(&segments[3].0) {
            println!("not checked: it takes a Levada, and a file system that lets go of pages");
            return None;
        }
        let (path, base_offset) = segments.swap_remove(3);
        Some(Self { path, base_offset, control: segments.swap_remove(5).0 })
    }

    /// Puts both segments into memory, the first one but for its gap.
    fn arrange(&self) {
        assert!(evict(&self.path), "pages of {} are in use", self.path.display());
        read_into_memory(&self.path, &[0..GAP.0, GAP.0 + GAP.1..length(&self.path)]);
        read_into_memory(&self.control, std::slice::from_ref(&(0..length(&self.control))));
    }

    /// True if the kernel has evicted pages of the control segment.
    fn is_disturbed(&self) -> bool {
        let file = unread_ahead(&self.control);
        let mut page = [0; 4096];
        (0..length(&self.control)).step_by(page.len()).any(|offset| {
            let mut slices = [IoSliceMut::new(&mut page)];
            rustix::io::preadv2(&file, &mut slices, offset, ReadWriteFlags::NOWAIT).is_err()
        })
    }
}

fn length(path: &Path) -> u64 {
    fs::metadata(path).expect("the segment").len()
}

/// The file, without the kernel's read-ahead.
fn unread_ahead(path: &Path) -> File {
    let file = File::open(path).expect("the segment");
    rustix::fs::fadvise(&file, 0, None, Advice::Random).expect("advice");
    file
}

fn read_into_memory(path: &Path, ranges: &[Range<u64>]) {
    let file = unread_ahead(path);
    for range in ranges {
        let mut bytes = vec![0; usize::try_from(range.end - range.start).expect("a segment")];
        file.read_exact_at(&mut bytes, range.start).expect("the segment");
    }
}

/// Reads a segment with a gap several times, each time on a separate connection. Returns the bytes
/// that each pass read from the disk, and the bytes that were dropped in all. A round in which the
/// kernel evicted other pages is repeated.
fn passes(wrapper: &[&str], kept: &str) -> Option<(Vec<f64>, f64)> {
    let (mut node, _) = filled(wrapper, kept);
    let gapped = Gapped::choose(&node)?;
    for attempt in 1..=ATTEMPTS {
        gapped.arrange();
        let round = round(&node, &gapped, kept);
        if gapped.is_disturbed() {
            println!("attempt {attempt}: the kernel took pages of a file that nobody reads");
            continue;
        }
        node.stop();
        return Some(round);
    }
    println!("not checked: the kernel took pages away in each of {ATTEMPTS} attempts");
    None
}

fn round(node: &Node, gapped: &Gapped, kept: &str) -> (Vec<f64>, f64) {
    let around = || sum(node, "levada_replay_uncached_read_bytes");
    let from_disk = || around() + sum(node, "levada_transfer_warmed_bytes");
    let dropped = || sum(node, "levada_transfer_dropped_behind_bytes");
    let (start, dropped_before, around_before) = (from_disk(), dropped(), around());
    let (mut passes, mut before) = (Vec::new(), start);
    for _ in 0..3 {
        let mut connection = Connection::open(node.address());
        let response = connection.call(&raw::fetch(TOPIC, gapped.base_offset, 16 << 20));
        assert!(response.len() as u64 > length(&gapped.path), "{} bytes of a segment", response.len());
        drop(connection);
        // Pages that threads brought in for a reader that reads once are dropped when its
        // connection has ended.
        let brought_in = if kept == "never" && around() == around_before { from_disk() - start } else { 0.0 };
        let asked = Instant::now();
        while dropped() - dropped_before < brought_in && asked.elapsed() < Duration::from_secs(20) {
            std::thread::yield_now();
        }
        let after = from_disk();
        passes.push(after - before);
        before = after;
    }
    (passes, dropped() - dropped_before)
}

#[test]
fn only_missing_pages_are_read_and_others_stay() {
    let Some((passes, dropped)) = passes(&[], "never") else { return };
    assert_eq!((passes, dropped), (vec![GAP.1 as f64; 3], 0.0));
}

#[test]
fn records_read_once_stay_cached_without_ring() {
    let launcher = env!("CARGO_BIN_EXE_restricted");
    let wrapper = [launcher, "--deny", "io_uring_setup,io_uring_enter,io_uring_register=EPERM", "--"];
    let Some((passes, dropped)) = passes(&wrapper, "never") else { return };
    assert_eq!((passes, dropped), (vec![GAP.1 as f64; 3], 3.0 * GAP.1 as f64));
}

#[test]
fn records_read_once_stay_cached_for_next_reader() {
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

/// True if the kernel has let go of the file's pages.
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
