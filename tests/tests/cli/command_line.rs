//! The binary's own commands, as a person types them: results on stdout, talk on stderr, exit
//! codes.
//!
//! Suite: short; 76 s; needs python

use levada_tests::node::Kind;
use levada_tests::{Node, Tool, corpus};
use serde_json::json;

#[test]
fn topics_are_created_produced_and_consumed() {
    let mut node = Node::started();
    node.levada("topic create tour --partitions 3").run();
    let listed = node.levada("topic list").run().stdout;
    assert!(listed.contains("tour"), "{listed}");
    let (code, said) = node.levada("topic create tour").outcome();
    assert_eq!(code, Some(1), "{said:?}");
    assert!(said.stdout.is_empty() && said.stderr.contains("exists"), "{said:?}");

    let input = node.scratch().join("input");
    let lines: String = (0..50_000).map(|number| format!("key-{}:line {number}\n", number % 100)).collect();
    std::fs::write(&input, &lines).expect("room");
    node.levada("produce tour --key-separator : --compression zstd").stdin(&input).run();
    let said = node.levada("consume tour --exit --format %k:%v\\n").run();
    let mut back: Vec<&str> = said.stdout.lines().collect();
    let mut sent: Vec<&str> = lines.lines().collect();
    assert_eq!(back.len(), sent.len());
    back.sort_unstable();
    sent.sort_unstable();
    assert!(back == sent, "other lines came back");

    node.restart();
    let described = node.levada_json("topic describe tour");
    assert_eq!((&described[0]["name"], &described[0]["internal"]), (&json!("tour"), &json!(false)));
    let ends = described[0]["partitions"].as_array().expect("partitions").iter();
    assert_eq!(ends.map(|one| one["end_offset"].as_i64().expect("an end")).sum::<i64>(), 50_000);
    node.levada("topic delete tour").run();
    let listed = node.levada("topic list").run().stdout;
    assert!(!listed.contains("tour"), "{listed}");
    node.stop();
}

#[test]
fn file_round_trips_through_one_partition() {
    let mut node = Node::started();
    let lines = node.scratch().join("lines");
    corpus::write_lines(&lines, 100_000);
    node.levada("topic create file --partitions 1").run();
    for codec in ["none", "gzip", "snappy", "lz4", "zstd"] {
        node.levada(&format!("produce file --partition 0 --compression {codec}")).stdin(&lines).run();
    }
    let back = node.scratch().join("back");
    for round in 0..5 {
        let offset = (round * 100_000).to_string();
        let line = format!("consume file --partition 0 --offset {offset} --count 100000");
        node.levada(&line).stdout(&back).run();
        assert_eq!(corpus::digest(&back), corpus::digest(&lines), "from offset {offset}");
    }
    node.stop();
}

#[test]
fn a_stopped_log_can_be_dumped() {
    if Kind::under_test() == Kind::Kafka {
        println!("left out: a promise of Levada's alone");
        return;
    }
    let mut node = Node::started();
    Tool::python("topics.py").args([&node.bootstrap(), "dumped", "1"]).run();
    Tool::python("fill.py").args([&node.bootstrap(), "dumped", "1", "0", "10"]).run();
    node.stop();
    let log = node.data().join("dumped-0/00000000000000000000.log");
    let said = Tool::levada().args(["log", "dump", &log.display().to_string()]).run();
    assert!(said.stdout.contains('9'), "the last offset: {}", said.stdout);
}

#[test]
fn doctor_reports_transfer_paths() {
    let said = Tool::levada().arg("doctor").run().stdout;
    for path in ["splice", "sendfile"] {
        assert!(said.contains(path), "{said}");
    }
}

#[test]
fn invalid_command_line_exits_with_2_and_hint() {
    let (code, said) = Tool::levada().args(["serve", "-o", "num.partition=3"]).outcome();
    assert_eq!(code, Some(2), "{said:?}");
    assert!(said.stderr.contains("num.partitions"), "names the nearest key: {}", said.stderr);
    let (code, _) = Tool::levada().arg("swim").outcome();
    assert_eq!(code, Some(2));
}

#[test]
fn health_and_metrics_endpoints_respond() {
    if Kind::under_test() == Kind::Kafka {
        println!("left out: a promise of Levada's alone");
        return;
    }
    let mut node = Node::started();
    assert_eq!([node.http("/livez").0, node.http("/healthz").0], [200, 200]);
    assert_eq!(node.http("/nothing").0, 404);
    let value = |node: &Node, name: &str| {
        let metrics = node.metrics();
        let sample = metrics.iter().find(|(found, _)| found == name);
        sample.unwrap_or_else(|| panic!("no {name} in {metrics:?}")).1
    };
    Tool::python("topics.py").args([&node.bootstrap(), "counted", "1"]).run();
    assert_eq!(value(&node, "levada_produced_bytes_total"), 0.0);
    Tool::python("fill.py").args([&node.bootstrap(), "counted", "1", "0", "100"]).run();
    assert!(value(&node, "levada_produced_bytes_total") > 10_000.0);
    node.stop();
}
