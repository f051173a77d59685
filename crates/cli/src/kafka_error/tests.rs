//! Tests of the key of a topic that was probably meant.

use super::*;

#[test]
fn misspelt_topic_key_gets_nearest_suggestion() {
    let said = |key: &str| format!("Unknown topic config name: {key}");
    let step = |key: &str| match check(40, "create topic t", Some(&said(key))) {
        Err(Failure::Failed { next, .. }) => next.unwrap_or_default(),
        other => panic!("{other:?}"),
    };
    assert_eq!(step("retention.sm"), "retention.ms; levada topic describe NAME --all lists every key");
    assert_eq!(step("colour"), "levada topic describe NAME --all lists every key");
    // Kafka's controllers do not know this key of Levada.
    let refused = step("levada.ack.durability");
    assert!(refused.contains("in the configuration of the brokers"), "{refused}");
}

#[test]
fn misspelt_quota_key_gets_nearest_suggestion() {
    let step = |key: &str| match check(42, "change quotas", Some(&format!("Invalid configuration key {key}")))
    {
        Err(Failure::Failed { next, .. }) => next.unwrap_or_default(),
        other => panic!("{other:?}"),
    };
    assert_eq!(step("producer_byte_rat"), "producer_byte_rate");
    assert!(step("colour").starts_with("one of producer_byte_rate, "), "{}", step("colour"));
    assert!(step("connection_creation_rate").contains("for ip=ADDRESS"), "of a user");
}
