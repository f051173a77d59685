//! Keys of Kafka 4.3.1 that have no effect here, so that a stock `server.properties` is accepted.
//! Keys that do not matter for a single broker are noted. Keys that an operator sets on purpose are
//! refused unless they have Kafka's default. A catalogue.

use super::kafka::{ConfigScope, kafka_key, kafka_keys};
use super::prefix;
use super::table::{TOPIC_KEYS, broker_key};

/// Treatment of a key of Kafka that has no effect in Levada.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Foreign {
    /// Changes nothing here: accepted, with this reason as a note.
    Noted(&'static str),
    /// Refused with this value, for this reason, with the next step.
    Refused(&'static str),
}

/// The verdict on a key with this value, or `None` if Kafka does not have the key either. Keys for
/// one listener, and for one mechanism of it, are checked as the plain key.
pub(super) fn verdict(name: &str, value: &str) -> Option<Foreign> {
    let bare = bare_foreign(name);
    if prefix::is_prefixed(name) && broker_key(bare).is_some() {
        return Some(if COUNTED_TOGETHER.contains(&bare) {
            Foreign::Refused("the key applies to all listeners together: set it without the prefix")
        } else {
            Foreign::Noted("listeners cannot have separate values of this key, as in Kafka")
        });
    }
    if let Some(refusal) = REFUSED.iter().find(|refusal| refusal.key == bare) {
        return Some(if refusal.allows(value) {
            Foreign::Noted("its value is the one that is always in force")
        } else {
            Foreign::Refused(refusal.reason)
        });
    }
    if let Some((_, reason)) = PREFIXES.iter().find(|(prefix, _)| bare.starts_with(prefix)) {
        return Some(Foreign::Noted(reason));
    }
    reason(bare).map(Foreign::Noted)
}

/// The part after the listener and the mechanism, if it is a key of Kafka's.
pub(super) fn bare_foreign(name: &str) -> &str {
    let bare = prefix::bare(name).unwrap_or(name);
    let behind_mechanism =
        || bare.split_once('.').map(|(_, rest)| rest).filter(|_| prefix::is_prefixed(name));
    match kafka_key(bare) {
        Some(_) => bare,
        None => behind_mechanism().filter(|rest| kafka_key(rest).is_some()).unwrap_or(bare),
    }
}

/// The reason why the key, written without a prefix, has no effect.
pub(super) fn reason(bare: &str) -> Option<&'static str> {
    let refused = || REFUSED.iter().find(|refusal| refusal.key == bare).map(|refusal| refusal.reason);
    let noted = || NOTED.iter().find(|(_, names)| names.contains(&bare)).map(|(reason, _)| *reason);
    let internal = || Some("an internal key of Kafka").filter(|_| is_internal(bare));
    noted().or_else(refused).or_else(internal)
}

/// Reason for which a key that can be set at run time, of a broker or a topic, has no effect;
/// `None` if it has one.
pub fn without_effect(name: &str) -> Option<&'static str> {
    let idle =
        |key: &str| IDLE_TOPIC_KEYS.iter().find(|(_, names)| names.contains(&key)).map(|(reason, _)| *reason);
    let default_of = || {
        TOPIC_KEYS.iter().filter(|topic| topic.broker.contains(&name)).find_map(|topic| idle(topic.key.name))
    };
    idle(name).or_else(default_of).or_else(|| reason(bare_foreign(name)))
}

/// Keys of topics that are kept and shown, and change nothing.
const IDLE_TOPIC_KEYS: [(&str, &[&str]); 3] = [
    ("the LZ4 compressor has no levels", &["compression.lz4.level"]),
    ("segments grow as they are written", &["preallocate"]),
    (
        "the controllers of a cluster elect leaders; one broker alone has no replica to elect",
        &["unclean.leader.election.enable"],
    ),
];

fn is_internal(bare: &str) -> bool {
    broker_key(bare).is_none() && kafka_key(bare).is_some_and(|known| known.level == ConfigScope::Internal)
}

/// Every full name in the catalogue.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    let noted = NOTED.iter().flat_map(|(_, names)| names.iter().copied());
    let internal = kafka_keys().map(|known| known.key.name).filter(|name| is_internal(name));
    REFUSED.iter().map(|refusal| refusal.key).chain(noted).chain(internal)
}

/// A key that must not be dropped unnoticed.
struct Refusal {
    key: &'static str,
    /// Values, in addition to Kafka's default and an empty value, that request the present
    /// behaviour.
    done: &'static [&'static str],
    reason: &'static str,
}

impl Refusal {
    fn allows(&self, value: &str) -> bool {
        let value = value.trim();
        let default = kafka_key(self.key).and_then(|known| known.key.default);
        value.is_empty() || default == Some(value) || self.done.contains(&value)
    }
}

const fn refused(key: &'static str, reason: &'static str) -> Refusal {
    Refusal { key, done: &[], reason }
}

const fn refused_but(key: &'static str, done: &'static [&'static str], reason: &'static str) -> Refusal {
    Refusal { key, done, reason }
}

/// Served keys of which Kafka supports a value for each listener, and Levada does not.
const COUNTED_TOGETHER: &[&str] = &["sasl.server.max.receive.size"];

const JAVA: &str = "a Java class cannot be loaded: remove the key";

const REFUSED: &[Refusal] = &[
    // Java classes.
    refused("alter.config.policy.class.name", JAVA),
    refused("client.quota.callback.class", JAVA),
    refused("create.topic.policy.class.name", JAVA),
    refused(
        "kafka.metrics.reporters",
        "a Java class cannot be loaded: remove the key and read /metrics over HTTP",
    ),
    refused("metric.reporters", "a Java class cannot be loaded: remove the key and read /metrics over HTTP"),
    refused(
        "principal.builder.class",
        "a Java class cannot be loaded: remove the key; ssl.principal.mapping.rules maps certificates to names",
    ),
    refused_but(
        "sasl.server.callback.handler.class",
        &[
            "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler",
            "org.apache.kafka.common.security.oauthbearer.secured.OAuthBearerValidatorCallbackHandler",
            "org.apache.kafka.common.security.plain.internals.PlainServerCallbackHandler",
            "org.apache.kafka.common.security.scram.internals.ScramServerCallbackHandler",
        ],
        "a Java class cannot be loaded: remove the key; the broker supports PLAIN, SCRAM and OAUTHBEARER with signed tokens without it",
    ),
    refused_but(
        "sasl.oauthbearer.jwt.validator.class",
        &["org.apache.kafka.common.security.oauthbearer.BrokerJwtValidator"],
        "a Java class cannot be loaded: remove the key; the broker checks the signature, times, audience and issuer of tokens",
    ),
    refused(
        "ssl.engine.factory.class",
        "a Java class cannot be loaded: remove the key; the broker reads key and trust stores from files",
    ),
    refused_but(
        "group.consumer.assignors",
        &[
            "uniform, range",
            "org.apache.kafka.coordinator.group.assignor.UniformAssignor,org.apache.kafka.coordinator.group.assignor.RangeAssignor",
        ],
        "the assignors are uniform, the default, and range: remove the key",
    ),
    // TLS of another kind.
    refused("security.providers", "rustls implements TLS and accepts no Java provider: remove the key"),
    refused_but(
        "ssl.keymanager.algorithm",
        &["NewSunX509", "PKIX"],
        "the broker uses the only key of a key store: remove the key",
    ),
    refused_but(
        "ssl.protocol",
        &["TLS", "TLSv1.2"],
        "the broker supports TLS 1.2 and 1.3: remove the key and set ssl.enabled.protocols",
    ),
    refused("ssl.provider", "rustls implements TLS and accepts no Java provider: remove the key"),
    refused_but(
        "ssl.trustmanager.algorithm",
        &["X509", "X.509"],
        "the broker checks certificates by PKIX: remove the key",
    ),
    // Keys that are not served.
    refused(
        "config.providers",
        "the broker does not resolve values from providers: write the values in the file",
    ),
    refused(
        "transaction.two.phase.commit.enable",
        "two-phase commit is not supported; remove the key or set it to false",
    ),
    // Limits that cannot be set.
    refused("quota.window.num", "the broker measures quotas over eleven samples: remove the key"),
    refused(
        "quota.window.size.seconds",
        "the broker measures quotas over samples of one second: remove the key",
    ),
];

/// Prefixes of keys whose rest is the user's choice.
const PREFIXES: &[(&str, &str)] = &[
    ("rlmm.config.", "the broker reads and writes __remote_log_metadata itself, by its own connections"),
    ("rsm.config.", "a Java class cannot be loaded: levada.remote.* names and configures the store"),
    ("internal.", "an internal key of Kafka"),
    ("unstable.", "an internal key of Kafka"),
];

const NOTED: &[(&str, &[&str])] = &[
    (
        "the broker writes changed checkpoints every few seconds",
        &["log.flush.offset.checkpoint.interval.ms", "log.flush.start.offset.checkpoint.interval.ms"],
    ),
    (
        "the broker authenticates only to controllers and other brokers, by PLAIN or SCRAM",
        &[
            "sasl.client.callback.handler.class",
            "sasl.kerberos.kinit.cmd",
            "sasl.kerberos.min.time.before.relogin",
            "sasl.kerberos.principal.to.local.rules",
            "sasl.kerberos.service.name",
            "sasl.kerberos.ticket.renew.jitter",
            "sasl.kerberos.ticket.renew.window.factor",
            "sasl.login.callback.handler.class",
            "sasl.login.class",
            "sasl.login.connect.timeout.ms",
            "sasl.login.read.timeout.ms",
            "sasl.login.refresh.buffer.seconds",
            "sasl.login.refresh.min.period.seconds",
            "sasl.login.refresh.window.factor",
            "sasl.login.refresh.window.jitter",
            "sasl.login.retry.backoff.max.ms",
            "sasl.login.retry.backoff.ms",
            "sasl.oauthbearer.assertion.algorithm",
            "sasl.oauthbearer.assertion.claim.aud",
            "sasl.oauthbearer.assertion.claim.exp.seconds",
            "sasl.oauthbearer.assertion.claim.iss",
            "sasl.oauthbearer.assertion.claim.jti.include",
            "sasl.oauthbearer.assertion.claim.nbf.seconds",
            "sasl.oauthbearer.assertion.claim.sub",
            "sasl.oauthbearer.assertion.file",
            "sasl.oauthbearer.assertion.private.key.file",
            "sasl.oauthbearer.assertion.private.key.passphrase",
            "sasl.oauthbearer.assertion.template.file",
            "sasl.oauthbearer.client.credentials.client.id",
            "sasl.oauthbearer.client.credentials.client.secret",
            "sasl.oauthbearer.jwt.retriever.class",
            "sasl.oauthbearer.scope",
            "sasl.oauthbearer.token.endpoint.url",
        ],
    ),
    ("the kernel supplies random numbers", &["ssl.secure.random.implementation"]),
    (
        "the broker copies, reads and follows with threads of its own",
        &["remote.log.manager.follower.thread.pool.size", "remote.log.manager.thread.pool.size"],
    ),
    ("levada.remote.* has the size of the local cache", &["remote.log.index.file.cache.total.size.bytes"]),
    (
        "the broker measures the rate over samples of one second",
        &[
            "remote.log.manager.copy.quota.window.num",
            "remote.log.manager.copy.quota.window.size.seconds",
            "remote.log.manager.fetch.quota.window.num",
            "remote.log.manager.fetch.quota.window.size.seconds",
        ],
    ),
    (
        "the broker reads and writes __remote_log_metadata itself, by its own connections",
        &[
            "remote.log.metadata.manager.class.name",
            "remote.log.metadata.manager.class.path",
            "remote.log.metadata.manager.impl.prefix",
            "remote.log.metadata.manager.listener.name",
        ],
    ),
    (
        "a Java class cannot be loaded: levada.remote.* names and configures the store",
        &[
            "remote.log.storage.manager.class.name",
            "remote.log.storage.manager.class.path",
            "remote.log.storage.manager.impl.prefix",
        ],
    ),
    (
        "the broker sets the sizes of share coordinators itself",
        &[
            "group.share.assignors",
            "share.coordinator.append.linger.ms",
            "share.coordinator.cached.buffer.max.bytes",
            "share.coordinator.load.buffer.size",
            "share.coordinator.state.topic.compression.codec",
            "share.coordinator.threads",
            "share.coordinator.write.timeout.ms",
            "share.fetch.purgatory.purge.interval.requests",
        ],
    ),
    (
        "the pauses between retries and the buffers of transactions are fixed",
        &[
            "add.partitions.to.txn.retry.backoff.max.ms",
            "add.partitions.to.txn.retry.backoff.ms",
            "transaction.state.log.load.buffer.size",
        ],
    ),
    (
        "the broker is its own controller, or the times of its requests to controllers are fixed",
        &[
            "controller.quorum.append.linger.ms",
            "controller.quorum.auto.join.enable",
            "controller.quorum.election.backoff.max.ms",
            "controller.quorum.election.timeout.ms",
            "controller.quorum.fetch.max.bytes",
            "controller.quorum.fetch.snapshot.max.bytes",
            "controller.quorum.fetch.timeout.ms",
            "controller.quorum.request.timeout.ms",
            "controller.quorum.retry.backoff.ms",
            "controller.quota.window.num",
            "controller.quota.window.size.seconds",
            "controller.socket.timeout.ms",
            "early.start.listeners",
            "metadata.log.dir",
            "metadata.max.idle.interval.ms",
        ],
    ),
    (
        "the controllers of a cluster elect leaders, and the broker limits copies between directories without sampling windows",
        &[
            "alter.log.dirs.replication.quota.window.num",
            "alter.log.dirs.replication.quota.window.size.seconds",
            "auto.leader.rebalance.enable",
            "leader.imbalance.check.interval.seconds",
            "replica.high.watermark.checkpoint.interval.ms",
            "replica.socket.receive.buffer.bytes",
            "offsets.commit.timeout.ms",
            "request.timeout.ms",
            "socket.connection.setup.timeout.max.ms",
            "socket.connection.setup.timeout.ms",
        ],
    ),
    (
        "the broker sets the sizes of threads, queues and buffers itself",
        &[
            "background.threads",
            "delete.records.purgatory.purge.interval.requests",
            "fetch.purgatory.purge.interval.requests",
            "group.coordinator.append.linger.ms",
            "group.coordinator.background.threads",
            "group.coordinator.cached.buffer.max.bytes",
            "group.coordinator.threads",
            "num.io.threads",
            "num.network.threads",
            "offsets.load.buffer.size",
            "producer.purgatory.purge.interval.requests",
            "queued.max.requests",
            "socket.listen.backlog.size",
            "socket.receive.buffer.bytes",
            "socket.send.buffer.bytes",
        ],
    ),
    (
        "/metrics has counters, from which the monitoring system computes rates",
        &[
            "kafka.metrics.polling.interval.secs",
            "metrics.num.samples",
            "metrics.recording.level",
            "metrics.sample.window.ms",
        ],
    ),
    ("the broker stores committed offsets uncompressed", &["offsets.topic.compression.codec"]),
    ("compaction reads and writes in fixed sizes", &["log.cleaner.io.buffer.size"]),
    (
        "the broker does not stop for a report of a failed directory that the controllers have not acknowledged",
        &["log.dir.failure.timeout.ms"],
    ),
];
