//! `levada lab broker`: every experiment runs as small as it gets, and what went through the brokers is checked. No figure is judged.

use std::collections::BTreeSet;
use std::path::Path;

use levada_tests::node::Kind;
use levada_tests::{Tool, place};
use serde_json::Value;

/// Experiments that need Kafka's client.
const JAVA: &str = "java-producer";

fn run(scratch: &Path, arguments: &[&str]) -> Vec<Value> {
    let record = scratch.join("record.jsonl").display().to_string();
    let mut tool = Tool::levada();
    tool.args(["lab", "broker", "--tiny", "--output", "json", "--record", &record]);
    tool.arg("--dir").arg(scratch.display().to_string());
    for argument in arguments {
        tool.arg(argument);
    }
    let said = tool.run();
    let summaries: Value =
        serde_json::from_str(&said.stdout).unwrap_or_else(|error| panic!("{error}: {}", said.stdout));
    summaries.as_array().expect("a list of experiments").clone()
}

/// The systems that were measured, after a look at every row.
fn check(summary: &Value) -> BTreeSet<String> {
    let name = summary["name"].as_str().expect("a name");
    let mut measured = BTreeSet::new();
    for group in summary["groups"].as_array().expect("groups") {
        for row in group["rows"].as_array().expect("rows") {
            assert_eq!(row["sound"], true, "{name}: {row}\n{}", summary["notes"]);
            let first = summary["metrics"][0]["name"].as_str().expect("a metric");
            assert!(
                row["metrics"][first]["median"].as_f64().is_some_and(|value| value >= 0.0),
                "{name}: {row}"
            );
            for system in [&group["name"], &row["case"]] {
                let system = system.as_str().expect("a name").to_owned();
                if ["levada", "kafka", "floor"].contains(&system.as_str()) {
                    measured.insert(system);
                }
            }
        }
    }
    measured
}

#[test]
fn every_experiment_on_levada_is_sound() {
    if Kind::under_test() == Kind::Kafka {
        return println!("left out: it is a promise of Levada's alone");
    }
    let scratch = tempfile::tempdir().expect("a directory");
    let summaries = run(scratch.path(), &[]);
    assert!(summaries.len() >= 16, "{}", summaries.len());
    for summary in &summaries {
        let measured = check(summary);
        // Rows of Levada alone are named by what tells them apart.
        let name = summary["name"].as_str().expect("a name");
        let is_unnamed = [JAVA, "growth", "append"].iter().any(|end| name.ends_with(end));
        assert_eq!(measured.contains("levada"), !is_unnamed, "{name}");
    }
    let left = std::fs::read_dir(scratch.path()).expect("the directory").count();
    assert_eq!(left, 1, "only the record stays");
}

#[test]
fn kafka_runs_beside_levada() {
    if Kind::under_test() == Kind::Kafka {
        return println!("left out: it is a promise of Levada's alone");
    }
    let scratch = tempfile::tempdir().expect("a directory");
    let libs = place::kafka_libs().display().to_string();
    let summaries = run(scratch.path(), &["fetch", "tls-fetch", JAVA, "interference", "--kafka-libs", &libs]);
    assert_eq!(summaries.len(), 4);
    for summary in &summaries {
        let measured = check(summary);
        assert!(
            measured.contains("levada") && measured.contains("kafka"),
            "{}: {measured:?}",
            summary["name"]
        );
    }
}
