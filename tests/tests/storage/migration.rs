//! A data directory that changes hands: what Kafka leaves, Levada serves as it is, and the other
//! way round.
//!
//! Suite: long; 132 s; needs java, python

use std::path::PathBuf;
use std::time::Duration;

use levada_tests::node::Kind;
use levada_tests::{Node, Tool, await_some};

/// Everything that a client can see, line by line.
fn survey(node: &Node) -> Vec<String> {
    let said = Tool::python("inventory.py").args(["survey", &node.bootstrap()]).run();
    said.stdout.lines().map(str::to_string).collect()
}

fn do_there(node: &Node, verb: &str) {
    Tool::python("inventory.py").args([verb, &node.bootstrap()]).run();
}

/// Fills a directory under the first of `hands`, and has every other one serve it, work on, and
/// pass it on.
fn pass_on(hands: &[Kind]) {
    let mut node = Node::of(hands[0]).option("offsets.topic.num.partitions", "5");
    node = node.option("transaction.state.log.num.partitions", "5").option("log.retention.ms", "-1");
    // Open transactions must still be open when they are looked at.
    node = node.option("transaction.max.timeout.ms", "3600000");
    node.start();
    do_there(&node, "fill");
    for next in &hands[1..] {
        let left = survey(&node);
        assert!(left.len() > 40, "{left:#?}");
        node.stop();
        check(&node);
        node.hand_over(*next);
        // The directory says how many there are; a successor's configuration may say something
        // else.
        for key in ["offsets.topic.num.partitions", "transaction.state.log.num.partitions"] {
            node = node.option(key, "7");
        }
        node.start();
        let found = survey(&node);
        for (left, found) in left.iter().zip(&found) {
            assert_eq!(left, found, "under {next:?}");
        }
        assert_eq!(left.len(), found.len(), "under {next:?}: {left:#?}\n{found:#?}");
        do_there(&node, "go-on");
    }
    node.stop();
    check(&node);
}

/// Nothing in it is damaged, whichever broker left it.
fn check(node: &Node) {
    let said = Tool::levada().args(["storage", "check", &node.data().display().to_string()]).run();
    assert!(said.stdout.contains(": sound: "), "{}", said.stdout);
}

#[test]
fn kafka_directory_survives_levada_and_return() {
    pass_on(&[Kind::Kafka, Kind::Levada, Kind::Kafka]);
}

#[test]
fn levada_directory_survives_kafka_and_return() {
    pass_on(&[Kind::Levada, Kind::Kafka, Kind::Levada]);
}

/// The files of the metadata log that end so, in order.
fn metadata_files(node: &Node, end: &str) -> Vec<PathBuf> {
    let entries =
        std::fs::read_dir(node.data().join("__cluster_metadata-0")).expect("the directory is there");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let mut paths: Vec<PathBuf> = paths.filter(|path| path.to_string_lossy().ends_with(end)).collect();
    paths.sort();
    paths
}

/// Levada takes snapshots and removes what lies before them; Kafka's tools read them, and Kafka
/// continues from there.
#[test]
fn truncated_metadata_log_survives_kafka_and_return() {
    let mut node = Node::of(Kind::Levada)
        .option("offsets.topic.num.partitions", "5")
        .option("transaction.state.log.num.partitions", "5")
        .option("transaction.max.timeout.ms", "3600000")
        .option("log.retention.ms", "-1")
        .option("metadata.log.max.record.bytes.between.snapshots", "500")
        .option("metadata.max.retention.bytes", "500");
    node.start();
    do_there(&node, "fill");
    await_some("the metadata log to be shortened", Duration::from_secs(60), || {
        (!metadata_files(&node, ".log")[0].ends_with("00000000000000000000.log")).then_some(())
    });
    let left = survey(&node);
    node.stop();
    check(&node);
    // A broker that runs removes older snapshots.
    let snapshot = metadata_files(&node, ".checkpoint").pop().expect("a snapshot");
    let path = snapshot.display().to_string();
    let said = Tool::java("org.apache.kafka.tools.DumpLogSegments")
        .args(["--cluster-metadata-decoder", "--files", &path])
        .run();
    for part in [
        "SnapshotHeader",
        "SnapshotFooter",
        "FEATURE_LEVEL_RECORD",
        "PARTITION_RECORD",
        "REGISTER_BROKER_RECORD",
    ] {
        assert!(said.stdout.contains(part), "{part}: {}", said.stdout);
    }
    for next in [Kind::Kafka, Kind::Levada] {
        node.hand_over(next);
        node.start();
        assert_eq!(survey(&node), left, "under {next:?}");
        node.stop();
        check(&node);
    }
}
