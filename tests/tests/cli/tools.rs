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
fn topics_and_partitions_transcript_matches_kafka() {
    replay("topics");
}

#[test]
fn configurations_and_quotas_transcript_matches_kafka() {
    replay("configs");
}

#[test]
fn groups_transcript_matches_kafka() {
    replay("groups");
}

#[test]
fn transactions_transcript_matches_kafka() {
    replay("transactions");
}

#[test]
fn cluster_transcript_matches_kafka() {
    replay("cluster");
}

/// The program asks for each change immediately, which a broker whose controllers are other
/// processes may not have read yet, be it of Kafka or of Levada.
#[test]
fn administration_client_transcript_matches_kafka() {
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
