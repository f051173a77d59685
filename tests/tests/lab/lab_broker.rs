//! `levada lab broker`: every experiment runs as small as it gets, and what went through the
//! brokers is checked. No figure is judged.
//!
//! Suite: long; 450 s; needs java, tiers

use levada_tests::node::Kind;
use levada_tests::{lab, not_run, paths};
use serde_json::Value;

/// Experiments that need Kafka's client.
const JAVA: &str = "java-producer";

/// Experiment on clusters, whose controller is Kafka's.
const REPLICATE: &str = "replicate";

const SYSTEMS: [&str; 3] = ["levada", "kafka", "floor"];

#[test]
fn every_experiment_on_levada_is_sound() {
    if Kind::under_test() == Kind::Kafka {
        return println!("left out: it is a promise of Levada's alone");
    }
    let scratch = tempfile::tempdir().expect("a directory");
    let summaries = lab::run(scratch.path(), "broker", &[]);
    assert!(summaries.len() >= 27, "{}", summaries.len());
    for summary in &summaries {
        let measured = lab::measured(summary, &SYSTEMS);
        // Rows of Levada alone are named by what tells them apart; a cluster needs Kafka's
        // controller.
        let name = summary["name"].as_str().expect("a name");
        let unnamed = [JAVA, "growth", "append", "watched", "telemetry", REPLICATE];
        let is_unnamed = unnamed.iter().any(|end| name.ends_with(end));
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
    let libs = paths::kafka_libs().display().to_string();
    let summaries = lab::run(
        scratch.path(),
        "broker",
        &["fetch", "tls-fetch", JAVA, "interference", "--kafka-libs", &libs],
    );
    assert_both(&summaries, 4);
}

#[test]
fn control_plane_and_share_groups_run_beside_kafka() {
    if Kind::under_test() == Kind::Kafka {
        return println!("left out: it is a promise of Levada's alone");
    }
    let scratch = tempfile::tempdir().expect("a directory");
    let libs = paths::kafka_libs().display().to_string();
    let experiments = ["control", "streams-members", "share-fetch", "share-members"];
    let summaries =
        lab::run(scratch.path(), "broker", &[&experiments[..], &["--kafka-libs", &libs]].concat());
    assert_both(&summaries, experiments.len());
    let is_of_operations =
        |summary: &&Value| summary["name"] == "broker-control" || summary["name"] == "broker-streams-members";
    let of_operations = summaries.iter().filter(is_of_operations);
    let groups = of_operations.flat_map(|summary| summary["groups"].as_array().expect("groups"));
    for group in groups {
        let rows = group["rows"].as_array().expect("rows").iter();
        assert_eq!(rows.filter(|row| row["case"] != "floor").count(), 2, "{}", group["name"]);
    }
}

#[test]
fn remote_stores_of_both_systems_are_compared() {
    if Kind::under_test() == Kind::Kafka {
        return println!("left out: it is a promise of Levada's alone");
    }
    let Some(jars) = paths::tiers_class_path() else {
        return not_run("Kafka's store in a directory is not installed: cargo xtask deps tiers");
    };
    let scratch = tempfile::tempdir().expect("a directory");
    let libs = paths::kafka_libs().display().to_string();
    let stores = jars.trim_end_matches("/*");
    let experiments = ["remote-replay", "remote-interference", "remote-copy"];
    let options = ["--kafka-libs", &libs, "--tiers-libs", stores];
    let summaries = lab::run(scratch.path(), "broker", &[&experiments[..], &options].concat());
    assert_both(&summaries, experiments.len());
    for group in summaries[0]["groups"].as_array().expect("groups") {
        let rows = group["rows"].as_array().expect("rows");
        let read = |case: &str| {
            let row = rows.iter().find(|row| row["case"] == case).expect("a row");
            row["metrics"]["store_mb"]["median"].as_f64().expect("bytes")
        };
        assert!(read("levada") > 2.0 && read("levada, again") == 0.0, "{group}");
    }
}

/// Fails unless there are `count` experiments, each with figures of Levada and of Kafka.
fn assert_both(summaries: &[Value], count: usize) {
    assert_eq!(summaries.len(), count);
    for summary in summaries {
        let measured = lab::measured(summary, &SYSTEMS);
        assert!(
            measured.contains("levada") && measured.contains("kafka"),
            "{}: {measured:?}",
            summary["name"]
        );
    }
}

#[test]
fn lab_replication_experiment_is_sound_for_each_kind() {
    if Kind::under_test() == Kind::Kafka {
        return println!("left out: it is a promise of Levada's alone");
    }
    let scratch = tempfile::tempdir().expect("a directory");
    let libs = paths::kafka_libs().display().to_string();
    let summaries = lab::run(scratch.path(), "broker", &[REPLICATE, "--kafka-libs", &libs]);
    assert_eq!(summaries.len(), 1);
    lab::measured(&summaries[0], &SYSTEMS);
    let groups = summaries[0]["groups"].as_array().expect("groups");
    let rows = |group: &Value| -> Vec<String> {
        let rows = group["rows"].as_array().expect("rows");
        rows.iter().map(|row| row["case"].as_str().expect("a name").to_owned()).collect()
    };
    assert_eq!(groups.len(), 4, "batches of two sizes, a fixed rate, and a new replica");
    for group in groups {
        assert_eq!(rows(group), ["kafka", "mixed", "levada"], "{}", group["name"]);
    }
}
