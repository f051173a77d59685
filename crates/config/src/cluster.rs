//! Cluster mode: `process.roles=broker` makes this process a broker in a cluster of Apache Kafka's
//! controllers. The keys are Kafka's: addresses of the controllers, security of connections to them
//! and to other brokers, times of the membership, and limits of replication. Without it the broker
//! is its own controller, and several controllers are refused.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use levada_cluster::lifecycle::LifecycleTimes;
use levada_cluster::quorum::{AddressError, Quorum};
use levada_security::jaas::Jaas;
use levada_security::keystore::{ClientTls, SslSettings, TlsError};
use levada_security::login::SaslLogin;
use levada_security::sasl::Mechanism;

use super::listener::Protocol;
use super::prefix::prefixed;
use super::reader::Reader;
use super::security::{Secret, key_of_mechanism, of_mechanism};
use super::table::BROKER_KEYS;
use super::words::words;
use super::{ConfigError, Listener};

const BOOTSTRAP: &str = "controller.quorum.bootstrap.servers";
const VOTERS: &str = "controller.quorum.voters";
const LISTENERS: &str = "controller.listener.names";
const PROTOCOLS: &str = "listener.security.protocol.map";
const MECHANISM: &str = "sasl.mechanism.controller.protocol";
const JAAS: &str = "sasl.jaas.config";
const CORDONED: &str = "cordoned.log.dirs";
const ROLES: &str = "process.roles";
const BROKER_MECHANISM: &str = "sasl.mechanism.inter.broker.protocol";
const BROKER_LISTENER: &str = "inter.broker.listener.name";
const BROKER_PROTOCOL: &str = "security.inter.broker.protocol";
const FETCHERS: &str = "num.replica.fetchers";
const FETCH_WAIT: &str = "replica.fetch.wait.max.ms";
const LAG: &str = "replica.lag.time.max.ms";
const SOCKET_TIMEOUT: &str = "replica.socket.timeout.ms";

/// Keys that have an effect in cluster mode only.
const CLUSTER_ONLY: [&str; 20] = [
    "broker.heartbeat.interval.ms",
    "broker.session.timeout.ms",
    "controlled.shutdown.enable",
    BOOTSTRAP,
    VOTERS,
    "initial.broker.registration.timeout.ms",
    FETCHERS,
    "offsets.topic.replication.factor",
    "replica.fetch.backoff.ms",
    "replica.fetch.max.bytes",
    "replica.fetch.min.bytes",
    "replica.fetch.response.max.bytes",
    FETCH_WAIT,
    LAG,
    SOCKET_TIMEOUT,
    MECHANISM,
    BROKER_MECHANISM,
    "ssl.endpoint.identification.algorithm",
    "transaction.state.log.min.isr",
    "transaction.state.log.replication.factor",
];

/// The cluster that this broker joins.
#[derive(Clone, Debug)]
pub struct ClusterConfig {
    /// The controllers of `controller.quorum.voters` and `controller.quorum.bootstrap.servers`.
    pub quorum: Quorum,
    /// The listener of the controllers: the first of `controller.listener.names`.
    pub controllers: PeerListener,
    /// The listener of brokers for one another: `inter.broker.listener.name`, or that of
    /// `security.inter.broker.protocol`.
    pub brokers: PeerListener,
    /// Fetches from other brokers.
    pub replication: ReplicationConfig,
    /// `cordoned.log.dirs`.
    pub cordoned: Cordoned,
    /// Times of the membership.
    pub times: LifecycleTimes,
}

/// Data directories that get no new replicas.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cordoned {
    all: bool,
    dirs: Vec<PathBuf>,
}

impl Cordoned {
    /// True if a directory, as `log.dirs` names it, gets no new replicas.
    pub fn has(&self, dir: &Path) -> bool {
        self.all || self.dirs.iter().any(|cordoned| cordoned == dir)
    }
}

/// A listener of other nodes, and this broker's security for connections to it.
#[derive(Clone, Debug)]
pub struct PeerListener {
    /// Name of the listener, in capitals.
    pub name: String,
    /// Protocol of the listener.
    pub protocol: Protocol,
    /// The credentials for it, if its protocol has SASL.
    pub login: Option<SaslLogin>,
    /// Kind of the nodes, for messages.
    pub peer: &'static str,
    /// The key that names the SASL mechanism.
    pub mechanism_key: &'static str,
    /// Values of the TLS keys, and the keys as they were written.
    ssl: Vec<(&'static str, String, Secret)>,
}

/// Limits of fetches from other brokers.
#[derive(Clone, Copy, Debug)]
pub struct ReplicationConfig {
    /// `num.replica.fetchers`.
    pub fetchers: usize,
    /// `replica.fetch.wait.max.ms`.
    pub max_wait_ms: i32,
    /// `replica.fetch.min.bytes`.
    pub min_bytes: i32,
    /// `replica.fetch.response.max.bytes`.
    pub max_bytes: i32,
    /// `replica.fetch.max.bytes`.
    pub partition_max_bytes: i32,
    /// `replica.fetch.backoff.ms`.
    pub backoff_ms: i64,
    /// `replica.socket.timeout.ms`.
    pub socket_timeout: Duration,
    /// `replica.lag.time.max.ms`.
    pub lag_max_ms: i64,
}

impl PeerListener {
    fn load(
        read: &Reader<'_>,
        (name, protocol): (String, Protocol),
        (peer, mechanism_key): (&'static str, &'static str),
    ) -> Result<Self, ConfigError> {
        let login = protocol.has_sasl().then(|| login(read, &name, mechanism_key)).transpose()?;
        let ssl_keys = BROKER_KEYS.iter().filter(|key| key.name.starts_with("ssl."));
        let ssl = ssl_keys
            .filter_map(|key| {
                let written = read.0.as_written(&read.0.listener_key(&name, key.name)).to_owned();
                Some((key.name, written, Secret::from(read.0.listener_text(&name, key.name)?)))
            })
            .collect();
        Ok(Self { name, protocol, login, peer, mechanism_key, ssl })
    }

    /// Reads the TLS settings for the listener and the files that they name; `None` if the listener
    /// has no TLS. Blocks.
    ///
    /// # Errors
    /// The first setting that cannot be used.
    pub fn tls(&self) -> Result<Option<ClientTls>, TlsError> {
        let found = |key: &str| self.ssl.iter().find(|(name, ..)| *name == key);
        let text = |key: &str| found(key).map(|(_, _, value)| value.reveal());
        let written = |key: &str| found(key).map_or(key, |(_, written, _)| written).to_owned();
        let owner = format!("{} listener {}", self.peer, self.name);
        self.protocol
            .has_tls()
            .then(|| ClientTls::load(&SslSettings::new(owner, text).written_as(written)))
            .transpose()
    }
}

/// True if `process.roles` is `broker` alone.
pub(super) fn is_member(read: &Reader<'_>) -> bool {
    let mut roles = words(read.text(ROLES)).peekable();
    roles.peek().is_some() && roles.all(|role| role == "broker")
}

/// True for a key without effect on a broker without a cluster.
pub(super) fn is_for_clusters(key: &str) -> bool {
    CLUSTER_ONLY.contains(&key)
}

/// Set keys without effect, because the broker has no cluster.
pub(super) fn idle_keys(read: &Reader<'_>) -> Vec<&'static str> {
    if is_member(read) {
        Vec::new()
    } else {
        CLUSTER_ONLY.into_iter().filter(|key| read.0.explicit(key).is_some()).collect()
    }
}

/// Reads the cluster that this broker joins; `None` for a broker without a cluster.
pub(super) fn load(
    read: &Reader<'_>,
    listeners: &[Listener],
) -> Result<Option<ClusterConfig>, Vec<ConfigError>> {
    if !is_member(read) {
        let errors = alone(read);
        return if errors.is_empty() { Ok(None) } else { Err(errors) };
    }
    let mut errors = own_address(read, listeners);
    let quorum = taken(quorum(read), &mut errors);
    let controllers = controller_listener(read)
        .and_then(|found| PeerListener::load(read, found, ("controller", MECHANISM)));
    let controllers = taken(controllers, &mut errors);
    let brokers = broker_listener(read, listeners)
        .and_then(|found| PeerListener::load(read, found, ("broker", BROKER_MECHANISM)));
    let brokers = taken(brokers, &mut errors);
    let replication = taken(replication(read), &mut errors);
    let cordoned = taken(cordoned(read), &mut errors);
    let times = taken(times(read), &mut errors);
    let (
        Some(quorum),
        Some(controllers),
        Some(brokers),
        Some(replication),
        Some(cordoned),
        Some(times),
        true,
    ) = (quorum, controllers, brokers, replication, cordoned, times, errors.is_empty())
    else {
        return Err(errors);
    };
    Ok(Some(ClusterConfig { quorum, controllers, brokers, replication, cordoned, times }))
}

fn taken<T>(result: Result<T, ConfigError>, errors: &mut Vec<ConfigError>) -> Option<T> {
    result.map_err(|error| errors.push(error)).ok()
}

/// Problems of a broker without a cluster.
fn alone(read: &Reader<'_>) -> Vec<ConfigError> {
    let mut errors = Vec::new();
    if !words(read.text(ROLES)).any(|role| role == "broker") {
        errors.push(read.invalid(
            ROLES,
            "a list that contains broker: Levada cannot run as a controller only".to_owned(),
        ));
    }
    let several = [VOTERS, BOOTSTRAP].into_iter().filter_map(|key| {
        let (value, origin) = read.0.explicit(key).filter(|(value, _)| words(value).count() > 1)?;
        let reason = "there is one node, which is its own controller: name that one alone, or remove the key; to \
                      join a cluster, set process.roles=broker";
        let (key, value, reason) = (key.to_owned(), value.to_owned(), reason.to_owned());
        Some(ConfigError::Refused { key, value, origin: origin.clone(), reason })
    });
    errors.extend(several);
    if !read.text(CORDONED).is_empty() {
        let must_be = "empty: the broker is its own controller, and has no other directory".to_owned();
        errors.push(read.invalid(CORDONED, must_be));
    }
    errors
}

/// Problems with the id and the addresses of the broker in the cluster.
fn own_address(read: &Reader<'_>, listeners: &[Listener]) -> Vec<ConfigError> {
    let mut errors = Vec::new();
    if read.0.explicit("node.id").is_none() {
        let must_be = "set to an id that no other node of the cluster has".to_owned();
        errors.push(read.invalid("node.id", must_be));
    }
    let is_everywhere = |host: &str| host.parse::<IpAddr>().is_ok_and(|address| address.is_unspecified());
    let unnamed =
        listeners.iter().find(|listener| listener.advertised.is_none() && is_everywhere(&listener.bind.host));
    if let Some(listener) = unnamed {
        let must_be = format!(
            "a list with an address for {}, which other nodes can connect to: {} is every address of this machine",
            listener.name, listener.bind.host
        );
        errors.push(read.invalid("advertised.listeners", must_be));
    }
    errors
}

fn quorum(read: &Reader<'_>) -> Result<Quorum, ConfigError> {
    let unreadable = |key: &str, error: &AddressError| {
        let form = if key == VOTERS { "id@host:port" } else { "host:port" };
        read.invalid(key, format!("a list of {form}, joined by commas ({:?} is not)", error.entry))
    };
    let (voters, bootstrap) = (read.text(VOTERS), read.text(BOOTSTRAP));
    let of_bootstrap =
        || Quorum::from_bootstrap_servers(bootstrap).map_err(|error| unreadable(BOOTSTRAP, &error));
    if voters.is_empty() {
        return if bootstrap.is_empty() {
            Err(read.invalid(
                BOOTSTRAP,
                "a list of the controllers' addresses as host:port, since process.roles is broker alone; set \
                 process.roles=broker,controller for a broker that is its own controller"
                    .to_owned(),
            ))
        } else {
            of_bootstrap()
        };
    }
    let quorum = Quorum::from_voters(voters).map_err(|error| unreadable(VOTERS, &error))?;
    let node_id = read.int("node.id");
    if quorum.is_voter(node_id) {
        let must_be = format!("another id: {VOTERS} has a controller of id {node_id}");
        return Err(read.invalid("node.id", must_be));
    }
    if bootstrap.is_empty() { Ok(quorum) } else { Ok(quorum.with_bootstrap_servers(of_bootstrap()?)) }
}

/// Name and protocol of the listener of the controllers. As in Kafka, its protocol is PLAINTEXT if
/// the map of protocols is not set.
fn controller_listener(read: &Reader<'_>) -> Result<(String, Protocol), ConfigError> {
    let Some(name) = words(read.text(LISTENERS)).next().map(str::to_uppercase) else {
        let must_be = "set to the name of the controllers' listener, such as CONTROLLER".to_owned();
        return Err(read.invalid(LISTENERS, must_be));
    };
    let mut own = words(read.text("listeners")).filter_map(|word| word.split_once("://"));
    if own.any(|(listener, _)| listener.eq_ignore_ascii_case(&name)) {
        let must_be = format!("without {name}: controllers alone have the listeners of {LISTENERS}");
        return Err(read.invalid("listeners", must_be));
    }
    let mut entries = words(read.text(PROTOCOLS)).filter_map(|entry| entry.split_once(':'));
    let found = entries.find(|(listener, _)| listener.trim().eq_ignore_ascii_case(&name));
    let protocol = match (found, read.0.explicit(PROTOCOLS)) {
        (Some((_, protocol)), _) => Protocol::parse(protocol.trim()),
        (None, None) => Some(Protocol::Plaintext),
        (None, Some(_)) => None,
    };
    let protocol = protocol.ok_or_else(|| {
        let must_be = format!("a list with the protocol of {name}, such as {name}:SASL_SSL");
        read.invalid(PROTOCOLS, must_be)
    })?;
    Ok((name, protocol))
}

/// Name and protocol of this broker's listener for other brokers. As in Kafka, it is the listener
/// of `security.inter.broker.protocol` if none is named. The listeners of other brokers have the
/// same name.
fn broker_listener(read: &Reader<'_>, listeners: &[Listener]) -> Result<(String, Protocol), ConfigError> {
    let named = read.text(BROKER_LISTENER);
    let by_protocol = Some(read.text(BROKER_PROTOCOL)).filter(|protocol| !protocol.is_empty());
    let name = if named.is_empty() { by_protocol.unwrap_or("PLAINTEXT") } else { named }.to_uppercase();
    let found = listeners.iter().find(|listener| listener.name == name);
    found.map(|listener| (name.clone(), listener.protocol)).ok_or_else(|| {
        let must_be = format!("the name of a listener in `listeners`, which all brokers of the cluster have ({name} is not one of them)");
        read.invalid(BROKER_LISTENER, must_be)
    })
}

fn replication(read: &Reader<'_>) -> Result<ReplicationConfig, ConfigError> {
    let (wait_ms, lag_max_ms) = (read.long(FETCH_WAIT), read.long(LAG));
    let timeout_ms = read.long(SOCKET_TIMEOUT);
    for (key, limit_ms) in [(LAG, lag_max_ms), (SOCKET_TIMEOUT, timeout_ms)] {
        if limit_ms < wait_ms {
            return Err(read.invalid(key, format!("at least {FETCH_WAIT} ({wait_ms})")));
        }
    }
    Ok(ReplicationConfig {
        fetchers: usize::try_from(read.int(FETCHERS)).unwrap_or(1).max(1),
        max_wait_ms: read.int(FETCH_WAIT),
        min_bytes: read.int("replica.fetch.min.bytes"),
        max_bytes: read.int("replica.fetch.response.max.bytes"),
        partition_max_bytes: read.int("replica.fetch.max.bytes"),
        backoff_ms: read.long("replica.fetch.backoff.ms"),
        socket_timeout: Duration::from_millis(timeout_ms.unsigned_abs().max(1)),
        lag_max_ms,
    })
}

fn login(read: &Reader<'_>, listener: &str, key: &'static str) -> Result<SaslLogin, ConfigError> {
    const MECHANISMS: &str = "PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512";
    let named = read.0.listener_text(listener, key).unwrap_or_default();
    let mechanism = Mechanism::from_name(named).filter(|mechanism| *mechanism != Mechanism::OauthBearer);
    let mechanism = mechanism.ok_or_else(|| read.invalid(key, MECHANISMS.to_owned()))?;
    let own = match of_mechanism(read.0, (listener, mechanism), JAAS) {
        Some(_) => key_of_mechanism(read.0, (listener, mechanism), JAAS),
        None => prefixed(listener, &format!("{}.{JAAS}", mechanism.name().to_lowercase())),
    };
    let example = match mechanism {
        Mechanism::Plain => {
            "org.apache.kafka.common.security.plain.PlainLoginModule required username=\"…\" password=\"…\";"
        }
        _ => {
            "org.apache.kafka.common.security.scram.ScramLoginModule required username=\"…\" password=\"…\";"
        }
    };
    let wrong = |cause: &str| read.invalid(&own, format!("like {example}{cause}"));
    let text = of_mechanism(read.0, (listener, mechanism), JAAS).ok_or_else(|| wrong(""))?;
    let jaas = Jaas::parse(text).map_err(|error| wrong(&format!(": {error}")))?;
    if Some(jaas.module.as_str()) != example.split(' ').next() {
        return Err(wrong(": the login module is not that of the mechanism"));
    }
    let option = |name: &str| {
        let found = jaas.options.get(name).filter(|text| !text.is_empty()).cloned();
        found.ok_or_else(|| wrong(&format!(": {name} is missing")))
    };
    Ok(SaslLogin::of_module(mechanism, option("username")?, option("password")?, &jaas))
}

fn cordoned(read: &Reader<'_>) -> Result<Cordoned, ConfigError> {
    let own: Vec<PathBuf> = read.log_dirs().unwrap_or_default();
    let (all, named): (Vec<&str>, Vec<&str>) = words(read.text(CORDONED)).partition(|dir| *dir == "*");
    let dirs: Vec<PathBuf> = named.into_iter().map(PathBuf::from).collect();
    if dirs.iter().all(|dir| own.contains(dir)) {
        Ok(Cordoned { all: !all.is_empty(), dirs })
    } else {
        Err(read.invalid(CORDONED, "a list of directories of log.dirs, or *".to_owned()))
    }
}

fn times(read: &Reader<'_>) -> Result<LifecycleTimes, ConfigError> {
    const HEARTBEAT: &str = "broker.heartbeat.interval.ms";
    let (heartbeat_ms, session_ms) = (read.long(HEARTBEAT), read.long("broker.session.timeout.ms"));
    if !(1..session_ms).contains(&heartbeat_ms) {
        let must_be = format!("at least 1 and less than broker.session.timeout.ms ({session_ms})");
        return Err(read.invalid(HEARTBEAT, must_be));
    }
    let kafka = LifecycleTimes::default();
    Ok(LifecycleTimes {
        heartbeat_ms,
        session_ms,
        registration_ms: read.long("initial.broker.registration.timeout.ms"),
        request_ms: (session_ms / 2).max(1),
        shutdown_ms: if read.is_true("controlled.shutdown.enable") { kafka.shutdown_ms } else { 0 },
        ..kafka
    })
}
