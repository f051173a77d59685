//! The table of keys that have an effect: Kafka's names, types, defaults and ranges as of 4.3.1, each with a sentence
//! of documentation. A catalogue: every row is alike. Keys of Kafka's that have no effect here are in `foreign`.

use super::key::{Key, Valid, boolean, double, int, list, long, password, string};
use super::security::AUTHORIZER;

/// A key that a topic may set, and the broker's keys that give its default.
#[derive(Clone, Copy, Debug)]
pub struct TopicKey {
    /// The key.
    pub key: Key,
    /// Broker keys in order of precedence; the first that is set gives the topic's default. Names ending in
    /// `.hours` and `.minutes` are in that unit, the topic's key is in milliseconds.
    pub broker: &'static [&'static str],
}

/// The broker key of this name.
pub fn broker_key(name: &str) -> Option<&'static Key> {
    BROKER_KEYS.iter().find(|key| key.name == name)
}

/// The topic key of this name.
pub fn topic_key(name: &str) -> Option<&'static TopicKey> {
    TOPIC_KEYS.iter().find(|topic| topic.key.name == name)
}

const CLEANUP: Valid = Valid::SomeOf(&["compact", "delete"]);
const STORES: Valid = Valid::OneOf(&["PEM", "PKCS12", "JKS"]);
const CODECS: Valid = Valid::OneOf(&["uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"]);
const MIGRATIONS: Valid = Valid::OneOf(&["bidirectional", "disabled", "downgrade", "upgrade"]);
const PROTOCOLS: Valid = Valid::SomeOf(&["consumer", "classic", "share", "streams"]);
const CLOCKS: Valid = Valid::OneOf(&["CreateTime", "LogAppendTime"]);
const APPEND: Valid = Valid::OneOf(&["pwrite", "mapped"]);
const DURABILITY: Valid = Valid::OneOf(&["page-cache", "fdatasync"]);
const AUTHORIZERS: Valid = Valid::OneOf(&[AUTHORIZER, ""]);
const FOREVER: &str = "9223372036854775807";

/// Keys of the broker.
pub const BROKER_KEYS: &[Key] = &[
    // Who and where.
    int("node.id", "Number of this broker in its cluster.").default("1").at_least(0),
    int("broker.id", "Older name of node.id; where both are set they must be the same.").default("-1"),
    string("broker.rack", "Rack of this broker, told to clients that prefer near replicas."),
    list("listeners", "Addresses on which Kafka clients are served, as NAME://host:port; an empty host means every interface, port 0 any free one.")
        .default("PLAINTEXT://127.0.0.1:9092"),
    list("advertised.listeners", "Addresses that clients are told to connect to; a listener that is not named tells each client the address by which it came."),
    string("listener.security.protocol.map", "Protocol of each listener name: PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL.")
        .default("PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL"),
    string("inter.broker.listener.name", "Listener by which brokers would talk to each other; it must be one of `listeners`."),
    string("security.inter.broker.protocol", "The same by protocol instead of by name."),
    list("controller.listener.names", "Listeners for a Kafka controller; they are not opened, since the broker is its own controller."),
    list("process.roles", "Roles of this process in Kafka's terms; must contain broker.")
        .default("broker,controller")
        .valid(Valid::SomeOf(&["broker", "controller"])),
    string("levada.http.listen", "Address of /healthz and /metrics as host:port; empty turns it off.").default("127.0.0.1:9644"),
    string("levada.thresholds.file", "File with the transfer thresholds of this machine, as `levada lab calibrate` writes it; unset, ~/.config/levada/thresholds or /etc/levada/thresholds if it is there, else the defaults."),
    password("levada.http.token", "What whoever asks over HTTP has to show, as a bearer token or as the password of whatever user; needed where levada.http.listen can be reached from other machines."),
    string("levada.audit.log", "Where the audit log goes: the path of a file, or stderr; unset, it is off unless LEVADA_LOG names it."),
    // TLS.
    string("ssl.keystore.type", "Form of the key store: PEM or PKCS12; unset, its content tells.").valid(STORES).reloaded(),
    string("ssl.keystore.location", "File with the broker's certificate chain and private key.").reloaded(),
    password("ssl.keystore.password", "Password of a PKCS12 key store.").reloaded(),
    password("ssl.key.password", "Password of the private key, where it has one.").reloaded(),
    password("ssl.keystore.certificate.chain", "The broker's certificate chain itself, in PEM, instead of a file.").reloaded(),
    password("ssl.keystore.key", "The broker's private key itself, in PEM (PKCS #8), instead of a file.").reloaded(),
    string("ssl.truststore.type", "Form of the trust store: PEM or PKCS12; unset, its content tells.").valid(STORES).reloaded(),
    string("ssl.truststore.location", "File with the certificates of those who may sign clients' certificates.").reloaded(),
    password("ssl.truststore.password", "Password of a PKCS12 trust store.").reloaded(),
    password("ssl.truststore.certificates", "Those certificates themselves, in PEM, instead of a file.").reloaded(),
    string("levada.ssl.crl.location", "File with revocation lists, in PEM or one in DER: clients whose certificates are in them are refused. Each authority that signs has to have a list there that has not expired.").reloaded(),
    string("ssl.client.auth", "Whether clients must show a certificate, may, or need not. On a SASL_SSL listener only the listener's own value counts.")
        .default("none")
        .valid(Valid::OneOf(&["required", "requested", "none"]))
        .per_broker(),
    boolean("ssl.allow.dn.changes", "Whether a new certificate of the broker may be for another distinguished name while it runs.").default("false").per_listener(),
    boolean("ssl.allow.san.changes", "Whether a new certificate of the broker may lack other names that the one before had.").default("false").per_listener(),
    list("ssl.enabled.protocols", "TLS versions that are spoken.").default("TLSv1.2,TLSv1.3").valid(Valid::SomeOf(&["TLSv1.2", "TLSv1.3"])).per_broker(),
    list("ssl.cipher.suites", "Cipher suites by their IANA names; unset, all that rustls has.").per_broker(),
    string("ssl.principal.mapping.rules", "How the distinguished name of a client's certificate becomes the name of its principal.").default("DEFAULT").per_listener(),
    string("levada.ssl.kernel.offload", "Whether the kernel encrypts what is sent, where it can.")
        .default("auto")
        .valid(Valid::OneOf(&["auto", "never"]))
        .per_listener(),
    // Who may come in.
    list("sasl.enabled.mechanisms", "How clients may show who they are on listeners with SASL: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER. Kafka's default, GSSAPI, is not served.")
        .default("GSSAPI")
        .per_broker(),
    password("sasl.jaas.config", "Users and passwords for PLAIN, set as listener.name.NAME.plain.sasl.jaas.config; whom to trust for the keys of OAUTHBEARER, set as listener.name.NAME.oauthbearer.sasl.jaas.config.").per_broker(),
    long("connections.max.reauth.ms", "How long after they have shown who they are clients have to do it again; 0 for never.").default("0").per_listener(),
    string("sasl.oauthbearer.jwks.endpoint.url", "Where the keys are that tokens for OAUTHBEARER are signed with, as a JSON Web Key Set: file:/…, https://… or, of this machine, http://….").per_listener(),
    long("sasl.oauthbearer.jwks.endpoint.refresh.ms", "How often the keys are had anew.").default("3600000").at_least(1),
    long("sasl.oauthbearer.jwks.endpoint.retry.backoff.ms", "How long after a failure they are tried to be had again, first.").default("100").at_least(1),
    long("sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms", "The same after many failures, and how often a token with an unknown key may have them had anew.").default("10000").at_least(1),
    int("sasl.oauthbearer.clock.skew.seconds", "How far the clocks of those who issue tokens may be off.").default("30").at_least(0).per_listener(),
    list("sasl.oauthbearer.expected.audience", "For whom tokens may be, by their claim aud; empty, for nobody in particular.").default("").per_listener(),
    string("sasl.oauthbearer.expected.issuer", "By whom tokens must be, by their claim iss.").per_listener(),
    string("sasl.oauthbearer.scope.claim.name", "The claim with a token's scopes.").default("scope").per_listener(),
    string("sasl.oauthbearer.sub.claim.name", "The claim with the user's name.").default("sub").per_listener(),
    int("sasl.server.max.receive.size", "Largest request of a client that has not shown who it is.").default("524288").at_least(1),
    int("connection.failed.authentication.delay.ms", "How long a client that could not show who it is waits for the answer.").default("100").at_least(0),
    // What they may do.
    string("authorizer.class.name", "Whether there is access control; empty, everybody may do everything.").default("").valid(AUTHORIZERS),
    string("super.users", "Principals that may do everything, separated by semicolons, such as User:alice;User:bob."),
    boolean("allow.everyone.if.no.acl.found", "Whether everybody may do what no entry of access control speaks about.").default("false"),
    // Where data lies.
    list("log.dirs", "Data directories; unset, log.dir is used."),
    list("log.dir", "Data directory, if log.dirs is unset.").default("./levada-data"),
    // Topics.
    int("num.partitions", "Partitions of a topic that is created without a number.").default("1").at_least(1),
    int("default.replication.factor", "Replicas of a topic that is created without a number.").default("1").valid(Valid::Range(1, 32767)),
    boolean("levada.replication.factor.clamp", "Whether a replication factor above the number of brokers is lowered to it instead of refused; for test suites and development.").default("false"),
    boolean("auto.create.topics.enable", "Whether a topic is created when a client first asks for it.").default("true"),
    boolean("delete.topic.enable", "Whether topics may be deleted.").default("true"),
    // Limits of connections and requests.
    int("max.connections", "Most connections of Kafka clients; further ones wait until one has gone.").default("2147483647").at_least(0).cluster_wide(),
    int("max.connections.per.ip", "Most connections from one address; further ones are closed.").default("2147483647").at_least(0).cluster_wide(),
    string("max.connections.per.ip.overrides", "The same for single addresses, as address:number,…; names are resolved when the broker starts.").default("").cluster_wide(),
    int("max.connection.creation.rate", "Most connections accepted in a second; further ones wait.").default("2147483647").at_least(1).cluster_wide(),
    long("connections.max.idle.ms", "A connection that neither sends nor takes anything for so long is closed; a negative number keeps it for ever.").default("600000"),
    int("socket.request.max.bytes", "Largest request accepted; a longer one closes the connection.").default("104857600").at_least(1),
    string("levada.replay.cache", "Whether old records that a consumer has read from the disk stay in the page cache: as memory allows, always, or never.")
        .default("auto")
        .valid(Valid::OneOf(&["auto", "always", "never"])),
    long("queued.max.request.bytes", "Memory of all requests that are coming in or being answered; when it is used up, nothing more is read. -1 is no limit, Kafka's default.").default("536870912").at_least(-1),
    int("fetch.max.bytes", "Most record bytes in one answer to a fetch.").default("57671680").at_least(1024),
    int("max.incremental.fetch.session.cache.slots", "Most fetch sessions that are kept.").default("1000").at_least(0),
    int("max.request.partition.size.limit", "Most partitions in one answer to DescribeTopicPartitions.").default("2000").at_least(1),
    // Groups.
    list("group.coordinator.rebalance.protocols", "Protocols that groups may use; classic is always among them. Without consumer, consumer groups (KIP-848) are refused. share and streams stand for groups that are not served.")
        .default("classic,consumer,streams")
        .valid(PROTOCOLS),
    int("group.initial.rebalance.delay.ms", "How long the first rebalance of an empty group waits for more members. Kafka's default is 3000; here a first consumer starts at once.")
        .default("0")
        .at_least(0),
    int("group.min.session.timeout.ms", "Shortest session timeout a member may ask for.").default("6000").at_least(0),
    int("group.max.session.timeout.ms", "Longest session timeout a member may ask for.").default("1800000").at_least(0),
    int("group.max.size", "Most members of one group.").default("2147483647").at_least(1),
    int("group.consumer.session.timeout.ms", "A member of a consumer group (KIP-848) silent for so long is put out; a group may set its own.").default("45000").at_least(1),
    int("group.consumer.heartbeat.interval.ms", "How often members of consumer groups are told to send heartbeats; a group may set its own.").default("5000").at_least(1),
    int("group.consumer.min.session.timeout.ms", "Shortest session timeout that a consumer group may set.").default("45000").at_least(1),
    int("group.consumer.max.session.timeout.ms", "Longest session timeout that a consumer group may set.").default("60000").at_least(1),
    int("group.consumer.min.heartbeat.interval.ms", "Shortest heartbeat interval that a consumer group may set.").default("5000").at_least(1),
    int("group.consumer.max.heartbeat.interval.ms", "Longest heartbeat interval that a consumer group may set.").default("15000").at_least(1),
    string("group.consumer.migration.policy", "Which way groups may change their kind while they have members.")
        .default("bidirectional")
        .valid(MIGRATIONS),
    int("group.consumer.max.size", "Most members of one consumer group.").default("2147483647").at_least(1),
    // Committed offsets.
    int("offset.metadata.max.bytes", "Longest metadata text of a committed offset.").default("4096").at_least(0),
    int("offsets.retention.minutes", "How long offsets are kept after their group has become empty.").default("10080").at_least(1),
    long("offsets.retention.check.interval.ms", "How often expired offsets are looked for.").default("600000").at_least(1),
    int("offsets.topic.num.partitions", "Partitions of __consumer_offsets; fixed once it exists.").default("50").at_least(1),
    int("offsets.topic.segment.bytes", "Segment size of __consumer_offsets.").default("104857600").at_least(1),
    // The metadata log.
    long("metadata.log.max.record.bytes.between.snapshots", "After so many bytes of records a snapshot of the metadata is taken.").default("20971520").at_least(1),
    long("metadata.log.max.snapshot.interval.ms", "After so long a snapshot is taken if there was any change; 0 for never.").default("3600000").at_least(0),
    int("metadata.log.segment.bytes", "Segment size of the metadata log.").default("1073741824").at_least(8_388_608),
    long("metadata.max.retention.bytes", "Older snapshots and segments of the metadata go when all are larger; -1 for never.").default("104857600"),
    long("metadata.max.retention.ms", "Older snapshots and segments of the metadata go after so long; -1 for never.").default("604800000"),
    // Transactions.
    int("transaction.max.timeout.ms", "Longest timeout a transactional producer may ask for.").default("900000").at_least(1),
    int("transactional.id.expiration.ms", "How long a transactional id is remembered that nobody uses.").default("604800000").at_least(1),
    int("transaction.abort.timed.out.transaction.cleanup.interval.ms", "How often transactions that take too long are looked for, to be aborted.").default("10000").at_least(1),
    int("transaction.remove.expired.transaction.cleanup.interval.ms", "How often forgotten transactional ids are looked for.").default("3600000").at_least(1),
    int("transaction.state.log.num.partitions", "Partitions of __transaction_state; fixed once it exists.").default("50").at_least(1),
    int("transaction.state.log.segment.bytes", "Segment size of __transaction_state.").default("104857600").at_least(1_048_576),
    boolean("transaction.partition.verification.enable", "Whether a partition asks the transaction's coordinator before it takes the transaction's first records.").default("true").cluster_wide(),
    // Producers.
    int("producer.id.expiration.ms", "How long the state of an idle idempotent producer is kept.").default("86400000").at_least(1).cluster_wide(),
    int("producer.id.expiration.check.interval.ms", "How often expired producer state is looked for.").default("600000").at_least(1),
    // Housekeeping of logs.
    long("log.retention.check.interval.ms", "How often segments past their retention are looked for.").default("300000").at_least(1),
    int("num.recovery.threads.per.data.dir", "Threads that check logs after an unclean stop; unset, as many as there are cores.").at_least(1).cluster_wide(),
    string("levada.log.append", "How records get into a log: by a write, or by a copy into a mapping of blocks that are allocated ahead.").default("pwrite").valid(APPEND),
    // Compaction.
    boolean("log.cleaner.enable", "Whether topics whose cleanup.policy says so are compacted.").default("true"),
    int("log.cleaner.threads", "Logs that are compacted at once.").default("1").at_least(0).cluster_wide(),
    long("log.cleaner.backoff.ms", "How often logs that need compaction are looked for when there is none.").default("15000").at_least(0).cluster_wide(),
    long("log.cleaner.dedupe.buffer.size", "Most memory for keys, shared by all logs that are compacted at once; a key takes 24 bytes.").default("134217728").cluster_wide(),
    double("log.cleaner.io.buffer.load.factor", "How full that memory may get.").default("0.9").cluster_wide(),
    double("log.cleaner.io.max.bytes.per.second", "Most bytes that compaction reads and writes per second.").default("1.7976931348623157E308").cluster_wide(),
    // Defaults of topics; see TOPIC_KEYS for their meaning.
    list("log.cleanup.policy", "Default of cleanup.policy.").default("delete").valid(CLEANUP).cluster_wide(),
    int("compression.gzip.level", "Default of the topic key of this name.").default("-1").valid(Valid::UnsetOr(1, 9)).cluster_wide(),
    int("compression.lz4.level", "Default of the topic key of this name; neither has an effect.").default("9").valid(Valid::Range(1, 17)).cluster_wide(),
    string("compression.type", "Default of the topic key of this name.").default("producer").valid(CODECS).cluster_wide(),
    int("compression.zstd.level", "Default of the topic key of this name.").default("3").valid(Valid::Range(-131072, 22)).cluster_wide(),
    long("log.cleaner.delete.retention.ms", "Default of delete.retention.ms.").default("86400000").at_least(0).cluster_wide(),
    long("log.cleaner.max.compaction.lag.ms", "Default of max.compaction.lag.ms.").default(FOREVER).at_least(1).cluster_wide(),
    double("log.cleaner.min.cleanable.ratio", "Default of min.cleanable.dirty.ratio.").default("0.5").valid(Valid::Ratio(0.0, 1.0)).cluster_wide(),
    long("log.cleaner.min.compaction.lag.ms", "Default of min.compaction.lag.ms.").default("0").at_least(0).cluster_wide(),
    long("log.flush.interval.messages", "Default of flush.messages.").default(FOREVER).at_least(1).cluster_wide(),
    long("log.flush.interval.ms", "Default of flush.ms.").at_least(0).cluster_wide(),
    long("log.flush.scheduler.interval.ms", "Default of flush.ms where log.flush.interval.ms is unset.").default(FOREVER).at_least(0),
    string("levada.ack.durability", "Default of the topic key of this name.").default("page-cache").valid(DURABILITY).cluster_wide(),
    int("log.index.interval.bytes", "Default of index.interval.bytes.").default("4096").at_least(0).cluster_wide(),
    int("log.index.size.max.bytes", "Default of segment.index.bytes.").default("10485760").at_least(4).cluster_wide(),
    long("log.local.retention.bytes", "Default of local.retention.bytes.").default("-2").at_least(-2).cluster_wide(),
    long("log.local.retention.ms", "Default of local.retention.ms.").default("-2").at_least(-2).cluster_wide(),
    long("log.message.timestamp.after.max.ms", "Default of message.timestamp.after.max.ms.").default("3600000").at_least(0).cluster_wide(),
    long("log.message.timestamp.before.max.ms", "Default of message.timestamp.before.max.ms.").default(FOREVER).at_least(0).cluster_wide(),
    string("log.message.timestamp.type", "Default of message.timestamp.type.").default("CreateTime").valid(CLOCKS).cluster_wide(),
    boolean("log.preallocate", "Default of preallocate.").default("false").cluster_wide(),
    long("log.retention.bytes", "Default of retention.bytes.").default("-1").at_least(-1).cluster_wide(),
    long("log.retention.ms", "Default of retention.ms.").at_least(-1).cluster_wide(),
    int("log.retention.minutes", "Default of retention.ms in minutes, where log.retention.ms is unset.").at_least(-1),
    int("log.retention.hours", "Default of retention.ms in hours, where the finer units are unset.").default("168").at_least(-1),
    long("log.roll.ms", "Default of segment.ms.").at_least(1).cluster_wide(),
    int("log.roll.hours", "Default of segment.ms in hours, where log.roll.ms is unset.").default("168").at_least(1),
    long("log.roll.jitter.ms", "Default of segment.jitter.ms.").at_least(0).cluster_wide(),
    int("log.roll.jitter.hours", "Default of segment.jitter.ms in hours, where log.roll.jitter.ms is unset.").default("0").at_least(0),
    int("log.segment.bytes", "Default of segment.bytes.").default("1073741824").at_least(1_048_576).cluster_wide(),
    long("log.segment.delete.delay.ms", "Default of file.delete.delay.ms.").default("60000").at_least(0).cluster_wide(),
    int("message.max.bytes", "Default of max.message.bytes.").default("1048588").at_least(0).cluster_wide(),
    int("min.insync.replicas", "Default of the topic key of this name.").default("1").at_least(1).cluster_wide(),
    boolean("unclean.leader.election.enable", "Default of the topic key of this name.").default("false").cluster_wide(),
];

/// Keys of a topic.
pub const TOPIC_KEYS: &[TopicKey] = &[
    topic(list("cleanup.policy", "What happens to old records: delete drops old segments, compact keeps the last record of each key.").valid(CLEANUP), &["log.cleanup.policy"]),
    topic(int("compression.gzip.level", "Level used where compression.type is gzip.").valid(Valid::UnsetOr(1, 9)), &["compression.gzip.level"]),
    topic(int("compression.lz4.level", "No effect: LZ4 is written by a compressor that has no levels.").valid(Valid::Range(1, 17)), &["compression.lz4.level"]),
    topic(string("compression.type", "Compression of stored batches; producer keeps what the producer chose.").valid(CODECS), &["compression.type"]),
    topic(int("compression.zstd.level", "Level used where compression.type is zstd.").valid(Valid::Range(-131072, 22)), &["compression.zstd.level"]),
    topic(long("delete.retention.ms", "How long tombstones stay in a compacted topic.").at_least(0), &["log.cleaner.delete.retention.ms"]),
    topic(long("file.delete.delay.ms", "How long the files of a deleted segment stay before they are removed.").at_least(0), &["log.segment.delete.delay.ms"]),
    topic(long("flush.messages", "Records after which the log is forced to disk.").at_least(1), &["log.flush.interval.messages"]),
    topic(long("flush.ms", "Time after which the log is forced to disk.").at_least(0), &["log.flush.interval.ms", "log.flush.scheduler.interval.ms"]),
    topic(list("follower.replication.throttled.replicas", "Replicas throttled on the follower's side.").default(""), &[]),
    topic(int("index.interval.bytes", "Bytes of log between two entries of the offset index.").at_least(0), &["log.index.interval.bytes"]),
    topic(list("leader.replication.throttled.replicas", "Replicas throttled on the leader's side.").default(""), &[]),
    topic(string("levada.ack.durability", "When a batch is acknowledged: in the page cache, or on the device (one sync for all that wait).").valid(DURABILITY), &["levada.ack.durability"]),
    topic(long("local.retention.bytes", "Bytes kept locally by a tiered topic; -2 means retention.bytes.").at_least(-2), &["log.local.retention.bytes"]),
    topic(long("local.retention.ms", "Time kept locally by a tiered topic; -2 means retention.ms.").at_least(-2), &["log.local.retention.ms"]),
    topic(long("max.compaction.lag.ms", "Longest time a record stays out of compaction.").at_least(1), &["log.cleaner.max.compaction.lag.ms"]),
    topic(int("max.message.bytes", "Largest batch accepted, as sent.").at_least(0), &["message.max.bytes"]),
    topic(long("message.timestamp.after.max.ms", "How far a record's timestamp may lie ahead of the broker's clock.").at_least(0), &["log.message.timestamp.after.max.ms"]),
    topic(long("message.timestamp.before.max.ms", "How far a record's timestamp may lie behind the broker's clock.").at_least(0), &["log.message.timestamp.before.max.ms"]),
    topic(string("message.timestamp.type", "Whether a record carries the producer's time or the time of its append.").valid(CLOCKS), &["log.message.timestamp.type"]),
    topic(double("min.cleanable.dirty.ratio", "Share of uncompacted bytes at which compaction starts.").valid(Valid::Ratio(0.0, 1.0)), &["log.cleaner.min.cleanable.ratio"]),
    topic(long("min.compaction.lag.ms", "Shortest time a record stays out of compaction.").at_least(0), &["log.cleaner.min.compaction.lag.ms"]),
    topic(int("min.insync.replicas", "Replicas that must have a record before acks=all is answered.").at_least(1), &["min.insync.replicas"]),
    topic(boolean("preallocate", "Taken for Kafka's sake, without an effect here: segments grow as they are written."), &["log.preallocate"]),
    topic(boolean("remote.log.copy.disable", "Whether a tiered topic stops copying to remote storage.").default("false"), &[]),
    topic(boolean("remote.log.delete.on.disable", "Whether remote data goes when tiering is turned off.").default("false"), &[]),
    topic(boolean("remote.storage.enable", "Whether the topic is tiered. Not served so far: must be false.").default("false"), &[]),
    topic(long("retention.bytes", "Bytes of a partition after which its oldest segments go; -1 for no limit.").at_least(-1), &["log.retention.bytes"]),
    topic(long("retention.ms", "Age after which segments go; -1 for no limit.").at_least(-1), &["log.retention.ms", "log.retention.minutes", "log.retention.hours"]),
    topic(int("segment.bytes", "Size at which a new segment is begun.").at_least(1_048_576), &["log.segment.bytes"]),
    topic(int("segment.index.bytes", "Size to which an offset index is preallocated.").at_least(4), &["log.index.size.max.bytes"]),
    topic(long("segment.jitter.ms", "Most that is randomly taken off segment.ms.").at_least(0), &["log.roll.jitter.ms", "log.roll.jitter.hours"]),
    topic(long("segment.ms", "By how much a batch may be later than the first of its segment, both by their timestamps, before it begins a new segment.").at_least(1), &["log.roll.ms", "log.roll.hours"]),
    topic(boolean("unclean.leader.election.enable", "Whether a replica that lags may become leader."), &["unclean.leader.election.enable"]),
];

/// Topic keys can always be changed while the broker runs.
const fn topic(key: Key, broker: &'static [&'static str]) -> TopicKey {
    TopicKey { key: key.cluster_wide(), broker }
}
