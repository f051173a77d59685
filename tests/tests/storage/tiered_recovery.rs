//! A remote store without its broker: data directories that are restored from the objects alone,
//! and two clusters that were given one store.
//!
//! Suite: short; 10 s; uses s3; share tiers

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use levada_tests::sick_store::ObjectServer;
use levada_tests::tiers::{
    EARLIEST, EARLIEST_LOCAL, LATEST, SETTINGS, TOPIC, TieredNode, await_segments, segments,
};
use levada_tests::{await_some, not_run, paths};
use serde_json::{Value, json};

const LIMIT: Duration = Duration::from_secs(60);

fn started(store: &Path, layout: &str) -> Option<TieredNode> {
    let mut tiered = TieredNode::in_directory(store, layout)?;
    tiered.node.start();
    Some(tiered)
}

fn plan(tiered: &TieredNode, words: &str) -> Value {
    let said = tiered.storage(&format!("restore {words}--output json")).run();
    serde_json::from_str(&said.stdout).expect("JSON")
}

#[test]
fn broker_is_restored_from_remote_store_only() {
    for layout in ["aiven", "local"] {
        let dir = tempfile::tempdir().expect("a directory");
        let store = dir.path();
        let Some(mut tiered) = started(store, layout) else { return };
        tiered.create(2);
        tiered.fill(0, 0..10);
        tiered.fill(1, 0..4);
        await_segments(&tiered, store, 12);
        tiered.await_listed(EARLIEST_LOCAL, 9);
        let before = tiered.replay(0..9);
        let id = |tiered: &TieredNode| {
            tiered.node.levada_json(&format!("topic describe {TOPIC}"))[0]["id"].clone()
        };
        let former_id = id(&tiered);
        tiered.node.kill();
        fs::remove_dir_all(tiered.node.data()).expect("the disk is lost");

        let found = plan(&tiered, "--dry-run ");
        assert_eq!(found["topics"][0]["partitions"][0]["end_offset"], 8, "{found}");
        assert_eq!(found["left_out"], json!([]), "{found}");
        assert!(!tiered.node.data().exists(), "a dry run writes nothing");
        let said = tiered.storage("restore").run();
        assert!(said.stdout.contains("clicks-1: offsets 0 to 2, 3 segments"), "{said:?}");
        let (code, said) = tiered.storage("restore").outcome();
        assert!(code == Some(1) && said.stderr.contains("is not empty"), "{said:?}");

        tiered.node.start();
        assert!(tiered.replay(0..9) == before, "{layout}: the records are those of before");
        assert_eq!(id(&tiered), former_id);
        for (partition, end) in [(0, 9), (1, 3)] {
            let times = [EARLIEST, EARLIEST_LOCAL, LATEST];
            assert_eq!(times.map(|time| tiered.listed(partition, time)), [0, end, end]);
        }
        tiered.node.levada(&format!("topic alter {TOPIC} {SETTINGS}")).run();
        // Offsets of records in the store are not given to others.
        tiered.fill(0, 9..12);
        await_segments(&tiered, store, 14);
        tiered.node.restart();
        assert!(tiered.replay(0..12).starts_with(&before));
        assert_eq!(tiered.listed(0, LATEST), 12);
        tiered.assert_sound(14);
    }
}

#[test]
fn bucket_is_restored_into_several_directories() {
    if !paths::object_server().exists() {
        return not_run("a server of the S3 protocol is not installed: cargo xtask deps s3");
    }
    let server = ObjectServer::start();
    let Some(tiered) = TieredNode::in_bucket(&format!("http://{}", server.address())) else { return };
    let dirs = ["one", "two"].map(|name| tiered.node.scratch().join(name));
    let mut tiered = tiered.with_dirs(&dirs);
    tiered.node.start();
    tiered.create(4);
    for partition in 0..4 {
        tiered.fill(partition, 0..5);
    }
    await_segments(&tiered, &server.file("broker"), 16);
    tiered.await_listed(EARLIEST_LOCAL, 4);
    let before = tiered.replay(0..4);
    tiered.node.kill();
    dirs.iter().for_each(|dir| fs::remove_dir_all(dir).expect("the disk is lost"));
    let (code, said) = tiered.storage("restore").outcome();
    assert_eq!(code, Some(0), "{said:?}");
    tiered.node.start();
    assert!(tiered.replay(0..4) == before);
    for partition in 0..4 {
        assert_eq!([EARLIEST, LATEST].map(|time| tiered.listed(partition, time)), [0, 4]);
    }
    let logs = |dir: &PathBuf| (0..4).filter(|index| dir.join(format!("{TOPIC}-{index}")).is_dir()).count();
    assert_eq!([logs(&dirs[0]), logs(&dirs[1])], [4, 0], "the restored logs, which begin empty");
    tiered.assert_sound(16);
}

#[test]
fn damaged_objects_are_left_out_and_named() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = dir.path();
    let Some(mut tiered) = started(store, "local") else { return };
    tiered.create(1);
    tiered.fill(0, 0..8);
    await_segments(&tiered, store, 7);
    tiered.node.kill();
    fs::remove_dir_all(tiered.node.data()).expect("the disk is lost");
    // An object that ends within a batch, an index that claims gigabytes, and a foreign file.
    let objects = segments(store);
    let log = fs::read(&objects[1]).expect("an object");
    fs::write(&objects[1], &log[..log.len() - 10]).expect("a write");
    fs::write(objects[6].with_extension("index"), [0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff]).expect("a write");
    fs::write(store.join("kafka-tiered-storage/README"), "of the operator").expect("a write");
    let found = plan(&tiered, "");
    let partition = &found["topics"][0]["partitions"][0];
    assert_eq!((&partition["start_offset"], &partition["end_offset"]), (&json!(2), &json!(5)), "{found}");
    let left_out = found["left_out"].as_array().expect("a list");
    let reasons: Vec<&str> = left_out.iter().filter_map(|one| one["reason"].as_str()).collect();
    assert!(reasons.len() == 3 && reasons[0].contains("within a batch"), "{reasons:?}");
    assert!(reasons[1].contains("bytes 4294967295 to") && reasons[2].contains("1 to 1"), "{reasons:?}");
    assert_eq!(found["other_objects"], 1);
    tiered.node.start();
    assert_eq!([EARLIEST, LATEST].map(|time| tiered.listed(0, time)), [2, 6]);
    assert_eq!(segments(store).len(), 7, "objects that are left out stay");
}

#[test]
fn second_cluster_changes_nothing_in_the_store() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = dir.path();
    let Some(first) = started(store, "local") else { return };
    first.create(1);
    first.fill(0, 0..4);
    await_segments(&first, store, 3);
    let Some(mut second) = started(store, "local") else { return };
    second.create(1);
    second.fill(0, 0..4);
    await_some("the refusal in the log", LIMIT, || {
        let talk = second.node.talk();
        (talk.contains("the store belongs to cluster") && talk.contains("levada.remote.store")).then_some(())
    });
    second.node.levada(&format!("topic delete {TOPIC} --yes")).run();
    second.node.restart();
    assert_eq!(segments(store).len(), 3);
    first.fill(0, 4..6);
    await_segments(&first, store, 5);
    first.assert_sound(5);
}
