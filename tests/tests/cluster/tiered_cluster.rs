//! Tiered topics in a cluster of a real Kafka and of Levada, which share a store: each serves the
//! records that the other has copied, and a new replica begins after the remote part and serves
//! all of it once it leads. A leader by an unclean election serves its own history, and none of the
//! records that its predecessor has copied beyond it.
//!
//! Suite: long; 110 s; needs java, kcat, tiers; share tiers

use std::fs;
use std::path::{Path, PathBuf};

use levada_tests::cluster::{KAFKA, LEVADA, LIMIT, Tools};
use levada_tests::raw::{self, Batch, Connection};
use levada_tests::{Cluster, Tool, await_some, tiers};

const RECORDS: usize = 80;
const VALUE_BYTES: usize = 90_000;
const CONFIGS: &str = "--config remote.storage.enable=true --config segment.bytes=1048576 \
                       --config retention.ms=-1 --config local.retention.bytes=1";

/// A cluster whose new replicas begin after the remote part.
fn cluster(store: &Path, metadata_replicas: &str) -> Option<Cluster> {
    let cluster = tiers::of_both_kinds(store, metadata_replicas)?;
    let key = "follower.fetch.last.tiered.offset.enable";
    Some(cluster.option(KAFKA, key, "true").option(LEVADA, key, "true"))
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
    tiers::assign(cluster, tools, (&topic, 0), &[former, next]);
    assert!(consumed(cluster, &topic) == expected, "{former} serves the history of {next}");
}

#[test]
fn unclean_leaders_serve_their_own_history() {
    let store = tempfile::tempdir().expect("a directory");
    let Some(mut cluster) = cluster(store.path(), "3") else { return };
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
    tiers::assign(cluster, tools, (topic, 0), &[LEVADA, KAFKA, new]);
    assert_eq!(segments(cluster, topic, new).len(), 1, "only records that the store does not have");
}

/// A new replica of a log whose records are all copied, and on no disk any longer.
fn begin_after_all(cluster: &Cluster, tools: &mut Tools, leader: i32) {
    let (topic, new) = (format!("idle-{leader}"), LEVADA + 1);
    println!("---- {topic}: a new replica");
    let configs = format!("{CONFIGS} --config local.retention.ms=1000");
    tools.run(&format!("TopicCommand --create --topic {topic} --replica-assignment {leader} {configs}"));
    fill(cluster, &topic, leader, (0, 3, 1000));
    let is_empty = |path: &PathBuf| fs::metadata(path).is_ok_and(|found| found.len() == 0);
    await_some("an empty local part", LIMIT, || {
        let own = segments(cluster, &topic, leader);
        (own.len() == 1 && own.iter().all(is_empty)).then_some(())
    });
    tiers::assign(cluster, tools, (&topic, 0), &[leader, new]);
    assert_eq!(consumed(cluster, &topic), "0:1000\n1:1000\n2:1000\n");
}

#[test]
fn kafka_and_levada_share_a_store() {
    let store = tempfile::tempdir().expect("a directory");
    let Some(mut cluster) = cluster(store.path(), "1") else { return };
    cluster.start();
    let mut tools = cluster.tools(LEVADA);
    for (topic, leader, follower) in [("of-kafka", KAFKA, LEVADA), ("of-levada", LEVADA, KAFKA)] {
        println!("---- {topic}: copied by {leader}");
        copied(&cluster, &mut tools, topic, [leader, follower]);
        assert!(consumed(&cluster, topic) == expected(), "{leader} serves what it copied");
        println!("---- {topic}: served by {follower}");
        tiers::assign(&cluster, &mut tools, (topic, 0), &[follower, leader]);
        assert!(consumed(&cluster, topic) == expected(), "{follower} serves what {leader} copied");
        println!("---- {topic}: a new replica");
        let new = LEVADA + 1;
        tiers::assign(&cluster, &mut tools, (topic, 0), &[follower, leader, new]);
        let own = segments(&cluster, topic, new);
        let has_start = own.iter().any(|path| {
            path.file_stem().is_some_and(|stem| stem.to_string_lossy().bytes().all(|byte| byte == b'0'))
        });
        assert!(!has_start, "the new replica has the remote part: {own:?}");
        tiers::assign(&cluster, &mut tools, (topic, 0), &[new, leader, follower]);
        assert!(consumed(&cluster, topic) == expected(), "the new replica serves {topic}");
    }
    begin_late(&cluster, &mut tools, store.path());
    begin_after_all(&cluster, &mut tools, LEVADA);
    begin_after_all(&cluster, &mut tools, KAFKA);
    cluster.assert_no_errors();
}
