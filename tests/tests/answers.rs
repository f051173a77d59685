//! What a broker answers to requests that are odd, incomplete or wrong, field by field, against what a real
//! Kafka answers. With `LEVADA_TEST_NODE=kafka` the record of Kafka's answers is itself put to the test, and
//! with `LEVADA_BLESS=1` as well it is written anew.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use levada_tests::node::Kind;
use levada_tests::{Node, Tool};

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("answers").join(name)
}

fn read(name: &str) -> String {
    let path = file(name);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Lines `NAME REST`, without comments.
fn lines(text: &str) -> BTreeMap<&str, &str> {
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(|line| line.split_once(' ').expect("a name and more")).collect()
}

fn ask(requests: &str) -> String {
    let mut node = Node::new().option("auto.create.topics.enable", "true").option("node.id", "1");
    node.start();
    let mut tool = Tool::own_java("Ask");
    tool.args([&node.bootstrap(), &file(requests).display().to_string()]);
    let said = tool.run().stdout;
    node.assert_running("after the requests");
    said
}

#[test]
fn odd_requests_are_answered_as_kafka_answers_them() {
    let said = ask("requests.txt");
    if Kind::under_test() == Kind::Kafka && std::env::var_os("LEVADA_BLESS").is_some() {
        fs::write(file("kafka-4.3.1.txt"), &said).expect("room for the record");
        return;
    }
    let (recorded, reasons) = (read("kafka-4.3.1.txt"), read("reasons.txt"));
    let (kafka, answers) = (lines(&recorded), lines(&said));
    let reasons = if Kind::under_test() == Kind::Kafka { BTreeMap::new() } else { lines(&reasons) };
    let mut complaints = Vec::new();
    for (name, expected) in &kafka {
        let answer = answers.get(name).copied().unwrap_or("none");
        match reasons.get(name) {
            None if answer != *expected => {
                complaints.push(format!("{name}\n  Kafka: {expected}\n  here:  {answer}"));
            }
            Some(reason) if answer == *expected => {
                complaints.push(format!("{name}: answered as by Kafka, against the reason «{reason}»"));
            }
            _ => {}
        }
    }
    assert_eq!(answers.len(), kafka.len(), "requests without a recorded answer");
    assert!(complaints.is_empty(), "{} answers differ:\n{}", complaints.len(), complaints.join("\n"));
}
