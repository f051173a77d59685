//! Answers to odd requests of streams groups and of their members against those of a real Kafka;
//! recorded as in `answers.rs`. Some requests wait until internal topics exist.
//!
//! Suite: long; 12 s; needs java; share streams

use crate::answers::{Files, ask, compare};

#[test]
fn odd_streams_requests_are_answered_as_by_kafka() {
    let options = [
        ("group.streams.initial.rebalance.delay.ms", "0"),
        ("group.streams.min.assignment.interval.ms", "0"),
        ("group.streams.assignment.interval.ms", "0"),
        ("group.streams.max.size", "4"),
        ("group.streams.min.session.timeout.ms", "300"),
        ("group.streams.min.heartbeat.interval.ms", "100"),
        ("auto.create.topics.enable", "false"),
    ];
    let files = Files {
        kafka: "streams-4.3.1.txt",
        reasons: "streams-reasons.txt",
        own: "streams-levada.txt",
        is_silent: true,
    };
    compare(&ask("streams.txt", &options), &files);
}
