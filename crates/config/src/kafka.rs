//! All keys of Kafka, with their types, defaults, allowed values and update modes:
//! `kafka-4.3.1.tsv`, which `tests/java/Keys.java` prints from Kafka's jars. `table` has the keys
//! with an effect here, `foreign` the treatment of the others.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use super::key::{ConfigKey, ConfigType, Dynamic, Valid};

/// A key of Kafka's brokers.
#[derive(Debug)]
pub(super) struct KafkaKey {
    pub(super) key: ConfigKey,
    pub(super) level: ConfigScope,
}

/// The definition of a broker key in Kafka.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConfigScope {
    /// Public: described whether or not it is set.
    Public,
    /// Internal to Kafka: described only if it is set.
    Internal,
    /// Known only as a dynamic setting: described only if it is set, and without a default.
    DynamicOnly,
}

/// The broker key of this name.
pub(super) fn kafka_key(name: &str) -> Option<&'static KafkaKey> {
    KEYS.get(name)
}

/// Every broker key, in order of name.
pub(super) fn kafka_keys() -> impl Iterator<Item = &'static KafkaKey> {
    KEYS.values()
}

const TABLE: &str = include_str!("kafka-4.3.1.tsv");

static KEYS: LazyLock<BTreeMap<&'static str, KafkaKey>> = LazyLock::new(|| {
    let keys = rows().filter_map(|(kind, key, _)| {
        let level = match kind {
            "broker" => ConfigScope::Public,
            "internal" => ConfigScope::Internal,
            "dynamic" => ConfigScope::DynamicOnly,
            _ => return None,
        };
        Some((key.name, KafkaKey { key, level }))
    });
    keys.collect()
});

/// Every line of the table: the resource (`broker`, `internal`, `dynamic`, `topic`,
/// `internal-topic`, `group` or `client-metrics`), the key, and the broker's keys that a topic or a
/// group inherits from.
fn rows() -> impl Iterator<Item = (&'static str, ConfigKey, &'static str)> {
    TABLE.lines().filter(|line| !line.starts_with('#')).map(row)
}

fn row(line: &'static str) -> (&'static str, ConfigKey, &'static str) {
    let columns: Vec<&str> = line.split('\t').collect();
    let [kind, name, config_type, default, change, values, broker] = columns[..] else {
        panic!("kafka-4.3.1.tsv: seven columns in {line:?}");
    };
    let config_type = config_type_of(config_type);
    let dynamic = match change {
        "cluster-wide" => Dynamic::ClusterWide,
        "per-broker" => Dynamic::PerBroker,
        "per-listener" => Dynamic::PerListener,
        _ => Dynamic::ReadOnly,
    };
    let key = ConfigKey {
        name,
        kind: config_type,
        default: Some(default).filter(|default| !["null", "(none)"].contains(default)),
        valid: valid(config_type, values),
        dynamic,
        per_listener: false,
        doc: "",
    };
    (kind, key, broker)
}

fn config_type_of(name: &str) -> ConfigType {
    match name {
        "BOOLEAN" => ConfigType::Boolean,
        "STRING" => ConfigType::String,
        "INT" => ConfigType::Int,
        "SHORT" => ConfigType::Short,
        "LONG" => ConfigType::Long,
        "DOUBLE" => ConfigType::Double,
        "LIST" => ConfigType::List,
        "CLASS" => ConfigType::Class,
        "PASSWORD" => ConfigType::Password,
        other => panic!("kafka-4.3.1.tsv: no type {other}"),
    }
}

/// Parses `[1,...]`, `[1,...,9]`, `[1,...,9] or -1` and `[one, two]`; other forms of Kafka's checks
/// are ignored.
fn valid(config_type: ConfigType, values: &'static str) -> Valid {
    if values == THROTTLED_REPLICAS {
        return Valid::Replicas;
    }
    let (range, or_unset) = match values.strip_suffix(" or -1") {
        Some(range) => (range, true),
        None => (values, false),
    };
    let Some(range) = range.strip_prefix('[').and_then(|range| range.strip_suffix(']')) else {
        return Valid::Any;
    };
    let bounds = range.split_once(",...").map(|(low, high)| (low, high.strip_prefix(',').unwrap_or(high)));
    match (config_type, bounds) {
        (ConfigType::Int | ConfigType::Short | ConfigType::Long, Some((low, high))) => {
            let low = low.parse().unwrap_or(i64::MIN);
            let high = high.parse().unwrap_or(i64::MAX);
            if or_unset { Valid::UnsetOr(low, high) } else { Valid::Range(low, high) }
        }
        (ConfigType::Double, Some((low, high))) => {
            Valid::Ratio(low.parse().unwrap_or(f64::MIN), high.parse().unwrap_or(f64::MAX))
        }
        (ConfigType::String, None) => Valid::OneOf(words(range)),
        (ConfigType::List, None) => Valid::SomeOf(words(range)),
        _ => Valid::Any,
    }
}

/// Kafka's words for a list of throttled replicas.
const THROTTLED_REPLICAS: &str = "[partitionId]:[brokerId],[partitionId]:[brokerId],...";

/// The words of a range, for as long as the process runs: the table is read once.
fn words(range: &'static str) -> &'static [&'static str] {
    range.split(", ").collect::<Vec<_>>().leak()
}

#[cfg(test)]
mod tests;
