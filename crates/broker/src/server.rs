//! The life of a broker process: opens the data directory, binds the listeners, starts the shards
//! and the admin thread, handles signals, and stops everything in order.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Instant;

use tokio::runtime::Runtime;
use tokio::sync::watch;

pub use self::signals::Signals;
use crate::api::large;
pub use crate::broker::OpenError;
use crate::broker::{Broker, Following};
use crate::publishing::ReloadError;
pub use crate::replica::{Recovery, RecoveryProgress};
use crate::server::channel::handshakes::{self, Handshakes};
use crate::server::connection_limits::ConnectionLimits;
pub use crate::server::connection_limits::OpenConnections;
pub use crate::server::door::{Door, Unfinished};
use crate::server::handed::Handed;
pub use crate::server::handed::HandedError;
use crate::server::liveness::Liveness;
use crate::server::membership_events::MembershipThread;
use crate::server::shard::ShardHandle;
use crate::server::signals::Order;
use crate::server::supervisor::Supervisor;
use levada_config::{BrokerConfig, ConfigErrors, Differences, HostPort, Listener, Secret};
use levada_process::shutdown::Stop;

mod admin;
mod auth_gate;
pub mod channel;
mod cold_lane;
mod connection;
mod connection_limits;
mod door;
mod dump;
mod handed;
mod listener;
mod liveness;
mod membership_events;
mod open_streams;
pub(crate) mod shard;
mod signals;
mod source;
mod supervisor;

/// A running broker. Dropping it does not stop it; [`Server::stop`] does.
pub struct Server {
    broker: Arc<Broker>,
    stop: Stop,
    kafka_addresses: Vec<SocketAddr>,
    http: Option<Box<dyn HttpServer>>,
    shards: Vec<ShardHandle>,
    large: JoinHandle<()>,
    handshakes: Option<Handshakes>,
    admin: JoinHandle<()>,
    /// Thread of the membership, if the broker is part of a cluster.
    membership: Option<MembershipThread>,
    supervisor: Supervisor,
}

/// An HTTP address to be served.
pub struct HttpPlace {
    /// The address as the configuration has it.
    pub listen: HostPort,
    /// The listening socket.
    pub socket: TcpListener,
    /// The token that clients must show.
    pub token: Option<Secret>,
    /// Handle on the broker.
    pub door: Door,
}

/// A served HTTP address.
pub trait HttpServer: Send {
    /// The address that was bound.
    fn address(&self) -> SocketAddr;

    /// Waits for the threads that send requests to the broker, which has told its [`Door`] to stop.
    /// The address serves until this value is dropped: the broker closes its logs before that.
    fn join(&mut self);
}

/// The reason why an HTTP address could not be served.
pub type HttpError = Box<dyn std::error::Error + Send + Sync>;

/// The reason why a broker did not start. No thread is left running.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A listener's address cannot be bound.
    #[error(
        "cannot listen on {address}: {source}; is another broker running? choose another address with -o {key}=…"
    )]
    Bind {
        /// Address that cannot be bound.
        address: String,
        /// The configuration key that named it.
        key: &'static str,
        /// Error of the kernel.
        source: std::io::Error,
    },
    /// A socket of the service manager cannot be used.
    #[error(transparent)]
    Handed(#[from] HandedError),
    /// A thread or its runtime cannot be made.
    #[error("cannot start a thread: {source}")]
    Runtime {
        /// Error of the kernel.
        source: std::io::Error,
    },
    /// The HTTP address cannot be served.
    #[error(transparent)]
    Http(HttpError),
    /// The data directory cannot be used.
    #[error(transparent)]
    Open(#[from] OpenError),
}

/// Configuration key of the HTTP address.
const HTTP_KEY: &str = "levada.http.listen";

/// Directories that another version has made, or Kafka, may be readable by all users.
fn warn_if_exposed(directory: &std::path::Path) {
    // An error of a directory that cannot be listed was logged when it was opened.
    if let Ok(Some(path)) = levada_log::disk::exposed(directory) {
        tracing::warn!(
            path = %path.display(),
            "every user of this machine can read the credentials in the data directory; next: chmod -R o= {}",
            directory.display()
        );
    }
}

/// The listening sockets: one for each listener, and that of the HTTP address if there is one. A
/// taken port leaves the data directory as it was.
fn sockets(config: &BrokerConfig) -> Result<(Vec<TcpListener>, Option<TcpListener>), StartError> {
    let mut handed = Handed::take()?;
    let mut known: Vec<&str> = Vec::new();
    let mut listeners = Vec::new();
    for listener in &config.listeners {
        known.push(&listener.name);
        listeners.push(match handed.claim(&listener.name) {
            Some(socket) => socket,
            None => listener::bind(&listener.bind, "listeners", config.is_v6_only(listener))?,
        });
    }
    let mut http = None;
    if let Some(address) = &config.http_listen {
        known.push(handed::HTTP);
        http = Some(match handed.claim(handed::HTTP) {
            Some(socket) => socket,
            None => listener::bind(address, HTTP_KEY, false)?,
        });
    }
    handed.finish(&known)?;
    Ok((listeners, http))
}

/// Opens the broker; in a cluster with the task of following it.
fn open_broker(
    runtime: &Runtime,
    config: BrokerConfig,
    bound: &[SocketAddr],
) -> Result<(Arc<Broker>, Option<Following>), OpenError> {
    // Coordinators that are opened have things to write and to wait for already.
    let _entered = runtime.enter();
    match config.cluster {
        None => Ok((Broker::open(config, bound)?, None)),
        Some(_) => Broker::join(config, bound).map(|(broker, following)| (broker, Some(following))),
    }
}

impl Server {
    /// Starts a broker and returns once it accepts connections. A broker in a cluster accepts them
    /// later, when the controllers have sent it the metadata. If the configuration names an HTTP
    /// address, `serve_http` serves it.
    ///
    /// # Errors
    /// If an address is taken, the data directory is damaged or in use, or threads cannot be made.
    pub fn start(
        config: BrokerConfig,
        serve_http: impl FnOnce(HttpPlace) -> Result<Box<dyn HttpServer>, HttpError>,
    ) -> Result<Self, StartError> {
        let (listeners, http_socket) = sockets(&config)?;
        let bound =
            |socket: &TcpListener| socket.local_addr().map_err(|source| StartError::Runtime { source });
        let kafka_addresses = listeners.iter().map(bound).collect::<Result<Vec<_>, _>>()?;

        let directories = config.log_dirs.clone();
        let (http_listen, http_token) = (config.http_listen.clone(), config.http_token.clone());
        let open: Vec<Arc<Listener>> = config.listeners.iter().cloned().map(Arc::new).collect();
        let runtime = admin::runtime()?;
        let (broker, following) = open_broker(&runtime, config, &kafka_addresses)?;
        let (accepting, accept) = watch::channel(following.is_none());
        let handle = runtime.handle().clone();
        directories.iter().for_each(|directory| warn_if_exposed(directory));
        let stop = Stop::new();
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let supervisor = Supervisor::of_environment(cores + 1);
        let liveness = Liveness::new(cores + 1, supervisor.pulse());
        let connections = Arc::<ConnectionLimits>::default();
        let signs = (liveness.clone(), connections.clone());
        let door = Door::new(broker.clone(), stop.clone(), signs, kafka_addresses[0]);
        let place = http_listen.zip(http_socket);
        let place = place.map(|(listen, socket)| HttpPlace { listen, socket, token: http_token, door });
        let http = place.map(serve_http).transpose().map_err(StartError::Http)?;
        let large = large::start(broker.clone(), stop.clone());
        let (handover, large) = large.map_err(|source| StartError::Runtime { source })?;
        let shards: Vec<_> = (0..cores)
            .map(|index| {
                shard::start(index, (broker.clone(), stop.clone()), handover.clone(), liveness.clone())
            })
            .collect::<Result<_, _>>()?;
        let inboxes: Vec<_> = shards.iter().map(|shard| shard.inbox.clone()).collect();
        let handshakes = if open.iter().any(|listener| listener.protocol.has_tls()) {
            Some(handshakes::start(broker.clone(), inboxes.clone(), stop.clone())?)
        } else {
            None
        };
        let duties = admin::Duties {
            broker: broker.clone(),
            stop: stop.clone(),
            listeners: open.into_iter().zip(listeners).collect(),
            inboxes,
            streams: shards.iter().map(|shard| shard.streams.clone()).collect(),
            handshakes: handshakes.as_ref().map(|thread| thread.inbox.clone()),
            accept,
            liveness,
            connections,
        };
        let admin = admin::start(runtime, duties)?;
        let membership = following.map(|following| membership_events::start(following, (handle, accepting)));
        let membership = membership.transpose()?;
        Ok(Self {
            broker,
            stop,
            kafka_addresses,
            http,
            shards,
            large,
            handshakes,
            admin,
            membership,
            supervisor,
        })
    }

    /// Starts a broker whose configuration names no HTTP address.
    #[cfg(test)]
    pub(crate) fn start_without_http(config: BrokerConfig) -> Result<Self, StartError> {
        Self::start(config, |_| Err("a test serves no HTTP address".into()))
    }

    /// True if the broker is in a cluster, and accepts connections once the controllers have sent
    /// it the metadata.
    #[must_use]
    pub fn is_joining(&self) -> bool {
        self.membership.is_some()
    }

    /// Endpoints for Kafka clients, one address for each listener.
    #[must_use]
    pub fn kafka_addresses(&self) -> &[SocketAddr] {
        &self.kafka_addresses
    }

    /// Address of the console, `/healthz` and `/metrics`.
    #[must_use]
    pub fn http_address(&self) -> Option<SocketAddr> {
        self.http.as_ref().map(|http| http.address())
    }

    /// The recovery after an unclean stop, which continues while the broker serves.
    #[must_use]
    pub fn recovery(&self) -> Arc<Recovery> {
        self.broker.replicas().recovery().clone()
    }

    /// Serves until a signal requests the stop, then stops in order. `read` reads the configuration
    /// again when a signal requests that. Blocks.
    ///
    /// # Errors
    /// The reason for which a broker could not stay in its cluster, or could not continue.
    pub fn wait(
        mut self,
        signals: &Signals,
        read: impl Fn() -> Result<BrokerConfig, ConfigErrors>,
    ) -> Result<(), String> {
        self.supervisor.ready();
        if let Some(membership) = &self.membership {
            membership.order_by(signals.sender());
        }
        let orders = signals.sender();
        self.broker.on_fatal(move || {
            // A process that stops already takes no orders.
            let _ = orders.send(Order::Leave);
        });
        loop {
            match signals.next(self.supervisor.pause(Instant::now())) {
                None => {}
                Some(Order::Reload) => {
                    self.supervisor.reloading();
                    self.reload(read());
                    self.supervisor.ready();
                }
                Some(Order::DumpAndStop) => {
                    dump::log_state(&self.broker, &self.shards);
                    break;
                }
                Some(Order::Stop | Order::Leave) => break,
            }
            self.supervisor.keep_alive(Instant::now());
        }
        self.supervisor.stopping();
        let reason = self
            .membership
            .as_ref()
            .and_then(MembershipThread::reason)
            .or_else(|| self.broker.fatal_reason());
        self.stop();
        reason.map_or(Ok(()), Err)
    }

    /// Applies a configuration that was read again, or logs the reason for its refusal.
    fn reload(&self, fresh: Result<BrokerConfig, ConfigErrors>) {
        let reloaded =
            fresh.map_err(ReloadError::from).and_then(|fresh| self.broker.publisher().reload(&fresh));
        let Differences { applied, waiting } = match reloaded {
            Ok(differences) => differences,
            Err(error) => {
                for line in error.to_string().lines() {
                    tracing::error!("the configuration stays unchanged: {line}");
                }
                return;
            }
        };
        tracing::info!(changed = applied.join(","), "configuration reloaded");
        if !waiting.is_empty() {
            tracing::warn!(
                keys = waiting.join(","),
                "these keys take effect at the next start of the broker"
            );
        }
    }

    /// Stops in order. In a cluster, other brokers take over the leaderships. Then the broker
    /// accepts no connections, requests in flight finish within a grace period, waiting group
    /// members get responses, and logs are closed and marked clean. Blocks until all this is done.
    pub fn stop(self) {
        tracing::info!("stop requested");
        if let Some(membership) = self.membership {
            membership.shut_down();
            membership.join();
        }
        self.broker.begin_stop();
        self.stop.raise();
        self.broker.replicas().recovery().halt();
        self.broker.replicas().cleaner().halt();
        self.broker.replicas().moves().halt();
        self.broker.coordinators().unload();
        if let Some(handshakes) = self.handshakes
            && handshakes.thread.join().is_err()
        {
            tracing::error!("the TLS handshake thread panicked");
        }
        for shard in self.shards {
            drop(shard.inbox);
            if shard.thread.join().is_err() {
                tracing::error!("a shard thread panicked");
            }
        }
        if self.large.join().is_err() {
            tracing::error!("the large-request thread panicked");
        }
        let mut http = self.http;
        if let Some(http) = &mut http {
            http.join();
        }
        if self.admin.join().is_err() {
            tracing::error!("the admin thread panicked");
        }
        self.broker.close();
        tracing::info!("stop finished");
    }
}
