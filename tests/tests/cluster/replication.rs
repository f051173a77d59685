//! Levada as a follower of a real Kafka: it joins the replicas in sync, its log equals its leader's
//! byte for byte, it catches up after stops and crashes, and truncates records that a later leader
//! does not have.
//!
//! Suite: short; 109 s; needs java

use std::collections::BTreeMap;
use std::path::Path;

use levada_tests::cluster::{Cluster, Discovery, KAFKA, LEVADA, LIMIT, Shape, Tools};
use levada_tests::pki::{Authority, Flaw};
use levada_tests::raw::{self, Batch, Connection};
use levada_tests::{Tool, await_some};

const NONE: i16 = 0;
const ALL: i16 = -1;

/// Appends a batch to the first partition through the real Kafka.
fn produce(cluster: &Cluster, topic: &str, acks: i16, value: &[u8]) -> i16 {
    produce_to(cluster, KAFKA, topic, (acks, value))
}

/// Appends a batch to the first partition through a given broker.
fn produce_to(cluster: &Cluster, broker: i32, topic: &str, (acks, value): (i16, &[u8])) -> i16 {
    let request = raw::produce(topic, acks, &Batch::of(&[value]).encode());
    raw::produce_error(&Connection::open(cluster.node(broker).address()).call(&request))
}

/// Waits until the broker leads the first partition, and takes a batch that all replicas have.
fn await_leader(cluster: &Cluster, broker: i32, topic: &str, value: &[u8]) {
    await_some(&format!("broker {broker} leads {topic}"), LIMIT, || {
        (produce_to(cluster, broker, topic, (ALL, value)) == NONE).then_some(())
    });
}

/// Creates a topic with these replicas; returns when the first partition's leader takes batches.
fn create(cluster: &Cluster, tools: &mut Tools, topic: &str, assignment: &str) {
    // The timestamps of the test clients are years old.
    let config = "--config retention.ms=-1";
    let line = format!("TopicCommand --create --topic {topic} --replica-assignment {assignment} {config}");
    assert!(tools.run(&line).contains("Created topic"));
    let leader = assignment.split([',', ':']).next().and_then(|id| id.parse().ok());
    await_leader(cluster, leader.expect("an assignment begins with a broker's id"), topic, b"the first");
}

/// Waits until every partition of the topic has these replicas in sync, in this order of ids.
fn await_in_sync(tools: &mut Tools, topic: &str, ids: &[i32]) {
    await_some(&format!("replicas {ids:?} of {topic} in sync"), LIMIT, || {
        let (code, said) = tools.outcome(&format!("TopicCommand --describe --topic {topic}"));
        let partitions: Vec<&str> = said.lines().filter(|line| line.contains("Partition:")).collect();
        let in_sync = |line: &&str| {
            let list = line.split("Isr:").nth(1)?.split_whitespace().next()?;
            let mut found: Vec<i32> = list.split(',').filter_map(|id| id.parse().ok()).collect();
            found.sort_unstable();
            (found == ids).then_some(())
        };
        let is_done =
            code == 0 && !partitions.is_empty() && partitions.iter().all(|line| in_sync(line).is_some());
        is_done.then_some(())
    });
}

/// Segments and leader epochs of a partition, by file name.
fn files(data: &Path, partition: &str) -> BTreeMap<String, Vec<u8>> {
    let wanted = |name: &str| name.ends_with(".log") || name == "leader-epoch-checkpoint";
    let entries = std::fs::read_dir(data.join(partition)).expect("the partition's directory");
    let names = entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("a name"));
    let named = names.filter(|name| wanted(name));
    named
        .map(|name| (name.clone(), std::fs::read(data.join(partition).join(name)).expect("the file")))
        .collect()
}

/// Waits until the partition's files are the same on both brokers.
fn await_same_files(cluster: &Cluster, partition: &str) {
    let of = |id: i32| files(&cluster.node(id).data(), partition);
    await_some(&format!("equal files of {partition}"), LIMIT, || {
        let (theirs, ours) = (of(KAFKA), of(LEVADA));
        (theirs == ours && theirs.values().any(|bytes| !bytes.is_empty())).then_some(())
    });
}

/// One test, since a cluster takes longer to start than its parts to run.
#[test]
fn follower_of_kafka_has_identical_log() {
    let shape = Shape { controllers: 1, kafka: 1, levada: 1, discovery: Discovery::BootstrapServers };
    let mut cluster = Cluster::new(shape);
    cluster.start();
    it_joins_the_replicas_in_sync_and_acknowledges(&cluster);
    it_catches_up_after_a_crash_and_after_a_stop(&mut cluster);
    a_reassignment_adds_its_replica_and_removes_it(&cluster);
    a_deleted_topic_is_created_again(&cluster);
    leadership_goes_to_and_fro_and_unreplicated_records_are_truncated(&mut cluster);
    an_empty_log_begins_where_its_leaders_log_does(&mut cluster);
    cluster.assert_no_errors();
}

fn it_joins_the_replicas_in_sync_and_acknowledges(cluster: &Cluster) {
    let mut tools = cluster.tools(KAFKA);
    create(cluster, &mut tools, "followed", &format!("{KAFKA}:{LEVADA},{KAFKA}:{LEVADA}"));
    for number in 0..50 {
        let value = vec![b'a' + number % 26; 40 * usize::from(number)];
        assert_eq!(produce(cluster, "followed", ALL, &value), NONE);
    }
    tools.run("produce followed 1 100");
    await_in_sync(&mut tools, "followed", &[KAFKA, LEVADA]);
    await_same_files(cluster, "followed-0");
    await_same_files(cluster, "followed-1");
    kafkas_verification_finds_the_replicas_equal(cluster, "followed");
}

/// Kafka's tool reads every replica, also those of followers, and compares checksums.
fn kafkas_verification_finds_the_replicas_equal(cluster: &Cluster, topic: &str) {
    let mut tool = Tool::java("org.apache.kafka.tools.ReplicaVerificationTool");
    tool.args(["--broker-list", &cluster.bootstrap(), "--topics-include", topic]);
    let mut tool = tool.args(["--report-interval-ms", "500"]).spawn();
    let is_verdict = |line: &String| line.contains("max lag is");
    let verdict = std::iter::repeat_with(|| tool.line(LIMIT)).find(is_verdict).expect("a verdict");
    assert!(verdict.contains("max lag is 0 for partition"), "{verdict}");
    assert!(verdict.contains("among 2 partitions"), "{verdict}");
    tool.kill();
}

fn it_catches_up_after_a_crash_and_after_a_stop(cluster: &mut Cluster) {
    for is_crash in [true, false] {
        if is_crash {
            cluster.node_mut(LEVADA).kill();
        } else {
            cluster.node_mut(LEVADA).stop();
        }
        let mut tools = cluster.tools(KAFKA);
        assert_eq!(produce(cluster, "followed", 1, b"while it was away"), NONE);
        tools.run("produce followed 1 50");
        cluster.node_mut(LEVADA).start();
        assert_eq!(produce(cluster, "followed", 1, b"while it catches up"), NONE);
        await_in_sync(&mut tools, "followed", &[KAFKA, LEVADA]);
        await_same_files(cluster, "followed-0");
        await_same_files(cluster, "followed-1");
    }
}

fn reassign(cluster: &Cluster, tools: &mut Tools, topic: &str, replicas: &str) {
    let plan = cluster.node(LEVADA).scratch().join("plan.json");
    let partition = format!("{{\"topic\":\"{topic}\",\"partition\":0,\"replicas\":[{replicas}]}}");
    std::fs::write(&plan, format!("{{\"version\":1,\"partitions\":[{partition}]}}")).expect("a plan");
    let plan = plan.display();
    tools.run(&format!("ReassignPartitionsCommand --execute --reassignment-json-file {plan}"));
}

fn a_reassignment_adds_its_replica_and_removes_it(cluster: &Cluster) {
    let mut tools = cluster.tools(KAFKA);
    create(cluster, &mut tools, "moved", &KAFKA.to_string());
    tools.run("produce moved 0 200");
    reassign(cluster, &mut tools, "moved", &format!("{KAFKA},{LEVADA}"));
    await_in_sync(&mut tools, "moved", &[KAFKA, LEVADA]);
    await_same_files(cluster, "moved-0");
    reassign(cluster, &mut tools, "moved", &KAFKA.to_string());
    let directory = cluster.node(LEVADA).data().join("moved-0");
    await_some("the removal of the replica", LIMIT, || (!directory.exists()).then_some(()));
}

fn a_deleted_topic_is_created_again(cluster: &Cluster) {
    let mut tools = cluster.tools(KAFKA);
    tools.run("TopicCommand --delete --topic followed");
    create(cluster, &mut tools, "followed", &format!("{KAFKA}:{LEVADA}"));
    await_in_sync(&mut tools, "followed", &[KAFKA, LEVADA]);
    assert_eq!(produce(cluster, "followed", ALL, b"of the second topic"), NONE);
    await_same_files(cluster, "followed-0");
}

fn leadership_goes_to_and_fro_and_unreplicated_records_are_truncated(cluster: &mut Cluster) {
    let mut tools = cluster.tools(KAFKA);
    create(cluster, &mut tools, "led", &format!("{LEVADA}:{KAFKA}"));
    await_in_sync(&mut tools, "led", &[KAFKA, LEVADA]);
    // The follower is suspended: records that the leader takes now are in no other log.
    cluster.node(KAFKA).suspend();
    for _ in 0..3 {
        assert_eq!(produce_to(cluster, LEVADA, "led", (1, b"nobody else has it")), NONE);
    }
    cluster.node_mut(LEVADA).kill();
    cluster.node(KAFKA).resume();
    await_leader(cluster, KAFKA, "led", b"by the second leader");
    cluster.node_mut(LEVADA).start();
    await_in_sync(&mut tools, "led", &[KAFKA, LEVADA]);
    await_same_files(cluster, "led-0");
    let talk = cluster.node(LEVADA).talk();
    assert!(
        talk.contains("truncated the log to the point where it diverges from the leader's log"),
        "{talk}"
    );
    tools.run("LeaderElectionCommand --election-type PREFERRED --topic led --partition 0");
    await_leader(cluster, LEVADA, "led", b"by the third leader");
    assert_eq!(produce_to(cluster, LEVADA, "led", (ALL, b"and again")), NONE);
    await_same_files(cluster, "led-0");
    cluster.node_mut(LEVADA).stop();
    await_leader(cluster, KAFKA, "led", b"by the fourth leader");
    cluster.node_mut(LEVADA).start();
    await_in_sync(&mut tools, "led", &[KAFKA, LEVADA]);
    await_same_files(cluster, "led-0");
}

/// The leader loses its log while the follower, whose records were all deleted, is away.
fn an_empty_log_begins_where_its_leaders_log_does(cluster: &mut Cluster) {
    let mut tools = cluster.tools(KAFKA);
    create(cluster, &mut tools, "emptied", &format!("{KAFKA}:{LEVADA}"));
    let file = cluster.node(LEVADA).scratch().join("offsets.json");
    let partition = r#"{"topic":"emptied","partition":0,"offset":-1}"#;
    std::fs::write(&file, format!("{{\"version\":1,\"partitions\":[{partition}]}}")).expect("a file");
    for (loses_its_log, end) in [(false, 9), (true, 30)] {
        for _ in 0..8 {
            assert_eq!(produce(cluster, "emptied", ALL, b"to be deleted"), NONE);
        }
        let deleted = tools.run(&format!("DeleteRecordsCommand --offset-json-file {}", file.display()));
        assert!(deleted.contains(&format!("low_watermark: {end}")), "{deleted}");
        cluster.node_mut(LEVADA).stop();
        if loses_its_log {
            cluster.node_mut(KAFKA).stop();
            let directory = cluster.node(KAFKA).data().join("emptied-0");
            std::fs::remove_dir_all(directory).expect("the log of the leader");
            cluster.node_mut(KAFKA).start();
            await_leader(cluster, KAFKA, "emptied", b"in the new log");
            tools = cluster.tools(KAFKA);
        }
        // The leader that lost its log ends after the follower.
        for _ in 0..end + 3 {
            assert_eq!(produce(cluster, "emptied", 1, b"while the follower is away"), NONE);
        }
        cluster.node_mut(LEVADA).start();
        await_in_sync(&mut tools, "emptied", &[KAFKA, LEVADA]);
        assert_eq!(produce(cluster, "emptied", ALL, b"on both"), NONE);
        await_same_files(cluster, "emptied-0");
    }
}

#[test]
fn replication_works_over_tls_and_sasl() {
    let directory = tempfile::tempdir().expect("a directory");
    let authority = Authority::new(directory.path());
    let store = authority.issue("broker", Flaw::None).display().to_string();
    let trusted = authority.certificate().display().to_string();
    let module = "org.apache.kafka.common.security.plain.PlainLoginModule required";
    let login = format!("{module} username=\"broker\" password=\"pass\" user_broker=\"pass\";");
    let options = [
        ("inter.broker.listener.name", "INSIDE"),
        ("sasl.mechanism.inter.broker.protocol", "PLAIN"),
        ("sasl.enabled.mechanisms", "PLAIN"),
        ("listener.name.inside.plain.sasl.jaas.config", login.as_str()),
        ("listener.name.inside.ssl.keystore.type", "PEM"),
        ("listener.name.inside.ssl.keystore.location", &store),
        ("listener.name.inside.ssl.truststore.type", "PEM"),
        ("listener.name.inside.ssl.truststore.location", &trusted),
    ];
    let shape = Shape { controllers: 1, kafka: 1, levada: 1, discovery: Discovery::BootstrapServers };
    let mut cluster = Cluster::new(shape);
    for (key, value) in options {
        cluster = cluster.option(KAFKA, key, value).option(LEVADA, key, value);
    }
    cluster.listen("INSIDE", "SASL_SSL");
    cluster.start();
    let mut tools = cluster.tools(KAFKA);
    for (topic, leader, follower) in [("from-kafka", KAFKA, LEVADA), ("from-levada", LEVADA, KAFKA)] {
        create(&cluster, &mut tools, topic, &format!("{leader}:{follower}"));
        await_in_sync(&mut tools, topic, &[KAFKA, LEVADA]);
        await_same_files(&cluster, &format!("{topic}-0"));
    }
    cluster.assert_no_errors();
}
