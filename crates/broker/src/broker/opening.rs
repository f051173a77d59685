//! Opening a broker: the data directory, the metadata log, every partition; and putting opened
//! partitions into service.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use arc_swap::ArcSwap;
use levada_io::residency::{Warmer, WarmerLimits};
use levada_io::{Caps, Counters, Thresholds};
use levada_log::disk::{Disk, RealDisk};
use levada_log::{AppendBy, Background, LogConfig, LogError, OpenOptions, Writer};
use levada_wire::Uuid;
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, watch};

use crate::broker::Broker;
use crate::broker::data_dir::{DataDir, Left, LeftBehind};
use crate::broker::discarded::Waiting;
use crate::broker::metadata::{Metadata, warn_of};
use crate::broker::producer_ids::ProducerIds;
use crate::broker::quotas::QuotaBook;
use crate::broker::searches::Searches;
use crate::broker::signing_keys::SigningKeys;
use crate::cleaner::Cleaner;
use crate::clock::now_ms;
use crate::config::{BrokerConfig, TimestampType, TopicConfig, thresholds};
use crate::fetch_session::Sessions;
use crate::group::{ConsumerConfig, GroupConfig};
use crate::groups::Groups;
use crate::metadata::controller::Node;
use crate::metadata::image::{ConfigResource, Image};
use crate::metadata::records::Endpoint;
use crate::metadata::records::control::VoterEndpoint;
use crate::metadata::store::{Store, StoreError, StoreOptions};
use crate::metadata::uuid;
use crate::partition::{Identity, Key, OFFSETS_TOPIC, Partition, Partitions, TRANSACTIONS_TOPIC};
use crate::stats::Stats;
use crate::stores::TlsError;
use crate::tls::Tls;
use crate::txn::TxnConfig;
use crate::txns::Txns;

/// Why a data directory cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The directory itself cannot be used.
    #[error("cannot use data directory {}: {source}", path.display())]
    DataDir {
        /// The directory, or a file in it.
        path: PathBuf,
        /// What the kernel said.
        source: std::io::Error,
    },
    /// Another process has it.
    #[error("data directory {} is in use by another process; stop that one or choose another with -o log.dirs=…", path.display())]
    InUse {
        /// The directory.
        path: PathBuf,
    },
    /// More than one directory is configured.
    #[error("log.dirs names {count} directories; this version keeps its data in one")]
    SeveralDirs {
        /// How many.
        count: usize,
    },
    /// The file with this machine's thresholds cannot be used.
    #[error("{0}; make it anew with `levada lab calibrate`, or take it away to have the defaults")]
    Thresholds(#[from] levada_io::thresholds::CalibrationError),
    /// A log or checkpoint cannot be opened.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The metadata log cannot be opened.
    #[error(transparent)]
    Metadata(#[from] StoreError),
    /// A listener's keys or trust cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
}

/// A partition that the metadata has and that is to be opened.
pub(super) struct Missing {
    pub(super) identity: Identity,
    config: Arc<TopicConfig>,
}

impl Missing {
    pub(super) fn key(&self) -> Key {
        (self.identity.topic.to_string(), self.identity.index)
    }

    fn is(&self, (topic, index): &Key) -> bool {
        *self.identity.topic == **topic && self.identity.index == *index
    }
}

/// On a thread of the runtime's that may wait; at once where there is no runtime.
pub(super) fn beside(work: Box<dyn FnOnce() + Send>) {
    match Handle::try_current() {
        Ok(runtime) => drop(runtime.spawn_blocking(work)),
        Err(_) => work(),
    }
}

fn thresholds_in_force(config: &BrokerConfig) -> Result<Thresholds, OpenError> {
    let (thresholds, file) = thresholds(config.thresholds_file.as_deref())?;
    if let Some(file) = file {
        let sizes: Vec<String> =
            thresholds.calibrated().map(|(name, bytes)| format!("{name}={bytes}")).collect();
        tracing::info!(file = %file.display(), "transfers are calibrated: {}", sizes.join(" "));
    }
    Ok(thresholds)
}

/// A recovery that takes no longer is over before clients can notice.
const RECOVERY_GRACE: Duration = Duration::from_millis(300);

/// Batches that are expanded off the shards at one time; each may take some hundred megabytes.
const EXPANSIONS_AT_ONCE: usize = 2;

impl Broker {
    /// Opens everything; when this returns the broker can serve requests. `bound` are the listeners'
    /// addresses, in the order of the configuration.
    pub(crate) fn open(config: BrokerConfig, bound: &[SocketAddr]) -> Result<Arc<Broker>, OpenError> {
        Broker::open_on((Arc::new(RealDisk), Background::new(beside)), config, bound)
    }

    /// The same, with another way to reach files.
    pub(super) fn open_on(
        (disk, background): (Arc<dyn Disk>, Background),
        config: BrokerConfig,
        bound: &[SocketAddr],
    ) -> Result<Arc<Broker>, OpenError> {
        let started = Instant::now();
        let [dir] = &config.log_dirs[..] else {
            return Err(OpenError::SeveralDirs { count: config.log_dirs.len() });
        };
        let data_dir = DataDir::open((disk.clone(), background), dir)?;
        let (store, report) = Store::open(&store_options(&config, disk, dir.clone()), now_ms())?;
        // Only now: a directory that was refused is as it was.
        let left = data_dir.begin()?;
        warn_of(&report);
        let config = current_config(config, store.image());
        let counters = Arc::new(Counters::default());
        let broker = Arc::new(Self {
            caps: Caps::probe(),
            thresholds: thresholds_in_force(&config)?,
            warmer: Warmer::new(WarmerLimits::default(), counters.clone()),
            counters,
            replays: Arc::default(),
            stats: Stats::new(SystemTime::now()),
            data_dir,
            metadata: Metadata::new(store),
            producer_ids: ProducerIds::default(),
            partitions: Partitions::default(),
            request_memory: Arc::default(),
            groups: Groups::new(group_config(&config)),
            txns: Txns::new(txn_config(&config)),
            quota_book: QuotaBook::default(),
            signing_keys: SigningKeys::default(),
            tls: Tls::load(&config, None)?,
            unopened: Mutex::default(),
            recovery: Arc::default(),
            cleaner: Cleaner::new(left.cleaned.clone()),
            config_changed: watch::Sender::new(()),
            storing_checkpoint: Mutex::default(),
            waiting: Waiting::default(),
            expansions: Semaphore::new(EXPANSIONS_AT_ONCE),
            searches: Searches::default(),
            fetch_sessions: Mutex::new(Sessions::new(config.fetch_session_slots as usize)),
            node_id: config.node_id,
            config: ArcSwap::from_pointee(config),
        });
        broker.metadata.node_started(&broker.node(bound))?;
        broker.quota_book.set_limits(broker.metadata.image().quotas());
        let clean = left.clean;
        broker.open_all(left)?;
        broker.recovery.wait(RECOVERY_GRACE);
        let (took_ms, recovering) = (started.elapsed().as_millis(), broker.recovery.progress().left);
        tracing::info!(
            partitions = broker.partitions.count(),
            recovering,
            clean,
            took_ms,
            "data directory open"
        );
        Ok(broker)
    }

    fn open_all(self: &Arc<Self>, left: LeftBehind) -> Result<(), OpenError> {
        let image = self.metadata.image();
        self.groups.topics_changed(|| image.clone());
        self.apply_group_configs(&image);
        self.provide_coordinators(&image);
        let missing = self.missing_partitions(&image, image.topics().iter().map(|topic| topic.id()));
        let known =
            |topic: &str, index| image.topic(topic).is_some_and(|topic| topic.partition(index).is_some());
        self.data_dir.set_strays_aside(known)?;
        let stale = left.is_stale(known);
        if !left.clean && !missing.is_empty() {
            self.begin_recovery(missing, left);
        } else {
            // What cannot be opened is offline; the rest serves.
            let _ = self.open_and_serve(missing, |key| left.of(key));
        }
        if stale {
            // Before a new topic has the name of one that was deleted just before a crash.
            self.store_checkpoints();
        }
        Ok(())
    }

    /// Those partitions of the topics that this broker has to serve and does not yet.
    pub(super) fn missing_partitions(
        &self,
        image: &Image,
        topics: impl Iterator<Item = Uuid>,
    ) -> Vec<Missing> {
        let mut missing = Vec::new();
        for topic in topics.filter_map(|id| image.topic_by_id(id)) {
            let own = image.configs(&ConfigResource::topic(&**topic.name()));
            let config = Arc::new(self.topic_config(topic.name(), own.map(|own| &**own)));
            for (index, partition) in topic.partitions() {
                let ours = partition.replicas.contains(&self.node_id());
                let is_absent = || {
                    self.partitions.by_id(topic.id(), index).is_none()
                        && !self.is_recovering(topic.name(), index)
                };
                if ours && is_absent() {
                    let identity = Identity {
                        topic: topic.name().clone(),
                        topic_id: topic.id(),
                        index,
                        leader_epoch: partition.leader_epoch,
                    };
                    missing.push(Missing { identity, config: config.clone() });
                }
            }
        }
        missing
    }

    pub(super) fn topic_config(
        &self,
        topic: &str,
        own: Option<&std::collections::BTreeMap<String, String>>,
    ) -> TopicConfig {
        let none = std::collections::BTreeMap::new();
        TopicConfig::resolve(&self.config(), own.unwrap_or(&none)).unwrap_or_else(|error| {
            tracing::error!(topic, %error, "a stored topic configuration is not understood; the defaults are used");
            self.config().topic_defaults.clone()
        })
    }

    /// Opens partitions, on all cores when there are many, and puts them into service. Those that cannot be opened are
    /// noted and tried again by the housekeeping; the first failure is returned.
    pub(super) fn open_and_serve(
        &self,
        missing: Vec<Missing>,
        left: impl Fn(&Key) -> Left + Sync,
    ) -> Result<(), LogError> {
        let left = &left;
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let mut shares: Vec<Vec<Missing>> = Vec::new();
        shares.resize_with(cores.min(missing.len().max(1)), Vec::new);
        let workers = shares.len();
        for (at, one) in missing.into_iter().enumerate() {
            shares[at % workers].push(one);
        }
        let open_share = |share: Vec<Missing>| -> Vec<Result<Partition, LogError>> {
            share.into_iter().map(|one| self.open_partition(one, left)).collect()
        };
        let results = std::thread::scope(|scope| {
            let own = shares.pop().unwrap_or_default();
            let others: Vec<_> = shares.into_iter().map(|share| scope.spawn(|| open_share(share))).collect();
            let mut results = open_share(own);
            for other in others {
                results.extend(other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
            }
            results
        });
        let mut failure = None;
        let opened = results.into_iter().filter_map(|result| match result {
            Ok(partition) => Some(partition),
            Err(error) => {
                failure.get_or_insert(error);
                None
            }
        });
        let served = self.serve(opened.collect(), left);
        failure.map_or(served, Err)
    }

    pub(super) fn open_partition(
        &self,
        one: Missing,
        left: impl Fn(&Key) -> Left,
    ) -> Result<Partition, LogError> {
        let key = one.key();
        let left = left(&key);
        let opened = self.try_open(one, left);
        if let Err(error) = &opened
            && self.unopened.lock().note(&key, left)
        {
            tracing::error!(topic = key.0, partition = key.1, %error, "offline: the log cannot be opened; this is tried again every few seconds");
        }
        opened
    }

    fn try_open(&self, one: Missing, left: Left) -> Result<Partition, LogError> {
        let Missing { identity, config } = one;
        let (topic, index) = (identity.topic.clone(), identity.index);
        let options = OpenOptions {
            config: log_config(&self.config(), &config),
            leader_epoch: identity.leader_epoch,
            recovery_point: left.recovery_point,
            log_start: left.log_start,
            clean: left.clean,
            disk: self.data_dir.disk().clone(),
            checked_bytes: self.recovery.checked_bytes(),
            background: self.data_dir.background().clone(),
            ..OpenOptions::new(self.data_dir.partition(&topic, index))
        };
        self.data_dir.make_way(&topic, index, identity.topic_id)?;
        let (writer, report) = Writer::open(options, now_ms())?;
        self.data_dir.identify(&topic, index, identity.topic_id)?;
        if let Some(cut) = &report.cut {
            tracing::warn!(partition = %format_args!("{topic}-{index}"), ?cut, "the log ended in a torn batch, which was cut off");
        }
        Ok(Partition::new(identity, writer, config))
    }

    /// Tries to open what could not be opened before.
    pub(super) fn open_unopened(&self) {
        let left = self.unopened.lock().clone();
        if left.failed() == 0 {
            return;
        }
        let changed = self.metadata.hold(|image| {
            let missing = self.missing_partitions(image, image.topics().iter().map(|topic| topic.id()));
            self.unopened.lock().keep(|key| missing.iter().any(|one| one.is(key)));
            self.open_and_serve(missing, |key| left.of(key))
        });
        if changed.is_ok() {
            tracing::info!("all partitions are open now");
        }
    }

    /// Puts opened partitions into service; those of `__consumer_offsets` and `__transaction_state` get their
    /// coordinators.
    pub(super) fn serve(&self, opened: Vec<Partition>, left: impl Fn(&Key) -> Left) -> Result<(), LogError> {
        let keys: Vec<Key> = opened.iter().map(|one| (one.topic().to_owned(), one.index())).collect();
        // Were the names of new directories lost, records that are on the device would be lost with them.
        if let Err(error) = self.data_dir.sync_names() {
            keys.iter().for_each(|key| {
                self.unopened.lock().note(key, left(key));
            });
            return Err(error);
        }
        let indexes = |topic: &str| -> Vec<i32> {
            opened.iter().filter(|one| one.topic() == topic).map(|one| one.index()).collect()
        };
        let (offsets, states) = (indexes(OFFSETS_TOPIC), indexes(TRANSACTIONS_TOPIC));
        self.partitions.add(opened);
        keys.iter().for_each(|key| self.unopened.lock().forget(key));
        for index in offsets {
            let partition = self.partitions.by_name(OFFSETS_TOPIC, index);
            self.groups.load(&partition.expect("it was added just now"));
        }
        for index in states {
            let partition = self.partitions.by_name(TRANSACTIONS_TOPIC, index);
            self.txns.load(&partition.expect("it was added just now"));
        }
        Ok(())
    }

    fn node(&self, bound: &[SocketAddr]) -> Node {
        let config = self.config();
        let listeners = config.listeners.iter().zip(bound);
        let end_points = listeners.map(|(listener, bound)| {
            let (host, port) = match &listener.advertised {
                Some(address) => (address.host.clone(), address.port),
                None => (bound.ip().to_string(), bound.port()),
            };
            Endpoint { name: listener.name.clone(), host, port, security_protocol: listener.protocol.id() }
        });
        let controller = controller_endpoint();
        Node {
            node_id: config.node_id,
            incarnation_id: uuid::random(),
            log_dirs: vec![self.metadata.directory_id()],
            rack: config.rack.clone(),
            end_points: end_points.collect(),
            controller_end_points: vec![Endpoint {
                name: controller.name,
                host: controller.host,
                port: controller.port,
                security_protocol: 0,
            }],
        }
    }
}

/// The configuration with what was set while earlier brokers ran.
fn current_config(config: BrokerConfig, image: &Image) -> BrokerConfig {
    let stored = |resource| image.configs(&resource).map(|values| (**values).clone()).unwrap_or_default();
    let own = stored(ConfigResource::broker(config.node_id));
    config.with_dynamic(&own, &stored(ConfigResource::all_brokers())).unwrap_or_else(|error| {
        tracing::error!(%error, "the stored broker configuration contradicts itself; it is not used");
        config
    })
}

fn store_options(config: &BrokerConfig, disk: Arc<dyn Disk>, dir: PathBuf) -> StoreOptions {
    StoreOptions {
        disk,
        dir,
        node_id: config.node_id,
        cluster_id: None,
        controller: controller_endpoint(),
        min_insync_replicas: config.topic_defaults.min_insync_replicas,
        users: Vec::new(),
        limits: config.metadata_log,
    }
}

/// Where Kafka's controller would listen by default. Nothing listens there: the address only goes into
/// the records that a Kafka started on this directory expects.
pub(crate) fn controller_endpoint() -> VoterEndpoint {
    VoterEndpoint { name: "CONTROLLER".to_owned(), host: "localhost".to_owned(), port: 9093 }
}

fn group_config(config: &BrokerConfig) -> GroupConfig {
    GroupConfig {
        initial_rebalance_delay_ms: config.groups.initial_rebalance_delay_ms.into(),
        min_session_timeout_ms: config.groups.min_session_timeout_ms,
        max_session_timeout_ms: config.groups.max_session_timeout_ms,
        max_size: config.groups.max_size as usize,
        consumer: ConsumerConfig {
            session_timeout_ms: config.groups.consumer_session_timeout_ms,
            heartbeat_interval_ms: config.groups.consumer_heartbeat_interval_ms,
            max_size: config.groups.consumer_max_size as usize,
            upgrades: config.groups.consumer_migration.upgrades,
            downgrades: config.groups.consumer_migration.downgrades,
        },
        offset_metadata_max_bytes: config.offsets.metadata_max_bytes as usize,
        offsets_retention_ms: config.offsets.retention_ms,
        offsets_retention_check_interval_ms: config.offsets.retention_check_interval_ms,
        ..GroupConfig::default()
    }
}

fn txn_config(config: &BrokerConfig) -> TxnConfig {
    TxnConfig {
        max_timeout_ms: config.transactions.max_timeout_ms,
        id_expiration_ms: config.transactions.id_expiration_ms,
        abort_interval_ms: config.transactions.abort_interval_ms,
        expiration_interval_ms: config.transactions.expiration_interval_ms,
        ..TxnConfig::default()
    }
}

pub(super) fn log_config(broker: &BrokerConfig, topic: &TopicConfig) -> LogConfig {
    // What a topic keeps for its keys does not go because of age or size.
    let limit = |value: i64| if topic.cleanup_policy.delete { value } else { -1 };
    LogConfig {
        segment_bytes: topic.segment_bytes,
        segment_ms: match topic.cleanup_policy.compact {
            true => topic.segment_ms.min(topic.max_compaction_lag_ms),
            false => topic.segment_ms,
        },
        segment_jitter_ms: topic.segment_jitter_ms,
        index_interval_bytes: topic.index_interval_bytes,
        segment_index_bytes: topic.segment_index_bytes,
        max_message_bytes: topic.max_message_bytes,
        timestamp_type: match topic.timestamp_type {
            TimestampType::CreateTime => levada_log::TimestampType::CreateTime,
            TimestampType::LogAppendTime => levada_log::TimestampType::LogAppendTime,
        },
        retention_bytes: limit(topic.retention_bytes),
        retention_ms: limit(topic.retention_ms),
        delete_retention_ms: topic.delete_retention_ms,
        min_compaction_lag_ms: topic.min_compaction_lag_ms,
        max_compaction_lag_ms: topic.max_compaction_lag_ms,
        producer_id_expiration_ms: broker.producer_id_expiration_ms,
        append_by: if broker.mapped_append { AppendBy::Mapped } else { AppendBy::Pwrite },
    }
}
