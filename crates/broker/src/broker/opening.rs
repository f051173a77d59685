//! Opening and closing a broker, subject by subject.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant, SystemTime};

use levada_base::log_pace::LogPace;
use levada_config::{BrokerConfig, thresholds};
use levada_io::Thresholds;
use levada_log::disk::{Disk, RealDisk};
use levada_log::{Background, LogError};
use levada_metadata::Metadata;
use levada_metadata::controller::{Node, controller_endpoint};
use levada_metadata::image::{ConfigResource, Image};
use levada_metadata::records::Endpoint;
use levada_metadata::store::{OpenReport, Store, StoreError, StoreOptions};
use levada_metadata::uuid;
use levada_process::clock::{now_ms, whole_ms};
use levada_security::keystore::TlsError;
use parking_lot::Mutex;
use tokio::runtime::Handle;

use crate::access::Access;
use crate::broker::Broker;
use crate::broker::heap::Heap;
use crate::broker::outages::Outages;
use crate::cluster::ClusterMembership;
use crate::controller::Controller;
use crate::coordinator::Coordinators;
use crate::encoded_topics::EncodedTopics;
use crate::fetch_session::Sessions;
use crate::fetchers::Fetchers;
use crate::live_config::LiveConfig;
use crate::publishing::Publisher;
use crate::remote_reads::RemoteReads;
use crate::replica::Replicas;
use crate::replica::data_dir::{DataDir, DataDirError};
use crate::replica::data_dirs::DataDirs;
use crate::replica::last_shutdown::LastShutdown;
use crate::share_partitions::SharePartitions;
use crate::stats::Stats;
use crate::streams_topics::StreamsTopics;
use crate::telemetry::ClientTelemetry;
use crate::tiered::Tiers;
use crate::tls::Tls;
use crate::transaction::Transactions;
use crate::transfers::Transfers;
use crate::turns::WorkTurns;

/// The reason why a broker cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// A data directory cannot be used.
    #[error(transparent)]
    DataDir(#[from] DataDirError),
    /// The file with this machine's thresholds cannot be used.
    #[error("{0}; regenerate it with `levada lab calibrate`, or delete it to use the defaults")]
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
    /// The broker cannot join its cluster.
    #[error("cannot join the cluster: {reason}")]
    Membership {
        /// The key or file to change.
        reason: String,
    },
}

/// Runs `work` on a thread of the runtime that may block; immediately on this thread if there is no
/// runtime.
pub(super) fn beside(work: Box<dyn FnOnce() + Send>) {
    match Handle::try_current() {
        Ok(runtime) => drop(runtime.spawn_blocking(work)),
        Err(_) => work(),
    }
}

/// Recoveries that end within this time are over before clients can notice.
const RECOVERY_GRACE: Duration = Duration::from_millis(300);

/// Maximum number of log lines in a burst about changes that clients make.
const CHANGES_AT_ONCE: u32 = 1000;

impl Broker {
    /// Opens a broker that is its own controller. It can serve requests when this returns. `bound`
    /// contains the listeners' addresses, in the order of the configuration.
    pub(crate) fn open(config: BrokerConfig, bound: &[SocketAddr]) -> Result<Arc<Self>, OpenError> {
        Self::open_on((Arc::new(RealDisk), Background::new(beside)), config, bound)
    }

    /// Like [`Broker::open`], with the given access to files and the given runner of background
    /// work.
    pub(super) fn open_on(
        (disk, background): (Arc<dyn Disk>, Background),
        config: BrokerConfig,
        bound: &[SocketAddr],
    ) -> Result<Arc<Self>, OpenError> {
        let started = Instant::now();
        let dirs = DataDirs::open((disk.clone(), background), &config)?;
        let dir = dirs.first().configured().to_owned();
        let others: Vec<&Path> = dirs.iter().map(DataDir::configured).filter(|other| *other != dir).collect();
        let ids = Store::check_others(&*disk, (&dir, config.node_id), &others)?;
        let other_dirs = others.into_iter().map(Path::to_owned).collect();
        let mut options = StoreOptions { other_dirs, ..store_options(&config, disk.clone(), dir.clone()) };
        options.others = (!dirs.has_closed()).then_some(ids);
        dirs.release_reserves();
        let (store, report) = Store::open(&options, now_ms())?;
        dirs.identify(|path| Store::adopt(&*disk, path, store.identity()).map_err(OpenError::from))?;
        // Only now: a directory that was refused is as it was.
        let left = dirs.begin()?;
        warn_of(&report);
        let config = Arc::new(LiveConfig::new(current_config(config, store.image())));
        let metadata = Arc::new(Metadata::new(store.identity().clone()));
        let broker = Self::assemble(config, metadata, (dirs, &left), Source::Embedded(Box::new(store)))?;
        let first = broker.controller.register(&broker.node(bound))?;
        let (clean, is_new) = (left.clean, report.unused);
        broker.publisher.begin(&first, left)?;
        broker.controller.record_directories();
        broker.replicas.recovery().wait(RECOVERY_GRACE);
        let recovering = broker.replicas.recovery().progress().left;
        let (took_ms, partitions) = (whole_ms(started.elapsed()), broker.replicas.partitions().count());
        if is_new {
            tracing::info!(took_ms, "new data directory");
        } else {
            tracing::info!(partitions, recovering, clean, took_ms, "data directory open");
        }
        Ok(broker)
    }

    /// Creates the parts of a broker, which does not serve yet.
    pub(super) fn assemble(
        config: Arc<LiveConfig>,
        metadata: Arc<Metadata>,
        (dirs, left): (DataDirs, &LastShutdown),
        source: Source,
    ) -> Result<Arc<Self>, OpenError> {
        let loaded = config.load();
        let transfers = Transfers::new(thresholds_in_force(&loaded)?);
        let tls = Arc::new(Tls::load(&loaded, None)?);
        let fetch_sessions = Mutex::new(Sessions::new(loaded.fetch_session_slots as usize));
        let share_partitions = Arc::new(SharePartitions::of(&loaded));
        let replicas = Arc::new(Replicas::new(config.clone(), metadata.clone(), dirs, left));
        let coordinators = Arc::new(Coordinators::new(config.clone()));
        let fetchers = match &source {
            Source::Embedded(_) => None,
            Source::Member(membership) => {
                let rooms = (config.clone(), metadata.clone(), replicas.clone());
                Some(Arc::new(Fetchers::new(rooms, membership.clone())))
            }
        };
        let publisher = Arc::new(Publisher {
            config: config.clone(),
            metadata: metadata.clone(),
            replicas: replicas.clone(),
            coordinators: coordinators.clone(),
            quotas: Arc::default(),
            share_partitions: share_partitions.clone(),
            telemetry: Arc::new(ClientTelemetry::new(config.clone())),
            tls: tls.clone(),
            fetchers,
            role_log: Arc::default(),
        });
        let (controller, membership) = controller_of(source, &publisher);
        let transactions = Arc::new(Transactions::new(
            (config.clone(), metadata.clone()),
            replicas.clone(),
            coordinators.clone(),
            controller.clone(),
        ));
        let (tiers, remote_reads) = remote_rooms(&publisher, &controller, &transactions);
        Ok(Arc::new(Self {
            transactions,
            tiers,
            remote_reads,
            access: Access::new(config.clone(), metadata.clone()),
            config,
            metadata,
            replicas,
            coordinators,
            quotas: publisher.quotas.clone(),
            telemetry: publisher.telemetry.clone(),
            encoded_topics: EncodedTopics::default(),
            publisher,
            controller,
            tls,
            fetch_sessions,
            share_partitions,
            streams_topics: StreamsTopics::default(),
            request_memory: Arc::default(),
            turns: WorkTurns::default(),
            transfers,
            stats: Stats::new(SystemTime::now()),
            change_log: LogPace::of(CHANGES_AT_ONCE),
            stopping: AtomicBool::new(false),
            membership,
            outages: Outages::default(),
            heap: Heap::default(),
        }))
    }

    /// Closes every log and records the stop in the metadata log. Appends are refused from now on.
    /// Blocks.
    pub(crate) fn close(&self) {
        self.stop_following();
        let broker_epoch = match &self.membership {
            Some(membership) => membership.broker_epoch().unwrap_or(-1),
            None => {
                let registered = self.metadata.image();
                registered.brokers().broker(self.node_id()).map_or(-1, |one| one.broker_epoch)
            }
        };
        if let Err(error) = self.controller.retreat() {
            tracing::error!(%error, "cannot record the shutdown in the metadata log");
        }
        self.replicas.close(broker_epoch);
        self.access.audit().tell_left_out();
    }

    fn node(&self, bound: &[SocketAddr]) -> Node {
        let config = self.config();
        let listeners = config.listeners.iter().zip(bound);
        let end_points = listeners.map(|(listener, bound)| {
            let port = bound.port();
            let (host, port) = listener.told(port).unwrap_or_else(|| (bound.ip().to_string(), port));
            Endpoint { name: listener.name.clone(), host, port, security_protocol: listener.protocol.id() }
        });
        let controller = controller_endpoint();
        Node {
            node_id: config.node_id,
            incarnation_id: uuid::random(),
            log_dirs: self.online_directories(),
            has_offline_dirs: self.replicas.dirs().offline().next().is_some(),
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

/// Origin of the metadata.
pub(super) enum Source {
    /// The metadata log of this process.
    Embedded(Box<Store>),
    /// The controllers of a cluster.
    Member(Arc<ClusterMembership>),
}

fn controller_of(
    source: Source,
    publisher: &Arc<Publisher>,
) -> (Arc<Controller>, Option<Arc<ClusterMembership>>) {
    let (rules, image) = (publisher.config.clone(), publisher.metadata.clone());
    match source {
        Source::Embedded(store) => (Arc::new(Controller::new(rules, image, publisher.clone(), *store)), None),
        Source::Member(membership) => {
            let controller = Controller::of_cluster(rules, image, membership.clone());
            (Arc::new(controller), Some(membership))
        }
    }
}

/// Tiered storage, and the reads of remote records if it is on.
fn remote_rooms(
    publisher: &Publisher,
    controller: &Arc<Controller>,
    transactions: &Arc<Transactions>,
) -> (Arc<Tiers>, Option<Arc<RemoteReads>>) {
    let tiers = Arc::new(Tiers::new(
        publisher.config.clone(),
        publisher.metadata.clone(),
        publisher.replicas.clone(),
        controller.clone(),
        transactions.clone(),
    ));
    if let Some(fetchers) = publisher.fetchers.as_ref().filter(|_| tiers.is_enabled()) {
        fetchers.use_remote(tiers.clone());
    }
    let reads = tiers.reads(publisher.replicas.dirs().first().configured());
    (tiers, reads)
}

fn thresholds_in_force(config: &BrokerConfig) -> Result<Thresholds, OpenError> {
    let (thresholds, file) = thresholds(config.thresholds_file.as_deref())?;
    if let Some(file) = file {
        let sizes: Vec<String> =
            thresholds.calibrated().map(|(name, bytes)| format!("{name}={bytes}")).collect();
        tracing::info!(file = %file.display(), "transfer thresholds loaded: {}", sizes.join(" "));
    }
    Ok(thresholds)
}

/// The configuration with the settings that earlier runs of the broker stored.
fn current_config(config: BrokerConfig, image: &Image) -> BrokerConfig {
    let stored = |resource| image.configs(&resource).map(|values| (**values).clone()).unwrap_or_default();
    let own = stored(ConfigResource::broker(config.node_id));
    config.with_stored(&own, &stored(ConfigResource::all_brokers())).unwrap_or_else(|error| {
        tracing::error!(%error, "the stored broker configuration is inconsistent; the broker ignores it");
        config
    })
}

/// Options of the metadata of a broker that is its own controller.
pub(crate) fn store_options(config: &BrokerConfig, disk: Arc<dyn Disk>, dir: PathBuf) -> StoreOptions {
    StoreOptions {
        disk,
        dir,
        node_id: config.node_id,
        cluster_id: None,
        controller: controller_endpoint(),
        min_insync_replicas: config.topic_defaults.min_insync_replicas,
        users: Vec::new(),
        limits: config.metadata_log,
        others: None,
        other_dirs: Vec::new(),
        serves_tiers: config.remote_log.is_enabled,
    }
}

/// Logs anomalies that the start found.
fn warn_of(report: &OpenReport) {
    if let Some(torn) = &report.torn {
        tracing::warn!(?torn, "truncated a torn batch at the end of the metadata log");
    }
    if let Some(error) = &report.passed_over {
        tracing::warn!(
            error,
            "a metadata snapshot is damaged; the broker uses an older snapshot and the log after it"
        );
    }
}
