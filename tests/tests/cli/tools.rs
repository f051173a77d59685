//! Kafka's own tools give Levada's users the same answers as Kafka's: transcripts of a real Kafka
//! are replayed.
//!
//! Suite: long; 42 s; needs java
//! Soak: controllers 3

use levada_tests::node::Kind;
use levada_tests::{Node, transcript};

fn replay(name: &str) {
    let mut node = Node::new().option("group.initial.rebalance.delay.ms", "0");
    node.start();
    transcript::replay(&node, name);
    node.assert_running(name);
    node.stop();
}

#[test]
fn topics_and_partitions() {
    replay("topics");
}

#[test]
fn configurations_and_quotas() {
    replay("configs");
}

#[test]
fn groups() {
    replay("groups");
}

#[test]
fn transactions() {
    replay("transactions");
}

#[test]
fn the_cluster() {
    replay("cluster");
}

/// The program asks for each change immediately, which a broker whose controllers are other
/// processes may not have read yet, be it of Kafka or of Levada.
#[test]
fn the_administration_client() {
    if !Node::has_controllers() {
        replay("administrator");
    }
}

#[test]
fn quorum_tools_work_with_a_single_node() {
    // Controllers of a real Kafka are a quorum of their own.
    if Kind::under_test() == Kind::Levada && !Node::has_controllers() {
        replay("quorum");
    }
}
