//! The commands that trim topics, move committed offsets by files, and remove members: Kafka's own
//! tools see the result. The same commands are put to a real Kafka with `LEVADA_TEST_NODE=kafka`.
//!
//! Suite: short; 13 s; needs java, python

use std::fs;
use std::time::Duration;

use levada_tests::tool::Conversation;
use levada_tests::{Node, Tool, await_some, process};
use rustix::process::Signal;
use serde_json::{Value, json};

const LIMIT: Duration = Duration::from_secs(60);
const GROUPS: &str = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand";

/// Output of a Java tool of Kafka's, given the broker and these words.
fn java(node: &Node, class: &str, line: &str) -> String {
    let mut tool = Tool::java(class);
    tool.args(["--bootstrap-server", &node.bootstrap()]);
    for word in line.split(' ') {
        tool.arg(word);
    }
    tool.run().stdout
}

/// A topic with this many records in each of its partitions.
fn filled(node: &Node, topic: &str, partitions: usize, count: usize) {
    node.levada(&format!("topic create {topic} --partitions {partitions}")).run();
    let mut fill = Tool::python("fill.py");
    fill.args([&node.bootstrap(), topic, &partitions.to_string(), "0", &count.to_string()]).run();
}

/// A consumer that has committed ten records of `clicks` and stays in its group.
fn reader(node: &Node, group: &str, protocol: &str) -> Conversation {
    let mut tool = Tool::python("reader.py");
    let mut reader = tool.args([&node.bootstrap(), group, "clicks", "10", protocol]).spawn();
    assert_eq!(reader.line(LIMIT), "committed");
    reader
}

#[test]
fn trimmed_topic_starts_at_the_given_offset() {
    let mut node = Node::started();
    filled(&node, "cut", 2, 30);
    let starts = |node: &Node| {
        java(node, "org.apache.kafka.tools.GetOffsetShell", "--topic cut --time -2")
            .lines()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let trimmed = node.levada_json("topic trim cut -p 0 --to 10");
    assert_eq!(trimmed, json!([{ "topic": "cut", "partition": 0, "start_offset": 10 }]));
    assert_eq!(starts(&node), ["cut:0:10", "cut:1:0"]);
    node.levada("topic trim cut --to -5").run();
    assert_eq!(starts(&node), ["cut:0:25", "cut:1:25"]);
    // Records cannot be brought back: a trim to an earlier offset leaves the start where it is.
    node.levada("topic trim cut --to 3").run();
    node.restart();
    await_some("both partitions", LIMIT, || (starts(&node) == ["cut:0:25", "cut:1:25"]).then_some(()));
    let kept = node.levada("consume cut -p 1 -e -f %o\\n").run().stdout;
    assert_eq!(kept, "25\n26\n27\n28\n29\n");
    node.levada("topic trim cut --to latest").run();
    assert_eq!(starts(&node), ["cut:0:30", "cut:1:30"]);
    let (code, said) = node.levada("topic trim cut -p 0 --to 31").outcome();
    assert_eq!(code, Some(1), "{said:?}");
    assert!(said.stderr.contains("cut/0 ends at offset 30, before 31"), "{said:?}");
}

#[test]
fn group_offsets_export_and_import_with_kafka_tools() {
    let mut node = Node::started();
    filled(&node, "clicks", 1, 30);
    let mut first = reader(&node, "old", "classic");
    first.say("leave");
    first.finish(LIMIT);
    let exported = node.levada("group export old").run().stdout;
    assert_eq!(exported, "clicks,0,10\n");
    let file = node.scratch().join("old.csv");
    fs::write(&file, &exported).expect("room");
    let path = file.display();

    let planned = node.levada_json(&format!("group import new {path}"));
    assert_eq!((&planned["executed"], &planned["partitions"][0]["new"]), (&json!(false), &json!(10)));
    assert!(!java(&node, GROUPS, "--list").lines().any(|group| group == "new"), "a plan changes nothing");
    node.levada(&format!("group import new {path} --execute")).run();
    let described = java(&node, GROUPS, "--describe --group new --offsets");
    let row = described.lines().find(|line| line.starts_with("new ")).expect("a row");
    let columns: Vec<&str> = row.split_whitespace().collect();
    assert_eq!(columns[1..6], ["clicks", "0", "10", "30", "20"], "{described}");

    java(&node, GROUPS, &format!("--group tools --reset-offsets --from-file {path} --execute"));
    assert_eq!(node.levada("group export tools").run().stdout, "clicks,0,10\n");
    let kafkas =
        java(&node, GROUPS, "--group old --reset-offsets --all-topics --shift-by 5 --export --dry-run");
    fs::write(&file, &kafkas).expect("room");
    node.levada(&format!("group import tools {path} --execute")).run();
    assert_eq!(node.levada("group export tools").run().stdout, "clicks,0,15\n", "from {kafkas}");

    let all = node.levada_json("group export old tools");
    fs::write(&file, all.to_string()).expect("room");
    node.levada(&format!("group import old {path} --execute")).run();
    assert_eq!(node.levada("group export old tools").run().stdout, "old,clicks,0,10\ntools,clicks,0,15\n");
    let (code, said) = node.levada("group export nobody").outcome();
    assert_eq!((code, said.stderr.contains("has no committed offsets")), (Some(1), true), "{said:?}");

    node.stop();
    let offsets = decoded(&node, "__consumer_offsets-");
    let of_old = |one: &&Value| one["key"]["group_id"] == "old" && one["type"] == "offset";
    let old = offsets.iter().rfind(of_old).expect("an offset of the group");
    assert_eq!((&old["key"]["topic"], &old["value"]["offset"]), (&json!("clicks"), &json!(10)), "{old}");
    let metadata = decoded(&node, "__cluster_metadata-");
    assert!(metadata.iter().any(|one| one["type"] == "Topic" && one["name"] == "clicks"), "{metadata:?}");
    let leader = |one: &Value| one["type"] == "LeaderChange" && one["leader_id"].is_i64();
    assert!(metadata.iter().any(leader), "no control record is decoded: {metadata:?}");
}

/// Every record of the partitions whose directories begin so, as `levada log dump` decodes them.
fn decoded(node: &Node, partitions: &str) -> Vec<Value> {
    let mut found = Vec::new();
    for directory in fs::read_dir(node.data()).expect("a data directory").flatten() {
        let segment = directory.path().join("00000000000000000000.log");
        if !directory.file_name().to_string_lossy().starts_with(partitions) || !segment.exists() {
            continue;
        }
        let mut dump = Tool::levada();
        dump.args(["log", "dump", "--records", "--output", "json"]).arg(segment.display().to_string());
        for line in dump.run().stdout.lines() {
            let mut row: Value = serde_json::from_str(line).expect("JSON");
            assert!(row["undecoded"].is_null(), "{row}");
            found.extend(row.get_mut("decoded").map(Value::take));
        }
    }
    found
}

#[test]
fn change_commands_print_json() {
    let node = Node::started();
    let one = |kind: &str, name: &str, outcome: &str| json!([{ "kind": kind, "name": name, "outcome": outcome, "code": null, "error": null }]);
    for (line, expected) in [
        ("topic create clicks -p 1 --dry-run", one("topic", "clicks", "possible")),
        ("topic create clicks -p 1", one("topic", "clicks", "done")),
        ("topic create clicks --if-not-exists", one("topic", "clicks", "unchanged")),
        ("topic alter clicks -p 2", one("topic", "clicks", "done")),
        ("config set topic clicks retention.ms=1d", one("topic", "clicks", "done")),
        ("config delete topic clicks retention.ms --dry-run", one("topic", "clicks", "possible")),
        ("group delete nobody --if-exists", one("group", "nobody", "unchanged")),
        ("topic delete clicks", one("topic", "clicks", "done")),
        ("topic delete clicks --if-exists", one("topic", "clicks", "unchanged")),
    ] {
        assert_eq!(node.levada_json(line), expected, "{line}");
    }
    let (code, said) = node.levada("topic delete nothing --output json").outcome();
    let failed: Value = serde_json::from_str(&said.stdout).expect("JSON");
    let told = (&failed[0]["outcome"], &failed[0]["code"]);
    assert_eq!((code, told), (Some(1), (&json!("failed"), &json!("UNKNOWN_TOPIC_OR_PARTITION"))), "{said:?}");
}

/// Suspends the process of a consumer, and returns its only member's id.
fn hang(node: &Node, consumer: &Conversation, group: &str) -> String {
    let described = node.levada_json(&format!("group describe {group}"));
    assert_eq!(described[0]["members"].as_array().map(Vec::len), Some(1), "{described}");
    process::signal(consumer.pid(), Signal::STOP);
    described[0]["members"][0]["id"].as_str().expect("an id").to_owned()
}

#[test]
fn hanging_consumer_is_removed_by_group_kick() {
    let node = Node::started();
    filled(&node, "clicks", 1, 30);
    for (protocol, by_id) in [("classic", true), ("consumer", true), ("classic", false), ("consumer", false)]
    {
        let group = format!("{protocol}-{by_id}");
        let consumer = reader(&node, &group, protocol);
        let member = hang(&node, &consumer, &group);
        let wrong = node.levada(&format!("group kick {group} nobody")).outcome();
        assert_eq!((wrong.0, wrong.1.stderr.contains("has no member nobody")), (Some(1), true), "{wrong:?}");
        let who = if by_id { member.as_str() } else { "--all" };
        node.levada(&format!("group kick {group} {who}")).run();
        // Immediately, and not when the session would have timed out.
        let state = java(&node, GROUPS, &format!("--describe --group {group} --state"));
        assert!(state.contains("Empty"), "{state}");
        node.levada(&format!("group reset {group} --topic clicks --to-earliest --execute")).run();
        consumer.kill();
        assert_eq!(node.levada(&format!("group export {group}")).run().stdout, "clicks,0,0\n");
    }
}
