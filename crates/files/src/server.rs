//! The life of a server: opens the directory, binds the addresses, starts the shards, and stops
//! them in order.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

use arc_swap::ArcSwap;
use levada_io::residency::{Warmer, WarmerLimits};
use levada_io::{Caps, Counters};
use levada_process::descriptors;
use levada_process::shutdown::Stop;

use crate::access_log::{LogOptions, Writer};
use crate::connection_limits::ConnectionLimits;
use crate::encoding::Encoding;
use crate::listen::{self, Address, Handed, Listener, Purpose};
use crate::listing::{LISTINGS_BYTES_MAX, ListingBudget};
use crate::serving;
use crate::shard::{Shared, Tls};
use crate::signals::{Signal, Signals};
use crate::site::{Site, SiteError, SiteOptions};
use crate::stats::Stats;
use crate::tls::{TlsError, TlsOptions};

/// The complete settings of a server.
#[derive(Debug, Clone)]
pub struct Config {
    /// Served content and settings.
    pub site: SiteOptions,
    /// Addresses that serve files.
    pub listen: Vec<Address>,
    /// Addresses that serve files with TLS.
    pub listen_tls: Vec<Address>,
    /// Certificate for the addresses with TLS; without it no such address can be served.
    pub tls: Option<TlsOptions>,
    /// True if each connection there begins with a header of the PROXY protocol.
    pub proxy_protocol: bool,
    /// Address of `/metrics` and `/healthz`, if any.
    pub metrics: Option<Address>,
    /// The access log, if any.
    pub access_log: Option<LogOptions>,
    /// Number of serving threads; by default one per core.
    pub shards: Option<usize>,
    /// Connections at most; `None` permits [`CONNECTIONS_MAX`], or fewer if the limit of open files
    /// permits fewer.
    pub connections_max: Option<usize>,
    /// Maximum number of connections of one address.
    pub connections_per_address_max: usize,
    /// Time for which a client may accept no bytes of a response before its connection is closed,
    /// normally [`SEND_TIME`].
    pub send_time: Duration,
    /// Time for responses in flight to finish when the server stops.
    pub grace: Duration,
}

/// Connections at most by default.
pub const CONNECTIONS_MAX: usize = 100_000;

/// Time for which a client may accept no bytes of a response.
pub const SEND_TIME: Duration = Duration::from_secs(60);

/// The reason why a server did not start. No thread is left running.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The directory cannot be served.
    #[error(transparent)]
    Site(#[from] SiteError),
    /// The certificate cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// An address uses TLS, but no certificate is configured.
    #[error("{address} with TLS needs a certificate; name one with --tls-cert")]
    NoCertificate {
        /// First address with TLS.
        address: Address,
    },
    /// An address cannot be bound.
    #[error("cannot listen on {address}: {source}; choose another address")]
    Bind {
        /// Address that cannot be bound.
        address: Address,
        /// The error of the system.
        source: std::io::Error,
    },
    /// The sockets of the service manager cannot be used.
    #[error(
        "cannot use the sockets that the service manager has opened: {0}; expected listening stream sockets"
    )]
    Handed(std::io::Error),
    /// No address names a socket that the service manager has passed.
    #[error(
        "no option uses the socket {name:?} that the service manager has opened; add --listen systemd:{name}"
    )]
    LeftOver {
        /// Name of the socket.
        name: String,
    },
    /// The access log cannot be opened.
    #[error("cannot write the access log {}: {source}", path.display())]
    Log {
        /// Path of the access log.
        path: PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },
    /// A thread or its runtime cannot be made.
    #[error("cannot start a thread: {0}")]
    Thread(std::io::Error),
}

/// A running server. Dropping it does not stop it; [`Server::stop`] does.
#[derive(Debug)]
pub struct Server {
    shared: Arc<Shared>,
    addresses: Vec<Address>,
    metrics_address: Option<Address>,
    shards: Vec<JoinHandle<()>>,
    log: Option<Writer>,
    sockets: Vec<(PathBuf, Option<Identity>)>,
}

/// Share of all descriptors for open files, as a divisor, and the most descriptors for them; the
/// others are for connections.
const FILES_PART: u64 = 4;
const FILES_MAX: u64 = 4096;

/// Descriptors of files that each shard may have at least.
const FILES_MIN: u64 = 16;

/// Descriptors for everything else, plus more for each shard: listeners, pipes, polling.
const RESERVED: u64 = 64;
const RESERVED_OF_SHARD: u64 = 16;

/// The parts that a limit of descriptors has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Places {
    /// Number of files that each shard may keep open, with all their forms.
    files: usize,
    /// Number of connections with files, in total.
    connections: usize,
}

impl Places {
    fn of(descriptors: u64, shards: usize, precompressed: bool) -> Self {
        let number = |count: u64| usize::try_from(count).unwrap_or(usize::MAX);
        let (shards, forms) = (shards as u64, if precompressed { 1 + Encoding::ALL.len() as u64 } else { 1 });
        let files = ((descriptors / FILES_PART).min(FILES_MAX) / shards / forms).max(FILES_MIN / forms);
        let taken =
            files * forms * shards + RESERVED + RESERVED_OF_SHARD * shards + OPERATOR_CONNECTIONS as u64;
        Self { files: number(files), connections: number(descriptors.saturating_sub(taken)).max(1) }
    }
}

/// Time that the access log has for its last lines when the server stops.
const LOG_TIME: Duration = Duration::from_secs(5);

/// Connections to the address for operators at most, in all and of one address.
const OPERATOR_CONNECTIONS: usize = 64;
const OPERATOR_CONNECTIONS_OF_ADDRESS: usize = 16;

impl Server {
    /// Starts a server and returns once it accepts connections.
    ///
    /// # Errors
    /// If the directory cannot be opened, an address is taken, or threads cannot be made.
    pub fn start(config: Config) -> Result<Self, StartError> {
        descriptors::raise_limit();
        let site = Arc::new(ArcSwap::from_pointee(Site::open(config.site.clone())?));
        let tls = tls(config.tls.clone(), config.listen_tls.first())?;
        let Doors { addresses, metrics_address, listeners } = doors(&config)?;
        let stats = Arc::<Stats>::default();
        let log = config.access_log.as_ref().map(|options| {
            Writer::start(options, stats.clone())
                .map_err(|source| StartError::Log { path: options.path.clone(), source })
        });
        let log = log.transpose()?;
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        let count = config.shards.unwrap_or_else(cores).max(1);
        let places = Places::of(descriptors::limit(), count, site.load().options().precompressed);
        let possible = places.connections;
        let wanted = config.connections_max.unwrap_or(CONNECTIONS_MAX);
        match config.connections_max {
            Some(configured) if possible < configured => tracing::warn!(
                possible,
                configured,
                "the limit of open files permits fewer connections; raise `ulimit -n`"
            ),
            _ => tracing::debug!(possible, wanted, "connections within the limit of open files"),
        }
        let counters = Arc::new(Counters::default());
        let shared = Arc::new(Shared {
            site,
            tls,
            stats,
            caps: Caps::probe(),
            warmer: Warmer::new(WarmerLimits::default(), counters.clone()),
            counters,
            connections: ConnectionLimits::new(possible.min(wanted), config.connections_per_address_max),
            operator_connections: ConnectionLimits::new(
                OPERATOR_CONNECTIONS,
                OPERATOR_CONNECTIONS_OF_ADDRESS,
            ),
            proxy_protocol: config.proxy_protocol,
            stop: Stop::new(),
            send_time: config.send_time,
            grace: config.grace,
            files_max: places.files,
            listings: ListingBudget::new(LISTINGS_BYTES_MAX),
            started: SystemTime::now(),
        });
        let listeners = listen::for_shards(listeners, count)
            .map_err(|(address, source)| StartError::Bind { address, source })?;
        let mut shards = Vec::with_capacity(count);
        for (index, own) in listeners.into_iter().enumerate() {
            let access_log = log.as_ref().map(|log| log.handle(shared.stats.clone()));
            match serving::start(index, shared.clone(), own, access_log) {
                Ok(shard) => shards.push(shard),
                Err(error) => {
                    shared.stop.raise();
                    return Err(StartError::Thread(error));
                }
            }
        }
        let bound = config.listen.iter().chain(&config.listen_tls).chain(&config.metrics);
        let sockets = bound.filter_map(socket).collect();
        Ok(Self { shared, addresses, metrics_address, shards, log, sockets })
    }

    /// Addresses that serve files.
    #[must_use]
    pub fn addresses(&self) -> &[Address] {
        &self.addresses
    }

    /// Address that serves metrics.
    #[must_use]
    pub fn metrics_address(&self) -> Option<&Address> {
        self.metrics_address.as_ref()
    }

    /// The counts of this server.
    #[must_use]
    pub fn stats(&self) -> &Stats {
        &self.shared.stats
    }

    /// Opens the directory and the access log again under their names, and reads the certificate
    /// again. Parts that cannot be read stay unchanged.
    pub fn reload(&self) {
        let before = self.shared.site.load_full();
        match Site::open(before.options().clone()) {
            Ok(site) => {
                self.shared.site.store(Arc::new(site));
                tracing::info!("directory reopened");
            }
            Err(error) => {
                tracing::error!(%error, "cannot reopen the directory; the previous one stays in use")
            }
        }
        if let Some(tls) = &self.shared.tls {
            match tls.options.load() {
                Ok(config) => tls.config.store(Arc::new(config)),
                Err(error) => {
                    tracing::error!(%error, "cannot reload the certificate; the previous one stays in use")
                }
            }
        }
        if let Some(log) = &self.log {
            log.reopen();
        }
    }

    /// Serves until a signal of `signals` requests the stop; reloads on request of a signal. A
    /// second stop ends the process immediately. Blocks.
    pub fn wait(self, signals: Signals) {
        while signals.next() == Signal::Reload {
            self.reload();
        }
        std::thread::spawn(move || {
            while signals.next() != Signal::Stop {}
            std::process::exit(1);
        });
        self.stop();
    }

    /// Stops in order: no new connections, responses in flight finish within the grace period, the
    /// access log is written, unless its disk accepts nothing for five seconds. Blocks.
    pub fn stop(self) {
        self.shared.stop.raise();
        for shard in self.shards {
            if shard.join().is_err() {
                tracing::error!("a shard thread panicked");
            }
        }
        if let Some(log) = self.log {
            log.finish(LOG_TIME);
        }
        for (path, bound) in self.sockets {
            // Another server may have bound its own there since, which stays.
            if bound.is_some() && identity(&path) == bound {
                // Another process may have removed it already.
                let _ = std::fs::remove_file(path);
            }
        }
    }
}

/// The path of an address that has one, with the identity of the socket at that path.
fn socket(address: &Address) -> Option<(PathBuf, Option<Identity>)> {
    match address {
        Address::Unix(path) => Some((path.clone(), identity(path))),
        Address::Tcp(..) | Address::Inherited(_) => None,
    }
}

/// Device and inode.
type Identity = (u64, u64);

fn identity(path: &Path) -> Option<Identity> {
    let metadata = std::fs::symlink_metadata(path).ok()?;
    Some((metadata.dev(), metadata.ino()))
}

/// Everything that a server listens on.
struct Doors {
    addresses: Vec<Address>,
    metrics_address: Option<Address>,
    listeners: Vec<Listener>,
}

/// Binds all addresses, and returns the bound addresses.
fn doors(config: &Config) -> Result<Doors, StartError> {
    let (plain, secure) = (&config.listen, &config.listen_tls);
    let all = || plain.iter().chain(secure).chain(&config.metrics);
    let mut handed = Handed::take(all()).map_err(StartError::Handed)?;
    let mut doors = Doors { addresses: Vec::new(), metrics_address: None, listeners: Vec::new() };
    let purposes = [Purpose::Files, Purpose::SecureFiles, Purpose::Metrics];
    let purposes = purposes.into_iter().zip([plain.len(), secure.len(), config.metrics.iter().len()]);
    let purposes = purposes.flat_map(|(purpose, count)| std::iter::repeat_n(purpose, count));
    for (address, purpose) in all().zip(purposes) {
        let failed = |source| StartError::Bind { address: address.clone(), source };
        let mut listeners =
            listen::bind(address, (purpose, address.is_v6_only(all())), &mut handed).map_err(failed)?;
        let bound = listeners.iter().map(Listener::address).collect::<Result<Vec<_>, _>>().map_err(failed)?;
        match purpose {
            Purpose::Files | Purpose::SecureFiles => doors.addresses.extend(bound),
            Purpose::Metrics => doors.metrics_address = bound.into_iter().next(),
        }
        doors.listeners.append(&mut listeners);
    }
    match handed.left_over() {
        None => Ok(doors),
        Some(name) => Err(StartError::LeftOver { name: name.to_owned() }),
    }
}

/// The certificate, if there is one or an address needs it.
fn tls(options: Option<TlsOptions>, needed_by: Option<&Address>) -> Result<Option<Tls>, StartError> {
    match (options, needed_by) {
        (Some(options), _) => Ok(Some(Tls { config: ArcSwap::from_pointee(options.load()?), options })),
        (None, Some(address)) => Err(StartError::NoCertificate { address: address.clone() }),
        (None, None) => Ok(None),
    }
}

#[cfg(test)]
mod tests;
