//! Keys of Kafka 4.3.1 that have no effect here, so that a stock `server.properties` is accepted: most are harmless
//! and only noted, a few promise something that must not be dropped unnoticed and are refused. A catalogue.

/// What becomes of a key that Kafka knows and Levada does not serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Foreign {
    /// Harmless here: accepted, with this reason as a note.
    Noted(&'static str),
    /// Refused, unless the value turns it off; with why and what to do.
    Refused(&'static str),
}

/// The verdict on a key, or `None` if Kafka does not know it either.
pub(super) fn verdict(name: &str) -> Option<Foreign> {
    if let Some((_, reason)) = REFUSED.iter().find(|(key, _)| *key == name) {
        return Some(Foreign::Refused(reason));
    }
    if let Some((_, reason)) = PREFIXES.iter().find(|(prefix, _)| name.starts_with(prefix)) {
        return Some(Foreign::Noted(reason));
    }
    NOTED.iter().find(|(_, names)| names.contains(&name)).map(|(reason, _)| Foreign::Noted(reason))
}

/// Whether Kafka lets the key change while the broker runs; so may a key that Kafka does not know.
pub(super) fn may_change(name: &str) -> bool {
    verdict(name).is_none() || DYNAMIC.contains(&name)
}

/// Every full name in the catalogue.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    let noted = NOTED.iter().flat_map(|(_, names)| names.iter().copied());
    REFUSED.iter().map(|(name, _)| *name).chain(noted)
}

const REFUSED: &[(&str, &str)] = &[
    ("alter.config.policy.class.name", "a Java class cannot be loaded: remove the key"),
    ("client.quota.callback.class", "a Java class cannot be loaded: remove the key"),
    ("config.providers", "values from providers are not resolved: write the values themselves"),
    ("cordoned.log.dirs", "data directories cannot be cordoned: remove the key"),
    ("create.topic.policy.class.name", "a Java class cannot be loaded: remove the key"),
    (
        "remote.log.storage.system.enable",
        "tiered storage is not served yet: remove the key or set it to false",
    ),
];

/// Keys that Kafka lets change while the broker runs. They have no effect here, then as before.
const DYNAMIC: &[&str] = &[
    "background.threads",
    "follower.fetch.last.tiered.offset.enable",
    "group.consumer.assignment.interval.ms",
    "group.coordinator.cached.buffer.max.bytes",
    "group.share.assignment.interval.ms",
    "group.streams.assignment.interval.ms",
    "log.cleaner.io.buffer.size",
    "metric.reporters",
    "num.io.threads",
    "num.network.threads",
    "num.replica.fetchers",
    "remote.fetch.max.wait.ms",
    "remote.list.offsets.request.timeout.ms",
    "remote.log.index.file.cache.total.size.bytes",
    "remote.log.manager.copier.thread.pool.size",
    "remote.log.manager.copy.max.bytes.per.second",
    "remote.log.manager.expiration.thread.pool.size",
    "remote.log.manager.fetch.max.bytes.per.second",
    "remote.log.manager.follower.thread.pool.size",
    "remote.log.reader.threads",
    "share.coordinator.cached.buffer.max.bytes",
    "transaction.partition.verification.enable",
];

/// Families of keys whose ends users choose.
const PREFIXES: &[(&str, &str)] = &[
    ("rlmm.config.", "tiered storage is not served yet"),
    ("rsm.config.", "tiered storage is not served yet"),
    ("internal.", "an internal key of Kafka's"),
    ("unstable.", "an internal key of Kafka's"),
];

const NOTED: &[(&str, &[&str])] = &[
    (
        "SASL is served without plug-ins, Kerberos or a client of its own",
        &[
            "principal.builder.class",
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
            "sasl.mechanism.controller.protocol",
            "sasl.mechanism.inter.broker.protocol",
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
            "sasl.oauthbearer.jwt.validator.class",
            "sasl.oauthbearer.scope",
            "sasl.oauthbearer.token.endpoint.url",
            "sasl.server.callback.handler.class",
        ],
    ),
    (
        "TLS is by rustls, which has nothing of the kind to choose",
        &[
            "security.providers",
            "ssl.endpoint.identification.algorithm",
            "ssl.engine.factory.class",
            "ssl.keymanager.algorithm",
            "ssl.protocol",
            "ssl.provider",
            "ssl.secure.random.implementation",
            "ssl.trustmanager.algorithm",
        ],
    ),
    (
        "delegation tokens are not served",
        &[
            "delegation.token.expiry.check.interval.ms",
            "delegation.token.expiry.time.ms",
            "delegation.token.max.lifetime.ms",
            "delegation.token.secret.key",
        ],
    ),
    (
        "tiered storage is not served yet",
        &[
            "follower.fetch.last.tiered.offset.enable",
            "remote.fetch.max.wait.ms",
            "remote.list.offsets.request.timeout.ms",
            "remote.log.index.file.cache.total.size.bytes",
            "remote.log.manager.copier.thread.pool.size",
            "remote.log.manager.copy.max.bytes.per.second",
            "remote.log.manager.copy.quota.window.num",
            "remote.log.manager.copy.quota.window.size.seconds",
            "remote.log.manager.expiration.thread.pool.size",
            "remote.log.manager.fetch.max.bytes.per.second",
            "remote.log.manager.fetch.quota.window.num",
            "remote.log.manager.fetch.quota.window.size.seconds",
            "remote.log.manager.follower.thread.pool.size",
            "remote.log.manager.task.interval.ms",
            "remote.log.manager.thread.pool.size",
            "remote.log.metadata.custom.metadata.max.bytes",
            "remote.log.metadata.manager.class.name",
            "remote.log.metadata.manager.class.path",
            "remote.log.metadata.manager.impl.prefix",
            "remote.log.metadata.manager.listener.name",
            "remote.log.reader.max.pending.tasks",
            "remote.log.reader.threads",
            "remote.log.storage.manager.class.name",
            "remote.log.storage.manager.class.path",
            "remote.log.storage.manager.impl.prefix",
        ],
    ),
    (
        "share and streams groups are not served",
        &[
            "group.share.assignment.interval.ms",
            "group.share.assignors",
            "group.share.delivery.count.limit",
            "group.share.heartbeat.interval.ms",
            "group.share.max.assignment.interval.ms",
            "group.share.max.delivery.count.limit",
            "group.share.max.heartbeat.interval.ms",
            "group.share.max.partition.max.record.locks",
            "group.share.max.record.lock.duration.ms",
            "group.share.max.session.timeout.ms",
            "group.share.max.share.sessions",
            "group.share.max.size",
            "group.share.min.assignment.interval.ms",
            "group.share.min.delivery.count.limit",
            "group.share.min.heartbeat.interval.ms",
            "group.share.min.partition.max.record.locks",
            "group.share.min.record.lock.duration.ms",
            "group.share.min.session.timeout.ms",
            "group.share.partition.max.record.locks",
            "group.share.record.lock.duration.ms",
            "group.share.session.timeout.ms",
            "group.streams.assignment.interval.ms",
            "group.streams.heartbeat.interval.ms",
            "group.streams.initial.rebalance.delay.ms",
            "group.streams.max.assignment.interval.ms",
            "group.streams.max.heartbeat.interval.ms",
            "group.streams.max.session.timeout.ms",
            "group.streams.max.size",
            "group.streams.max.standby.replicas",
            "group.streams.min.assignment.interval.ms",
            "group.streams.min.heartbeat.interval.ms",
            "group.streams.min.session.timeout.ms",
            "group.streams.num.standby.replicas",
            "group.streams.session.timeout.ms",
            "share.coordinator.append.linger.ms",
            "share.coordinator.cached.buffer.max.bytes",
            "share.coordinator.load.buffer.size",
            "share.coordinator.snapshot.update.records.per.snapshot",
            "share.coordinator.state.topic.compression.codec",
            "share.coordinator.state.topic.min.isr",
            "share.coordinator.state.topic.num.partitions",
            "share.coordinator.state.topic.replication.factor",
            "share.coordinator.state.topic.segment.bytes",
            "share.coordinator.threads",
            "share.coordinator.write.timeout.ms",
            "share.fetch.purgatory.purge.interval.requests",
        ],
    ),
    (
        "consumer groups are assigned at once",
        &[
            "group.consumer.assignment.interval.ms",
            "group.consumer.assignors",
            "group.consumer.max.assignment.interval.ms",
            "group.consumer.min.assignment.interval.ms",
        ],
    ),
    (
        "transactions of a single broker do without it",
        &[
            "add.partitions.to.txn.retry.backoff.max.ms",
            "add.partitions.to.txn.retry.backoff.ms",
            "transaction.state.log.load.buffer.size",
            "transaction.state.log.min.isr",
            "transaction.state.log.replication.factor",
            "transaction.two.phase.commit.enable",
        ],
    ),
    (
        "the broker is its own controller",
        &[
            "broker.heartbeat.interval.ms",
            "broker.session.timeout.ms",
            "controlled.shutdown.enable",
            "controller.quorum.append.linger.ms",
            "controller.quorum.auto.join.enable",
            "controller.quorum.bootstrap.servers",
            "controller.quorum.election.backoff.max.ms",
            "controller.quorum.election.timeout.ms",
            "controller.quorum.fetch.max.bytes",
            "controller.quorum.fetch.snapshot.max.bytes",
            "controller.quorum.fetch.timeout.ms",
            "controller.quorum.request.timeout.ms",
            "controller.quorum.retry.backoff.ms",
            "controller.quorum.voters",
            "controller.quota.window.num",
            "controller.quota.window.size.seconds",
            "controller.socket.timeout.ms",
            "early.start.listeners",
            "initial.broker.registration.timeout.ms",
            "metadata.log.dir",
            "metadata.log.max.record.bytes.between.snapshots",
            "metadata.log.max.snapshot.interval.ms",
            "metadata.log.segment.bytes",
            "metadata.log.segment.ms",
            "metadata.max.idle.interval.ms",
            "metadata.max.retention.bytes",
            "metadata.max.retention.ms",
        ],
    ),
    (
        "there is one broker, so nothing is replicated",
        &[
            "alter.log.dirs.replication.quota.window.num",
            "alter.log.dirs.replication.quota.window.size.seconds",
            "auto.leader.rebalance.enable",
            "leader.imbalance.check.interval.seconds",
            "num.replica.alter.log.dirs.threads",
            "num.replica.fetchers",
            "offsets.topic.replication.factor",
            "replica.fetch.backoff.ms",
            "replica.fetch.max.bytes",
            "replica.fetch.min.bytes",
            "replica.fetch.response.max.bytes",
            "replica.fetch.wait.max.ms",
            "replica.high.watermark.checkpoint.interval.ms",
            "replica.lag.time.max.ms",
            "replica.selector.class",
            "replica.socket.receive.buffer.bytes",
            "replica.socket.timeout.ms",
            "replication.quota.window.num",
            "replication.quota.window.size.seconds",
        ],
    ),
    (
        "threads, queues and buffers size themselves",
        &[
            "background.threads",
            "delete.records.purgatory.purge.interval.requests",
            "fetch.purgatory.purge.interval.requests",
            "group.coordinator.append.linger.ms",
            "group.coordinator.background.threads",
            "group.coordinator.cached.buffer.max.bytes",
            "group.coordinator.rebalance.protocols",
            "group.coordinator.threads",
            "num.io.threads",
            "num.network.threads",
            "offsets.commit.timeout.ms",
            "offsets.load.buffer.size",
            "offsets.topic.compression.codec",
            "producer.purgatory.purge.interval.requests",
            "queued.max.requests",
            "request.timeout.ms",
            "socket.connection.setup.timeout.max.ms",
            "socket.connection.setup.timeout.ms",
            "socket.listen.backlog.size",
            "socket.receive.buffer.bytes",
            "socket.send.buffer.bytes",
        ],
    ),
    (
        "metrics are served as text under /metrics",
        &[
            "kafka.metrics.polling.interval.secs",
            "kafka.metrics.reporters",
            "metric.reporters",
            "metrics.num.samples",
            "metrics.recording.level",
            "metrics.sample.window.ms",
            "telemetry.max.bytes",
        ],
    ),
    ("compaction reads and writes in steps of its own", &["log.cleaner.io.buffer.size"]),
    (
        "this limit is not enforced yet",
        &["max.request.partition.size.limit", "quota.window.num", "quota.window.size.seconds"],
    ),
    ("a failed data directory stops the broker", &["log.dir.failure.timeout.ms"]),
    ("node.id is the broker's number", &["broker.id"]),
];
