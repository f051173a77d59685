//! Kafka's tools for streams groups, as recorded from a real Kafka.
//!
//! Suite: long; 18 s; needs java; share streams

use levada_tests::{streams, transcript};

#[test]
fn kafkas_tools_for_streams_groups() {
    let mut node = streams::node();
    node.start();
    transcript::replay(&node, "streams-groups");
    node.assert_running("after the tools");
    node.stop();
}
