//! `levada storage` on directories that a broker has left: sound ones, and each with a change
//! since.
//!
//! Suite: short; 2 s

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;

use levada_tests::node::Kind;
use levada_tests::raw::{self, Batch, Connection};
use levada_tests::{Node, Tool};
use levada_tiered::record::encode;
use levada_tiered::{
    RemoteRecord, RemoteSegment, RemoteSegmentId, SegmentState, SegmentUpdate, TopicIdPartition,
    metadata_partition,
};
use levada_wire::Uuid;
use serde_json::{Value, json};

/// The check's report on a directory, and its exit code.
fn check(dir: &Path) -> (Option<i32>, Value) {
    let mut tool = Tool::levada();
    let (code, said) =
        tool.args(["storage", "check", "--output", "json", &dir.display().to_string()]).outcome();
    let report = serde_json::from_str(&said.stdout).unwrap_or_else(|error| panic!("{error}: {said:?}"));
    (code, report)
}

fn partition<'a>(report: &'a Value, topic: &str) -> &'a Value {
    let partitions = report["partitions"].as_array().expect("partitions");
    partitions
        .iter()
        .find(|one| one["topic"] == topic)
        .unwrap_or_else(|| panic!("{topic} is not in {report:#}"))
}

/// A stopped node with two topics of a few segments each.
fn stopped() -> Node {
    let mut node =
        Node::new().option("log.segment.bytes", "1048576").option("log.index.interval.bytes", "1000");
    node.start();
    let mut connection = Connection::open(node.address());
    let batch = Batch::of(&[&[7; 50_000], b"two"]).encode();
    for topic in ["one", "other"] {
        assert_eq!(raw::topic_error(&connection.call(&raw::create_topic(topic, 1))), 0);
        for _ in 0..60 {
            assert_eq!(raw::produce_error(&connection.call(&raw::produce(topic, 1, &batch))), 0);
        }
    }
    node
}

#[test]
fn stopped_or_killed_broker_leaves_sound_storage() {
    let mut node = stopped();
    let dir = node.data().display().to_string();
    if node.kind() == Kind::Levada {
        let (code, said) = Tool::levada().args(["storage", "check", &dir]).outcome();
        assert!(code == Some(1) && said.stderr.contains("in use"), "{said:?}");
        let info = Tool::levada().args(["storage", "info", &dir]).run();
        assert!(info.stdout.contains("in use"), "{info:?}");
    }
    node.kill();
    let (code, report) = check(&node.data());
    assert_eq!((code, report["clean"].as_bool()), (Some(0), Some(false)), "{report:#}");
    node.start();
    node.stop();
    let (code, report) = check(&node.data());
    assert_eq!(
        (code, &report["verdict"], &report["clean"]),
        (Some(0), &"sound".into(), &true.into()),
        "{report:#}"
    );
    for topic in ["one", "other"] {
        let one = partition(&report, topic);
        assert_eq!(
            (&one["records"], &one["batches"], &one["log_end_offset"]),
            (&120.into(), &60.into(), &120.into())
        );
        assert_eq!(one["segments"], 3);
        assert_eq!(one["findings"], Value::Array(Vec::new()), "{report:#}");
    }
    let info = Tool::levada().args(["storage", "info", "--output", "json", &dir]).run();
    let info: Value = serde_json::from_str(&info.stdout).expect("JSON");
    assert_eq!((&info["in_use"], &info["clean"], &info["node_id"]), (&false.into(), &true.into(), &1.into()));
    let sizes = info["partitions"].as_array().expect("partitions").iter();
    let log_bytes: i64 = sizes.map(|one| one["log_bytes"].as_i64().expect("a size")).sum();
    assert!(log_bytes >= 120 * 50_000, "{info:#}");
}

#[test]
fn storage_check_locates_damage_in_one_partition() {
    let mut node = stopped();
    node.stop();
    let log = node.data().join("one-0/00000000000000000000.log");
    let file = OpenOptions::new().read(true).write(true).open(&log).expect("a segment");
    let mut byte = [0];
    file.read_exact_at(&mut byte, 125_000).expect("a segment of that length");
    file.write_all_at(&[byte[0] ^ 1], 125_000).expect("a writable segment");
    let (code, report) = check(&node.data());
    assert_eq!(code, Some(1));
    let finding = &partition(&report, "one")["findings"][0];
    assert_eq!(finding["path"].as_str(), log.to_str());
    let position = finding["position"].as_u64().expect("a position");
    assert!((100_000..=125_000).contains(&position), "{finding:#}");
    assert_eq!(finding["offset"], 4);
    assert!(finding["next"].as_str().is_some_and(|next| next.contains("restore")), "{finding:#}");
    assert_eq!(partition(&report, "other")["verdict"], "sound");
    let text =
        Tool::levada().args(["storage", "check", "--quiet", &node.data().display().to_string()]).outcome().1;
    assert!(text.stdout.contains("DAMAGED") && !text.stdout.contains("other"), "{text:?}");

    // An index that points elsewhere: the advice given mends it.
    file.write_all_at(&byte, 125_000).expect("a writable segment");
    let index = log.with_extension("index");
    let mut entries = fs::read(&index).expect("an index");
    entries[7] ^= 1;
    fs::write(&index, entries).expect("a writable index");
    let (code, report) = check(&node.data());
    assert_eq!(code, Some(1), "{report:#}");
    assert!(
        partition(&report, "one")["findings"][0]["next"].as_str().is_some_and(|next| next.contains("remove"))
    );
    fs::remove_file(&index).expect("an index");
    if node.kind() == Kind::Levada {
        node.start();
        node.stop();
        assert_eq!(check(&node.data()).0, Some(0));
        assert!(index.exists(), "the index was built again");
    }
}

#[test]
fn formatted_directory_is_served_and_not_reformatted() {
    let mut node = Node::of(Kind::Levada);
    let dir = format!("log.dirs={}", node.data().display());
    let format = |more: &[&str]| {
        let mut tool = Tool::levada();
        tool.args(["storage", "format", "--cluster-id", "MkU3OEVBNTcwNTJENDM2Qk", "-o", &dir]);
        for word in more {
            tool.arg(word);
        }
        tool.outcome()
    };
    let (code, said) = format(&[]);
    assert!(code == Some(0) && said.stdout.contains("MkU3OEVBNTcwNTJENDM2Qk"), "{said:?}");
    let (code, said) = format(&[]);
    assert!(code == Some(1) && said.stderr.contains("--ignore-formatted"), "{said:?}");
    assert_eq!(format(&["--ignore-formatted"]).0, Some(0));
    node.start();
    node.stop();
    let (code, report) = check(&node.data());
    assert_eq!((code, &report["cluster_id"]), (Some(0), &"MkU3OEVBNTcwNTJENDM2Qk".into()), "{report:#}");
}

/// The manifest of a segment of seven bytes without compression.
fn manifest() -> String {
    let chunks = json!({"type": "fixed", "originalChunkSize": 4096, "originalFileSize": 7,
                        "transformedChunkSize": 4096, "finalTransformedChunkSize": 7});
    let index = |position: u32| json!({"position": position, "size": 1});
    let indexes = json!({"offset": index(0), "timestamp": index(1), "producerSnapshot": index(2),
                         "leaderEpoch": index(3), "transaction": null});
    json!({"version": "1", "chunkIndex": chunks, "segmentIndexes": indexes, "compression": false}).to_string()
}

#[test]
fn a_remote_store_is_compared_with_its_metadata() {
    let dir = tempfile::tempdir().expect("a directory");
    let (data, store) = (dir.path().join("data"), dir.path().join("store"));
    let partition =
        TopicIdPartition { topic_id: Uuid::from_bytes([9; 16]), topic: "clicks".to_owned(), partition: 0 };
    let id = RemoteSegmentId { partition, id: Uuid::from_bytes([1; 16]) };
    let segment = RemoteSegment {
        id: id.clone(),
        start_offset: 0,
        end_offset: 9,
        max_timestamp_ms: 0,
        broker_id: 1,
        event_timestamp_ms: 0,
        size: 7,
        epochs: vec![(0, 0)],
        custom_metadata: None,
        state: SegmentState::CopyStarted,
        txn_index_empty: true,
    };
    let copied = SegmentUpdate {
        id: id.clone(),
        broker_id: 1,
        event_timestamp_ms: 0,
        custom_metadata: None,
        state: SegmentState::CopyFinished,
    };
    let values = [RemoteRecord::Segment(segment), RemoteRecord::Update(copied)];
    let values = values.map(|record| encode(&record).expect("a record"));
    let log = data.join(format!("__remote_log_metadata-{}", metadata_partition(&id.partition, 50)));
    fs::create_dir_all(&log).expect("a directory");
    let batch = Batch::of(&[&values[0], &values[1]]).encode();
    fs::write(log.join("00000000000000000000.log"), batch).expect("a log");
    let folder = store.join("clicks-CQkJCQkJCQkJCQkJCQkJCQ/0");
    fs::create_dir_all(&folder).expect("a directory");
    let object = |id: &str, suffix: &str| folder.join(format!("00000000000000000000-{id}.{suffix}"));
    let own = "AQEBAQEBAQEBAQEBAQEBAQ";
    let manifest = manifest();
    for (suffix, content) in [("log", "records"), ("indexes", "iiii"), ("rsm-manifest", &manifest)] {
        fs::write(object(own, suffix), content).expect("an object");
    }
    let remote_check = || {
        let mut tool = Tool::levada();
        tool.args(["storage", "remote", "check", "--output", "json", "-o", "node.id=1"]);
        tool.args(["-o", &format!("log.dirs={}", data.display())]);
        tool.args(["-o", &format!("levada.remote.store=file://{}", store.display())]);
        let (code, said) = tool.args(["-o", "remote.log.storage.system.enable=true"]).outcome();
        let report: Value =
            serde_json::from_str(&said.stdout).unwrap_or_else(|error| panic!("{error}: {said:?}"));
        (code, report)
    };
    let (code, report) = remote_check();
    assert_eq!((code, &report["verdict"], &report["segments"]), (Some(0), &"sound".into(), &1.into()));
    let orphan = object("AgICAgICAgICAgICAgICAg", "log");
    fs::write(&orphan, "orphan").expect("an object");
    fs::remove_file(object(own, "indexes")).expect("an object");
    fs::write(object(own, "log"), "short").expect("an object");
    let (code, report) = remote_check();
    assert_eq!((code, &report["verdict"]), (Some(1), &"damaged".into()), "{report:#}");
    let ends = |value: &Value, path: &Path| path.ends_with(value.as_str().expect("a key"));
    assert!(ends(&report["missing"][0], &object(own, "indexes")), "{report:#}");
    assert!(ends(&report["wrong_size"][0]["key"], &object(own, "log")), "{report:#}");
    assert!(ends(&report["orphans"][0]["key"], &orphan), "{report:#}");
    let (code, said) = Tool::levada().args(["storage", "remote", "check", "-o", "node.id=1"]).outcome();
    assert!(code == Some(1) && said.stderr.contains("no remote store"), "{said:?}");
}
