//! The table of keys that have an effect: Kafka's names, types, defaults and ranges as of 4.3.1,
//! each with a sentence of documentation. A catalogue: all rows have the same form. `foreign` has
//! Kafka's keys without an effect.

use super::key::{ConfigKey, Valid, boolean, double, int, list, long, password, short, string};

/// The class name that switches access control on; the only one there is.
const AUTHORIZER: &str = "org.apache.kafka.metadata.authorizer.StandardAuthorizer";

/// A key that a topic may set, and the broker's keys that give its default.
#[derive(Clone, Copy, Debug)]
pub struct TopicConfigKey {
    /// Name, type, default and allowed values.
    pub key: ConfigKey,
    /// Broker keys in order of precedence; the first that is set gives the topic's default. Names
    /// ending in `.hours` and `.minutes` are in that unit, the topic's key is in milliseconds.
    pub broker: &'static [&'static str],
}

/// The broker key of this name.
pub fn broker_key(name: &str) -> Option<&'static ConfigKey> {
    BROKER_KEYS.iter().find(|key| key.name == name)
}

/// The topic key of this name.
pub fn topic_key(name: &str) -> Option<&'static TopicConfigKey> {
    TOPIC_KEYS.iter().find(|topic| topic.key.name == name)
}

const CLEANUP: Valid = Valid::SomeOf(&["compact", "delete"]);
const STORES: Valid = Valid::OneOf(&["PEM", "PKCS12", "JKS"]);
const RACK_AWARE: &str = "org.apache.kafka.common.replica.RackAwareReplicaSelector";
const CODECS: Valid = Valid::OneOf(&["uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"]);
const MIGRATIONS: Valid = Valid::OneOf(&["bidirectional", "disabled", "downgrade", "upgrade"]);
const PROTOCOLS: Valid = Valid::SomeOf(&["consumer", "classic", "share", "streams"]);
const CLOCKS: Valid = Valid::OneOf(&["CreateTime", "LogAppendTime"]);
const LAYOUTS: Valid = Valid::OneOf(&["aiven", "local"]);
const APPEND: Valid = Valid::OneOf(&["pwrite", "mapped"]);
const DURABILITY: Valid = Valid::OneOf(&["page-cache", "fdatasync"]);
const AUTHORIZERS: Valid = Valid::OneOf(&[AUTHORIZER, ""]);
const FOREVER: &str = "9223372036854775807";

/// Keys of the broker.
pub const BROKER_KEYS: &[ConfigKey] = &[
    // Identity and listeners.
    int("node.id", "Number of this broker in its cluster.").default("1").at_least(0),
    int("broker.id", "Older name of node.id. If both are set, they must be equal.").default("-1"),
    string("replica.selector.class", "Selector of replicas to read from. With RackAwareReplicaSelector, consumers with client.rack are sent to a replica in sync in their rack. If unset, consumers read from the leader.").valid(Valid::OneOf(&[RACK_AWARE])),
    string("broker.rack", "Rack of this broker. Metadata responses contain it for clients that prefer near replicas."),
    list("listeners", "Listening addresses for Kafka clients, as NAME://host:port. An empty host means every interface; port 0 means any free port.")
        .default("PLAINTEXT://127.0.0.1:9092"),
    list("advertised.listeners", "Addresses that the broker returns to clients. For a listener that is not named, each client gets the address that it connected to."),
    string("listener.security.protocol.map", "Protocol of each listener name: PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL.")
        .default("PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL"),
    string("inter.broker.listener.name", "Listener for traffic between brokers. It must be one of `listeners`."),
    string("security.inter.broker.protocol", "Listener for traffic between brokers, chosen by its protocol instead of its name."),
    list("process.roles", "Roles of this process, as in Kafka. broker alone joins the cluster of the controllers that controller.quorum.bootstrap.servers names. With controller, the broker is its own controller.")
        .default("broker,controller")
        .valid(Valid::SomeOf(&["broker", "controller"])),
    // Membership in a cluster.
    list("controller.listener.names", "Listeners of controllers. The broker does not open them. In a cluster the first one is the listener that the broker connects to."),
    list("controller.quorum.bootstrap.servers", "Addresses of some controllers, as host:port. These controllers report the others.").default(""),
    list("controller.quorum.voters", "Controllers of a static quorum, as id@host:port.").default(""),
    string("sasl.mechanism.controller.protocol", "SASL mechanism for connections to controllers: PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512. Kafka's default, GSSAPI, is not supported.").default("GSSAPI"),
    int("broker.heartbeat.interval.ms", "Interval between heartbeats to the controller.").default("2000"),
    int("broker.session.timeout.ms", "Time without a heartbeat after which the controller fences this broker. Set it to the value of the controllers.").default("9000"),
    int("initial.broker.registration.timeout.ms", "Time for the first registration with the controllers. If it passes, the broker stops.").default("60000"),
    string("sasl.mechanism.inter.broker.protocol", "SASL mechanism for connections to other brokers: PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512. Kafka's default, GSSAPI, is not supported.").default("GSSAPI").own(),
    int("num.replica.fetchers", "Number of fetcher threads, each with one connection, for the replicas in sync of each broker that leads followed partitions; as many more for replicas that catch up.").default("1").at_least(1).cluster_wide(),
    int("replica.fetch.wait.max.ms", "Longest wait of a leader for replica.fetch.min.bytes.").default("500"),
    int("replica.fetch.min.bytes", "Minimum number of bytes in a response to a follower. The leader waits for them, up to replica.fetch.wait.max.ms.").default("1"),
    int("replica.fetch.max.bytes", "Maximum number of bytes of one partition in a response to a follower. A larger batch is sent whole.").default("1048576").at_least(0),
    int("replica.fetch.response.max.bytes", "Maximum number of bytes in a response to a follower. A larger first batch is sent whole.").default("10485760").at_least(0),
    int("replica.fetch.backoff.ms", "Pause of a partition, or of a connection, after a failed fetch.").default("1000").at_least(0),
    int("replica.socket.timeout.ms", "Time without a response after which a connection to another broker has failed.").default("30000"),
    long("replica.lag.time.max.ms", "Time for which a follower may be behind its leader's end before it leaves the replicas in sync.").default("30000"),
    long("leader.replication.throttled.rate", "Maximum number of bytes per second to out-of-sync followers of the replicas in leader.replication.throttled.replicas.").default("9223372036854775807").at_least(0).cluster_wide(),
    long("follower.replication.throttled.rate", "Maximum number of bytes per second from leaders to out-of-sync replicas in follower.replication.throttled.replicas.").default("9223372036854775807").at_least(0).cluster_wide(),
    long("replica.alter.log.dirs.io.max.bytes.per.second", "Maximum number of bytes per second that the broker copies between data directories.").default("9223372036854775807").at_least(0).cluster_wide(),
    int("num.replica.alter.log.dirs.threads", "Logs that move to another data directory at the same time. If unset, one for each directory."),
    int("replication.quota.window.num", "Number of samples over which the replication rate is measured.").default("11").at_least(1),
    int("replication.quota.window.size.seconds", "Length of each sample of the replication rate.").default("1").at_least(1),
    boolean("controlled.shutdown.enable", "Ask the controller to move leaderships away before the broker stops.").default("true"),
    string("levada.http.listen", "Listening address for the console, /livez, /healthz, /readyz and /metrics, as host:port. An empty value turns HTTP off.").default("127.0.0.1:9644"),
    string("levada.thresholds.file", "File with the transfer thresholds of this machine, as written by `levada lab calibrate`. If unset, the broker reads ~/.config/levada/thresholds or /etc/levada/thresholds if one exists, and uses built-in thresholds otherwise."),
    password("levada.http.token", "Secret for HTTP requests, sent as a bearer token or as the password of any user. Required if levada.http.listen can be reached from other machines."),
    string("levada.log.format", "Format of the log on stderr: text, or json (one object a line).").default("text").valid(Valid::OneOf(&["text", "json"])),
    string("levada.audit.log", "Destination of the audit log: a file path, or stderr. If unset, the audit log is off unless LEVADA_LOG names it."),
    // Schemas of records, in the console.
    string("schema.registry.url", "URLs of a schema registry with Confluent's API, separated by commas. The console reads the schemas of records from it and shows keys and values as JSON. No user name or password: see schema.registry.basic.auth.user.info. If unset, nothing is decoded and nothing asked."),
    password("schema.registry.basic.auth.user.info", "USER:PASSWORD for the schema registry."),
    string("schema.registry.ssl.truststore.type", "Format of the trust store for the schema registry: PEM or PKCS12. If unset, the broker detects it.").valid(STORES),
    string("schema.registry.ssl.truststore.location", "File with the certificates of the authorities that may sign the schema registry's certificate. If unset, those of this machine."),
    password("schema.registry.ssl.truststore.password", "Password of a PKCS12 trust store for the schema registry."),
    string("schema.registry.ssl.keystore.type", "Format of the key store for the schema registry: PEM or PKCS12. If unset, the broker detects it.").valid(STORES),
    string("schema.registry.ssl.keystore.location", "File with the broker's certificate chain and private key for the schema registry."),
    password("schema.registry.ssl.keystore.password", "Password of a PKCS12 key store for the schema registry."),
    password("schema.registry.ssl.key.password", "Password of the private key for the schema registry, if the key is encrypted."),
    // TLS.
    string("ssl.keystore.type", "Format of the key store: PEM or PKCS12. If unset, the broker detects it.").valid(STORES).reloaded(),
    string("ssl.keystore.location", "File with the broker's certificate chain and private key.").reloaded(),
    password("ssl.keystore.password", "Password of a PKCS12 key store.").reloaded(),
    password("ssl.key.password", "Password of the private key, if the key is encrypted.").reloaded(),
    password("ssl.keystore.certificate.chain", "The broker's certificate chain in PEM, instead of a file.").reloaded(),
    password("ssl.keystore.key", "The broker's private key in PEM (PKCS #8), instead of a file.").reloaded(),
    string("ssl.truststore.type", "Format of the trust store: PEM or PKCS12. If unset, the broker detects it.").valid(STORES).reloaded(),
    string("ssl.truststore.location", "File with the certificates of the authorities that may sign client certificates.").reloaded(),
    password("ssl.truststore.password", "Password of a PKCS12 trust store.").reloaded(),
    password("ssl.truststore.certificates", "Certificates of the trusted authorities in PEM, instead of a file.").reloaded(),
    string("levada.ssl.crl.location", "File with certificate revocation lists: any number in PEM, or one in DER. The broker refuses clients with revoked certificates. Each signing authority needs a list that has not expired.").reloaded(),
    string("ssl.client.auth", "Client certificates: required, requested (optional), or none. For a SASL_SSL listener only the listener's own value counts.")
        .default("none")
        .valid(Valid::OneOf(&["required", "requested", "none"]))
        .per_broker(),
    boolean("ssl.allow.dn.changes", "Allow a reloaded broker certificate to have another distinguished name.").default("false").per_listener(),
    boolean("ssl.allow.san.changes", "Allow a reloaded broker certificate to lack subject alternative names of the previous one.").default("false").per_listener(),
    list("ssl.enabled.protocols", "TLS versions that the broker accepts.").default("TLSv1.2,TLSv1.3").valid(Valid::SomeOf(&["TLSv1.2", "TLSv1.3"])).per_broker(),
    list("ssl.cipher.suites", "Cipher suites by their IANA names. If unset, all that rustls supports.").per_broker(),
    string("ssl.endpoint.identification.algorithm", "Check of the host name in the certificates of controllers and other brokers: https, or empty for no check.").default("https").per_broker(),
    string("ssl.principal.mapping.rules", "Rules that map the distinguished name of a client certificate to a principal name.").default("DEFAULT").per_listener(),
    string("levada.ssl.kernel.offload", "Encryption of sent data by the kernel: auto (if the kernel supports it) or never.")
        .default("auto")
        .valid(Valid::OneOf(&["auto", "never"]))
        .per_listener(),
    // Authentication.
    list("sasl.enabled.mechanisms", "SASL mechanisms that clients may use: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER. Kafka's default, GSSAPI, is not supported.")
        .default("GSSAPI")
        .per_broker(),
    password("sasl.jaas.config", "Users and passwords for PLAIN, set as listener.name.NAME.plain.sasl.jaas.config; options for OAUTHBEARER, set as listener.name.NAME.oauthbearer.sasl.jaas.config. For the listeners of controllers and other brokers, the user name and the password of this broker.").per_broker(),
    long("connections.max.reauth.ms", "Time after which a client must authenticate again on the same connection; 0 means never.").default("0").per_listener(),
    string("sasl.oauthbearer.jwks.endpoint.url", "URL of the JSON Web Key Set that verifies OAUTHBEARER tokens: file:/…, https://…, or http://… on this machine.").per_listener(),
    long("sasl.oauthbearer.jwks.endpoint.refresh.ms", "Interval at which the broker reloads the signing keys (JWKS).").default("3600000").at_least(1),
    long("sasl.oauthbearer.jwks.endpoint.retry.backoff.ms", "Delay before the first retry after the signing keys (JWKS) could not be loaded.").default("100").at_least(1),
    long("sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms", "Longest delay between retries, and shortest interval between reloads caused by tokens with unknown keys.").default("10000").at_least(1),
    int("sasl.oauthbearer.clock.skew.seconds", "Tolerated difference between the clocks of the broker and of token issuers.").default("30").at_least(0).per_listener(),
    list("sasl.oauthbearer.expected.audience", "Accepted audiences. A token's claim aud must contain one of them. If empty, the claim is not checked.").default("").per_listener(),
    string("sasl.oauthbearer.expected.issuer", "Issuer that a token's claim iss must name.").per_listener(),
    string("sasl.oauthbearer.scope.claim.name", "Name of the claim that contains a token's scopes.").default("scope").per_listener(),
    string("sasl.oauthbearer.sub.claim.name", "Name of the claim that contains the user name.").default("sub").per_listener(),
    int("sasl.server.max.receive.size", "Largest request of a client that has not authenticated.").default("524288").at_least(1),
    int("connection.failed.authentication.delay.ms", "Delay of the response to a failed authentication.").default("100").at_least(0),
    password("delegation.token.secret.key", "Secret key of delegation tokens. In a cluster, set it to the value of the controllers. If unset, tokens are disabled."),
    long("delegation.token.max.lifetime.ms", "Longest lifetime of a delegation token, with all renewals. In a cluster, the controllers' value applies.").default("604800000").at_least(1),
    long("delegation.token.expiry.time.ms", "Time after which a delegation token expires unless it is renewed. In a cluster, the controllers' value applies.").default("86400000").at_least(1),
    long("delegation.token.expiry.check.interval.ms", "Interval at which the broker removes expired delegation tokens. In a cluster, the controllers' value applies.").default("3600000").at_least(1),
    // Authorization.
    string("authorizer.class.name", "Authorizer. If empty, there is no access control and every client may do everything.").default("").valid(AUTHORIZERS),
    string("super.users", "Principals that may do everything, separated by semicolons, as in User:alice;User:bob."),
    boolean("allow.everyone.if.no.acl.found", "Allow every principal to use a resource that no ACL names.").default("false"),
    // Data directories.
    list("log.dirs", "Data directories. If unset, log.dir is used."),
    list("log.dir", "Data directory, used if log.dirs is unset.").default("./levada-data"),
    list("cordoned.log.dirs", "In a cluster, data directories on which the controllers place no new replicas; * means all.").default("").own(),
    // Topics.
    int("num.partitions", "Number of partitions of a topic that is created without a partition count.").default("1").at_least(1),
    int("default.replication.factor", "Replicas of a topic that is created without a replication factor.").default("1").valid(Valid::Range(1, 32767)),
    boolean("levada.replication.factor.clamp", "Lower a replication factor above the number of brokers to that number instead of refusing it. For test suites and development.").default("false"),
    boolean("auto.create.topics.enable", "Create a topic when a client first requests it.").default("true"),
    boolean("delete.topic.enable", "Allow the deletion of topics.").default("true"),
    // Limits of connections and requests.
    int("max.connections", "Maximum number of client connections, in total or of one listener. Further connections wait until one closes. If there are several listeners, only its own limit applies to the inter-broker listener.").default("2147483647").at_least(0).cluster_wide().per_listener(),
    int("max.connections.per.ip", "Maximum number of connections from one address. The broker closes further ones.").default("2147483647").at_least(0).cluster_wide(),
    string("max.connections.per.ip.overrides", "Maximum number of connections for single addresses, as address:number,…. The broker looks up host names when it starts and when the value changes.").default("").cluster_wide(),
    int("max.connection.creation.rate", "Maximum number of connections accepted in a second, in total or by one listener. Further connections wait. If there are several listeners, only its own limit applies to the inter-broker listener.").default("2147483647").at_least(1).cluster_wide().per_listener(),
    long("connections.max.idle.ms", "Time after which the broker closes an idle connection. A negative number means never.").default("600000"),
    int("socket.request.max.bytes", "Largest request. A longer one closes the connection.").default("104857600").at_least(1),
    string("levada.replay.cache", "Page cache policy for old records that a consumer has read from the disk: auto (keep them as memory allows), always, or never.")
        .default("auto")
        .valid(Valid::OneOf(&["auto", "always", "never"])),
    long("queued.max.request.bytes", "Memory for all requests that are being received or processed. At the limit the broker reads no further requests. -1 means no limit, which is Kafka's default.").default("536870912").at_least(-1),
    int("fetch.max.bytes", "Maximum number of record bytes in one fetch response.").default("57671680").at_least(1024),
    int("max.incremental.fetch.session.cache.slots", "Maximum number of fetch sessions.").default("1000").at_least(0),
    int("max.request.partition.size.limit", "Maximum number of partitions in one DescribeTopicPartitions response.").default("2000").at_least(1),
    // Client telemetry.
    string("levada.client.telemetry", "Offer of client telemetry (KIP-714) to clients that connect: auto (while there is a client-metrics subscription, or a metric in levada.client.telemetry.metrics), always, or never. A Java client that connects without the offer never asks again.")
        .default("auto")
        .valid(Valid::OneOf(&["auto", "always", "never"])),
    int("telemetry.max.bytes", "Largest payload of one push of a client's metrics, before and after it is expanded.").default("1048576").at_least(1),
    list("levada.client.telemetry.metrics", "Prefixes of the names of clients' metrics that /metrics shows, for each client. An empty value shows none.").default(""),
    int("levada.client.telemetry.max.clients", "Number of clients whose metrics are kept. For another one, the client with the oldest push is evicted.").default("1000").at_least(0),
    int("levada.client.telemetry.max.series", "Number of series that are kept of one client. Further ones are left out.").default("500").at_least(0),
    // Groups.
    list("group.coordinator.rebalance.protocols", "Group protocols. classic is always included. Without consumer, the broker refuses consumer groups (KIP-848). Without streams, it refuses streams groups (KIP-1071). share has no effect: the feature share.version enables share groups.")
        .default("classic,consumer,streams")
        .valid(PROTOCOLS),
    int("group.initial.rebalance.delay.ms", "Time that the first rebalance of an empty group waits for further members. Kafka's default is 3000; with 0 the first consumer starts immediately.")
        .default("0")
        .at_least(0),
    int("group.min.session.timeout.ms", "Shortest session timeout that a member may request.").default("6000").at_least(0),
    int("group.max.session.timeout.ms", "Longest session timeout that a member may request.").default("1800000").at_least(0),
    int("group.max.size", "Maximum number of members of a classic group.").default("2147483647").at_least(1),
    int("group.consumer.session.timeout.ms", "Session timeout of consumer groups (KIP-848). The coordinator removes a member that is silent for this long. A group may override it.").default("45000").at_least(1),
    int("group.consumer.heartbeat.interval.ms", "Heartbeat interval of consumer groups. A group may override it.").default("5000").at_least(1),
    int("group.consumer.min.session.timeout.ms", "Shortest session timeout that a consumer group may set.").default("45000").at_least(1),
    int("group.consumer.max.session.timeout.ms", "Longest session timeout that a consumer group may set.").default("60000").at_least(1),
    int("group.consumer.min.heartbeat.interval.ms", "Shortest heartbeat interval that a consumer group may set.").default("5000").at_least(1),
    int("group.consumer.max.heartbeat.interval.ms", "Longest heartbeat interval that a consumer group may set.").default("15000").at_least(1),
    string("group.consumer.migration.policy", "Directions in which a group with members may change between the classic and the consumer protocol.")
        .default("bidirectional")
        .valid(MIGRATIONS),
    int("group.consumer.max.size", "Maximum number of members of a consumer group.").default("2147483647").at_least(1),
    int("group.consumer.assignment.interval.ms", "Shortest time between two assignments of a consumer group. A group may override it.").default("1000").at_least(0).cluster_wide(),
    int("group.consumer.min.assignment.interval.ms", "Smallest assignment interval that a consumer group may set.").default("0").at_least(0),
    int("group.consumer.max.assignment.interval.ms", "Largest assignment interval that a consumer group may set.").default("15000").at_least(0),
    int("group.share.session.timeout.ms", "Session timeout of share groups (KIP-932). The coordinator removes a member that is silent for this long. A group may override it.").default("45000").at_least(1),
    int("group.share.heartbeat.interval.ms", "Heartbeat interval of share groups. A group may override it.").default("5000").at_least(1),
    int("group.share.min.session.timeout.ms", "Shortest session timeout that a share group may set.").default("45000").at_least(1),
    int("group.share.max.session.timeout.ms", "Longest session timeout that a share group may set.").default("60000").at_least(1),
    int("group.share.min.heartbeat.interval.ms", "Shortest heartbeat interval that a share group may set.").default("5000").at_least(1),
    int("group.share.max.heartbeat.interval.ms", "Longest heartbeat interval that a share group may set.").default("15000").at_least(1),
    int("group.share.max.size", "Maximum number of members of a share group.").default("200").valid(Valid::Range(1, 1000)),
    int("group.share.max.share.sessions", "Maximum number of share sessions of this broker.").default("2000").at_least(1),
    boolean(DEAD_LETTER_TOPICS_CREATED, "Create the dead letter topic of a share group if it does not exist.").default("false").cluster_wide(),
    string(DEAD_LETTER_TOPIC_PREFIX, "Prefix that names of dead letter topics need; empty for none.").default("dlq.").cluster_wide(),
    int("group.share.record.lock.duration.ms", "Time for which a member of a share group holds an acquired record. A group may override it.").default("30000").valid(Valid::Range(1_000, 3_600_000)),
    int("group.share.min.record.lock.duration.ms", "Shortest lock duration that a share group may set.").default("15000").valid(Valid::Range(1_000, 30_000)),
    int("group.share.max.record.lock.duration.ms", "Longest lock duration that a share group may set.").default("60000").valid(Valid::Range(30_000, 3_600_000)),
    int("group.share.delivery.count.limit", "Maximum number of deliveries of a record to a share group. A group may override it.").default("5").valid(Valid::Range(2, 10)),
    int("group.share.min.delivery.count.limit", "Smallest limit of deliveries that a share group may set.").default("2").valid(Valid::Range(2, 5)),
    int("group.share.max.delivery.count.limit", "Largest limit of deliveries that a share group may set.").default("10").valid(Valid::Range(5, 25)),
    int("group.share.partition.max.record.locks", "Maximum number of records of a partition that a share group has in flight. A group may override it.").default("2000").valid(Valid::Range(100, 10_000)),
    int("group.share.min.partition.max.record.locks", "Smallest limit of records in flight that a share group may set.").default("100").valid(Valid::Range(100, 2_000)),
    int("group.share.max.partition.max.record.locks", "Largest limit of records in flight that a share group may set.").default("4000").valid(Valid::Range(2_000, 10_000)),
    int("group.share.assignment.interval.ms", "Shortest time between two assignments of a share group. A group may override it.").default("1000").at_least(0).cluster_wide(),
    int("group.share.min.assignment.interval.ms", "Smallest assignment interval that a share group may set.").default("0").at_least(0),
    int("group.share.max.assignment.interval.ms", "Largest assignment interval that a share group may set.").default("15000").at_least(0),
    int("group.streams.session.timeout.ms", "Session timeout of streams groups (KIP-1071). The coordinator removes a member that is silent for this long. A group may override it.").default("45000").at_least(1),
    int("group.streams.heartbeat.interval.ms", "Heartbeat interval of streams groups. A group may override it.").default("5000").at_least(1),
    int("group.streams.min.session.timeout.ms", "Shortest session timeout that a streams group may set.").default("45000").at_least(1),
    int("group.streams.max.session.timeout.ms", "Longest session timeout that a streams group may set.").default("60000").at_least(1),
    int("group.streams.min.heartbeat.interval.ms", "Shortest heartbeat interval that a streams group may set.").default("5000").at_least(1),
    int("group.streams.max.heartbeat.interval.ms", "Longest heartbeat interval that a streams group may set.").default("15000").at_least(1),
    int("group.streams.max.size", "Maximum number of members of a streams group.").default("2147483647").at_least(1),
    int("group.streams.num.standby.replicas", "Standby tasks of each task with state. A group may override it.").default("0").at_least(0),
    int("group.streams.max.standby.replicas", "Largest number of standby tasks that a streams group may set.").default("2").at_least(0),
    int("group.streams.initial.rebalance.delay.ms", "Time that the first assignment of an empty streams group waits for further members. A group may override it.").default("3000").at_least(0),
    int("group.streams.assignment.interval.ms", "Shortest time between two assignments of a streams group. A group may override it.").default("1000").at_least(0).cluster_wide(),
    int("group.streams.min.assignment.interval.ms", "Smallest assignment interval that a streams group may set.").default("0").at_least(0),
    int("group.streams.max.assignment.interval.ms", "Largest assignment interval that a streams group may set.").default("15000").at_least(0),
    // State of share groups.
    int("share.coordinator.snapshot.update.records.per.snapshot", "Updates of the state of a shared partition between two snapshots in __share_group_state.").default("500").valid(Valid::Range(0, 500)),
    int("share.coordinator.state.topic.num.partitions", "Partitions of __share_group_state; fixed once it exists.").default("50").at_least(1),
    short("share.coordinator.state.topic.replication.factor", "Replication factor of __share_group_state, if this broker requests its creation in a cluster.").default("3").at_least(1),
    short("share.coordinator.state.topic.min.isr", "min.insync.replicas of __share_group_state, if this broker requests its creation in a cluster.").default("2").at_least(1),
    int("share.coordinator.state.topic.segment.bytes", "Segment size of __share_group_state.").default("104857600").at_least(1_048_576),
    // Committed offsets.
    int("offset.metadata.max.bytes", "Longest metadata text of a committed offset.").default("4096").at_least(0),
    int("offsets.retention.minutes", "Time that offsets are kept after their group has become empty.").default("10080").at_least(1),
    long("offsets.retention.check.interval.ms", "Interval between searches for expired offsets.").default("600000").at_least(1),
    int("offsets.topic.num.partitions", "Partitions of __consumer_offsets; fixed once it exists.").default("50").at_least(1),
    short("offsets.topic.replication.factor", "Replication factor of __consumer_offsets, if this broker requests its creation in a cluster.").default("3").at_least(1),
    int("offsets.topic.segment.bytes", "Segment size of __consumer_offsets.").default("104857600").at_least(1),
    // The metadata log.
    long("metadata.log.max.record.bytes.between.snapshots", "Bytes of metadata records between two snapshots.").default("20971520").at_least(1),
    long("metadata.log.max.snapshot.interval.ms", "Longest time between two metadata snapshots if there was a change; 0 means no limit.").default("3600000").at_least(0),
    int("metadata.log.segment.bytes", "Segment size of the metadata log.").default("1073741824").at_least(8_388_608),
    long("metadata.log.segment.ms", "Maximum difference between the timestamps of a batch and of the first batch in its segment of the metadata log. A later batch starts a new segment.").default("604800000"),
    long("metadata.max.retention.bytes", "Total size of metadata snapshots and segments above which the broker deletes the oldest; -1 means no limit.").default("104857600"),
    long("metadata.max.retention.ms", "Age at which the broker deletes old metadata snapshots and segments; -1 means no limit.").default("604800000"),
    // Transactions.
    int("transaction.max.timeout.ms", "Longest timeout that a transactional producer may request.").default("900000").at_least(1),
    int("transactional.id.expiration.ms", "Time after which an unused transactional id expires.").default("604800000").at_least(1),
    int("transaction.abort.timed.out.transaction.cleanup.interval.ms", "Interval between searches for transactions that have timed out and must be aborted.").default("10000").at_least(1),
    int("transaction.remove.expired.transaction.cleanup.interval.ms", "Interval between searches for expired transactional ids.").default("3600000").at_least(1),
    int("transaction.state.log.num.partitions", "Partitions of __transaction_state; fixed once it exists.").default("50").at_least(1),
    short("transaction.state.log.replication.factor", "Replication factor of __transaction_state, if this broker requests its creation in a cluster.").default("3").at_least(1),
    int("transaction.state.log.min.isr", "min.insync.replicas of __transaction_state, if this broker requests its creation in a cluster.").default("2").at_least(1),
    int("transaction.state.log.segment.bytes", "Segment size of __transaction_state.").default("104857600").at_least(1_048_576),
    boolean("transaction.partition.verification.enable", "Verify with the transaction coordinator before a partition accepts the first records of a transaction.").default("true").cluster_wide(),
    // Producers.
    int("producer.id.expiration.ms", "Time that the state of an idle idempotent producer is kept.").default("86400000").at_least(1).cluster_wide(),
    int("producer.id.expiration.check.interval.ms", "Interval between searches for expired producer state.").default("600000").at_least(1),
    // Housekeeping of logs.
    boolean("remote.log.storage.system.enable", "Tiered storage: the broker copies old segments of topics with remote.storage.enable to a remote store, and reads them there.").default("false"),
    long("remote.log.manager.task.interval.ms", "Interval between searches for segments to copy to the remote store, and to delete there.").default("30000").at_least(1),
    int("remote.log.manager.copier.thread.pool.size", "Segments that the broker copies to the remote store at the same time.").default("10").at_least(1),
    int("remote.log.manager.expiration.thread.pool.size", "Partitions whose remote segments the broker deletes at the same time.").default("10").at_least(1),
    long("remote.log.manager.copy.max.bytes.per.second", "Rate at which the broker copies segments to the remote store, all partitions together.").default(FOREVER).at_least(1).cluster_wide(),
    long("remote.log.manager.fetch.max.bytes.per.second", "Rate at which the broker fetches records from the remote store, all partitions together. Records in the local cache do not count.").default(FOREVER).at_least(1).cluster_wide(),
    int("remote.log.metadata.custom.metadata.max.bytes", "Size of the metadata of a store for one segment. Copying of a partition stops if the store returns more.").default("128").at_least(0),
    int("remote.log.reader.threads", "Threads that read from the remote store.").default("10").at_least(1),
    int("remote.log.reader.max.pending.tasks", "Reads that may wait for a thread; further ones get an error.").default("100").at_least(1),
    int("remote.fetch.max.wait.ms", "Time that a fetch waits for records of the remote store.").default("500").at_least(1).cluster_wide(),
    long("remote.list.offsets.request.timeout.ms", "Time that a search by timestamp waits for the remote store.").default("30000").at_least(1).cluster_wide(),
    int("rlmm.config.remote.log.metadata.topic.num.partitions", "Partitions of __remote_log_metadata; fixed once it exists.").default("50").at_least(1),
    short("rlmm.config.remote.log.metadata.topic.replication.factor", "Replication factor of __remote_log_metadata, if this broker requests its creation in a cluster.").default("3").at_least(1),
    short("rlmm.config.remote.log.metadata.topic.min.isr", "min.insync.replicas of __remote_log_metadata, if this broker requests its creation in a cluster.").default("2").at_least(1),
    long("rlmm.config.remote.log.metadata.topic.retention.ms", "Age at which records of __remote_log_metadata are deleted; -1 means no limit. It must exceed the retention of every tiered topic.").default("-1").at_least(-1),
    boolean("follower.fetch.last.tiered.offset.enable", "A replica without records begins after the remote part of a tiered log instead of at the leader's local start: it copies less, and local retention on it starts later.").default("false").cluster_wide(),
    long("levada.remote.cache.bytes", "Size of the local cache of remote records, in the directory remote-log-index-cache of the first data directory.").default("1073741824").at_least(67108864),
    string("levada.remote.store", "Remote store of tiered storage: file:///DIRECTORY, s3://BUCKET/PREFIX, gs://BUCKET/PREFIX or az://CONTAINER/PREFIX. Its credentials come from the environment.").default(""),
    string("levada.remote.layout", "Names and contents of the remote store's objects: those of Aiven's plug-in for Kafka, or in a directory those of Kafka's LocalTieredStorage.").default("aiven").valid(LAYOUTS),
    string("levada.remote.s3.endpoint", "URL of a server with the protocol of S3. If empty, that of Amazon in the region.").default(""),
    string("levada.remote.s3.region", "Region of the bucket. If empty, that of the environment.").default(""),
    string("levada.remote.s3.kms.key.id", "Key of Amazon KMS that encrypts new objects. If empty, the bucket's own encryption applies.").default(""),
    int("levada.remote.request.timeout.ms", "Time that the broker waits for a response of the remote store, and for each further piece of it.").default("30000").at_least(100),
    long("log.retention.check.interval.ms", "Interval between searches for segments that retention deletes.").default("300000").at_least(1),
    int("num.recovery.threads.per.data.dir", "Threads that recover logs after an unclean stop. If unset, one for each core.").at_least(1).cluster_wide(),
    string("levada.log.append", "Method of appending: pwrite, or mapped (a copy into a mapping of preallocated blocks).").default("pwrite").valid(APPEND),
    // Compaction.
    boolean("log.cleaner.enable", "Compact topics whose cleanup.policy contains compact.").default("true"),
    int("log.cleaner.threads", "Maximum number of logs that are compacted at the same time.").default("1").at_least(0).cluster_wide(),
    long("log.cleaner.backoff.ms", "Pause before the next search for logs that need compaction, if none was found.").default("15000").at_least(0).cluster_wide(),
    long("log.cleaner.dedupe.buffer.size", "Memory for keys, shared by all logs that are compacted at the same time. A key takes 24 bytes.").default("134217728").cluster_wide(),
    double("log.cleaner.io.buffer.load.factor", "Fraction of log.cleaner.dedupe.buffer.size that may be used.").default("0.9").cluster_wide(),
    double("log.cleaner.io.max.bytes.per.second", "Maximum number of bytes that compaction reads and writes in a second.").default("1.7976931348623157E308").cluster_wide(),
    // Defaults of topics; see TOPIC_KEYS for their meaning.
    list("log.cleanup.policy", "Default of cleanup.policy.").default("delete").valid(CLEANUP).cluster_wide(),
    int("compression.gzip.level", "Default of the topic key of this name.").default("-1").valid(Valid::UnsetOr(1, 9)).cluster_wide(),
    int("compression.lz4.level", "Default of the topic key of this name. Neither key has an effect.").default("9").valid(Valid::Range(1, 17)).cluster_wide(),
    string("compression.type", "Default of the topic key of this name.").default("producer").valid(CODECS).cluster_wide(),
    int("compression.zstd.level", "Default of the topic key of this name.").default("3").valid(Valid::Range(-131072, 22)).cluster_wide(),
    long("log.cleaner.delete.retention.ms", "Default of delete.retention.ms.").default("86400000").at_least(0).cluster_wide(),
    long("log.cleaner.max.compaction.lag.ms", "Default of max.compaction.lag.ms.").default(FOREVER).at_least(1).cluster_wide(),
    double("log.cleaner.min.cleanable.ratio", "Default of min.cleanable.dirty.ratio.").default("0.5").valid(Valid::Ratio(0.0, 1.0)).cluster_wide(),
    long("log.cleaner.min.compaction.lag.ms", "Default of min.compaction.lag.ms.").default("0").at_least(0).cluster_wide(),
    long("log.flush.interval.messages", "Default of flush.messages.").default(FOREVER).at_least(1).cluster_wide(),
    long("log.flush.interval.ms", "Default of flush.ms.").at_least(0).cluster_wide(),
    long("log.flush.scheduler.interval.ms", "Default of flush.ms, if log.flush.interval.ms is unset.").default(FOREVER).at_least(0),
    string("levada.ack.durability", "Default of the topic key of this name.").default("page-cache").valid(DURABILITY).cluster_wide(),
    int("log.index.interval.bytes", "Default of index.interval.bytes.").default("4096").at_least(0).cluster_wide(),
    int("log.index.size.max.bytes", "Default of segment.index.bytes.").default("10485760").at_least(4).cluster_wide(),
    long("log.local.retention.bytes", "Default of local.retention.bytes.").default("-2").at_least(-2).cluster_wide(),
    long("log.local.retention.ms", "Default of local.retention.ms.").default("-2").at_least(-2).cluster_wide(),
    long("log.message.timestamp.after.max.ms", "Default of message.timestamp.after.max.ms.").default("3600000").at_least(0).cluster_wide(),
    long("log.message.timestamp.before.max.ms", "Default of message.timestamp.before.max.ms.").default(FOREVER).at_least(0).cluster_wide(),
    string("log.message.timestamp.type", "Default of message.timestamp.type.").default("CreateTime").valid(CLOCKS).cluster_wide(),
    boolean("log.preallocate", "Default of preallocate.").default("false").cluster_wide(),
    long("log.retention.bytes", "Default of retention.bytes.").default("-1").cluster_wide(),
    long("log.retention.ms", "Default of retention.ms.").at_least(-1).cluster_wide(),
    int("log.retention.minutes", "Default of retention.ms in minutes, if log.retention.ms is unset.").at_least(-1),
    int("log.retention.hours", "Default of retention.ms in hours, if log.retention.ms and log.retention.minutes are unset.").default("168").at_least(-1),
    long("log.roll.ms", "Default of segment.ms.").at_least(1).cluster_wide(),
    int("log.roll.hours", "Default of segment.ms in hours, if log.roll.ms is unset.").default("168").at_least(1),
    long("log.roll.jitter.ms", "Default of segment.jitter.ms.").at_least(0).cluster_wide(),
    int("log.roll.jitter.hours", "Default of segment.jitter.ms in hours, if log.roll.jitter.ms is unset.").default("0").at_least(0),
    int("log.segment.bytes", "Default of segment.bytes.").default("1073741824").at_least(1_048_576).cluster_wide(),
    long("log.remote.copy.lag.bytes", "Default of remote.copy.lag.bytes. Shown only if it is set.").default("0").at_least(-1).cluster_wide(),
    long("log.remote.copy.lag.ms", "Default of remote.copy.lag.ms. Shown only if it is set.").default("0").at_least(-1).cluster_wide(),
    long("log.segment.delete.delay.ms", "Default of file.delete.delay.ms.").default("60000").at_least(0).cluster_wide(),
    int(DECOMPRESSED_MAX, "Default of the topic key of this name. Shown only if it is set.").default("2147483639").valid(Valid::Range(1, 2_147_483_639)).cluster_wide(),
    int("message.max.bytes", "Default of max.message.bytes.").default("1048588").at_least(0).cluster_wide(),
    int("min.insync.replicas", "Default of the topic key of this name.").default("1").at_least(1).cluster_wide(),
    boolean("unclean.leader.election.enable", "Default of the topic key of this name.").default("false").cluster_wide(),
];

/// A key that Kafka has for its own tests; tests of client libraries set it too.
pub(super) const INTERNAL_SEGMENT_BYTES: &str = "internal.segment.bytes";

/// `errors.deadletterqueue.auto.create.topics.enable`.
pub(super) const DEAD_LETTER_TOPICS_CREATED: &str = "errors.deadletterqueue.auto.create.topics.enable";
/// `errors.deadletterqueue.topic.name.prefix`.
pub(super) const DEAD_LETTER_TOPIC_PREFIX: &str = "errors.deadletterqueue.topic.name.prefix";
/// `errors.deadletterqueue.group.enable` of a topic.
pub(super) const DEAD_LETTER_TOPIC: &str = "errors.deadletterqueue.group.enable";

/// Expanded size of a record, of a broker and of a topic.
pub(super) const DECOMPRESSED_MAX: &str = "max.decompressed.message.bytes";

/// Keys of Kafka 4.4. They are described only if they are set: tools and records of Kafka 4.3 do
/// not know them.
pub(super) const OF_KAFKA_4_4: [&str; 8] = [
    DEAD_LETTER_TOPICS_CREATED,
    DEAD_LETTER_TOPIC_PREFIX,
    DEAD_LETTER_TOPIC,
    DECOMPRESSED_MAX,
    "log.remote.copy.lag.bytes",
    "log.remote.copy.lag.ms",
    COPY_LAG_BYTES,
    COPY_LAG_MS,
];

/// Age at which a segment of a topic is copied to remote storage.
pub(super) const COPY_LAG_MS: &str = "remote.copy.lag.ms";
/// Bytes after a segment of a topic at which it is copied to remote storage.
pub(super) const COPY_LAG_BYTES: &str = "remote.copy.lag.bytes";

/// Keys of a topic.
pub const TOPIC_KEYS: &[TopicConfigKey] = &[
    topic(list("cleanup.policy", "Treatment of old records: delete removes old segments, compact keeps the last record of each key.").valid(CLEANUP), &["log.cleanup.policy"]),
    topic(int("compression.gzip.level", "Compression level if compression.type is gzip.").valid(Valid::UnsetOr(1, 9)), &["compression.gzip.level"]),
    topic(int("compression.lz4.level", "No effect: the LZ4 compressor has no levels.").valid(Valid::Range(1, 17)), &["compression.lz4.level"]),
    topic(string("compression.type", "Compression of stored batches; producer keeps the producer's choice.").valid(CODECS), &["compression.type"]),
    topic(int("compression.zstd.level", "Compression level if compression.type is zstd.").valid(Valid::Range(-131072, 22)), &["compression.zstd.level"]),
    topic(long("delete.retention.ms", "Time that tombstones stay in a compacted topic.").at_least(0), &["log.cleaner.delete.retention.ms"]),
    topic(boolean(DEAD_LETTER_TOPIC, "Allow share groups to write dead letters to the topic. Shown only if it is set.").default("false"), &[]),
    topic(long("file.delete.delay.ms", "Time between the deletion of a segment and the removal of its files.").at_least(0), &["log.segment.delete.delay.ms"]),
    topic(long("flush.messages", "Number of records after which the log is synced to the device.").at_least(1), &["log.flush.interval.messages"]),
    topic(long("flush.ms", "Time after which the log is synced to the device.").at_least(0), &["log.flush.interval.ms", "log.flush.scheduler.interval.ms"]),
    topic(list("follower.replication.throttled.replicas", "Replicas, as PARTITION:BROKER, to which follower.replication.throttled.rate applies, or * for all.").default("").valid(Valid::Replicas), &[]),
    topic(int("index.interval.bytes", "Bytes of log between two entries of the offset index.").at_least(0), &["log.index.interval.bytes"]),
    topic(int(INTERNAL_SEGMENT_BYTES, "Size at which a new segment starts, in place of segment.bytes, and smaller than its least value. For tests; shown only if it is set.").at_least(1), &[]),
    topic(list("leader.replication.throttled.replicas", "Replicas, as PARTITION:BROKER, to whose leaders leader.replication.throttled.rate applies, or * for all.").default("").valid(Valid::Replicas), &[]),
    topic(string("levada.ack.durability", "Point at which a batch is acknowledged: in the page cache, or synced to the device (fdatasync; one sync serves all waiting batches).").valid(DURABILITY), &["levada.ack.durability"]),
    topic(long("local.retention.bytes", "Bytes kept locally by a tiered topic; -2 means retention.bytes.").at_least(-2), &["log.local.retention.bytes"]),
    topic(long("local.retention.ms", "Time kept locally by a tiered topic; -2 means retention.ms.").at_least(-2), &["log.local.retention.ms"]),
    topic(long("max.compaction.lag.ms", "Longest time a record stays out of compaction.").at_least(1), &["log.cleaner.max.compaction.lag.ms"]),
    topic(int(DECOMPRESSED_MAX, "Largest record of a compressed batch that producers may send, expanded. Shown only if it is set.").valid(Valid::Range(1, 2_147_483_639)), &[DECOMPRESSED_MAX]),
    topic(int("max.message.bytes", "Largest batch, as sent by the producer.").at_least(0), &["message.max.bytes"]),
    topic(long("message.timestamp.after.max.ms", "Maximum by which a record's timestamp may be ahead of the broker's clock.").at_least(0), &["log.message.timestamp.after.max.ms"]),
    topic(long("message.timestamp.before.max.ms", "Maximum by which a record's timestamp may lag behind the broker's clock.").at_least(0), &["log.message.timestamp.before.max.ms"]),
    topic(string("message.timestamp.type", "Timestamp of a record: the producer's (CreateTime) or the time of the append (LogAppendTime).").valid(CLOCKS), &["log.message.timestamp.type"]),
    topic(double("min.cleanable.dirty.ratio", "Share of uncompacted bytes at which compaction starts.").valid(Valid::Ratio(0.0, 1.0)), &["log.cleaner.min.cleanable.ratio"]),
    topic(long("min.compaction.lag.ms", "Shortest time a record stays out of compaction.").at_least(0), &["log.cleaner.min.compaction.lag.ms"]),
    topic(int("min.insync.replicas", "Replicas that must have a record before a produce request with acks=all is acknowledged.").at_least(1), &["min.insync.replicas"]),
    topic(boolean("preallocate", "Accepted for compatibility, without effect: segments grow as they are written."), &["log.preallocate"]),
    topic(long(COPY_LAG_BYTES, "Newer bytes in the log at which a closed segment of a tiered topic is copied to remote storage; 0 copies it immediately, -1 means local.retention.bytes. A segment is copied if this limit or that of remote.copy.lag.ms is reached. Shown only if it is set.").at_least(-1), &["log.remote.copy.lag.bytes"]),
    topic(long(COPY_LAG_MS, "Age of its last record at which a closed segment of a tiered topic is copied to remote storage; 0 copies it immediately, -1 means local.retention.ms. A segment is copied if this limit or that of remote.copy.lag.bytes is reached. Shown only if it is set.").at_least(-1), &["log.remote.copy.lag.ms"]),
    topic(boolean("remote.log.copy.disable", "Stop copying a tiered topic to remote storage.").default("false"), &[]),
    topic(boolean("remote.log.delete.on.disable", "Delete remote data when tiering is turned off.").default("false"), &[]),
    topic(boolean("remote.storage.enable", "Tiered storage: remote storage gets the old segments. Needs remote.log.storage.system.enable.").default("false"), &[]),
    topic(long("retention.bytes", "Size of a partition above which its oldest segments are deleted; a negative value means no limit."), &["log.retention.bytes"]),
    topic(long("retention.ms", "Age at which segments are deleted; -1 means no limit.").at_least(-1), &["log.retention.ms", "log.retention.minutes", "log.retention.hours"]),
    topic(int("segment.bytes", "Size at which a new segment starts.").at_least(1_048_576), &["log.segment.bytes"]),
    topic(int("segment.index.bytes", "Maximum size of an offset index.").at_least(4), &["log.index.size.max.bytes"]),
    topic(long("segment.jitter.ms", "Maximum random reduction of segment.ms.").at_least(0), &["log.roll.jitter.ms", "log.roll.jitter.hours"]),
    topic(long("segment.ms", "Maximum difference between the timestamps of a batch and of the first batch in its segment. A later batch starts a new segment.").at_least(1), &["log.roll.ms", "log.roll.hours"]),
    topic(boolean("unclean.leader.election.enable", "Allow a replica outside the ISR to become leader."), &["unclean.leader.election.enable"]),
];

/// Topic keys can always be changed while the broker runs.
const fn topic(key: ConfigKey, broker: &'static [&'static str]) -> TopicConfigKey {
    TopicConfigKey { key: key.cluster_wide(), broker }
}
