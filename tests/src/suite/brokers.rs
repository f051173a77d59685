//! The brokers that a suite runs against.

use std::process::{Child, Command};

use super::proxied::Proxied;
use crate::cluster::{CONTROLLER, Discovery, KAFKA, LEVADA, Shape};
use crate::node::Kind;
use crate::{Cluster, Node};

/// The brokers that a suite needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Brokers {
    /// The suite starts its own brokers.
    Own,
    /// One, at this port or at a free one.
    One(Option<u16>),
    /// Three in a cluster with a controller of a real Kafka.
    Three,
    /// Five in such a cluster, behind proxies at the ports that sarama expects.
    Five,
}

/// The started brokers. Dropping it ends them.
pub(super) enum Stage {
    Own,
    One(Box<Node>),
    Cluster(Box<Cluster>),
    Proxied(Proxied),
}

/// Keys of each broker of a cluster.
const CLUSTER: [(&str, &str); 6] = [
    ("default.replication.factor", "3"),
    ("min.insync.replicas", "2"),
    ("offsets.topic.replication.factor", "3"),
    ("transaction.state.log.replication.factor", "3"),
    ("transaction.state.log.min.isr", "2"),
    ("replica.selector.class", "org.apache.kafka.common.replica.RackAwareReplicaSelector"),
];

impl Stage {
    /// Starts the brokers with these keys. Blocks until they accept connections.
    pub(super) fn start(brokers: Brokers, kind: Kind, options: &[(&str, &str)]) -> Self {
        match brokers {
            Brokers::Own => Self::Own,
            Brokers::One(port) => {
                let mut node = Node::of(kind);
                for (key, value) in options {
                    node = node.option(key, value);
                }
                if let Some(port) = port {
                    node = node.port(port);
                }
                node.start();
                Self::One(Box::new(node))
            }
            Brokers::Three => {
                let mut cluster = cluster(3, kind, options);
                cluster.start();
                Self::Cluster(Box::new(cluster))
            }
            Brokers::Five => Self::Proxied(Proxied::start(cluster(5, kind, options))),
        }
    }

    /// Addresses for clients.
    pub(super) fn bootstrap(&self) -> String {
        match self {
            Self::Own => String::new(),
            Self::One(node) => node.bootstrap(),
            Self::Cluster(cluster) => cluster.bootstrap(),
            Self::Proxied(proxied) => proxied.bootstrap(),
        }
    }

    /// Sets the variables by which the suite finds the brokers.
    pub(super) fn introduce(&self, command: &mut Command) {
        if let Self::Proxied(proxied) = self {
            proxied.introduce(command);
        }
    }

    /// Waits for the end of the suite. A suite of which a test fails fails as a whole: the outcomes
    /// of the tests are in its log.
    pub(super) fn attend(&mut self, mut suite: Child) {
        match self {
            Self::Proxied(proxied) => proxied.attend(&mut suite),
            _ => drop(suite.wait().expect("the suite is a child of this process")),
        }
    }

    /// Fails if a broker has ended.
    pub(super) fn assert_running(&mut self) {
        let after = "after the suite";
        match self {
            Self::Own => {}
            Self::One(node) => node.assert_running(after),
            Self::Cluster(cluster) => assert_all_running(cluster, after),
            Self::Proxied(proxied) => assert_all_running(proxied.cluster(), after),
        }
    }
}

fn cluster(count: i32, kind: Kind, options: &[(&str, &str)]) -> Cluster {
    let (kafka, levada, first) = match kind {
        Kind::Kafka => (count, 0, KAFKA),
        Kind::Levada => (0, count, LEVADA),
    };
    let shape = Shape { controllers: 1, kafka, levada, discovery: Discovery::BootstrapServers };
    let mut cluster = Cluster::with_brokers_from_one(shape)
        // Topics without a number of replicas get that of the controller.
        .option(CONTROLLER, "default.replication.factor", "3")
        .option(CONTROLLER, "min.insync.replicas", "2");
    for (key, value) in CLUSTER.iter().chain(options) {
        cluster = cluster.option(first, key, value);
    }
    for id in cluster.brokers() {
        cluster = cluster.member_option(id, "broker.rack", &(id % 10).to_string());
    }
    cluster
}

fn assert_all_running(cluster: &mut Cluster, when: &str) {
    for id in cluster.brokers() {
        cluster.node_mut(id).assert_running(when);
    }
}
