//! Compacted topics under load: readers see each record at its offset, and in the end only the last
//! value of each key is left, also after a crash; Kafka's own tool reads the files. The broker's
//! own topics, and a log that cannot be compacted.
//!
//! Suite: long; 42 s; needs java, python

use std::fs;
use std::path::Path;
use std::time::Duration;

use levada_testing::seed;
use levada_tests::node::Kind;
use levada_tests::{Node, Tool, await_some};

const LIMIT: Duration = Duration::from_secs(60);

fn verify(node: &Node, expected: &Path) {
    let mut tool = Tool::python("compacted.py");
    let said = tool.args(["verify", &node.bootstrap(), "compacted", &expected.display().to_string()]).run();
    println!("{}", said.stdout.trim());
}

fn metric(node: &Node, name: &str) -> f64 {
    let metrics = node.metrics();
    metrics.iter().find(|(found, _)| found == name).unwrap_or_else(|| panic!("no {name} in {metrics:?}")).1
}

/// The files of partitions that end so, in order.
fn files(data: &Path, partitions: &[&str], ending: &str) -> Vec<String> {
    let dirs = partitions.iter().map(|name| fs::read_dir(data.join(name)).expect("a partition"));
    let paths = dirs.flatten().map(|entry| entry.expect("an entry").path().display().to_string());
    let mut paths: Vec<String> = paths.filter(|path| path.ends_with(ending)).collect();
    paths.sort();
    paths
}

#[test]
fn compaction_keeps_latest_values_at_their_offsets() {
    let mut node = Node::new().option("log.cleaner.backoff.ms", "100").option("log.cleaner.threads", "2");
    node.start();
    let expected = node.scratch().join("expected.json");
    let mut load = Tool::python("compacted.py");
    load.args(["load", &node.bootstrap(), "compacted", &expected.display().to_string(), "300"]);
    println!("{}", load.arg(seed().to_string()).run().stdout.trim());
    verify(&node, &expected);
    // file.delete.delay.ms is short.
    let replaced = || files(&node.data(), &["compacted-0", "compacted-1"], ".deleted");
    await_some("the end of replaced files", LIMIT, || replaced().is_empty().then_some(()));
    if node.kind() == Kind::Levada {
        let turn = |work| metric(&node, &format!("levada_append_lane_hold_seconds_max{{work=\"{work}\"}}"));
        let (append, other) = (turn("append"), turn("housekeeping"));
        let runs = metric(&node, "levada_cleaner_runs_total");
        println!("{runs} compactions; a lane was held for {append} s by an append, {other} s by other work");
        assert!(runs > 0.0 && append > 0.0 && other > 0.0);
        assert_eq!(metric(&node, "levada_cleaner_uncleanable_partitions"), 0.0);
    }
    node.kill();
    node.start();
    verify(&node, &expected);
    node.restart();
    verify(&node, &expected);
    node.stop();

    let checkpoint = fs::read_to_string(node.data().join("cleaner-offset-checkpoint")).expect("a checkpoint");
    assert!(checkpoint.contains("\ncompacted 0 ") && checkpoint.contains("\ncompacted 1 "), "{checkpoint}");
    let logs = files(&node.data(), &["compacted-0", "compacted-1"], ".log");
    let mut dump = Tool::java("org.apache.kafka.tools.DumpLogSegments");
    let dumped = dump.args(["--deep-iteration", "--files", &logs.join(",")]).run().stdout;
    assert!(dumped.contains("isvalid: true") && !dumped.contains("isvalid: false"), "{dumped}");
}

#[test]
fn groups_and_transactions_survive_internal_topic_compaction() {
    let mut node = Node::new().option("log.cleaner.backoff.ms", "100");
    for topic in ["offsets.topic", "transaction.state.log"] {
        node = node.option(&format!("{topic}.num.partitions"), "1");
    }
    node.start();
    let committed = node.scratch().join("committed.json");
    let ask = |node: &Node, what: &str| {
        let mut tool = Tool::python("internal.py");
        let said = tool.args([what, &node.bootstrap(), &committed.display().to_string()]).run().stdout;
        println!("{}", said.trim());
    };
    ask(&node, "fill");
    let topics = ["__consumer_offsets-0", "__transaction_state-0"];
    assert!(!files(&node.data(), &topics, ".deleted").is_empty(), "file.delete.delay.ms is a minute");
    node.kill();
    node.start();
    ask(&node, "verify");
    node.restart();
    ask(&node, "verify");
    node.stop();
}

#[test]
fn damaged_log_is_not_compacted_but_reported() {
    if Kind::under_test() == Kind::Kafka {
        return;
    }
    let mut node = Node::new().option("log.cleaner.backoff.ms", "100").option("log.cleaner.threads", "0");
    node.start();
    for topic in ["bad", "good"] {
        let expected = node.scratch().join(topic).display().to_string();
        Tool::python("compacted.py").args(["load", &node.bootstrap(), topic, &expected, "40", "1"]).run();
    }
    node.stop();
    let damaged = files(&node.data(), &["bad-0"], ".log").remove(0);
    let mut bytes = fs::read(&damaged).expect("a segment");
    bytes[100] ^= 1;
    fs::write(&damaged, bytes).expect("a segment");
    let mut node = node.option("log.cleaner.threads", "1");
    node.start();
    let checkpoint = node.data().join("cleaner-offset-checkpoint");
    await_some("the other three partitions", LIMIT, || {
        let done = fs::read_to_string(&checkpoint).unwrap_or_default();
        let others = ["bad 1 ", "good 0 ", "good 1 "].iter().all(|line| done.contains(line));
        (others && metric(&node, "levada_cleaner_uncleanable_partitions") == 1.0).then_some(())
    });
    let talk = node.talk();
    let told = talk.lines().find(|line| line.contains("cannot be compacted")).expect("an error");
    for part in ["bad-0", &damaged, "batch at 0 with offset 0"] {
        assert!(told.contains(part), "{part} is not in {told}");
    }
    node.stop();
}

#[test]
fn shorter_cleaner_backoff_takes_effect_immediately() {
    let mut node = Node::new().option("log.cleaner.backoff.ms", "3600000");
    node.start();
    let expected = node.scratch().join("expected.json").display().to_string();
    Tool::python("compacted.py").args(["load", &node.bootstrap(), "late", &expected, "40", "1"]).run();
    let mut tool = Tool::java("kafka.admin.ConfigCommand");
    tool.args(["--bootstrap-server", &node.bootstrap(), "--alter", "--entity-type", "brokers"]);
    tool.args(["--entity-name", "1", "--add-config", "log.cleaner.backoff.ms=100"]).run();
    let checkpoint = node.data().join("cleaner-offset-checkpoint");
    await_some("compaction", LIMIT, || {
        fs::read_to_string(&checkpoint).unwrap_or_default().contains("\nlate 0 ").then_some(())
    });
    node.stop();
}
