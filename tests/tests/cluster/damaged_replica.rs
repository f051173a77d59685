//! One flipped bit in one of three replicas, and then a crash of all brokers: the replica that the
//! controllers elect is the damaged one, and no acknowledged record is lost.
//!
//! Suite: long; 40 s; needs java; share faults

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use levada_tests::await_some;
use levada_tests::cluster::{Cluster, Discovery, LEVADA, LIMIT, Shape, Tools};
use levada_tests::raw::{self, Batch, Connection};

const NONE: i16 = 0;
const ALL: i16 = -1;
const TOPIC: &str = "damaged";
/// The preferred leader, whose log is damaged.
const DAMAGED: i32 = LEVADA + 1;
const BROKERS: [i32; 3] = [LEVADA, DAMAGED, LEVADA + 2];

/// Has a broker append a record that all replicas in sync must have; true if it is acknowledged.
fn produce(cluster: &Cluster, broker: i32, number: usize) -> bool {
    let value = format!("{number} {}", "x".repeat(900));
    let request = raw::produce(TOPIC, ALL, &Batch::of(&[value.as_bytes()]).encode());
    let answer =
        Connection::try_open(cluster.node(broker).address()).and_then(|mut to| to.try_call(&request));
    answer.is_ok_and(|answer| raw::produce_error(&answer) == NONE)
}

/// Produces further records through the leader, each until it is acknowledged.
fn produce_all(cluster: &Cluster, numbers: std::ops::Range<usize>) {
    for number in numbers {
        await_some(&format!("the acknowledgement of record {number}"), LIMIT, || {
            BROKERS.into_iter().find(|broker| produce(cluster, *broker, number))
        });
    }
}

fn await_in_sync(cluster: &Cluster) {
    await_some("all replicas in sync", LIMIT, || cluster.are_in_sync(TOPIC, 3).then_some(()));
}

fn prefer(cluster: &Cluster, tools: &mut Tools) {
    tools.run(&format!("LeaderElectionCommand --election-type PREFERRED --topic {TOPIC} --partition 0"));
    await_some("the preferred leader", LIMIT, || produce(cluster, DAMAGED, 0).then_some(()));
}

fn segment(cluster: &Cluster) -> PathBuf {
    cluster.node(DAMAGED).data().join(format!("{TOPIC}-0/00000000000000000000.log"))
}

/// Numbers of the records in the partition.
fn numbers(cluster: &Cluster) -> BTreeSet<usize> {
    let said = cluster.node(LEVADA).levada(&format!("consume {TOPIC} -e")).run();
    let words = said.stdout.lines().filter_map(|line| line.split(' ').next());
    words.map(|word| word.parse().expect("a record begins with its number")).collect()
}

#[test]
fn a_damaged_replica_that_is_elected_after_a_crash_of_all_lets_another_one_lead() {
    let shape = Shape { controllers: 1, kafka: 0, levada: 3, discovery: Discovery::BootstrapServers };
    let mut cluster = Cluster::new(shape);
    cluster.start();
    let mut tools = cluster.tools(LEVADA);
    let config = "--config retention.ms=-1 --config min.insync.replicas=2";
    let assignment = format!("{DAMAGED}:{LEVADA}:{}", LEVADA + 2);
    let line = format!("TopicCommand --create --topic {TOPIC} --replica-assignment {assignment} {config}");
    assert!(tools.run(&line).contains("Created topic"));
    produce_all(&cluster, 1..200);

    cluster.node_mut(DAMAGED).stop();
    let path = segment(&cluster);
    let mut bytes = fs::read(&path).expect("the segment");
    let at = bytes.len() * 2 / 5;
    bytes[at] ^= 1;
    fs::write(&path, bytes).expect("the segment");
    // A clean stop: the start does not read the log.
    cluster.node_mut(DAMAGED).start();
    await_in_sync(&cluster);
    prefer(&cluster, &mut tools);
    produce_all(&cluster, 200..300);

    BROKERS.iter().for_each(|broker| cluster.node_mut(*broker).kill());
    BROKERS.iter().for_each(|broker| cluster.node_mut(*broker).launch());
    BROKERS.iter().for_each(|broker| cluster.node_mut(*broker).await_start());
    produce_all(&cluster, 300..301);
    await_in_sync(&cluster);
    let found = numbers(&cluster);
    let lost: Vec<usize> = (1..301).filter(|number| !found.contains(number)).collect();
    assert!(lost.is_empty(), "{} acknowledged records are lost: {lost:?}", lost.len());
    let talk = cluster.node(DAMAGED).talk();
    assert!(talk.contains("the log of a replica lacks records"), "{talk}");
    // The replica has its records again, and may lead.
    prefer(&cluster, &mut tools);
    assert_eq!(numbers(&cluster).len(), found.len().max(301));
    cluster.assert_no_errors();
}
