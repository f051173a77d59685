//! A data directory that changes hands: what Kafka leaves, Levada serves as it is, and the other way round.

use levada_tests::node::Kind;
use levada_tests::{Node, Tool};

/// What a client can see, line by line.
fn survey(node: &Node) -> Vec<String> {
    let said = Tool::python("estate.py").args(["survey", &node.bootstrap()]).run();
    said.stdout.lines().map(str::to_string).collect()
}

fn do_there(node: &Node, verb: &str) {
    Tool::python("estate.py").args([verb, &node.bootstrap()]).run();
}

/// Fills a directory under the first of `hands`, and has every other one serve it, work on, and pass it on.
fn pass_on(hands: &[Kind]) {
    let mut node = Node::of(hands[0]).option("offsets.topic.num.partitions", "5");
    node = node.option("transaction.state.log.num.partitions", "5").option("log.retention.ms", "-1");
    // Open transactions must still be open when they are looked at.
    node = node.option("transaction.max.timeout.ms", "3600000");
    node.start();
    do_there(&node, "fill");
    for next in &hands[1..] {
        let left = survey(&node);
        assert!(left.len() > 40, "{left:#?}");
        node.stop();
        check(&node);
        node.hand_over(*next);
        node.start();
        let found = survey(&node);
        for (left, found) in left.iter().zip(&found) {
            assert_eq!(left, found, "under {next:?}");
        }
        assert_eq!(left.len(), found.len(), "under {next:?}: {left:#?}\n{found:#?}");
        do_there(&node, "go-on");
    }
    node.stop();
    check(&node);
}

/// Whoever left it, nothing in it is damaged.
fn check(node: &Node) {
    let said = Tool::levada().args(["storage", "check", &node.data().display().to_string()]).run();
    assert!(said.stdout.contains(": sound: "), "{}", said.stdout);
}

#[test]
fn kafkas_directory_under_levada_and_back() {
    pass_on(&[Kind::Kafka, Kind::Levada, Kind::Kafka]);
}

#[test]
fn levadas_directory_under_kafka_and_back() {
    pass_on(&[Kind::Levada, Kind::Kafka, Kind::Levada]);
}
