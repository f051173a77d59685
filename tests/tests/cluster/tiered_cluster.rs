//! Tiered topics in a cluster of a real Kafka and of Levada, which share a store: each serves the
//! records that the other has copied, and a new replica begins after the remote part and serves
//! all of it once it leads. A leader by an unclean election serves its own history, and none of the
//! records that its predecessor has copied beyond it.
//!
//! Suite: long; 110 s; needs java, kcat, tiers; share tiers

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

fn cluster(store: &Path, class_path: &str, metadata_replicas: &str) -> Cluster {
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
            ("rlmm.config.remote.log.metadata.topic.replication.factor", metadata_replicas),
            // A new replica begins after the remote part.
            ("follower.fetch.last.tiered.offset.enable", "true"),
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

/// Writes records of a length to a leader, from this offset on.
fn fill(cluster: &Cluster, topic: &str, leader: i32, (from, count, length): (usize, usize, usize)) {
    let mut connection = Connection::open(cluster.node(leader).address());
    for number in from..from + count {
        let batch = Batch::of(&[&vec![u8::try_from(number % 251).expect("below 251"); length]]).encode();
        await_some("the leader", LIMIT, || {
            let answer = connection.call(&raw::produce(topic, -1, &batch));
            (raw::produce_error(&answer) == 0).then_some(())
        });
    }
}

/// The first of two replicas copies records that the second one does not have, and is lost. The
/// second one leads by an unclean election, and copies other records with the same offsets.
fn elect_uncleanly(cluster: &mut Cluster, tools: &mut Tools, [former, next]: [i32; 2]) {
    println!("---- {next} leads uncleanly after {former}");
    let topic = format!("unclean-{next}");
    let assignment = format!("--replica-assignment {former}:{next}");
    tools.run(&format!("TopicCommand --create --topic {topic} {assignment} {CONFIGS}"));
    fill(cluster, &topic, former, (0, 40, VALUE_BYTES));
    cluster.node_mut(next).kill();
    await_some("the other replica is out of sync", LIMIT, || {
        let (_, described) = tools.outcome(&format!("TopicCommand --describe --topic {topic}"));
        described.contains(&format!("\tIsr: {former}\t")).then_some(())
    });
    fill(cluster, &topic, former, (40, 40, VALUE_BYTES));
    await_some("one local segment", LIMIT, || (segments(cluster, &topic, former).len() == 1).then_some(()));
    cluster.node_mut(former).kill();
    cluster.node_mut(next).start();
    let left: Vec<i32> = cluster.brokers().into_iter().filter(|id| *id != former).collect();
    cluster.await_brokers(&left);
    await_some("an unclean election", LIMIT, || {
        let partition = format!("--topic {topic} --partition 0");
        let (code, _) = tools.outcome(&format!("LeaderElectionCommand --election-type unclean {partition}"));
        (code == 0).then_some(())
    });
    fill(cluster, &topic, next, (40, 30, VALUE_BYTES / 2));
    await_some("one local segment", LIMIT, || (segments(cluster, &topic, next).len() == 1).then_some(()));
    let lines = (0..70)
        .map(|offset| format!("{offset}:{}\n", if offset < 40 { VALUE_BYTES } else { VALUE_BYTES / 2 }));
    let expected: String = lines.collect();
    assert!(consumed(cluster, &topic) == expected, "{next} serves its own history");
    cluster.node_mut(former).start();
    cluster.await_brokers(&cluster.brokers());
    assign(cluster, tools, &topic, &[former, next]);
    assert!(consumed(cluster, &topic) == expected, "{former} serves the history of {next}");
}

#[test]
fn unclean_leaders_serve_their_own_history() {
    let Some(class_path) = paths::tiers_class_path() else {
        return not_run("Kafka's store in a directory is not installed: cargo xtask deps tiers");
    };
    let store = tempfile::tempdir().expect("a directory");
    let mut cluster = cluster(store.path(), &class_path, "3");
    cluster.start();
    let mut tools = cluster.tools(LEVADA + 1);
    elect_uncleanly(&mut cluster, &mut tools, [LEVADA, KAFKA]);
    elect_uncleanly(&mut cluster, &mut tools, [KAFKA, LEVADA]);
}

fn expected() -> String {
    let lines = (0..RECORDS).map(|offset| (offset, if offset == 0 { 5 } else { VALUE_BYTES }));
    lines.map(|(offset, length)| format!("{offset}:{length}\n")).collect()
}

/// A new replica begins after all copied records, of which its leader has some on its disk.
fn begin_late(cluster: &Cluster, tools: &mut Tools, store: &Path) {
    let (topic, new) = ("late", LEVADA + 1);
    let configs = CONFIGS.replace("local.retention.bytes=1", "local.retention.bytes=3500000");
    tools.run(&format!(
        "TopicCommand --create --topic {topic} --replica-assignment {LEVADA}:{KAFKA} {configs}"
    ));
    fill(cluster, topic, LEVADA, (0, RECORDS, VALUE_BYTES));
    await_some("copies of all closed segments", LIMIT, || {
        let partitions = fs::read_dir(store.join("kafka-tiered-storage")).ok()?.flatten();
        let own = partitions.filter(|entry| entry.file_name().to_string_lossy().starts_with("late-0-"));
        let files = own.flat_map(|entry| fs::read_dir(entry.path()).into_iter().flatten().flatten());
        let logs = files.filter(|file| file.path().extension().is_some_and(|end| end == "log"));
        // A segment has eleven records.
        (logs.count() == RECORDS / 11).then_some(())
    });
    // Retention leaves up to a segment more.
    await_some("local retention", LIMIT, || (segments(cluster, topic, LEVADA).len() == 5).then_some(()));
    assign(cluster, tools, topic, &[LEVADA, KAFKA, new]);
    assert_eq!(segments(cluster, topic, new).len(), 1, "only records that the store does not have");
}

#[test]
fn kafka_and_levada_share_a_store() {
    let Some(class_path) = paths::tiers_class_path() else {
        return not_run("Kafka's store in a directory is not installed: cargo xtask deps tiers");
    };
    let store = tempfile::tempdir().expect("a directory");
    let mut cluster = cluster(store.path(), &class_path, "1");
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
    begin_late(&cluster, &mut tools, store.path());
    cluster.assert_no_errors();
}
