//! Compacted topics under load: readers see what was written at the offsets where it was written, and in the end the last value of each key
//! and nothing else is left, also after a crash; Kafka's own tool reads the files. The broker's own topics, and
//! a log that cannot be compacted.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use levada_tests::node::Kind;
use levada_tests::{Node, Tool, await_some, seed};

fn verify(node: &Node, expected: &Path) {
    let mut tool = Tool::python("compacted.py");
    let said = tool.args(["verify", &node.bootstrap(), "compacted", &expected.display().to_string()]).run();
    println!("{}", said.stdout.trim());
}

fn metric(node: &Node, name: &str) -> f64 {
    let metrics = node.metrics();
    metrics.iter().find(|(found, _)| found == name).unwrap_or_else(|| panic!("no {name} in {metrics:?}")).1
}

/// The segments of partitions, in order.
fn logs(data: &Path, partitions: &[&str]) -> Vec<PathBuf> {
    let dirs = partitions.iter().map(|name| fs::read_dir(data.join(name)).expect("a partition"));
    let paths = dirs.flatten().map(|entry| entry.expect("an entry").path());
    let mut paths: Vec<PathBuf> =
        paths.filter(|path| path.extension().is_some_and(|ending| ending == "log")).collect();
    paths.sort();
    paths
}

#[test]
fn the_last_value_of_each_key_stays_where_it_was() {
    let mut node = Node::new().option("log.cleaner.backoff.ms", "100").option("log.cleaner.threads", "2");
    node.start();
    let expected = node.scratch().join("expected.json");
    let mut load = Tool::python("compacted.py");
    load.args(["load", &node.bootstrap(), "compacted", &expected.display().to_string(), "300"]);
    println!("{}", load.arg(seed().to_string()).run().stdout.trim());
    verify(&node, &expected);
    if node.kind() == Kind::Levada {
        let turn = |work| metric(&node, &format!("levada_lane_longest_turn_seconds{{work=\"{work}\"}}"));
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
    let logs = logs(&node.data(), &["compacted-0", "compacted-1"]);
    let logs: Vec<String> = logs.iter().map(|path| path.display().to_string()).collect();
    let mut dump = Tool::java("org.apache.kafka.tools.DumpLogSegments");
    let dumped = dump.args(["--deep-iteration", "--files", &logs.join(",")]).run().stdout;
    assert!(dumped.contains("isvalid: true") && !dumped.contains("isvalid: false"), "{dumped}");
}

#[test]
fn groups_and_transactions_go_on_after_their_topics_were_compacted() {
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
    node.kill();
    node.start();
    ask(&node, "verify");
    node.restart();
    ask(&node, "verify");
    node.stop();
}

#[test]
fn a_damaged_log_is_left_alone_and_told_of() {
    if Kind::under_test() == Kind::Kafka {
        return;
    }
    // One round at the start, and no other while the topics are written.
    let mut node = Node::new().option("log.cleaner.backoff.ms", "3600000");
    node.start();
    for topic in ["bad", "good"] {
        let expected = node.scratch().join(topic).display().to_string();
        Tool::python("compacted.py").args(["load", &node.bootstrap(), topic, &expected, "40", "1"]).run();
    }
    node.stop();
    let damaged = logs(&node.data(), &["bad-0"]).remove(0);
    let mut bytes = fs::read(&damaged).expect("a segment");
    bytes[100] ^= 1;
    fs::write(&damaged, bytes).expect("a segment");
    node.start();
    await_some("the other three partitions", Duration::from_secs(60), || {
        (metric(&node, "levada_cleaner_runs_total") == 3.0).then_some(())
    });
    assert_eq!(metric(&node, "levada_cleaner_uncleanable_partitions"), 1.0);
    let talk = node.talk();
    let told = talk.lines().find(|line| line.contains("cannot be compacted")).expect("an error");
    for part in ["bad-0", &damaged.display().to_string(), "batch at 0 with offset 0"] {
        assert!(told.contains(part), "{part} is not in {told}");
    }
    node.stop();
}
