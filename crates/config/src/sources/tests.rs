//! Tests of what a configuration that is read again changes.

use crate::{BrokerConfig, Differences, Sources, Values};

fn config(flags: &[&str]) -> BrokerConfig {
    BrokerConfig::load(&Sources::flags(flags.iter().copied())).unwrap()
}

fn names(applied: &[&str], waiting: &[&str]) -> Differences {
    let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    Differences { applied: owned(applied), waiting: owned(waiting) }
}

#[test]
fn reload_changes_dynamic_keys_and_lists_static_ones() {
    let before = config(&["log.retention.ms=1000", "num.partitions=3", "max.connections=10"]);
    let fresh = config(&["log.retention.ms=2000", "num.partitions=4", "node.id=7"]);
    let (after, differences) = before.reloaded(&fresh).unwrap();
    assert_eq!(
        differences,
        names(&["log.retention.ms", "max.connections"], &["broker.id", "node.id", "num.partitions"])
    );
    assert_eq!(after.topic_defaults.retention_ms, 2000);
    assert_eq!(
        after.max_connections,
        i32::MAX.unsigned_abs(),
        "a key that was removed has its default again"
    );
    assert_eq!((after.num_partitions, after.node_id), (3, 1));
    // Told with each reload for as long as the file differs from what is in force.
    let (_, again) = after.reloaded(&fresh).unwrap();
    assert_eq!(again, names(&[], &["broker.id", "node.id", "num.partitions"]));
}

#[test]
fn reload_keeps_dynamically_set_values() {
    let stored = |value: &str| Values::from([("log.retention.ms".to_owned(), value.to_owned())]);
    let before = config(&["log.retention.ms=1000"]).with_dynamic(&stored("5000"), &Values::new()).unwrap();
    let (after, differences) = before.reloaded(&config(&["log.retention.ms=2000"])).unwrap();
    assert_eq!(differences, names(&["log.retention.ms"], &[]));
    assert_eq!(after.topic_defaults.retention_ms, 5000);
    let after = after.with_dynamic(&Values::new(), &Values::new()).unwrap();
    assert_eq!(after.topic_defaults.retention_ms, 2000);
}

#[test]
fn reload_omits_default_and_ineffective_keys() {
    let before = config(&["num.io.threads=4"]);
    let fresh = config(&["num.io.threads=16", "num.partitions=1", "compression.type=producer"]);
    assert_eq!(before.reloaded(&fresh).unwrap().1, Differences::default());
}

#[test]
fn reload_applies_listener_specific_keys() {
    let of_listener = |mechanism: &str| {
        config(&[
            "listeners=IN://127.0.0.1:0",
            "listener.security.protocol.map=IN:SASL_PLAINTEXT",
            &format!("listener.name.in.sasl.enabled.mechanisms={mechanism}"),
        ])
    };
    let key = "listener.name.in.sasl.enabled.mechanisms";
    let (after, differences) = of_listener("SCRAM-SHA-256").reloaded(&of_listener("SCRAM-SHA-512")).unwrap();
    assert_eq!(differences, names(&[key], &[]));
    assert_eq!(after.settings().listener_text("IN", "sasl.enabled.mechanisms"), Some("SCRAM-SHA-512"));
}
