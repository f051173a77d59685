//! kill -9 during a produce load, repeatedly: acknowledged records stay, and an idempotent producer
//! continues without an error.
//!
//! Suite: short; 17 s; needs python
//! Soak: scale 2.5, repeated, filter acknowledged_records_survive_crashes_under_load

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use levada_testing::{scaled, seed};
use levada_tests::node::Kind;
use levada_tests::raw::{self, Batch, Connection};
use levada_tests::{Node, Tool, await_some, journal};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

const PARTITIONS: &str = "4";
const LIMIT: Duration = Duration::from_secs(60);
const NONE: i16 = 0;
const KAFKA_STORAGE_ERROR: i16 = 56;

fn complaints(node: &Node, topic: &str, acknowledged: &Path, idempotent: bool) -> Vec<String> {
    let found = node.scratch().join(format!("{topic}-found"));
    Tool::python("journal.py").args([&node.bootstrap(), topic, PARTITIONS]).stdout(&found).run();
    let (acknowledged, log) = (journal::read(acknowledged), journal::read(&found));
    println!("{topic}: {} acknowledged, {} in the log", acknowledged.len(), log.len());
    assert!(!acknowledged.is_empty());
    let mut complaints = journal::lost(&acknowledged, &log);
    if idempotent {
        complaints.extend(journal::disorder(&log));
        let (promised, there) = (acknowledged.len(), log.len());
        complaints.extend((promised != there).then(|| format!("{promised} acknowledged, {there} there")));
    }
    complaints
}

#[test]
fn acknowledged_records_survive_crashes_under_load() {
    let mut node = Node::new().option("log.segment.bytes", "1048576");
    let mut random = StdRng::seed_from_u64(seed());
    // A real Kafka takes seconds to restart; as a reference a few rounds are enough.
    let few = if node.kind() == Kind::Levada { 20_u32 } else { 3 };
    let rounds = scaled(few);
    node.start();
    let topics = ["idempotent", "plain"];
    for topic in topics {
        Tool::python("topics.py").args([&node.bootstrap(), topic, PARTITIONS]).run();
    }
    let journal = |topic: &str| node.scratch().join(format!("{topic}-acknowledged"));
    let journals = topics.map(journal);
    let mut loads: Vec<_> = topics
        .iter()
        .zip(&journals)
        .map(|(topic, journal)| {
            let mut tool = Tool::python("load.py");
            tool.args([&node.bootstrap(), topic, PARTITIONS, &journal.display().to_string(), topic]);
            tool.spawn()
        })
        .collect();
    for _ in 0..rounds {
        // Both make progress, then the broker is killed at a random moment.
        for load in &mut loads {
            while load.line_now().is_some() {}
            let line = load.line(LIMIT);
            assert!(line.parse::<u64>().is_ok(), "{line}");
        }
        std::thread::sleep(Duration::from_micros(random.random_range(0..60_000)));
        node.kill();
        node.start();
    }
    for load in &mut loads {
        load.say("stop");
    }
    for load in loads {
        load.finish(Duration::from_secs(150));
    }
    node.assert_running("after the load");
    let found: Vec<String> = topics
        .iter()
        .zip(&journals)
        .flat_map(|(topic, journal)| complaints(&node, topic, journal, *topic == "idempotent"))
        .collect();
    assert!(
        found.is_empty(),
        "{} complaints, first:\n{}",
        found.len(),
        found[..found.len().min(10)].join("\n")
    );
    node.stop();
}

fn produce(connection: &mut Connection, topic: &str) -> i16 {
    raw::produce_error(&connection.call(&raw::produce(topic, -1, &Batch::of(&[b"one", b"two"]).encode())))
}

fn left_to_check(node: &Node) -> f64 {
    let samples = node.metrics();
    let found = samples.iter().find(|(name, _)| name == "levada_recovery_partitions");
    found.map(|(_, value)| *value).expect("a sample")
}

#[test]
fn unopenable_log_does_not_affect_others() {
    if Kind::under_test() == Kind::Kafka {
        return println!("left out: it is a promise of Levada's alone");
    }
    let mut node = Node::new().option("num.recovery.threads.per.data.dir", "2");
    node.start();
    let mut connection = Connection::open(node.address());
    for topic in ["fast", "slow"] {
        assert_eq!(raw::topic_error(&connection.call(&raw::create_topic(topic, 1))), NONE);
        assert_eq!(produce(&mut connection, topic), NONE);
    }
    node.kill();
    // The log's epochs cannot be read from this file.
    let epochs = node.data().join("slow-0/leader-epoch-checkpoint");
    let contents = fs::read(&epochs).expect("epochs");
    fs::remove_file(&epochs).expect("a file of the node's");
    assert!(Command::new("mkfifo").arg(&epochs).status().expect("mkfifo").success());
    node.start();
    await_some("all others", LIMIT, || (left_to_check(&node) == 0.0).then_some(()));
    let mut connection = Connection::open(node.address());
    assert_eq!(produce(&mut connection, "fast"), NONE);
    assert_eq!(raw::listed_offset(&connection.call(&raw::list_end_offset("fast"))), 4);
    assert_eq!(produce(&mut connection, "slow"), KAFKA_STORAGE_ERROR);
    fs::remove_file(&epochs).and_then(|()| fs::write(&epochs, contents)).expect("a file as it was");
    await_some("the last one", LIMIT, || (produce(&mut connection, "slow") == NONE).then_some(()));
    assert_eq!(raw::listed_offset(&connection.call(&raw::list_end_offset("slow"))), 4);
    node.stop();
}
