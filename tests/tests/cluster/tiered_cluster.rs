//! Tiered topics in a cluster of a real Kafka and of Levada, which share a store: each serves the
//! records that the other has copied, and a new replica begins after the remote part and serves
//! all of it once it leads.
//!
//! Suite: long; 90 s; needs java, kcat, tiers; share tiers

use std::fs;
use std::path::{Path, PathBuf};

use levada_tests::cluster::{CONTROLLER, Discovery, KAFKA, LEVADA, LIMIT, Shape, Tools};
use levada_tests::node::Kind;
use levada_tests::raw::{self, Batch, Connection};
use levada_tests::{Cluster, Tool, await_some, not_run, paths};

const RECORDS: usize = 80;
const VALUE_BYTES: usize = 90_000;
const CONFIGS: &str = "--config remote.storage.enable=true --config segment.bytes=1048576 \
                       --config retention.ms=-1 --config local.retention.bytes=1";

fn cluster(store: &Path, class_path: &str) -> Cluster {
    let shape = Shape { controllers: 1, kafka: 1, levada: 2, discovery: Discovery::Voters };
    let store = store.display().to_string();
    let mut cluster = Cluster::new(shape).option(CONTROLLER, "remote.log.storage.system.enable", "true");
    let class = "org.apache.kafka.server.log.remote.storage.LocalTieredStorage";
    for first in [KAFKA, LEVADA] {
        for (key, value) in [
            ("remote.log.storage.system.enable", "true"),
            ("remote.log.manager.task.interval.ms", "500"),
            ("log.retention.check.interval.ms", "500"),
            ("log.initial.task.delay.ms", "500"),
            ("rlmm.config.remote.log.metadata.topic.num.partitions", "3"),
            ("rlmm.config.remote.log.metadata.topic.replication.factor", "1"),
            ("rlmm.config.remote.log.metadata.topic.min.isr", "1"),
        ] {
            cluster = cluster.option(first, key, value);
        }
    }
    for (key, value) in [
        ("remote.log.storage.manager.class.name", class),
        ("remote.log.storage.manager.class.path", class_path),
        ("remote.log.metadata.manager.listener.name", "PLAINTEXT"),
        ("rsm.config.dir", &store),
    ] {
        cluster = cluster.option(KAFKA, key, value);
        if Kind::under_test() == Kind::Kafka {
            cluster = cluster.option(LEVADA, key, value);
        }
    }
    if Kind::under_test() == Kind::Levada {
        cluster = cluster.option(LEVADA, "levada.remote.store", &format!("file://{store}"));
        cluster = cluster.option(LEVADA, "levada.remote.layout", "local");
    }
    cluster
}

/// A topic whose first replica leads and has copied all but the last segment.
fn copied(cluster: &Cluster, tools: &mut Tools, topic: &str, replicas: [i32; 2]) {
    let [leader, follower] = replicas;
    let assignment = format!("--replica-assignment {leader}:{follower}");
    tools.run(&format!("TopicCommand --create --topic {topic} {assignment} {CONFIGS}"));
    let mut connection = await_some("the leader", LIMIT, || {
        let mut connection = Connection::open(cluster.node(leader).address());
        let batch = Batch::of(&[b"first"]).encode();
        let answer = connection.call(&raw::produce(topic, -1, &batch));
        (raw::produce_error(&answer) == 0).then_some(connection)
    });
    for number in 1..RECORDS {
        let value = vec![u8::try_from(number % 251).expect("below 251"); VALUE_BYTES];
        let batch = Batch::of(&[&value]).encode();
        assert_eq!(raw::produce_error(&connection.call(&raw::produce(topic, -1, &batch))), 0);
    }
    for broker in replicas {
        await_some("one local segment", LIMIT, || {
            (segments(cluster, topic, broker).len() == 1).then_some(())
        });
    }
}

fn segments(cluster: &Cluster, topic: &str, broker: i32) -> Vec<PathBuf> {
    let dir = cluster.node(broker).data().join(format!("{topic}-0"));
    let entries = fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path());
    entries.filter(|path| path.extension().is_some_and(|end| end == "log")).collect()
}

/// Has the replicas of a topic be these, the first of which leads.
fn assign(cluster: &Cluster, tools: &mut Tools, topic: &str, replicas: &[i32]) {
    let ids: Vec<String> = replicas.iter().map(i32::to_string).collect();
    let plan = cluster.node(CONTROLLER).scratch().join("tiered.json");
    let text = format!(
        r#"{{"version":1,"partitions":[{{"topic":"{topic}","partition":0,"replicas":[{}]}}]}}"#,
        ids.join(",")
    );
    fs::write(&plan, text).expect("a file");
    let plan = plan.display();
    tools.run(&format!("ReassignPartitionsCommand --reassignment-json-file {plan} --execute"));
    await_some("the new replicas in sync, and the first leads", LIMIT, || {
        tools.outcome(&format!(
            "LeaderElectionCommand --election-type preferred --topic {topic} --partition 0"
        ));
        let described = tools.run(&format!("TopicCommand --describe --topic {topic}"));
        let is_led = described.contains(&format!("Leader: {}\t", replicas[0]));
        let are_in_sync = cluster.are_in_sync(topic, i32::try_from(replicas.len()).expect("a few"));
        (is_led && are_in_sync).then_some(())
    });
}

/// The offsets and lengths of all records that a consumer gets.
fn consumed(cluster: &Cluster, topic: &str) -> String {
    let mut kcat = Tool::kcat();
    kcat.args(["-b", &cluster.bootstrap(), "-t", topic]);
    kcat.args(["-C", "-e", "-q", "-o", "beginning", "-f", "%o:%S\\n"]).run().stdout
}

fn expected() -> String {
    let lines = (0..RECORDS).map(|offset| (offset, if offset == 0 { 5 } else { VALUE_BYTES }));
    lines.map(|(offset, length)| format!("{offset}:{length}\n")).collect()
}

#[test]
fn kafka_and_levada_share_a_store() {
    let Some(class_path) = paths::tiers_class_path() else {
        return not_run("Kafka's store in a directory is not installed: cargo xtask deps tiers");
    };
    let store = tempfile::tempdir().expect("a directory");
    let mut cluster = cluster(store.path(), &class_path);
    cluster.start();
    let mut tools = cluster.tools(LEVADA);
    for (topic, leader, follower) in [("of-kafka", KAFKA, LEVADA), ("of-levada", LEVADA, KAFKA)] {
        println!("---- {topic}: copied by {leader}");
        copied(&cluster, &mut tools, topic, [leader, follower]);
        assert!(consumed(&cluster, topic) == expected(), "{leader} serves what it copied");
        println!("---- {topic}: served by {follower}");
        assign(&cluster, &mut tools, topic, &[follower, leader]);
        assert!(consumed(&cluster, topic) == expected(), "{follower} serves what {leader} copied");
        println!("---- {topic}: a new replica");
        let new = LEVADA + 1;
        assign(&cluster, &mut tools, topic, &[follower, leader, new]);
        let own = segments(&cluster, topic, new);
        let has_start = own.iter().any(|path| {
            path.file_stem().is_some_and(|stem| stem.to_string_lossy().bytes().all(|byte| byte == b'0'))
        });
        assert!(!has_start, "the new replica has the remote part: {own:?}");
        assign(&cluster, &mut tools, topic, &[new, leader, follower]);
        assert!(consumed(&cluster, topic) == expected(), "the new replica serves {topic}");
    }
    cluster.assert_no_errors();
}
