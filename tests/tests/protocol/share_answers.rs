//! Answers to odd requests of share groups, of their members and of share coordinators, against
//! those of a real Kafka; recorded as in `answers.rs`. Some requests wait for records.
//!
//! Suite: long; 18 s; needs java; share queues

use crate::answers::{Files, ask, compare};

#[test]
fn odd_share_requests_get_the_responses_of_kafka() {
    let options = [
        ("group.share.assignment.interval.ms", "0"),
        ("group.share.min.record.lock.duration.ms", "1000"),
        ("share.coordinator.state.topic.num.partitions", "1"),
        ("share.coordinator.state.topic.replication.factor", "1"),
        ("share.coordinator.state.topic.min.isr", "1"),
        // The records are of 2023.
        ("log.retention.ms", "-1"),
    ];
    let files = Files {
        kafka: "share-4.3.1.txt",
        reasons: "share-reasons.txt",
        own: "share-levada.txt",
        is_silent: true,
    };
    compare(&ask("share.txt", &options), &files);
}
