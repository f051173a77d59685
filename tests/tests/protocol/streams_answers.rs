//! Answers to odd requests of streams groups and of their members against those of a real Kafka;
//! recorded as in `answers.rs`. Some requests wait until internal topics exist.
//!
//! Suite: long; 20 s; needs java; uses newer-kafka; share streams

use levada_tests::node::Kind;
use levada_tests::{Tool, paths};

use crate::answers::{Files, ask, ask_with, compare};

const OPTIONS: [(&str, &str); 7] = [
    ("group.streams.initial.rebalance.delay.ms", "0"),
    ("group.streams.min.assignment.interval.ms", "0"),
    ("group.streams.assignment.interval.ms", "0"),
    ("group.streams.max.size", "4"),
    ("group.streams.min.session.timeout.ms", "300"),
    ("group.streams.min.heartbeat.interval.ms", "100"),
    ("auto.create.topics.enable", "false"),
];

/// Version 1 of the APIs: what a Kafka 4.4 answers (`LEVADA_TEST_KAFKA=newer` if it is recorded).
#[test]
fn newer_streams_requests_get_the_responses_of_kafka() {
    if Kind::under_test() == Kind::Kafka && !paths::is_newer() {
        println!("left out: the Kafka under test does not have these versions");
        return;
    }
    let files = Files {
        kafka: "streams-4.4.0.txt",
        reasons: "streams-newer-reasons.txt",
        own: "streams-newer-levada.txt",
        is_silent: true,
    };
    compare(&ask_with(Tool::newer_java("Ask"), "streams-newer.txt", &OPTIONS), &files);
}

#[test]
fn odd_streams_requests_get_the_responses_of_kafka() {
    let files = Files {
        kafka: "streams-4.3.1.txt",
        reasons: "streams-reasons.txt",
        own: "streams-levada.txt",
        is_silent: true,
    };
    compare(&ask("streams.txt", &OPTIONS), &files);
}
