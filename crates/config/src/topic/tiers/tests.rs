//! The checks, by table.

use std::collections::BTreeMap;

use crate::{BrokerConfig, TopicConfig};

fn topic(own: &[(&str, &str)]) -> TopicConfig {
    let own: BTreeMap<String, String> =
        own.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    TopicConfig::resolve(BrokerConfig::default().settings(), &own).unwrap()
}

fn refusal(own: &[(&str, &str)]) -> Option<String> {
    let all: Vec<_> = [("remote.storage.enable", "true")].iter().chain(own).copied().collect();
    topic(&all).check_tiers(false, true).err()
}

#[test]
fn contradictory_tiered_topic_limits_are_refused() {
    assert_eq!(refusal(&[]), None);
    assert_eq!(refusal(&[("local.retention.ms", "1"), ("retention.ms", "2")]), None);
    assert_eq!(refusal(&[("local.retention.ms", "-1"), ("retention.ms", "-1")]), None);
    assert_eq!(
        refusal(&[("local.retention.ms", "3"), ("retention.ms", "2")]).unwrap(),
        "Invalid value 3 for configuration local.retention.ms: Value must not be more than retention.ms property value: 2"
    );
    assert_eq!(
        refusal(&[("local.retention.bytes", "-1"), ("retention.bytes", "2")]).unwrap(),
        "Invalid value -1 for configuration local.retention.bytes: Value must not be -1 as retention.bytes value is set as 2."
    );
    let read_only = ("remote.log.copy.disable", "true");
    assert_eq!(refusal(&[read_only, ("local.retention.ms", "2"), ("retention.ms", "2")]), None);
    let differing = refusal(&[read_only, ("local.retention.ms", "1"), ("retention.ms", "2")]).unwrap();
    assert!(differing.contains("`local.retention.ms` and `retention.ms`"), "{differing}");
}

#[test]
fn copy_lag_is_within_local_retention() {
    let local = ("local.retention.ms", "10");
    assert_eq!(refusal(&[local, ("remote.copy.lag.ms", "10")]), None);
    assert_eq!(refusal(&[("retention.ms", "-1"), ("remote.copy.lag.ms", "99")]), None);
    assert_eq!(
        refusal(&[local, ("remote.copy.lag.ms", "11")]).unwrap(),
        "Invalid value 11 for configuration remote.copy.lag.ms: Value must not exceed local.retention.ms (effective value: 10)"
    );
    let config = topic(&[local, ("remote.copy.lag.ms", "-1"), ("remote.copy.lag.bytes", "7")]);
    assert_eq!((config.copy_lag_ms(), config.copy_lag_bytes()), (10, 7));
    let config = topic(&[("remote.copy.lag.bytes", "-1")]);
    assert_eq!((config.copy_lag_ms(), config.copy_lag_bytes()), (0, -1));
}

#[test]
fn compacted_topics_have_no_remote_storage() {
    for policy in ["compact", "compact,delete"] {
        let refused = refusal(&[("cleanup.policy", policy)]).unwrap();
        assert!(refused.contains("only supports topics with cleanup.policy=delete"), "{refused}");
    }
    assert_eq!(refusal(&[("cleanup.policy", "delete")]), None);
}

#[test]
fn remote_storage_needs_the_system_key() {
    let tiered = topic(&[("remote.storage.enable", "true")]);
    assert!(
        tiered.check_tiers(false, false).unwrap_err().starts_with("Tiered Storage functionality is disabled")
    );
    let plain = topic(&[]);
    assert_eq!(plain.check_tiers(false, false), Ok(()));
    assert!(plain.check_tiers(true, true).unwrap_err().contains("without deleting remote data"));
    assert_eq!(topic(&[("remote.log.delete.on.disable", "true")]).check_tiers(true, true), Ok(()));
}

#[test]
fn local_limits_default_to_those_of_the_log() {
    let config = topic(&[("retention.ms", "5"), ("retention.bytes", "6")]);
    assert_eq!((config.local_retention_ms(), config.local_retention_bytes()), (5, 6));
    let config = topic(&[("local.retention.ms", "1"), ("local.retention.bytes", "2")]);
    assert_eq!((config.local_retention_ms(), config.local_retention_bytes()), (1, 2));
}
