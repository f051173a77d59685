//! Tiered topics of one broker: segments that are copied to a directory and leave the broker, the
//! offsets that clients see, retention, restarts, and what becomes of the objects. Kafka runs the
//! same tests with its `LocalTieredStorage`, whose layout the store has.
//!
//! Suite: short; 14 s; needs python, kcat; share tiers

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use levada_tests::node::Kind;
use levada_tests::raw::{self, Batch, Connection};
use levada_tests::tiers::{EARLIEST, EARLIEST_LOCAL, EARLIEST_PENDING_UPLOAD, LATEST, LATEST_TIERED};
use levada_tests::{Node, Tool, await_some, not_run, paths};
use serde_json::{Value, json};

const NOT_LEADER_OR_FOLLOWER: i16 = 6;
const LIMIT: Duration = Duration::from_secs(60);
/// Timestamp of the first record; each next one is a second later.
const FIRST_MS: i64 = 1_700_000_000_000;
/// Each batch of one record fills a segment.
const SMALL: &str = "-c internal.segment.bytes=700 -c file.delete.delay.ms=0";
const KEEPS_NONE: &str = "-c remote.storage.enable=true -c local.retention.bytes=1 -c retention.ms=-1";

/// A node with a store in its scratch directory; none if this machine lacks Kafka's store.
fn tiered() -> Option<Node> {
    let node = Node::new();
    let class_path = paths::tiers_class_path();
    if node.kind() == Kind::Kafka && class_path.is_none() {
        not_run("Kafka's store in a directory is not installed: cargo xtask deps tiers");
        return None;
    }
    let class_path = class_path.unwrap_or_default();
    let store = store(&node);
    fs::create_dir_all(&store).expect("a directory");
    let store = store.display().to_string();
    let mut node = node
        .option("levada.remote.store", &format!("file://{store}"))
        .option("levada.remote.layout", "local")
        .option("rsm.config.dir", &store);
    let class = "org.apache.kafka.server.log.remote.storage.LocalTieredStorage";
    for (key, value) in [
        ("remote.log.storage.system.enable", "true"),
        ("remote.log.storage.manager.class.name", class),
        ("remote.log.storage.manager.class.path", &class_path),
        ("remote.log.metadata.manager.listener.name", "PLAINTEXT"),
        ("remote.log.manager.task.interval.ms", "200"),
        ("log.retention.check.interval.ms", "200"),
        ("log.initial.task.delay.ms", "200"),
        ("rlmm.config.remote.log.metadata.topic.num.partitions", "3"),
        ("rlmm.config.remote.log.metadata.topic.replication.factor", "1"),
        ("rlmm.config.remote.log.metadata.topic.min.isr", "1"),
    ] {
        node = node.option(key, value);
    }
    node.start();
    Some(node)
}

fn store(node: &Node) -> PathBuf {
    node.scratch().join("remote")
}

/// Number of segments of a topic in the store.
fn objects(node: &Node, topic: &str) -> usize {
    let partitions = fs::read_dir(store(node).join("kafka-tiered-storage"));
    let of_topic = partitions
        .into_iter()
        .flatten()
        .flatten()
        .filter(|directory| directory.file_name().to_string_lossy().starts_with(&format!("{topic}-")));
    let files = of_topic.flat_map(|directory| fs::read_dir(directory.path()).into_iter().flatten().flatten());
    files.filter(|file| file.path().extension().is_some_and(|extension| extension == "log")).count()
}

fn create(node: &Node, topic: &str, settings: &str) {
    node.levada(&format!("topic create {topic} -p 1 {settings}")).run();
}

/// Writes records with the offsets `from` to `to`, one in each batch.
fn fill(node: &Node, topic: &str, range: std::ops::Range<i64>) {
    let mut connection = Connection::open(node.address());
    for offset in range {
        let value = [b'v'; 600];
        let batch = Batch { written_ms: FIRST_MS + offset * 1_000, ..Batch::of(&[&value]) };
        let response = connection.call(&raw::produce(topic, 1, &batch.encode()));
        assert_eq!(raw::produce_error(&response), 0, "offset {offset}");
    }
}

/// Offset and leader epoch of a timestamp.
fn listed(node: &Node, topic: &str, timestamp: i64) -> (i64, i64) {
    let request = json!({"ReplicaId": -1, "TimeoutMs": 20_000, "Topics": [
        {"Name": topic, "Partitions": [{"PartitionIndex": 0, "CurrentLeaderEpoch": -1, "Timestamp": timestamp}]}
    ]});
    // After a start, a partition may have no leader yet.
    let answer: Value = await_some("a leader", LIMIT, || {
        let answer = node.levada_json(&format!("api ListOffsets {request} --version 11"));
        (answer["Topics"][0]["Partitions"][0]["ErrorCode"] != NOT_LEADER_OR_FOLLOWER).then_some(answer)
    });
    let partition = &answer["Topics"][0]["Partitions"][0];
    assert_eq!(partition["ErrorCode"], 0, "{answer}");
    let number = |name: &str| partition[name].as_i64().unwrap_or_else(|| panic!("{name}: {answer}"));
    (number("Offset"), number("LeaderEpoch"))
}

fn await_listed(node: &Node, topic: &str, timestamp: i64, offset: i64) {
    let what = format!("offset {offset} for timestamp {timestamp} of {topic}: {}", node.talk());
    await_some(&what, LIMIT, || (listed(node, topic, timestamp).0 == offset).then_some(()));
}

fn await_objects(node: &Node, topic: &str, count: usize) {
    await_some(&format!("{count} segments of {topic} in the store: {}", node.talk()), LIMIT, || {
        (objects(node, topic) == count).then_some(())
    });
}

/// The boundaries of a log of which everything before `local` has left the broker.
fn assert_boundaries(node: &Node, topic: &str, (start, local, end): (i64, i64, i64)) {
    let found = [EARLIEST, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD, LATEST]
        .map(|timestamp| listed(node, topic, timestamp).0);
    assert_eq!(found, [start, local, local - 1, local, end], "{topic}");
}

#[test]
fn copied_segments_are_deleted_locally_but_readable() {
    let Some(mut node) = tiered() else { return };
    create(&node, "clicks", &format!("{SMALL} {KEEPS_NONE}"));
    assert_eq!(listed(&node, "clicks", LATEST_TIERED), (-1, -1));
    assert_eq!(listed(&node, "clicks", EARLIEST_PENDING_UPLOAD).0, -1, "no record waits");
    fill(&node, "clicks", 0..10);
    await_listed(&node, "clicks", EARLIEST_LOCAL, 9);
    await_objects(&node, "clicks", 9);
    assert_boundaries(&node, "clicks", (0, 9, 10));
    for timestamp in [EARLIEST, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD] {
        assert_eq!(listed(&node, "clicks", timestamp).1, 0, "the epoch for {timestamp}");
    }
    // In the store, at the boundary, here, and nowhere.
    let time = |offset: i64| FIRST_MS + offset * 1_000;
    for (timestamp, offset) in [(0, 0), (time(3) - 1, 3), (time(8), 8), (time(9), 9), (time(9) + 1, -1)] {
        assert_eq!(listed(&node, "clicks", timestamp).0, offset, "{timestamp}");
    }
    node.restart();
    await_listed(&node, "clicks", LATEST_TIERED, 8);
    assert_boundaries(&node, "clicks", (0, 9, 10));
    fill(&node, "clicks", 10..12);
    await_listed(&node, "clicks", EARLIEST_LOCAL, 11);
    await_objects(&node, "clicks", 11);
    assert_boundaries(&node, "clicks", (0, 11, 12));
    node.levada("topic delete clicks --yes").run();
    await_objects(&node, "clicks", 0);
}

#[test]
fn retention_and_deleted_records_remove_objects() {
    let Some(mut node) = tiered() else { return };
    create(&node, "clicks", &format!("{SMALL} {KEEPS_NONE}"));
    fill(&node, "clicks", 0..10);
    await_objects(&node, "clicks", 9);
    await_listed(&node, "clicks", EARLIEST_LOCAL, 9);
    node.levada("topic trim clicks --to 3 --yes").run();
    await_objects(&node, "clicks", 6);
    assert_boundaries(&node, "clicks", (3, 9, 10));
    // Room for four segments of 670 bytes, of which the last is here alone.
    node.levada("topic alter clicks -c retention.bytes=2680").run();
    await_objects(&node, "clicks", 3);
    await_listed(&node, "clicks", EARLIEST, 6);
    assert_boundaries(&node, "clicks", (6, 9, 10));
    node.levada("topic alter clicks -c retention.ms=1000").run();
    await_objects(&node, "clicks", 0);
    await_listed(&node, "clicks", EARLIEST, 10);
    node.restart();
    await_listed(&node, "clicks", EARLIEST, 10);
    assert_eq!(listed(&node, "clicks", LATEST).0, 10);
}

#[test]
fn restart_counts_copied_segments_once() {
    let Some(mut node) = tiered() else { return };
    if node.kind() == Kind::Kafka {
        // Kafka may count them twice before 4.3.2 (KAFKA-20732).
        return;
    }
    // Nine segments of ten are in the store, four are here.
    create(&node, "clicks", &format!("{SMALL} {KEEPS_NONE} -c local.retention.bytes=2680"));
    fill(&node, "clicks", 0..10);
    await_objects(&node, "clicks", 9);
    await_listed(&node, "clicks", EARLIEST_LOCAL, 6);
    // Room for eleven segments of 670 bytes. A segment is deleted if the excess has its size.
    node.levada("topic alter clicks -c retention.bytes=7500").run();
    node.restart();
    fill(&node, "clicks", 10..11);
    // A round that copies also expires.
    await_listed(&node, "clicks", LATEST_TIERED, 9);
    await_listed(&node, "clicks", EARLIEST_LOCAL, 7);
    assert_eq!(listed(&node, "clicks", EARLIEST).0, 0);
    assert_eq!(objects(&node, "clicks"), 10);
    fill(&node, "clicks", 11..13);
    await_listed(&node, "clicks", EARLIEST, 1);
}

#[test]
fn default_compaction_keeps_remote_segments() {
    let Some(node) = tiered() else { return };
    create(&node, "clicks", &format!("{SMALL} {KEEPS_NONE}"));
    create(&node, "other", &format!("{SMALL} {KEEPS_NONE} -c cleanup.policy=delete"));
    fill(&node, "clicks", 0..5);
    await_objects(&node, "clicks", 4);
    node.levada("config set broker default log.cleanup.policy=compact").run();
    fill(&node, "other", 0..3);
    // Rounds of the other topic go on meanwhile.
    await_objects(&node, "other", 2);
    assert_eq!((listed(&node, "clicks", EARLIEST).0, objects(&node, "clicks")), (0, 4));
    node.levada("config set broker default log.cleanup.policy=delete").run();
    fill(&node, "clicks", 5..7);
    await_objects(&node, "clicks", 6);
    await_listed(&node, "clicks", EARLIEST_LOCAL, 6);
    assert_boundaries(&node, "clicks", (0, 6, 7));
}

#[test]
fn lost_metadata_topic_moves_no_log_start() {
    let Some(mut node) = tiered() else { return };
    if node.kind() == Kind::Kafka {
        // Kafka raises the start to the first local record.
        return;
    }
    create(&node, "clicks", &format!("{SMALL} {KEEPS_NONE}"));
    fill(&node, "clicks", 0..5);
    await_objects(&node, "clicks", 4);
    await_listed(&node, "clicks", EARLIEST_LOCAL, 4);
    node.levada("topic delete __remote_log_metadata --yes").run();
    node.restart();
    await_some(&format!("a warning: {}", node.talk()), LIMIT, || {
        node.talk().contains("does not know where they are").then_some(())
    });
    assert_eq!((listed(&node, "clicks", EARLIEST).0, objects(&node, "clicks")), (0, 4));
    // An operator gives the records up.
    node.levada("topic trim clicks --to 4 --yes").run();
    fill(&node, "clicks", 5..7);
    await_listed(&node, "clicks", LATEST_TIERED, 5);
}

#[test]
fn disabling_remote_storage_deletes_its_objects() {
    let Some(node) = tiered() else { return };
    create(&node, "clicks", &format!("{SMALL} {KEEPS_NONE}"));
    fill(&node, "clicks", 0..5);
    await_objects(&node, "clicks", 4);
    await_listed(&node, "clicks", EARLIEST_LOCAL, 4);
    // The store keeps its objects, and gets no further ones.
    let read_only = "-c remote.log.copy.disable=true -c local.retention.bytes=-2";
    node.levada(&format!("topic alter clicks {read_only}")).run();
    fill(&node, "clicks", 5..8);
    assert_eq!(listed(&node, "clicks", EARLIEST).0, 0);
    let (code, said) = node.levada("topic alter clicks -c remote.storage.enable=false").outcome();
    assert!(code != Some(0) && said.stderr.contains("without deleting remote data"), "{said:?}");
    let off = "-c remote.storage.enable=false -c remote.log.delete.on.disable=true";
    node.levada(&format!("topic alter clicks {off}")).run();
    await_objects(&node, "clicks", 0);
    await_listed(&node, "clicks", EARLIEST, 4);
    assert_eq!(listed(&node, "clicks", LATEST_TIERED), (-1, -1));
}

#[test]
fn remote_storage_that_returns_copies_again() {
    let Some(node) = tiered() else { return };
    if node.kind() == Kind::Kafka {
        // Kafka takes the deleted segments for copied ones.
        return;
    }
    create(&node, "clicks", &format!("{SMALL} -c remote.storage.enable=true -c retention.ms=-1"));
    fill(&node, "clicks", 0..5);
    await_objects(&node, "clicks", 4);
    let off = "-c remote.storage.enable=false -c remote.log.delete.on.disable=true";
    node.levada(&format!("topic alter clicks {off}")).run();
    await_objects(&node, "clicks", 0);
    node.levada("topic alter clicks -c remote.storage.enable=true -c local.retention.bytes=1").run();
    await_objects(&node, "clicks", 4);
    await_listed(&node, "clicks", EARLIEST_LOCAL, 4);
    assert_boundaries(&node, "clicks", (0, 4, 5));
}

#[test]
fn remote_reads_return_the_same_committed_records() {
    let Some(node) = tiered() else { return };
    create(&node, "clicks", &format!("{SMALL} -c remote.storage.enable=true -c retention.ms=-1"));
    let mut transactions = Tool::python("transactions.py");
    transactions.args([&*node.bootstrap(), "clicks", "1", "40", "7"]).run();
    let read = |level: &str| {
        let mut kcat = Tool::kcat();
        kcat.args(["-b", &node.bootstrap(), "-t", "clicks", "-X", &format!("isolation.level={level}")]);
        kcat.args(["-C", "-e", "-q", "-o", "beginning", "-f", "%o:%s\\n"]).run().stdout
    };
    let local = ["read_committed", "read_uncommitted"].map(read);
    assert!(local[0].len() < local[1].len(), "transactions were aborted");
    // The last marker stays here with its segment.
    node.levada("topic alter clicks -c local.retention.bytes=1").run();
    await_some("a remote part", LIMIT, || (listed(&node, "clicks", EARLIEST_LOCAL).0 > 50).then_some(()));
    assert_eq!(listed(&node, "clicks", EARLIEST).0, 0);
    assert!(["read_committed", "read_uncommitted"].map(read) == local, "as they were locally");
}

#[test]
fn copy_lag_delays_the_copy_of_segments() {
    let Some(node) = tiered() else { return };
    if node.kind() == Kind::Kafka {
        // Keys of Kafka 4.4.
        return;
    }
    // A segment has 670 bytes.
    let lags = "-c retention.ms=-1 -c remote.copy.lag.bytes=1500 -c remote.copy.lag.ms=-1";
    create(&node, "clicks", &format!("{SMALL} -c remote.storage.enable=true {lags}"));
    fill(&node, "clicks", 0..6);
    await_listed(&node, "clicks", LATEST_TIERED, 2);
    fill(&node, "clicks", 6..7);
    await_listed(&node, "clicks", LATEST_TIERED, 3);
    assert_eq!((objects(&node, "clicks"), listed(&node, "clicks", EARLIEST_PENDING_UPLOAD).0), (4, 4));
    let described = node.levada_json("topic describe clicks");
    let partition = &described[0]["partitions"][0];
    assert_eq!([&partition["copied_offset"], &partition["not_copied"]], [3, 3], "{described}");
    let (status, page) = node.http("/topics/clicks");
    // Local start, copied to, not copied.
    let cells = ["0", "3", "3"].map(|offset| format!("<td class=\"n\">{offset}</td>")).concat();
    assert!(status == 200 && page.contains("Not copied") && page.contains(&cells), "{page}");
    let sized = "levada_remote_log_size_bytes{topic=\"clicks\"";
    let metrics = node.metrics();
    let (_, bytes) = metrics.iter().find(|(name, _)| name.starts_with(sized)).expect("a remote size");
    let remote = format!("{cells}<td class=\"n\">{:.2} KiB</td>", bytes / 1024.0);
    assert!(page.contains("Remote size") && page.contains(&remote), "{bytes}: {page}");
    node.levada("topic alter clicks --delete-config remote.copy.lag.bytes").run();
    await_listed(&node, "clicks", LATEST_TIERED, 5);
}

#[test]
fn tiered_config_errors_match_kafka() {
    let Some(node) = tiered() else { return };
    for (settings, words) in [
        ("-c cleanup.policy=compact", "Remote log storage only supports topics with cleanup.policy=delete"),
        (
            "-c retention.ms=1000 -c local.retention.ms=2000",
            "Invalid value 2000 for configuration local.retention.ms: Value must not be more than retention.ms property value: 1000",
        ),
        (
            "-c retention.bytes=1000 -c local.retention.bytes=-1",
            "Invalid value -1 for configuration local.retention.bytes: Value must not be -1 as retention.bytes value is set as 1000.",
        ),
        (
            "-c remote.log.copy.disable=true -c local.retention.ms=2000",
            "the `local.retention.ms` and `retention.ms` must be set to the identical value",
        ),
    ] {
        let line = format!("topic create t -p 1 -c remote.storage.enable=true {settings}");
        let (code, said) = node.levada(&line).outcome();
        assert!(code != Some(0) && said.stderr.contains(words), "{settings}: {said:?}");
    }
}
