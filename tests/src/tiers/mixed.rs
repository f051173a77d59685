//! A cluster of a real Kafka and of Levada, whose brokers share a remote store in a directory with
//! the layout of Kafka's `LocalTieredStorage`.

use std::path::Path;

use crate::cluster::{CONTROLLER, Cluster, Discovery, KAFKA, LEVADA, LIMIT, Shape, Tools};
use crate::node::Kind;
use crate::{await_some, not_run, paths};

/// One controller, a broker of Kafka and two of Levada, which are not started, with this store and
/// this number of replicas of the metadata topic. None, which is reported, if this machine lacks
/// Kafka's store.
pub fn of_both_kinds(store: &Path, metadata_replicas: &str) -> Option<Cluster> {
    let Some(class_path) = paths::tiers_class_path() else {
        not_run("Kafka's store in a directory is not installed: cargo xtask deps tiers");
        return None;
    };
    let shape = Shape { controllers: 1, kafka: 1, levada: 2, discovery: Discovery::Voters };
    let store = store.display().to_string();
    let mut cluster = Cluster::new(shape).option(CONTROLLER, "remote.log.storage.system.enable", "true");
    for first in [KAFKA, LEVADA] {
        for (key, value) in [
            ("remote.log.storage.system.enable", "true"),
            ("remote.log.manager.task.interval.ms", "500"),
            ("log.retention.check.interval.ms", "500"),
            ("log.initial.task.delay.ms", "500"),
            ("rlmm.config.remote.log.metadata.topic.num.partitions", "3"),
            ("rlmm.config.remote.log.metadata.topic.replication.factor", metadata_replicas),
            ("rlmm.config.remote.log.metadata.topic.min.isr", "1"),
        ] {
            cluster = cluster.option(first, key, value);
        }
    }
    let class = "org.apache.kafka.server.log.remote.storage.LocalTieredStorage";
    for (key, value) in [
        ("remote.log.storage.manager.class.name", class),
        ("remote.log.storage.manager.class.path", &class_path),
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
    Some(cluster)
}

/// Has the replicas of a partition be these, the first of which leads. Returns when all are in
/// sync.
pub fn assign(cluster: &Cluster, tools: &mut Tools, (topic, index): (&str, i32), replicas: &[i32]) {
    let ids = |separator: &str| replicas.iter().map(i32::to_string).collect::<Vec<_>>().join(separator);
    let plan = format!(r#"{{"topic":"{topic}","partition":{index},"replicas":[{}]}}"#, ids(","));
    cluster.reassign(tools, &[plan]);
    let (partition, wanted) = (format!("\tPartition: {index}\t"), format!("\tReplicas: {}\t", ids(",")));
    await_some(&format!("{replicas:?} in sync, and the first leads {topic}-{index}"), LIMIT, || {
        let election = "LeaderElectionCommand --election-type preferred";
        tools.outcome(&format!("{election} --topic {topic} --partition {index}"));
        let described = tools.run(&format!("TopicCommand --describe --topic {topic}"));
        let line = described.lines().find(|line| line.contains(&partition))?;
        let in_sync = line.split("\tIsr: ").nth(1)?.split('\t').next()?.split(',').count();
        let is_led = line.contains(&format!("\tLeader: {}\t", replicas[0]));
        (is_led && line.contains(&wanted) && in_sync == replicas.len()).then_some(())
    });
}
