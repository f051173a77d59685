//! A compacted topic under load: readers see what was written at the offsets where it was written, and in the end the last value of each key
//! and nothing else is left, also after a crash; Kafka's own tool reads the files.

use std::fs;
use std::path::{Path, PathBuf};

use levada_tests::node::Kind;
use levada_tests::{Node, Tool, seed};

/// Appends of other clients may be held up for so long, generously: a file being copied or synced takes longer.
const LONGEST_TURN_SECONDS: f64 = 0.5;

fn verify(node: &Node, expected: &Path) {
    let mut tool = Tool::python("compacted.py");
    let said = tool.args(["verify", &node.bootstrap(), "compacted", &expected.display().to_string()]).run();
    println!("{}", said.stdout.trim());
}

fn metric(node: &Node, name: &str) -> f64 {
    let metrics = node.metrics();
    metrics.iter().find(|(found, _)| found == name).unwrap_or_else(|| panic!("no {name} in {metrics:?}")).1
}

/// Files of the topic that end so.
fn files(data: &Path, ending: &str) -> Vec<PathBuf> {
    let dirs = ["compacted-0", "compacted-1"].map(|name| fs::read_dir(data.join(name)).expect("a partition"));
    let paths = dirs.into_iter().flatten().map(|entry| entry.expect("an entry").path());
    paths.filter(|path| path.to_string_lossy().ends_with(ending)).collect()
}

#[test]
fn the_last_value_of_each_key_stays_where_it_was() {
    let mut node = Node::new().option("log.cleaner.backoff.ms", "100").option("log.cleaner.threads", "2");
    node.start();
    let expected = node.scratch().join("expected.json");
    let mut load = Tool::python("compacted.py");
    load.args(["load", &node.bootstrap(), "compacted", &expected.display().to_string(), "120"]);
    println!("{}", load.arg(seed().to_string()).run().stdout.trim());
    verify(&node, &expected);
    if node.kind() == Kind::Levada {
        let (runs, turn) =
            (metric(&node, "levada_cleaner_runs_total"), metric(&node, "levada_lane_longest_turn_seconds"));
        println!("{runs} compactions, longest turn of a lane {turn} s");
        assert!(runs > 0.0);
        assert_eq!(metric(&node, "levada_cleaner_uncleanable_partitions"), 0.0);
        assert!(turn < LONGEST_TURN_SECONDS, "a lane was held for {turn} s");
    }
    node.kill();
    node.start();
    verify(&node, &expected);
    node.restart();
    verify(&node, &expected);
    node.stop();

    let checkpoint = fs::read_to_string(node.data().join("cleaner-offset-checkpoint")).expect("a checkpoint");
    assert!(checkpoint.contains("\ncompacted 0 ") && checkpoint.contains("\ncompacted 1 "), "{checkpoint}");
    let logs: Vec<String> =
        files(&node.data(), ".log").iter().map(|path| path.display().to_string()).collect();
    let mut dump = Tool::java("org.apache.kafka.tools.DumpLogSegments");
    let dumped = dump.args(["--deep-iteration", "--files", &logs.join(",")]).run().stdout;
    assert!(dumped.contains("isvalid: true") && !dumped.contains("isvalid: false"), "{dumped}");
}
