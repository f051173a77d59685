//! Storage that fails, under the real binary: the broker continues with the rest; impossible
//! requests get Kafka's error, and work again without a restart.
//!
//! Suite: short; 10 s

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use levada_tests::node::Kind;
use levada_tests::raw::{self, Batch, Connection};
use levada_tests::{Node, await_some, not_run, process};

const SOON: Duration = Duration::from_secs(30);
const NONE: i16 = 0;
const STORAGE_ERROR: i16 = 56;

/// Runs a command on a data directory that is a small separate file system, which only that command
/// sees.
const ON_SMALL_DISK: &str = r#"mount -t tmpfs -o size=8m tmpfs "$0" && exec "$@""#;

#[test]
fn full_disk_refuses_writes_until_space_is_free() {
    if Kind::under_test() == Kind::Kafka {
        return println!("left out: it takes a Levada");
    }
    if !process::namespaces_allowed() {
        return not_run("a full disk: there are no user namespaces");
    }
    let mut node = Node::new();
    fs::create_dir_all(node.data()).expect("a data directory");
    let data = node.data().display().to_string();
    node.wrap(&[
        "unshare",
        "--user",
        "--map-root-user",
        "--mount",
        "--fork",
        "sh",
        "-c",
        ON_SMALL_DISK,
        &data,
    ]);
    node.start();
    let mut connection = Connection::open(node.address());
    assert_eq!(raw::topic_error(&connection.call(&raw::create_topic("early", 1))), NONE);

    let batch = Batch::of(&[&[7; 60_000]]).encode();
    let disk = PathBuf::from(format!("/proc/{}/root{data}", node.pid()));
    let ballast = disk.join("ballast");
    fs::write(&ballast, vec![0; 2 << 20]).expect("room for the ballast");
    let acknowledged = fill(&mut connection, "early", &batch);
    assert!(acknowledged > 0, "the disk was full before the first batch");
    let mut rest = File::create(disk.join("rest")).expect("a name takes no room");
    while rest.write_all(&[0; 4096]).is_ok() {}
    assert_eq!(raw::produce_error(&connection.call(&raw::produce("early", 1, &batch))), STORAGE_ERROR);
    assert_ne!(raw::topic_error(&connection.call(&raw::create_topic("late", 1))), NONE);
    assert_eq!(raw::fetch_error(&connection.call(&raw::fetch("early", 0, 1 << 20))), NONE);
    await_some("a line that names the file and the cause", SOON, || {
        let said = node.talk();
        let names = said.contains("early-0/00000000000000000000.log") && said.contains("No space left");
        names.then_some(())
    });

    fs::remove_file(ballast).expect("the ballast is there");
    assert_eq!(raw::produce_error(&connection.call(&raw::produce("early", 1, &batch))), NONE);
    let end = raw::listed_offset(&connection.call(&raw::list_end_offset("early")));
    assert_eq!(end, acknowledged + 1, "every acknowledged record, and nothing of the refused ones");
    await_some("room for another topic", SOON, || {
        // Refused before it was recorded, or recorded before its directory was refused: either way
        // it comes.
        connection.call(&raw::create_topic("late", 1));
        (raw::produce_error(&connection.call(&raw::produce("late", 1, &batch))) == NONE).then_some(())
    });
    await_some("good health", SOON, || (node.http("/healthz").0 == 200).then_some(()));
    node.stop();
}

/// Produces until the disk refuses; returns the records that were taken.
fn fill(connection: &mut Connection, topic: &str, batch: &[u8]) -> i64 {
    for taken in 0..10_000 {
        match raw::produce_error(&connection.call(&raw::produce(topic, 1, batch))) {
            NONE => {}
            STORAGE_ERROR => return taken,
            other => panic!("error {other} after {taken} batches"),
        }
    }
    panic!("the disk never became full");
}

#[test]
fn unopenable_partition_is_offline_until_repaired() {
    if Kind::under_test() == Kind::Kafka {
        return println!("not run: a Kafka with one log directory stops when it fails");
    }
    let mut node = Node::started();
    let mut connection = Connection::open(node.address());
    let batch = Batch::of(&[b"one"]).encode();
    for topic in ["broken", "whole"] {
        assert_eq!(raw::topic_error(&connection.call(&raw::create_topic(topic, 1))), NONE);
        assert_eq!(raw::produce_error(&connection.call(&raw::produce(topic, 1, &batch))), NONE);
    }
    node.stop();
    let (dir, away) = (node.data().join("broken-0"), node.scratch().join("away"));
    fs::rename(&dir, &away).expect("the partition's directory");
    File::create(&dir).expect("a file in its place");

    node.start();
    let mut connection = Connection::open(node.address());
    assert_eq!(raw::produce_error(&connection.call(&raw::produce("whole", 1, &batch))), NONE);
    assert_eq!(raw::produce_error(&connection.call(&raw::produce("broken", 1, &batch))), STORAGE_ERROR);
    assert_eq!(raw::fetch_error(&connection.call(&raw::fetch("broken", 0, 1 << 20))), STORAGE_ERROR);
    let (status, reason) = node.http("/healthz");
    assert!(status == 503 && reason.contains("1 partitions are offline"), "{status} {reason}");
    assert_eq!(node.http("/livez").0, 200, "a restart opens no partition");
    assert!(node.talk().contains("broken-0"), "{}", node.talk());

    put_back(&dir, &away);
    await_some("the partition", SOON, || {
        (raw::produce_error(&connection.call(&raw::produce("broken", 1, &batch))) == NONE).then_some(())
    });
    assert_eq!(raw::listed_offset(&connection.call(&raw::list_end_offset("broken"))), 2);
    assert_eq!(node.http("/healthz").0, 200);
    node.stop();
}

fn put_back(dir: &Path, away: &Path) {
    fs::remove_file(dir).expect("the file in its place");
    fs::rename(away, dir).expect("the partition's directory");
}
