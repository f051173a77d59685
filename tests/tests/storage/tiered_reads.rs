//! Reads of records that only the remote store has: byte for byte, by clients, with a warm cache
//! and no store, and beside a store that is gone.
//!
//! Suite: short; 20 s; needs kcat; share tiers

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use levada_tests::node::Kind;
use levada_tests::raw::{self, Batch, Connection, Fetched};
use levada_tests::{Node, Tool, await_some};

const TOPIC: &str = "tiered";
const SEGMENT_BYTES: &str = "1048576";
const BATCHES: usize = 120;
const LIMIT: Duration = Duration::from_secs(60);
const UNKNOWN_SERVER_ERROR: i16 = -1;

/// A broker with a tiered topic, of whose records the store has all but the last.
struct Tiered {
    node: Node,
    store: PathBuf,
}

impl Tiered {
    fn new() -> Option<Self> {
        let node = Node::new();
        if node.kind() == Kind::Kafka {
            // Its store is a Java class that this suite does not install.
            return None;
        }
        let store = node.scratch().join("store");
        let node = node
            .option("remote.log.storage.system.enable", "true")
            .option("levada.remote.store", &format!("file://{}", store.display()))
            .option("levada.remote.layout", "local")
            .option("remote.log.manager.task.interval.ms", "200")
            .option("log.retention.check.interval.ms", "200")
            .option("log.segment.delete.delay.ms", "0");
        fs::create_dir(&store).expect("the directory of the store");
        let mut tiered = Self { node, store };
        tiered.node.start();
        let configs = [
            ("remote.storage.enable", "true"),
            ("segment.bytes", SEGMENT_BYTES),
            // The batches of tests are old.
            ("retention.ms", "-1"),
            ("local.retention.bytes", "1"),
        ];
        let mut connection = tiered.connect();
        let created = connection.call(&raw::create_topic_with((TOPIC, 1, 1), &configs));
        assert_eq!(raw::topic_error(&created), 0);
        for number in 0..BATCHES {
            tiered.produce(&mut connection, number);
        }
        tiered.await_copies();
        Some(tiered)
    }

    fn connect(&self) -> Connection {
        Connection::open(self.node.address())
    }

    fn produce(&self, connection: &mut Connection, number: usize) {
        let value = vec![u8::try_from(b'a' as usize + number % 26).expect("a letter"); 90_000];
        let batch = Batch::of(&[&value]).encode();
        assert_eq!(raw::produce_error(&connection.call(&raw::produce(TOPIC, 1, &batch))), 0);
    }

    /// Waits until all segments but the last are in the store, and no longer here.
    fn await_copies(&self) {
        let dir = self.node.data().join(format!("{TOPIC}-0"));
        await_some("the local log has one segment", LIMIT, || (logs(&dir).len() == 1).then_some(()));
    }

    /// The records in the store, in the order of their offsets.
    fn stored(&self) -> Vec<u8> {
        let objects = self.store.join("kafka-tiered-storage");
        let dirs = fs::read_dir(objects).expect("the store").map(|entry| entry.expect("an entry").path());
        let logs = dirs.flat_map(|dir| logs(&dir));
        logs.flat_map(|path| fs::read(path).expect("a segment")).collect()
    }

    /// Everything from the start on, up to this number of bytes.
    fn replay(&self, bytes: usize, max_bytes: i32) -> Vec<u8> {
        let (mut connection, mut offset, mut all) = (self.connect(), 0, Vec::new());
        while all.len() < bytes {
            let fetched = await_some("records of the store", LIMIT, || {
                let fetched = fetch(&mut connection, offset, max_bytes);
                assert_eq!((fetched.error, fetched.log_start), (0, 0), "at {offset}");
                (!fetched.records.is_empty()).then_some(fetched)
            });
            offset = next_offset(&fetched.records);
            all.extend(fetched.records);
        }
        all
    }

    fn hide_store(&self) {
        fs::rename(&self.store, self.store.with_extension("gone")).expect("the store moves");
    }
}

fn logs(dir: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(dir) else { return Vec::new() };
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let mut logs: Vec<_> = paths.filter(|path| path.extension().is_some_and(|end| end == "log")).collect();
    logs.sort();
    logs
}

fn fetch(connection: &mut Connection, offset: i64, max_bytes: i32) -> Fetched {
    let fetched = raw::fetched(&connection.call(&raw::fetch(TOPIC, offset, max_bytes)));
    assert!(fetched.aborted.is_empty(), "{:?}", fetched.aborted);
    fetched
}

/// The offset after whole batches of one record each.
fn next_offset(mut records: &[u8]) -> i64 {
    let mut next = 0;
    while !records.is_empty() {
        next = i64::from_be_bytes(records[..8].try_into().expect("an offset")) + 1;
        let length = i32::from_be_bytes(records[8..12].try_into().expect("a length"));
        records = &records[12 + usize::try_from(length).expect("a length")..];
    }
    next
}

#[test]
fn remote_records_are_those_of_the_store() {
    let Some(tiered) = Tiered::new() else { return };
    let stored = tiered.stored();
    assert!(stored.len() > 8 << 20, "{} bytes", stored.len());
    for max_bytes in [1, 300_000, 1 << 20, 16 << 20] {
        let replayed = tiered.replay(stored.len(), max_bytes);
        assert!(replayed[..stored.len()] == stored, "requests of {max_bytes} bytes");
    }
}

#[test]
fn consumer_gets_every_record_from_the_start() {
    let Some(tiered) = Tiered::new() else { return };
    let mut kcat = Tool::kcat();
    kcat.args(["-b", &tiered.node.bootstrap(), "-t", TOPIC]);
    let output = kcat.args(["-C", "-e", "-q", "-o", "beginning", "-f", "%o:%S\\n"]).run().stdout;
    let expected: String = (0..BATCHES).map(|offset| format!("{offset}:90000\n")).collect();
    assert_eq!(output, expected);
}

#[test]
fn warm_cache_needs_no_store_after_a_restart() {
    let Some(mut tiered) = Tiered::new() else { return };
    let stored = tiered.stored();
    tiered.replay(stored.len(), 1 << 20);
    tiered.node.stop();
    tiered.hide_store();
    tiered.node.start();
    // At first the broker does not know the remote segments: it answers with an error as Kafka.
    await_some("the metadata of the remote segments", LIMIT, || {
        (fetch(&mut tiered.connect(), 0, 1).error == 0).then_some(())
    });
    assert!(tiered.replay(stored.len(), 1 << 20)[..stored.len()] == stored);
}

#[test]
fn lost_store_fails_only_remote_reads() {
    let Some(tiered) = Tiered::new() else { return };
    tiered.hide_store();
    let mut connection = tiered.connect();
    await_some("an error of the store", LIMIT, || {
        let fetched = fetch(&mut connection, 0, 1 << 20);
        assert!(fetched.records.is_empty());
        (fetched.error == UNKNOWN_SERVER_ERROR).then_some(())
    });
    let last = i64::try_from(BATCHES).expect("a number");
    tiered.produce(&mut connection, 7);
    let tail = fetch(&mut connection, last, 1 << 20);
    assert_eq!((tail.error, next_offset(&tail.records)), (0, last + 1));
    fs::rename(tiered.store.with_extension("gone"), &tiered.store).expect("the store comes back");
    let stored = tiered.stored();
    assert!(tiered.replay(stored.len(), 1 << 20)[..stored.len()] == stored);
}
