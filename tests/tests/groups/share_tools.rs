//! Kafka's tools for share groups, as recorded from a real Kafka; and the topic of their state as
//! Kafka's dump tool reads it.
//!
//! Suite: long; 20 s; needs java; share queues

use levada_tests::{share, transcript};

#[test]
fn kafkas_tools_for_share_groups() {
    let mut node = share::node().option("group.initial.rebalance.delay.ms", "0");
    node.start();
    transcript::replay(&node, "share-groups");
    node.assert_running("after the tools");
    node.stop();
}
