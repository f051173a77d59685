//! A broker of a cluster that leads a thousand idle partitions needs little memory, and a small
//! part of the processor time of a Kafka that leads as many. Prints the figures.
//!
//! Suite: long, alone; 37 s; needs java

use std::time::{Duration, Instant};

use levada_tests::cluster::{Cluster, Discovery, KAFKA, LEVADA, LIMIT, Shape};
use levada_tests::{Node, await_some, process};

const PARTITIONS: usize = 1000;
/// Limit for the memory of Levada that is no page of a file; 10.4 MB were measured.
const OWN: u64 = 13_000_000;
/// Limit for its resident memory. Most of it is code of the `release` profile; one binary had 42 to
/// 47 MB, as the page cache had its file.
const MEMORY: u64 = 52_000_000;
/// Processor time of a Kafka in that of Levada, at least. Quiet machines measured 13.7 to 17.7,
/// and one that shares its processors with strangers 6.4.
const RATIO: f64 = 5.0;
/// Length of a measurement: several heartbeats, and several rounds of a Kafka's housekeeping.
const WINDOW: Duration = Duration::from_secs(5);
/// Number of measurements of both, in turns, if no earlier one reaches the ratio.
const WINDOWS: usize = 6;

/// Partitions of the topics of this test that have a directory here.
fn opened(node: &Node) -> usize {
    let entries = std::fs::read_dir(node.data()).expect("a directory").flatten();
    entries.filter(|entry| entry.file_name().to_string_lossy().starts_with("on-")).count()
}

/// Part of a processor that a node uses in a window.
fn share(node: &Node, cpu_ns: fn(u32) -> u64) -> f64 {
    let (start, before) = (Instant::now(), cpu_ns(node.pid()));
    std::thread::sleep(WINDOW);
    (cpu_ns(node.pid()) - before) as f64 / start.elapsed().as_nanos() as f64
}

#[test]
fn idle_registered_broker_uses_fraction_of_kafka_cpu() {
    let shape = Shape { controllers: 1, kafka: 1, levada: 1, discovery: Discovery::BootstrapServers };
    let mut cluster = Cluster::new(shape);
    cluster.start();
    let brokers = [KAFKA, LEVADA];
    let mut tools = cluster.tools(KAFKA);
    for broker in brokers {
        let assignment = vec![broker.to_string(); PARTITIONS].join(",");
        let said = tools
            .run(&format!("TopicCommand --create --topic on-{broker} --replica-assignment {assignment}"));
        assert!(said.contains("Created topic"), "{said}");
    }
    drop(tools);
    for broker in brokers {
        let node = cluster.node(broker);
        await_some("the directories of all partitions", LIMIT, || (opened(node) == PARTITIONS).then_some(()));
    }
    // The least of several windows: other processes and a compiler that warms up only add to it.
    let (mut kafka, mut levada) = (f64::MAX, f64::MAX);
    for _ in 0..WINDOWS {
        // Threads of a JVM end, those of Levada do not.
        kafka = kafka.min(share(cluster.node(KAFKA), process::cpu_ns_in_ticks));
        levada = levada.min(share(cluster.node(LEVADA), process::cpu_ns));
        if levada * RATIO <= kafka {
            break;
        }
    }
    let resident = process::resident_bytes(cluster.node(LEVADA).pid());
    let own = process::anonymous_bytes(cluster.node(LEVADA).pid());
    let of_kafka = process::resident_bytes(cluster.node(KAFKA).pid());
    println!(
        "{PARTITIONS} idle partitions each: {:.3} % of a core and {:.1} MB resident, {:.1} MB of its own, Kafka {:.3} % \
         and {:.1} MB",
        levada * 100.0,
        resident as f64 / 1e6,
        own as f64 / 1e6,
        kafka * 100.0,
        of_kafka as f64 / 1e6
    );
    assert!(own <= OWN, "{own}");
    assert!(resident <= MEMORY, "{resident}");
    assert!(levada * RATIO <= kafka, "{levada} and {kafka}");
    cluster.assert_no_errors();
}
