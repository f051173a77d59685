//! Stored settings of topics.

use levada_config::{CleanupPolicy, Sources};

use super::*;

fn stored(pairs: &[(&str, &str)]) -> Values {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

/// Before, one such setting took all settings of the topic out of force: records that were to be
/// kept for ever were deleted after a week.
#[test]
fn invalid_stored_topic_setting_keeps_others_effective() {
    let broker = BrokerConfig::default();
    let kept = [("cleanup.policy", "compact"), ("retention.ms", "-1"), ("min.insync.replicas", "2")];
    for other in [
        // Settings of Kafka 3, and of a later version.
        ("message.downconversion.enable", "false"),
        ("message.format.version", "3.0-IV1"),
        ("of.a.later.version", "1"),
        ("segment.bytes", "500000"),
        ("remote.storage.enable", "true"),
    ] {
        let mut own = stored(&kept);
        own.insert(other.0.to_owned(), other.1.to_owned());
        let topic = topic_config(&broker, "t", Some(&own));
        assert_eq!(topic.cleanup_policy, CleanupPolicy { delete: false, compact: true }, "{other:?}");
        assert_eq!((topic.retention_ms, topic.min_insync_replicas), (-1, 2), "{other:?}");
        assert_eq!(topic.segment_bytes, broker.topic_defaults.segment_bytes, "it counts as not set");
    }
}

/// The broker's default may have changed since the topic got its setting.
#[test]
fn topic_settings_hold_despite_contradicting_default() {
    let flags = Sources::flags(["log.cleaner.max.compaction.lag.ms=1000"]);
    let broker = BrokerConfig::load(&flags).unwrap();
    let own =
        stored(&[("min.compaction.lag.ms", "60000"), ("retention.ms", "-1"), ("cleanup.policy", "compact")]);
    let topic = topic_config(&broker, "t", Some(&own));
    assert_eq!((topic.min_compaction_lag_ms, topic.max_compaction_lag_ms), (60_000, 1_000));
    assert_eq!(topic.retention_ms, -1);
    assert_eq!(topic.cleanup_policy, CleanupPolicy { delete: false, compact: true });
    assert_eq!(log_config(&broker, &topic).retention_ms, -1);
}
