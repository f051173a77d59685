//! Kafka's tools for share groups, as recorded from a real Kafka; and the topic of their state as
//! Kafka's dump tool reads it.
//!
//! Suite: long; 8 s; needs java; share queues

use std::ops::RangeInclusive;

use levada_tests::replicas::segments_from;
use levada_tests::share::Members;
use levada_tests::{Node, Tool, share, transcript};
use serde_json::{Value, json};

#[test]
fn kafkas_tools_for_share_groups() {
    let mut node = share::node().option("group.initial.rebalance.delay.ms", "0");
    node.start();
    transcript::replay(&node, "share-groups");
    node.assert_running("after the tools");
    node.stop();
}

const AVAILABLE: u8 = 0;
const ACKNOWLEDGED: u8 = 2;
const ARCHIVED: u8 = 4;

/// Decoded records of the state of a group, without ids and times.
fn dumped(node: &Node) -> Vec<Value> {
    let partitions = (0..3).map(|index| node.data().join(format!("__share_group_state-{index}")));
    let files: Vec<String> = partitions
        .flat_map(|partition| segments_from(&partition, 0))
        .map(|path| path.display().to_string())
        .collect();
    let mut dump = Tool::java("org.apache.kafka.tools.DumpLogSegments");
    let said = dump.args(["--share-group-state-decoder", "--files", &files.join(",")]).run().stdout;
    let records = said.lines().filter(|line| line.starts_with("| offset: "));
    records
        .map(|line| {
            let (key, payload) = line.split_once(" payload: ").expect("a payload");
            let key = key.split_once(" key: ").expect("a key").1;
            let parse = |text: &str| -> Value {
                serde_json::from_str(text).unwrap_or_else(|error| panic!("{line}: {error}"))
            };
            let (mut key, mut payload) = (parse(key), parse(payload));
            assert!(key["data"]["topicId"].take().is_string(), "{line}");
            let is_snapshot = key["type"] == "0";
            for time in ["createTimestamp", "writeTimestamp"] {
                let time = payload["data"].as_object_mut().and_then(|fields| fields.remove(time));
                assert_eq!(time.is_some(), is_snapshot, "{line}");
            }
            json!([key, payload])
        })
        .collect()
}

#[test]
fn kafkas_dump_tool_reads_the_state() {
    let mut node = share::node().option("share.coordinator.snapshot.update.records.per.snapshot", "2");
    node.start();
    let mut members = Members::of(&node.bootstrap());
    members.run("topic t 1");
    members.run("config g share.auto.offset.reset=earliest");
    members.run("open a g t share.acknowledgement.mode=explicit");
    members.run(&format!("produce t 0 {}", share::numbered("v", 0..8)));
    let held = members.await_poll("a");
    for (kind, range) in [("accept", 0..2), ("release", 2..4), ("reject", 4..5), ("accept", 6..7)] {
        members.acknowledge("a", kind, &held[range]);
    }
    assert_eq!(members.commit("a"), Vec::<String>::new());
    members.run("close a");
    members.run("open b g t share.acknowledgement.mode=explicit");
    let held = members.await_poll("b");
    members.acknowledge("b", "release", &held);
    assert_eq!(members.commit("b"), Vec::<String>::new());
    members.run("close b");
    node.stop();
    let expected = [
        record("0", json!({"snapshotEpoch": 0, "startOffset": -1, "stateEpoch": 2}), &[]),
        record(
            "1",
            json!({"snapshotEpoch": 0, "startOffset": 0, "deliveryCompleteCount": 4}),
            &[
                (0..=1, ACKNOWLEDGED, 1),
                (2..=3, AVAILABLE, 1),
                (4..=4, ARCHIVED, 1),
                (6..=6, ACKNOWLEDGED, 1),
            ],
        ),
        // Closing moves the start, and releases what the member holds.
        record(
            "1",
            json!({"snapshotEpoch": 0, "startOffset": 2, "deliveryCompleteCount": 2}),
            &[(5..=5, AVAILABLE, 1), (7..=7, AVAILABLE, 1)],
        ),
        record(
            "0",
            json!({"snapshotEpoch": 1, "startOffset": 2, "deliveryCompleteCount": 2, "stateEpoch": 2}),
            &[
                (2..=3, AVAILABLE, 2),
                (4..=4, ARCHIVED, 1),
                (5..=5, AVAILABLE, 2),
                (6..=6, ACKNOWLEDGED, 1),
                (7..=7, AVAILABLE, 2),
            ],
        ),
    ];
    let found = dumped(&node);
    for (expected, found) in expected.iter().zip(&found) {
        assert_eq!(found, expected);
    }
    assert_eq!(found.len(), expected.len(), "{found:#?}");
}

/// A record of the first leader, as [`dumped`] returns it. The types are 0, a snapshot, and 1, an
/// update.
fn record(kind: &str, mut data: Value, batches: &[(RangeInclusive<u32>, u8, u8)]) -> Value {
    let batch = |(offsets, state, count): &(RangeInclusive<u32>, u8, u8)| {
        json!({
            "firstOffset": offsets.start(), "lastOffset": offsets.end(),
            "deliveryState": state, "deliveryCount": count,
        })
    };
    data["leaderEpoch"] = json!(0);
    data["stateBatches"] = batches.iter().map(batch).collect();
    let key = json!({"type": kind, "data": {"groupId": "g", "topicId": null, "partition": 0}});
    json!([key, {"version": "0", "data": data}])
}
