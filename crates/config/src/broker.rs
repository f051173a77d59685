//! The broker's typed configuration.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use levada_metadata::store::StoreLimits;
use levada_tiered::StoreOptions;

use super::dead_letters::DeadLetterConfig;
use super::listener::{self, ListenerKeys, ListenerLimits};
use super::reader::Reader;
use super::security::{Secret, SecurityConfig};
use super::words::words;
use super::{
    ClusterConfig, ConfigError, ConfigErrors, HostLimits, HostPort, Listener, RemoteLogConfig, ReplayCache,
    Settings, ShareStatesConfig, Sources, StreamsGroupsConfig, TelemetryConfig, TopicConfig, cluster,
};

/// The complete configuration of the broker, checked.
#[derive(Clone, Debug)]
pub struct BrokerConfig {
    /// The cluster to join; `None` for a broker without a cluster, which is its own controller.
    pub cluster: Option<ClusterConfig>,
    /// `node.id`.
    pub node_id: i32,
    /// `broker.rack`.
    pub rack: Option<String>,
    /// `listeners` with their `advertised.listeners`; never empty.
    pub listeners: Vec<Listener>,
    /// `levada.http.listen`; `None` turns the HTTP address off.
    pub http_listen: Option<HostPort>,
    /// `levada.thresholds.file`; `None`: the paths that [`thresholds`](super::thresholds())
    /// searches.
    pub thresholds_file: Option<PathBuf>,
    /// `levada.http.token`; `None` requires no token.
    pub http_token: Option<Secret>,
    /// `log.dirs`, otherwise `log.dir`; never empty.
    pub log_dirs: Vec<PathBuf>,
    /// `metadata.log.*` and `metadata.max.retention.*`.
    pub metadata_log: StoreLimits,
    /// `num.partitions`.
    pub num_partitions: i32,
    /// `default.replication.factor`.
    pub default_replication_factor: i16,
    /// `levada.replication.factor.clamp`.
    pub clamp_replication_factor: bool,
    /// `auto.create.topics.enable`.
    pub auto_create_topics: bool,
    /// `delete.topic.enable`.
    pub delete_topics: bool,
    /// `connections.max.idle.ms`; `None` for no limit.
    pub connections_max_idle: Option<Duration>,
    /// `max.connections`.
    pub max_connections: u32,
    /// `max.connections.per.ip`.
    pub max_connections_per_ip: u32,
    /// `max.connections.per.ip.overrides`.
    pub max_connections_of: HostLimits,
    /// `max.connection.creation.rate`.
    pub connection_creation_rate_max: u32,
    /// Limits of single listeners, by name.
    pub listener_limits: BTreeMap<String, ListenerLimits>,
    /// `queued.max.request.bytes`; `None` for no limit.
    pub queued_max_request_bytes: Option<u64>,
    /// `levada.replay.cache`.
    pub replay_cache: ReplayCache,
    /// `socket.request.max.bytes`.
    pub socket_request_max_bytes: u32,
    /// `fetch.max.bytes`.
    pub fetch_max_bytes: u32,
    /// `max.request.partition.size.limit`.
    pub request_partitions_max: i32,
    /// `max.incremental.fetch.session.cache.slots`.
    pub fetch_session_slots: u32,
    /// SASL and access control.
    pub security: SecurityConfig,
    /// `group.*`.
    pub groups: GroupConfig,
    /// `offset.*` and `offsets.*`.
    pub offsets: OffsetsConfig,
    /// `transaction.*`, `transactional.*`.
    pub transactions: TransactionsConfig,
    /// `share.coordinator.*`.
    pub share_states: ShareStatesConfig,
    /// `remote.*`.
    pub remote_log: RemoteLogConfig,
    /// `levada.remote.*`; none if `remote.log.storage.system.enable` is off.
    pub remote_store: Option<StoreOptions>,
    /// `errors.deadletterqueue.*`.
    pub dead_letters: DeadLetterConfig,
    /// `log.cleaner.*`.
    pub cleaner: CleanerConfig,
    /// `num.recovery.threads.per.data.dir`, if it is set.
    pub recovery_threads: Option<usize>,
    /// `levada.log.append` is `mapped`.
    pub mapped_append: bool,
    /// `producer.id.expiration.ms`.
    pub producer_id_expiration_ms: i64,
    /// `producer.id.expiration.check.interval.ms`.
    pub producer_id_expiration_check_interval_ms: i64,
    /// `log.retention.check.interval.ms`.
    pub retention_check_interval_ms: i64,
    /// Client telemetry.
    pub telemetry: TelemetryConfig,
    /// Defaults of topic settings.
    pub topic_defaults: TopicConfig,
    settings: Settings,
}

/// Limits and times of consumer groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupConfig {
    /// `group.initial.rebalance.delay.ms`.
    pub initial_rebalance_delay_ms: i32,
    /// `group.min.session.timeout.ms`.
    pub min_session_timeout_ms: i32,
    /// `group.max.session.timeout.ms`.
    pub max_session_timeout_ms: i32,
    /// `group.max.size`.
    pub max_size: u32,
    /// `group.consumer.session.timeout.ms`.
    pub consumer_session_timeout_ms: i32,
    /// `group.consumer.heartbeat.interval.ms`.
    pub consumer_heartbeat_interval_ms: i32,
    /// `group.consumer.max.size`.
    pub consumer_max_size: u32,
    /// `group.consumer.assignment.interval.ms`.
    pub consumer_assignment_interval_ms: i32,
    /// `group.consumer.migration.policy`.
    pub consumer_migration: Migration,
    /// `group.coordinator.rebalance.protocols` has `consumer`.
    pub consumer_protocol: bool,
    /// `group.share.session.timeout.ms`.
    pub share_session_timeout_ms: i32,
    /// `group.share.heartbeat.interval.ms`.
    pub share_heartbeat_interval_ms: i32,
    /// `group.share.max.size`.
    pub share_max_size: u32,
    /// `group.share.assignment.interval.ms`.
    pub share_assignment_interval_ms: i32,
    /// `group.share.max.share.sessions`.
    pub share_max_sessions: u32,
    /// `group.streams.*`.
    pub streams: StreamsGroupsConfig,
}

/// Directions in which groups may change their type while they have members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Migration {
    /// True if a classic group may become a consumer group.
    pub upgrades: bool,
    /// True if a consumer group may become a classic group.
    pub downgrades: bool,
}

/// Limits and times of committed offsets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OffsetsConfig {
    /// `offset.metadata.max.bytes`.
    pub metadata_max_bytes: u32,
    /// `offsets.retention.minutes`, in milliseconds.
    pub retention_ms: i64,
    /// `offsets.retention.check.interval.ms`.
    pub retention_check_interval_ms: i64,
    /// `offsets.topic.num.partitions`.
    pub topic_partitions: i32,
    /// `offsets.topic.replication.factor`.
    pub topic_replication_factor: i16,
    /// `offsets.topic.segment.bytes`.
    pub topic_segment_bytes: i32,
}

/// Limits and times of transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransactionsConfig {
    /// `transaction.max.timeout.ms`.
    pub max_timeout_ms: i32,
    /// `transactional.id.expiration.ms`.
    pub id_expiration_ms: i64,
    /// `transaction.abort.timed.out.transaction.cleanup.interval.ms`.
    pub abort_interval_ms: i64,
    /// `transaction.remove.expired.transaction.cleanup.interval.ms`.
    pub expiration_interval_ms: i64,
    /// `transaction.state.log.num.partitions`.
    pub topic_partitions: i32,
    /// `transaction.state.log.replication.factor`.
    pub topic_replication_factor: i16,
    /// `transaction.state.log.min.isr`.
    pub topic_min_insync_replicas: i32,
    /// `transaction.state.log.segment.bytes`.
    pub topic_segment_bytes: i32,
    /// `transaction.partition.verification.enable`.
    pub verify_partitions: bool,
}

/// Settings of compaction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CleanerConfig {
    /// `log.cleaner.enable`.
    pub enabled: bool,
    /// `log.cleaner.threads`.
    pub threads: u32,
    /// `log.cleaner.backoff.ms`.
    pub backoff_ms: i64,
    /// `log.cleaner.dedupe.buffer.size`.
    pub dedupe_buffer_bytes: usize,
    /// `log.cleaner.io.buffer.load.factor`.
    pub load_factor: f64,
    /// `log.cleaner.io.max.bytes.per.second`.
    pub io_max_bytes_per_second: f64,
}

impl BrokerConfig {
    /// Reads and checks a configuration; reports every mistake in it. Resolves the hosts with
    /// connection limits, and waits for the name service.
    pub fn load(sources: &Sources) -> Result<Self, ConfigErrors> {
        let config = Self::from_settings(sources.settings()?)?;
        Reader(&config.settings).check_hosts(&config.max_connections_of)?;
        Ok(config)
    }

    /// The settings behind this configuration: origins and notes.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    pub(super) fn from_settings(mut settings: Settings) -> Result<Self, ConfigErrors> {
        settings
            .note_without_effect(&cluster::idle_keys(&Reader(&settings)), "the broker is its own controller");
        let read = Reader(&settings);
        let mut errors = Vec::new();
        let listeners = read.listeners().unwrap_or_else(|error| {
            errors.push(error);
            Vec::new()
        });
        let http_listen = read.http_listen().map_err(|error| errors.push(error)).unwrap_or_default();
        errors.extend(read.security(&listeners).err());
        let cluster = cluster::load(&read, &listeners).unwrap_or_else(|problems| {
            errors.extend(problems);
            None
        });
        errors.extend(read.log_dirs().err().into_iter().chain(read.unserved()));
        let topic_defaults = TopicConfig::defaults(&settings);
        errors.extend(topic_defaults.check(|name| settings.topic_origin(name)).err());
        if !errors.is_empty() {
            return Err(ConfigErrors(errors));
        }
        Ok(Self {
            security: read.security(&listeners)?,
            cluster,
            node_id: read.int("node.id"),
            rack: settings.text("broker.rack").map(str::to_owned),
            listener_limits: listener::limits(&settings, &listeners),
            listeners,
            http_listen,
            thresholds_file: super::thresholds::named_thresholds(&settings),
            http_token: settings.text(HTTP_TOKEN).filter(|token| !token.is_empty()).map(Secret::from),
            log_dirs: read.log_dirs()?,
            num_partitions: read.int("num.partitions"),
            default_replication_factor: read.short("default.replication.factor"),
            clamp_replication_factor: read.is_true("levada.replication.factor.clamp"),
            auto_create_topics: read.is_true("auto.create.topics.enable"),
            delete_topics: read.is_true("delete.topic.enable"),
            connections_max_idle: read.max_idle(),
            max_connections: read.size("max.connections"),
            max_connections_per_ip: read.size("max.connections.per.ip"),
            max_connections_of: read.host_limits()?,
            connection_creation_rate_max: read.size("max.connection.creation.rate"),
            queued_max_request_bytes: u64::try_from(read.long("queued.max.request.bytes")).ok(),
            replay_cache: ReplayCache::of(settings.text("levada.replay.cache")),
            socket_request_max_bytes: read.size("socket.request.max.bytes"),
            fetch_max_bytes: read.size("fetch.max.bytes"),
            request_partitions_max: read.int("max.request.partition.size.limit"),
            fetch_session_slots: read.size("max.incremental.fetch.session.cache.slots"),
            groups: read.groups(),
            offsets: read.offsets(),
            transactions: read.transactions(),
            share_states: read.share_states(),
            remote_log: read.remote_log(),
            remote_store: read.remote_store(),
            dead_letters: read.dead_letters(),
            cleaner: read.cleaner(),
            recovery_threads: read.recovery_threads(),
            mapped_append: read.text("levada.log.append") == "mapped",
            metadata_log: read.metadata_log(),
            producer_id_expiration_ms: read.long("producer.id.expiration.ms"),
            producer_id_expiration_check_interval_ms: read.long("producer.id.expiration.check.interval.ms"),
            retention_check_interval_ms: read.long("log.retention.check.interval.ms"),
            telemetry: read.telemetry(),
            topic_defaults,
            settings,
        })
    }
}

impl Default for BrokerConfig {
    /// The table's defaults, untouched by file and environment.
    fn default() -> Self {
        Self::from_settings(Settings::default()).expect("the table's defaults are allowed values")
    }
}

const PROTOCOLS: &str = "group.coordinator.rebalance.protocols";
const HTTP_TOKEN: &str = "levada.http.token";

impl Reader<'_> {
    fn groups(&self) -> GroupConfig {
        GroupConfig {
            initial_rebalance_delay_ms: self.int("group.initial.rebalance.delay.ms"),
            min_session_timeout_ms: self.int("group.min.session.timeout.ms"),
            max_session_timeout_ms: self.int("group.max.session.timeout.ms"),
            max_size: self.size("group.max.size"),
            consumer_session_timeout_ms: self.int("group.consumer.session.timeout.ms"),
            consumer_heartbeat_interval_ms: self.int("group.consumer.heartbeat.interval.ms"),
            consumer_max_size: self.size("group.consumer.max.size"),
            consumer_assignment_interval_ms: self.int("group.consumer.assignment.interval.ms"),
            consumer_migration: self.migration(),
            consumer_protocol: self.has_protocol("consumer"),
            share_session_timeout_ms: self.int("group.share.session.timeout.ms"),
            share_heartbeat_interval_ms: self.int("group.share.heartbeat.interval.ms"),
            share_max_size: self.size("group.share.max.size"),
            share_assignment_interval_ms: self.int("group.share.assignment.interval.ms"),
            share_max_sessions: self.size("group.share.max.share.sessions"),
            streams: self.streams_groups(),
        }
    }

    fn max_idle(&self) -> Option<Duration> {
        u64::try_from(self.long("connections.max.idle.ms")).ok().map(Duration::from_millis)
    }

    pub(crate) fn has_protocol(&self, name: &str) -> bool {
        words(self.text(PROTOCOLS)).any(|protocol| protocol == name)
    }

    fn migration(&self) -> Migration {
        let policy = self.text("group.consumer.migration.policy");
        let both = policy == "bidirectional";
        Migration { upgrades: both || policy == "upgrade", downgrades: both || policy == "downgrade" }
    }

    fn recovery_threads(&self) -> Option<usize> {
        let key = "num.recovery.threads.per.data.dir";
        self.0.text(key).map(|_| self.size(key) as usize)
    }

    fn metadata_log(&self) -> StoreLimits {
        StoreLimits {
            segment_bytes: self.long("metadata.log.segment.bytes").unsigned_abs(),
            segment_ms: self.long("metadata.log.segment.ms"),
            snapshot_bytes: self.long("metadata.log.max.record.bytes.between.snapshots").unsigned_abs(),
            snapshot_interval_ms: self.long("metadata.log.max.snapshot.interval.ms"),
            retention_bytes: self.long("metadata.max.retention.bytes"),
            retention_ms: self.long("metadata.max.retention.ms"),
        }
    }

    fn offsets(&self) -> OffsetsConfig {
        OffsetsConfig {
            metadata_max_bytes: self.size("offset.metadata.max.bytes"),
            retention_ms: self.long("offsets.retention.minutes") * 60_000,
            retention_check_interval_ms: self.long("offsets.retention.check.interval.ms"),
            topic_partitions: self.int("offsets.topic.num.partitions"),
            topic_replication_factor: self.short("offsets.topic.replication.factor"),
            topic_segment_bytes: self.int("offsets.topic.segment.bytes"),
        }
    }

    fn transactions(&self) -> TransactionsConfig {
        TransactionsConfig {
            max_timeout_ms: self.int("transaction.max.timeout.ms"),
            id_expiration_ms: self.long("transactional.id.expiration.ms"),
            abort_interval_ms: self.long("transaction.abort.timed.out.transaction.cleanup.interval.ms"),
            expiration_interval_ms: self.long("transaction.remove.expired.transaction.cleanup.interval.ms"),
            topic_partitions: self.int("transaction.state.log.num.partitions"),
            topic_replication_factor: self.short("transaction.state.log.replication.factor"),
            topic_min_insync_replicas: self.int("transaction.state.log.min.isr"),
            topic_segment_bytes: self.int("transaction.state.log.segment.bytes"),
            verify_partitions: self.is_true("transaction.partition.verification.enable"),
        }
    }

    fn cleaner(&self) -> CleanerConfig {
        CleanerConfig {
            enabled: self.is_true("log.cleaner.enable"),
            threads: self.size("log.cleaner.threads"),
            backoff_ms: self.long("log.cleaner.backoff.ms"),
            dedupe_buffer_bytes: usize::try_from(self.long("log.cleaner.dedupe.buffer.size")).unwrap_or(0),
            load_factor: self.number("log.cleaner.io.buffer.load.factor"),
            io_max_bytes_per_second: self.number("log.cleaner.io.max.bytes.per.second"),
        }
    }

    /// The error of too little memory for the keys of each cleaner thread, which Kafka refuses too.
    fn cleaner_memory(&self) -> Option<ConfigError> {
        let (bytes, threads) =
            (self.long("log.cleaner.dedupe.buffer.size"), self.long("log.cleaner.threads"));
        (bytes / threads.max(1) <= 1 << 20).then(|| {
            let must_be = format!("more than 1 MiB for each of the log.cleaner.threads ({threads})");
            self.invalid("log.cleaner.dedupe.buffer.size", must_be)
        })
    }

    fn listeners(&self) -> Result<Vec<Listener>, ConfigError> {
        let keys = ListenerKeys {
            listeners: self.text("listeners"),
            advertised: self.text("advertised.listeners"),
            protocols: self.text("listener.security.protocol.map"),
            controllers: self.text("controller.listener.names"),
            inter_broker_name: self.text("inter.broker.listener.name"),
            inter_broker_protocol: self.text("security.inter.broker.protocol"),
        };
        listener::resolve(&keys).map_err(|problem| self.invalid(problem.key, problem.must_be))
    }

    fn security(&self, listeners: &[Listener]) -> Result<SecurityConfig, ConfigError> {
        SecurityConfig::load(self.0, listeners).map_err(|problem| self.invalid(&problem.key, problem.must_be))
    }

    fn http_listen(&self) -> Result<Option<HostPort>, ConfigError> {
        const KEY: &str = "levada.http.listen";
        match self.text(KEY) {
            "" => Ok(None),
            text => match HostPort::parse(text) {
                Some(address) if address.is_own_machine() || !self.text(HTTP_TOKEN).is_empty() => {
                    Ok(Some(address))
                }
                Some(_) => Err(self.invalid(
                    KEY,
                    format!(
                        "an address of this machine alone, such as 127.0.0.1:9644, unless {HTTP_TOKEN} is set"
                    ),
                )),
                None => Err(self.invalid(KEY, "host:port, or empty to turn it off".to_owned())),
            },
        }
    }

    /// Settings that this version cannot satisfy.
    fn unserved(&self) -> Vec<ConfigError> {
        let elsewhere = self.0.explicit("metadata.log.dir").filter(|(dir, _)| {
            let is_named = |dirs: Vec<PathBuf>| dirs.iter().any(|named| named.as_path() == Path::new(dir));
            !dir.is_empty() && self.log_dirs().is_ok_and(|dirs| !is_named(dirs))
        });
        let metadata = elsewhere.filter(|_| !cluster::is_member(self)).map(|(value, origin)| ConfigError::Refused {
            key: "metadata.log.dir".to_owned(),
            value: value.to_owned(),
            origin: origin.clone(),
            reason: "the metadata log is in a directory of log.dirs: name one of them, and move the directory __cluster_metadata-0 there".to_owned(),
        });
        let protocols = (!self.has_protocol("classic")).then(|| {
            self.invalid(
                PROTOCOLS,
                "a list with classic in it: that protocol cannot be turned off".to_owned(),
            )
        });
        let others = self.session_limits().into_iter().chain(self.cleaner_memory());
        metadata.into_iter().chain(protocols).chain(others).chain(self.store_problems()).collect()
    }

    pub(super) fn log_dirs(&self) -> Result<Vec<PathBuf>, ConfigError> {
        let key = if self.text("log.dirs").is_empty() { "log.dir" } else { "log.dirs" };
        let dirs: Vec<PathBuf> = words(self.text(key)).map(PathBuf::from).collect();
        let twice = dirs.iter().enumerate().any(|(at, dir)| dirs[..at].contains(dir));
        if dirs.is_empty() || twice {
            Err(self.invalid(key, "a list of directories, each once".to_owned()))
        } else {
            Ok(dirs)
        }
    }

    fn session_limits(&self) -> Vec<ConfigError> {
        let ordered = |least: &str, most: &str| {
            let is_ordered = self.long(least) <= self.long(most);
            (!is_ordered).then(|| self.invalid(least, format!("no more than {most} ({})", self.long(most))))
        };
        let of_members = ["consumer.", "share.", "streams."]
            .into_iter()
            .flat_map(|kind| ["session.timeout.ms", "heartbeat.interval.ms"].map(|name| (kind, name)));
        let of_records = ["record.lock.duration.ms", "delivery.count.limit", "partition.max.record.locks"];
        let names = of_members.chain(of_records.map(|name| ("share.", name)));
        let bounded = names.flat_map(|(kind, name)| {
            let [least, value, most] = ["min.", "", "max."].map(|bound| format!("group.{kind}{bound}{name}"));
            let low = || {
                let least_ms = self.long(&least);
                (self.long(&value) < least_ms)
                    .then(|| self.invalid(&value, format!("no less than {least} ({least_ms})")))
            };
            [ordered(&least, &most), low(), ordered(&value, &most)]
        });
        let classic = ordered("group.min.session.timeout.ms", "group.max.session.timeout.ms");
        let standby = ordered("group.streams.num.standby.replicas", "group.streams.max.standby.replicas");
        [classic, standby].into_iter().chain(bounded).flatten().collect()
    }
}
