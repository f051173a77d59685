//! The commands for share groups, which are queues: start offsets, deliveries and acknowledgements.
//! `LEVADA_TEST_NODE=kafka` runs the same commands against a real Kafka.
//!
//! Suite: short; 7 s; needs python; share queues

use std::time::Duration;

use levada_tests::{Node, Tool, await_some, process, share};
use rustix::process::Signal;
use serde_json::{Value, json};

const LIMIT: Duration = Duration::from_secs(60);

fn started() -> Node {
    let mut node = share::node();
    node.start();
    node
}

/// A topic of one partition with this many records, and a group that reads it from the start.
fn filled(node: &Node, topic: &str, group: &str, count: usize) {
    node.levada(&format!("topic create {topic} --partitions 1")).run();
    Tool::python("fill.py").args([&node.bootstrap(), topic, "1", "0", &count.to_string()]).run();
    node.levada(&format!("config set group {group} share.auto.offset.reset=earliest")).run();
}

/// Fails unless the command ends with this code, and prints this on stderr.
fn refused(node: &Node, line: &str, code: i32, expected: &str) {
    let (ended, said) = node.levada(line).outcome();
    assert_eq!(ended, Some(code), "{line}: {said:?}");
    assert!(said.stderr.contains(expected), "{line}: {said:?}");
}

/// Waits until the group's first partition has this end and this lag. The stored start offset may
/// be that before the last acknowledgement: then the records after it count as complete.
fn await_lag(node: &Node, group: &str, (end, lag): (i64, i64)) {
    await_some(&format!("lag {lag} of group {group}"), LIMIT, || {
        let described = node.levada_json(&format!("group describe {group}"));
        let row = described.pointer("/0/partitions/0")?;
        let [start, complete] = ["start", "delivery_complete"].map(|name| row[name].as_i64());
        let is_sum = start.zip(complete).is_some_and(|(start, complete)| start + complete == end - lag);
        (is_sum && row["end"] == end && row["lag"] == lag).then_some(())
    });
}

#[test]
fn start_offsets_of_queues_are_reset_and_deleted() {
    let node = started();
    filled(&node, "tasks", "jobs", 10);
    let plan = node.levada_json("group reset jobs --share --topic tasks --to-earliest");
    assert_eq!((&plan["executed"], plan.pointer("/partitions/0/new")), (&json!(false), Some(&json!(0))));
    assert_eq!(plan.pointer("/partitions/0/start"), Some(&Value::Null), "{plan}");
    refused(&node, "group describe jobs", 1, "GROUP_ID_NOT_FOUND");
    node.levada("group reset jobs --share --topic tasks --to-offset 4 --execute").run();
    await_lag(&node, "jobs", (10, 6));
    let listed = node.levada_json("group list --type share");
    assert_eq!(listed.as_array().map(Vec::len), Some(1), "{listed}");
    let row = &listed[0];
    assert_eq!((&row["group"], &row["type"]), (&json!("jobs"), &json!("share")), "{row}");
    assert_eq!(row["state"], "Empty", "{row}");
    let moved = node.levada_json("group reset jobs --all-topics --shift-by 2 --execute");
    let (start, new) = (moved.pointer("/partitions/0/start"), moved.pointer("/partitions/0/new"));
    assert_eq!((start, new), (Some(&json!(4)), Some(&json!(6))));
    await_lag(&node, "jobs", (10, 4));
    let table = node.levada("group describe jobs").run().stdout;
    assert!(table.contains("TOPIC  PARTITION  START  END  COMPLETE  LAG  MEMBERS"), "{table}");

    refused(&node, "group delete jobs --topic none --yes", 1, "UNKNOWN_TOPIC_OR_PARTITION");
    node.levada("group delete jobs --topic tasks --yes").run();
    let described = node.levada_json("group describe jobs");
    assert_eq!(described[0]["partitions"], json!([]), "{described}");
    node.levada("group reset readers --topic tasks --to-latest --execute").run();
    refused(&node, "group reset readers --share --topic tasks --to-earliest", 1, "no --share");
    node.levada("group delete jobs --yes").run();
    let listed = node.levada_json("group list --type share");
    assert_eq!(listed, json!([]));
    refused(
        &node,
        "config set group jobs share.delivery.count.limit=99",
        1,
        "group.share.max.delivery.count",
    );
}

#[test]
fn each_record_of_a_queue_is_acknowledged() {
    let node = started();
    filled(&node, "tasks", "workers", 10);
    let consume = |options: &str| {
        let line = format!("consume tasks --share workers -f %o:%d\\n {options}");
        let mut offsets: Vec<String> = node.levada(&line).run().stdout.lines().map(str::to_owned).collect();
        offsets.sort();
        offsets.join(" ")
    };
    assert_eq!(consume("-n 3"), "0:1 1:1 2:1");
    await_lag(&node, "workers", (10, 7));
    assert_eq!(consume("-n 2 --ack release"), "3:1 4:1");
    assert_eq!(consume("-n 1 --ack reject"), "3:2", "released records come first");
    await_lag(&node, "workers", (10, 6));
    // A look at the whole queue takes one attempt of each record.
    assert_eq!(consume("-e --ack release"), "4:2 5:1 6:1 7:1 8:1 9:1");
    let line = "consume tasks --share workers -e --output json";
    let rest = node.levada(line).run().stdout;
    let rest: Vec<Value> = rest.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let deliveries = rest.iter().map(|one| (one["offset"].as_i64(), one["deliveries"].as_i64()));
    let expected = (4..10).map(|offset| (Some(offset), Some(if offset == 4 { 3 } else { 2 })));
    assert!(deliveries.eq(expected), "{rest:?}");
    await_lag(&node, "workers", (10, 0));
    assert_eq!(consume("-e"), "", "nothing is left");
    refused(&node, "consume ^tasks.* --share workers -e", 2, "do not support patterns");
    refused(&node, "consume tasks --ack accept", 2, "--share");
}

#[test]
fn members_of_a_queue_are_shown_and_removed() {
    let node = started();
    filled(&node, "tasks", "workers", 10);
    let mut reader = node.levada("consume tasks --share workers -f %o\\n").spawn();
    (0..10).for_each(|_| drop(reader.line(LIMIT)));
    let described = node.levada_json("group describe workers");
    let group = &described[0];
    assert_eq!((&group["state"], &group["type"]), (&json!("Stable"), &json!("share")), "{group}");
    assert_eq!(group["members"].as_array().map(Vec::len), Some(1), "{group}");
    assert_eq!(group.pointer("/partitions/0/members/0"), group.pointer("/members/0/id"), "{group}");
    refused(&node, "group reset workers --topic tasks --to-earliest", 1, "while the group has no members");
    refused(&node, "group delete workers --topic tasks --yes", 1, "NON_EMPTY_GROUP");
    refused(&node, "group delete workers --yes", 1, "NON_EMPTY_GROUP");
    process::signal(reader.pid(), Signal::INT);
    assert_eq!(reader.finish(LIMIT), [""; 0], "everything was read");
    let described = node.levada_json("group describe workers");
    assert_eq!((&described[0]["state"], &described[0]["members"]), (&json!("Empty"), &json!([])));
    node.levada("group reset workers --topic tasks --to-earliest --execute").run();
    await_lag(&node, "workers", (10, 10));
}
