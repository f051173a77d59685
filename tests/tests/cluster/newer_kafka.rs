//! The next Kafka beside Levada: its controllers and its brokers at the levels that they choose for
//! a new cluster, with its clients and tools.
//!
//! Suite: long; 25 s; needs java, newer-kafka

use levada_tests::cluster::{CONTROLLER, Discovery, KAFKA, LEVADA, LIMIT, Shape, Tools};
use levada_tests::share::letters::{ALLOWED, REJECTED, await_no_lag, letter, letters};
use levada_tests::share::{self, Members, numbered};
use levada_tests::{Cluster, await_some};

const QUEUE: &str = "dlq.t";
/// A queue whose letters have copies of their records.
const SETTINGS: &str = "share.auto.offset.reset=earliest errors.deadletterqueue.topic.name=dlq.t \
                        errors.deadletterqueue.copy.record.enable=true";

/// The second broker of Levada.
const OTHER: i32 = LEVADA + 1;

/// Has a member `a` of group `g` reject the second of three records in each partition.
fn reject_second(members: &mut Members, partitions: u32) {
    members.run(&format!("config g {SETTINGS}"));
    members.run("open a g t share.acknowledgement.mode=explicit");
    for partition in 0..partitions {
        let range = numbered(format!("p{partition}"), 0..3);
        members.run(&format!("produce t {partition} {range}"));
    }
    let choose = |offset| if offset == 1 { "reject" } else { "accept" };
    members.take_each("a", 3 * partitions as usize, |delivery| choose(delivery.offset));
}

/// The letters, where partition N of the queue has those of partition N of the topic.
fn expected(partitions: u32) -> Vec<String> {
    let of = |partition| letter(partition, (partition, 1), REJECTED, &format!("null\tp{partition}-001"));
    (0..partitions).map(of).collect()
}

/// UnregisterController is of Kafka 4.4: brokers forward it to controllers that have it.
fn unregister_a_controller(cluster: &Cluster) {
    let request = r#"api UnregisterController {"ControllerId":99}"#;
    let answer = cluster.node(LEVADA).levada_json(request);
    let told = (&answer["ErrorCode"], &answer["ErrorMessage"]);
    assert_eq!(told, (&136.into(), &"Controller ID 99 is not currently registered.".into()), "{answer}");
}

fn cluster() -> Cluster {
    let shape = Shape { controllers: 1, kafka: 1, levada: 2, discovery: Discovery::BootstrapServers };
    let mut cluster = Cluster::new(shape);
    for first in [CONTROLLER, KAFKA, LEVADA] {
        for (key, value) in share::OPTIONS {
            cluster = cluster.option(first, key, value);
        }
    }
    cluster
}

#[test]
fn dead_letters_cross_brokers_of_both_kinds() {
    let mut cluster = cluster();
    cluster.start();
    let mut tools = cluster.tools_of_any();
    let said = tools.run("FeatureCommand describe");
    let level = |feature: &str| {
        let mut lines = said.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        let found = lines.find(|words| words.get(1) == Some(&feature));
        found.unwrap_or_else(|| panic!("no {feature}: {said}"))[7].to_owned()
    };
    assert_eq!(level("share.version"), "2", "{said}");
    assert!(level("metadata.version").starts_with("4.4-"), "{said}");
    unregister_a_controller(&cluster);

    // Of each partition, the leaders of the topic and of the queue are of two kinds, or two
    // brokers of Levada.
    let pairs = [[KAFKA, LEVADA], [LEVADA, KAFKA], [LEVADA, OTHER]];
    let topic = pairs.map(|[leader, follower]| format!("{leader}:{follower}")).join(",");
    let queue = pairs.map(|[follower, leader]| format!("{leader}:{follower}")).join(",");
    tools.run(&format!("TopicCommand --create --topic t --replica-assignment {topic}"));
    let create = format!("TopicCommand --create --topic {QUEUE} --replica-assignment {queue}");
    tools.run(&format!("{create} --config {ALLOWED}"));
    let mut members = Members::of(&cluster.bootstrap());
    reject_second(&mut members, 3);
    assert_eq!(letters(&mut tools, QUEUE, 3), expected(3));
    members.assert_quiet("a");
    await_no_lag(&mut tools);
    for topic in ["t", QUEUE] {
        await_some(&format!("{topic} in sync"), LIMIT, || cluster.are_in_sync(topic, 2).then_some(()));
    }
    cluster.assert_no_errors();
}

#[test]
fn members_of_the_next_kafka_reject_records() {
    let mut node = share::node();
    node.start();
    let mut tools = Tools::of(&node.bootstrap(), node.scratch());
    tools.run("FeatureCommand upgrade --feature share.version=2");
    node.await_metadata();
    let mut members = Members::of(&node.bootstrap());
    members.run("topic t 2");
    members.run(&format!("topic {QUEUE} 2 {ALLOWED}"));
    reject_second(&mut members, 2);
    assert_eq!(letters(&mut tools, QUEUE, 2), expected(2));
    members.assert_quiet("a");
    await_no_lag(&mut tools);
    node.assert_running("at the end");
    node.stop();
}
