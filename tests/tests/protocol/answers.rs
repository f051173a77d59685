//! Answers to requests that are odd, incomplete or wrong, field by field, against
//! those of a real Kafka. With `LEVADA_TEST_NODE=kafka` the record of Kafka's answers is itself
//! put to the test, and with `LEVADA_BLESS=1` as well it is written again. Answers that differ for
//! a reason have a record too, which `LEVADA_BLESS=1` alone writes.
//!
//! Suite: short; 5 s; needs java

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use levada_tests::node::Kind;
use levada_tests::{Node, Tool};
use serde_json::Value;

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("answers").join(name)
}

fn read(name: &str) -> String {
    let path = file(name);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The record of Kafka's answers to `requests`; written again on request.
fn recorded(record: &str, said: &str) -> String {
    if Kind::under_test() == Kind::Kafka && is_blessed() {
        fs::write(file(record), said).expect("room for the record");
    }
    read(record)
}

/// True if the answers are to be recorded.
fn is_blessed() -> bool {
    std::env::var_os("LEVADA_BLESS").is_some()
}

/// Lines `NAME REST`, without comments.
fn lines(text: &str) -> BTreeMap<&str, &str> {
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(|line| line.split_once(' ').expect("a name and more")).collect()
}

/// The answers of a broker with these options to the requests of a file.
pub(super) fn ask(requests: &str, options: &[(&str, &str)]) -> String {
    ask_with(Tool::own_java("Ask"), requests, options)
}

/// Like [`ask`], with a given tool that sends the requests.
pub(super) fn ask_with(mut tool: Tool, requests: &str, options: &[(&str, &str)]) -> String {
    let mut node = Node::new().option("auto.create.topics.enable", "true").option("node.id", "1");
    for (key, value) in options {
        node = node.option(key, value);
    }
    node.start();
    tool.args([&node.bootstrap(), &file(requests).display().to_string()]);
    let said = tool.run().stdout;
    node.assert_running("after the requests");
    said
}

/// Files about a list of requests.
pub(super) struct Files {
    /// Recorded responses of Kafka.
    pub(super) kafka: &'static str,
    /// The reason of each answer that is not Kafka's.
    pub(super) reasons: &'static str,
    /// Levada's answers that have a reason.
    pub(super) own: &'static str,
    /// True if messages are not compared: Levada explains errors to which Kafka adds none.
    pub(super) is_silent: bool,
}

/// A line without the messages of errors.
fn without_messages(line: &str) -> String {
    fn mask(value: &mut Value) {
        match value {
            Value::Array(elements) => elements.iter_mut().for_each(mask),
            Value::Object(fields) => {
                fields.retain(|name, _| !name.ends_with("rrorMessage"));
                fields.values_mut().for_each(mask);
            }
            _ => {}
        }
    }
    let (name, answer) = line.split_once(' ').expect("a name and an answer");
    let mut answer = serde_json::from_str(answer).expect("JSON");
    mask(&mut answer);
    format!("{name} {answer}")
}

/// Removes the error messages from each line that is not a comment.
fn silent(text: &str) -> String {
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(|line| without_messages(line) + "\n").collect()
}

/// Compares the answers with Kafka's, and those that have a reason with Levada's.
pub(super) fn compare(said: &str, files: &Files) {
    let (recorded, reasons) = (recorded(files.kafka, said), read(files.reasons));
    let [recorded, said] =
        if files.is_silent { [silent(&recorded), silent(said)] } else { [recorded, said.to_owned()] };
    let said = said.as_str();
    let (kafka, answers) = (lines(&recorded), lines(said));
    let reasons = if Kind::under_test() == Kind::Kafka { BTreeMap::new() } else { lines(&reasons) };
    if !reasons.is_empty() && is_blessed() && !Node::has_controllers() {
        record_own(files, &answers, &reasons);
    }
    let own = read(files.own);
    let own = lines(&own);
    let mut complaints = Vec::new();
    for (name, expected) in &kafka {
        let answer = answers.get(name).copied().unwrap_or("none");
        match reasons.get(name) {
            None if answer != *expected => {
                complaints.push(format!("{name}\n  Kafka: {expected}\n  here:  {answer}"));
            }
            // A broker of a cluster answers more requests as Kafka does.
            Some(reason) if answer == *expected && !Node::has_controllers() => {
                complaints.push(format!("{name}: answered as by Kafka, against the reason «{reason}»"));
            }
            Some(_) if answer != *expected && own.get(name) != Some(&answer) => {
                let own = own.get(name).copied().unwrap_or("none");
                complaints.push(format!("{name}\n  recorded: {own}\n  here:     {answer}"));
            }
            _ => {}
        }
    }
    let unknown = reasons.keys().filter(|name| !kafka.contains_key(*name));
    complaints.extend(unknown.map(|name| format!("{name}: a reason without a request")));
    assert_eq!(answers.len(), kafka.len(), "requests without a recorded answer");
    assert!(complaints.is_empty(), "{} answers differ:\n{}", complaints.len(), complaints.join("\n"));
}

/// Records Levada's answers that have a reason.
fn record_own(files: &Files, answers: &BTreeMap<&str, &str>, reasons: &BTreeMap<&str, &str>) {
    let mut text =
        format!("# Levada's answers that differ from Kafka's; the reasons are in {}.\n", files.reasons);
    for name in reasons.keys() {
        let answer = answers.get(name).unwrap_or_else(|| panic!("{name}: no answer"));
        text += &format!("{name} {answer}\n");
    }
    fs::write(file(files.own), text).expect("room for the record");
}

#[test]
fn odd_requests_get_the_responses_of_kafka() {
    let files =
        Files { kafka: "kafka-4.3.1.txt", reasons: "reasons.txt", own: "levada.txt", is_silent: false };
    compare(&ask("requests.txt", &[]), &files);
}

#[test]
fn odd_group_requests_get_the_responses_of_kafka() {
    // One member is a group, immediately; a consumer group is assigned in the request that changes
    // it.
    let options = [("group.initial.rebalance.delay.ms", "0"), ("group.consumer.assignment.interval.ms", "0")];
    let files = Files {
        kafka: "groups-4.3.1.txt",
        reasons: "groups-reasons.txt",
        own: "groups-levada.txt",
        is_silent: false,
    };
    compare(&ask("groups.txt", &options), &files);
}

#[test]
fn odd_token_requests_get_the_responses_of_kafka() {
    if Node::is_left_out_in_clusters("the controllers have no secret key") {
        return;
    }
    let module = "org.apache.kafka.common.security.plain.PlainLoginModule required user_alice=\"secret\";";
    let mut node = Node::new()
        .option("delegation.token.secret.key", "key")
        .option("sasl.enabled.mechanisms", "PLAIN")
        .option("listener.name.client.plain.sasl.jaas.config", module);
    let address = node.listen("CLIENT", "SASL_PLAINTEXT");
    node.start();
    let mut tool = Tool::own_java("Ask");
    tool.args([&address.to_string(), &file("tokens.txt").display().to_string(), "alice", "secret"]);
    let said = tool.run().stdout;
    node.assert_running("after the requests");
    let files = Files {
        kafka: "tokens-4.3.1.txt",
        reasons: "tokens-reasons.txt",
        own: "tokens-levada.txt",
        is_silent: false,
    };
    compare(&said, &files);
}

/// Keys of the APIs that exist since Kafka 4.4, and the level of the quorum: the voters of the
/// recorded Kafka were not in its log.
const NEW: [&str; 3] = ["93", "94", "kraft.version"];

/// Highest versions and levels that are of Kafka 4.4; the others are of the recorded Kafka 4.3.1.
const NEWER: [(&str, &str, i64); 7] = [
    ("apiKeys", "18", 5),
    ("apiKeys", "28", 6),
    ("apiKeys", "42", 3),
    ("apiKeys", "88", 1),
    ("apiKeys", "89", 1),
    ("supportedFeatures", "metadata.version", 33),
    ("supportedFeatures", "share.version", 2),
];

/// The fields of an array's elements: name or key, and the rest.
fn table(answer: &Value, array: &str, key: &str) -> BTreeMap<String, Value> {
    let elements = answer[array].as_array().unwrap_or_else(|| panic!("no {array}: {answer}"));
    elements.iter().map(|one| (one[key].to_string().replace('"', ""), one.clone())).collect()
}

/// The first cell of each row of the page, of those whose row has a reason for not being served.
fn documented_as_missing() -> Vec<String> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/apis.md");
    let page = fs::read_to_string(page).expect("the page of the APIs");
    let rows = page.lines().filter(|line| line.starts_with("| ") && !line.contains('✓'));
    let reason = |row: &&str| row.split('|').nth_back(1).is_some_and(|cell| !cell.trim().is_empty());
    let name = |row: &str| row.split('|').nth(1).unwrap_or_default().trim().replace('`', "");
    rows.filter(reason).map(name).collect()
}

#[test]
fn api_versions_and_features_match_kafka_or_documentation() {
    if Node::is_left_out_in_clusters("a broker of a cluster offers more APIs and features") {
        return;
    }
    let said = ask("versions.txt", &[]);
    let recorded = recorded("versions-4.3.1.txt", &said);
    let parse = |text: &str| -> Value { serde_json::from_str(lines(text)["versions"]).expect("JSON") };
    let (kafka, here) = (parse(&recorded), parse(&said));
    let documented = if Kind::under_test() == Kind::Kafka { Vec::new() } else { documented_as_missing() };
    let mut complaints = Vec::new();
    for (array, key) in [("apiKeys", "apiKey"), ("supportedFeatures", "name"), ("finalizedFeatures", "name")]
    {
        let (mut kafkas, ours) = (table(&kafka, array, key), table(&here, array, key));
        if Kind::under_test() != Kind::Kafka {
            for (_, name, highest) in NEWER.iter().filter(|(of, ..)| *of == array) {
                kafkas.entry((*name).to_owned()).and_modify(|row| row["maxVersion"] = (*highest).into());
            }
        }
        for (name, expected) in &kafkas {
            match (ours.get(name), documented.contains(name)) {
                (Some(found), false) if found == expected => {}
                (None, true) => {}
                (found, excuse) => complaints.push(format!(
                    "{array} {name}: Kafka {expected}, here {found:?}; documented as missing: {excuse}"
                )),
            }
        }
        let more = ours.keys().filter(|name| !kafkas.contains_key(*name) && !NEW.contains(&&***name));
        complaints.extend(more.map(|name| format!("{array} {name}: not Kafka's")));
    }
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}
