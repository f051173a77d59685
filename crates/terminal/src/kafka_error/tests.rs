//! Tests of what follows a refusal.

use super::*;

fn next_step(failure: Failure) -> String {
    match failure {
        Failure::Failed { next, .. } => next.unwrap_or_default(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn refusal_names_user_and_granting_command() {
    let refused = check(29, "fetch clicks/0", None);
    let failure = needing(refused, "read", "--topic clicks").unwrap_err();
    assert_eq!(
        failure.line(),
        "fetch clicks/0: User:ANONYMOUS may not read topic clicks (TOPIC_AUTHORIZATION_FAILED)"
    );
    let expected = "levada acl add 'ANONYMOUS' --allow read --topic clicks, as a user who may change access";
    assert_eq!(next_step(failure), expected);
    let other = needing(check(3, "topic clicks", None), "read", "--topic clicks").unwrap_err();
    assert!(other.line().contains("UNKNOWN_TOPIC"), "other failures stay as they are");
}

#[test]
fn colliding_topic_names_get_their_own_message() {
    let said = "Topic 'a.b' collides with existing topic: a_b";
    let step = next_step(check(17, "create topic a.b", Some(said)).unwrap_err());
    assert!(step.contains("a.b and a_b exclude each other"), "{step}");
    assert!(next_step(check(17, "create topic a b", None).unwrap_err()).contains("a-z A-Z 0-9"));
    let said = "Cannot append to internal topic __consumer_offsets";
    let step = next_step(check(17, "produce to __consumer_offsets/0", Some(said)).unwrap_err());
    assert!(step.starts_with("another topic"), "{step}");
}

#[test]
fn refusal_names_all_required_permissions() {
    let refused = needing(check(30, "find the coordinator of readers", None), "describe", "--group readers");
    let failure = needing_all(refused, "read", "--group readers --topic clicks").unwrap_err();
    assert_eq!(
        failure.line(),
        "find the coordinator of readers: User:ANONYMOUS may not describe group readers (GROUP_AUTHORIZATION_FAILED)"
    );
    let expected = "levada acl add 'ANONYMOUS' --allow read --group readers --topic clicks, as a user who may change access";
    assert_eq!(next_step(failure), expected);
    let other = needing_all(check(3, "topic clicks", None), "read", "--topic clicks").unwrap_err();
    assert!(next_step(other).contains("levada topic list"), "other failures stay as they are");
}

#[test]
fn texts_lose_class_names_of_java() {
    let said =
        "Invalid value org.apache.kafka.common.config.ConfigException: at least half for configuration a";
    let failure = check(40, "change settings of broker 1", Some(said)).unwrap_err();
    let line = failure.line();
    assert!(line.starts_with("change settings of broker 1: Invalid value at least half for"), "{line}");
    assert_eq!(without_class("see org.apache.kafka.common: x"), "see org.apache.kafka.common: x");
}
