//! The tables of keys against Kafka's own.

use super::*;
use crate::table::OF_KAFKA_4_4;
use crate::{BROKER_KEYS, BrokerConfig, ConfigSource, broker_key, foreign, topic_key};

/// Deliberate differences of served keys from Kafka's: the property, the reason, the keys.
const DIFFERENCES: &[(&str, &str, &[&str])] = &[
    (
        "default",
        "nothing has to be set to serve this machine alone",
        &["node.id", "listeners", "process.roles", "log.dir"],
    ),
    ("default", "the same pairs in another order", &["listener.security.protocol.map"]),
    (
        "default",
        "Kafka refuses it beside inter.broker.listener.name only if it is set",
        &["security.inter.broker.protocol"],
    ),
    ("default", "the content of a store tells its form", &["ssl.keystore.type", "ssl.truststore.type"]),
    ("default", "unset means all", &["ssl.cipher.suites", "num.recovery.threads.per.data.dir"]),
    (
        "default",
        "told in docs/operating/configuration.md",
        &["queued.max.request.bytes", "group.initial.rebalance.delay.ms"],
    ),
    ("change", "sockets stay as they were bound", &["listeners", "listener.security.protocol.map"]),
    (
        "change",
        "the numbers of threads are those of the start",
        &[
            "remote.log.manager.copier.thread.pool.size",
            "remote.log.manager.expiration.thread.pool.size",
            "remote.log.reader.threads",
        ],
    ),
    (
        "values",
        "there are these and no others",
        &[
            "authorizer.class.name",
            "replica.selector.class",
            "ssl.keystore.type",
            "ssl.truststore.type",
            "ssl.enabled.protocols",
        ],
    ),
    (
        "values",
        "Kafka's are of either case, or are checked elsewhere",
        &["group.consumer.migration.policy", "security.inter.broker.protocol"],
    ),
    (
        "values",
        "Kafka checks the same in its code, or a value beyond would mean nothing",
        &[
            "sasl.oauthbearer.jwks.endpoint.refresh.ms",
            "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms",
            "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms",
            "sasl.oauthbearer.clock.skew.seconds",
            "sasl.server.max.receive.size",
            "default.replication.factor",
            "max.connection.creation.rate",
            "queued.max.request.bytes",
            "group.initial.rebalance.delay.ms",
            "group.min.session.timeout.ms",
            "group.max.session.timeout.ms",
            "offset.metadata.max.bytes",
            "transaction.state.log.segment.bytes",
            "share.coordinator.state.topic.segment.bytes",
            "log.flush.interval.ms",
            "log.flush.scheduler.interval.ms",
            "log.retention.ms",
            "log.retention.minutes",
            "log.retention.hours",
            "log.roll.ms",
            "log.roll.jitter.ms",
        ],
    ),
];

#[test]
fn every_kafka_key_is_supported_or_has_verdict() {
    let missing: Vec<_> = kafka_keys()
        .map(|known| known.key.name)
        .filter(|name| broker_key(name).is_none() && foreign::verdict(name, "x").is_none())
        .collect();
    assert_eq!(missing, [""; 0], "neither in table.rs nor in foreign.rs");
    let unknown: Vec<_> = foreign::names().filter(|name| kafka_key(name).is_none()).collect();
    assert_eq!(unknown, [""; 0], "foreign.rs judges keys that Kafka does not have");
    // Kafka's authorizer reads two keys that no table of Kafka's has, and its manager of the
    // metadata of remote segments those of a prefix. Confluent's clients have the keys of a schema
    // registry.
    let of_authorizer = ["super.users", "allow.everyone.if.no.acl.found"];
    let is_own = |name: &str| {
        let is_of_others = ["rlmm.config.", "schema.registry."].iter().any(|prefix| name.starts_with(prefix));
        name.starts_with("levada.")
            || is_of_others
            || of_authorizer.contains(&name)
            || OF_KAFKA_4_4.contains(&name)
    };
    let unknown = BROKER_KEYS.iter().map(|key| key.name);
    let unknown: Vec<_> = unknown.filter(|name| kafka_key(name).is_none() && !is_own(name)).collect();
    assert_eq!(unknown, [""; 0], "table.rs has keys that Kafka does not have");
}

#[test]
fn served_keys_match_kafkas_definitions() {
    let mut found = Vec::new();
    for served in BROKER_KEYS {
        let Some(known) = kafka_key(served.name).map(|known| known.key) else { continue };
        found.extend(differences(served, &known, true));
    }
    for (kind, known, behind) in rows() {
        if kind == "topic" {
            let served = topic_key(known.name).unwrap_or_else(|| panic!("{} is missing", known.name));
            found.extend(differences(&served.key, &known, false));
            assert_eq!(served.broker.join(","), behind, "{}", known.name);
        }
    }
    found.sort_unstable();
    let expected =
        DIFFERENCES.iter().flat_map(|(property, _, names)| names.iter().map(|name| (*name, *property)));
    let mut expected: Vec<_> = expected.collect();
    expected.sort_unstable();
    assert_eq!(found, expected);
}

fn differences(served: &ConfigKey, known: &ConfigKey, is_broker: bool) -> Vec<(&'static str, &'static str)> {
    let mut found = Vec::new();
    let mut compare = |property, same: bool| {
        if !same {
            found.push((served.name, property));
        }
    };
    compare("type", served.kind == known.kind);
    compare("default", !is_broker || served.default == known.default);
    compare("change", !is_broker || served.dynamic == known.dynamic);
    compare("values", served.valid == known.valid);
    found
}

/// Everything but the differences above, without a broker.
#[test]
fn descriptions_list_kafkas_keys_as_kafka_does() {
    let rows = BrokerConfig::default().describe_as_kafka();
    let find = |name: &str| rows.iter().find(|row| row.name == name);
    for known in kafka_keys() {
        let name = known.key.name;
        let Some(row) = find(name) else {
            assert_ne!(known.level, ConfigScope::Public, "{name} is missing");
            continue;
        };
        assert_eq!(known.level, ConfigScope::Public, "{name} is shown only if it is set");
        assert_eq!(row.kind, known.key.kind, "{name}");
        assert_eq!(row.sensitive, known.key.kind == ConfigType::Password, "{name}");
        let differs =
            |property| DIFFERENCES.iter().any(|(of, _, names)| *of == property && names.contains(&name));
        if !differs("change") {
            assert_eq!(row.read_only, known.key.dynamic == Dynamic::ReadOnly, "{name}");
        }
        if !differs("default") {
            assert_eq!(row.value.as_deref(), known.key.default, "{name}");
            assert_eq!(row.source, ConfigSource::Default, "{name}");
        }
        assert!(!row.doc.is_empty(), "{name}");
    }
    let own = rows.iter().filter(|row| kafka_key(&row.name).is_none());
    assert!(own.clone().count() > 5);
    assert!(own.clone().all(|row| row.name.starts_with("levada.") || broker_key(&row.name).is_some()));
}
