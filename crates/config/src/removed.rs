//! Keys of earlier versions of Kafka that Kafka 4 no longer has, with the next step. A file that is
//! years old often has them. A catalogue.

/// The next step for a key that Kafka 4 no longer has; none for other keys.
pub(super) fn advice(key: &str) -> Option<&'static str> {
    let family = || FAMILIES.iter().find(|(prefix, _)| key.starts_with(prefix)).map(|(_, advice)| *advice);
    KEYS.iter().find(|(_, names)| names.contains(&key)).map(|(advice, _)| *advice).or_else(family)
}

/// Every full name in the catalogue.
#[cfg(test)]
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    KEYS.iter().flat_map(|(_, names)| names.iter().copied())
}

const FAMILIES: &[(&str, &str)] = &[
    (
        "zookeeper.",
        "remove the key; migrate a cluster that uses ZooKeeper to KRaft with Kafka 3.9 before its brokers are replaced",
    ),
    ("password.encoder.", "remove the key; passwords are no longer stored in ZooKeeper"),
];

const KEYS: &[(&str, &[&str])] = &[
    (
        "remove the key; the feature metadata.version has replaced it (kafka-features)",
        &["inter.broker.protocol.version"],
    ),
    (
        "remove the key; new records always have format 2",
        &[
            "log.message.downconversion.enable",
            "log.message.format.version",
            "message.downconversion.enable",
            "message.format.version",
        ],
    ),
    (
        "set log.message.timestamp.before.max.ms and log.message.timestamp.after.max.ms instead",
        &["log.message.timestamp.difference.max.ms"],
    ),
    (
        "set message.timestamp.before.max.ms and message.timestamp.after.max.ms instead",
        &["message.timestamp.difference.max.ms"],
    ),
    ("rename the key to delegation.token.secret.key", &["delegation.token.master.key"]),
    ("set listeners instead", &["host.name", "port"]),
    ("set advertised.listeners instead", &["advertised.host.name", "advertised.port"]),
    (
        "remove the key; name the listener of the controllers in controller.listener.names",
        &["control.plane.listener.name"],
    ),
    ("remove the key and set node.id", &["broker.id.generation.enable", "reserved.broker.max.id"]),
    (
        "set default quotas with `levada config set quota` instead",
        &["quota.consumer.default", "quota.producer.default"],
    ),
    ("remove the key; there is one group coordinator", &["group.coordinator.new.enable"]),
    (
        "remove the key; it has no successor",
        &[
            "auto.include.jmx.reporter",
            "controlled.shutdown.max.retries",
            "controlled.shutdown.retry.backoff.ms",
            "leader.imbalance.per.broker.percentage",
            "offsets.commit.required.acks",
            "replica.lag.max.messages",
        ],
    ),
];
