//! The state of a shard that its connections share, and the state that all shards share.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use arc_swap::ArcSwap;
use levada_io::residency::Warmer;
use levada_io::{Caps, Counters, Engine};
use levada_process::shutdown::Stop;
use levada_tls::TlsSession;
use rustls::ServerConfig;
use tokio::sync::Notify;

use crate::access_log::LogHandle;
use crate::clock::Clock;
use crate::connection_limits::ConnectionLimits;
use crate::listing::ListingBudget;
use crate::request::HEAD_BYTES_MAX;
use crate::responder::{Prepared, Responder, Work};
use crate::site::Site;
use crate::stats::Stats;
use crate::tls::TlsOptions;

/// Bytes that are read at a time: a head of the largest size fits.
pub(crate) const INBOX_BYTES: usize = HEAD_BYTES_MAX + 4096;

/// State that all shards share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) site: Arc<ArcSwap<Site>>,
    /// TLS configuration of the addresses with TLS.
    pub(crate) tls: Option<Tls>,
    pub(crate) stats: Arc<Stats>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) caps: Caps,
    pub(crate) warmer: Warmer,
    pub(crate) connections: Arc<ConnectionLimits>,
    /// Limits of the address for operators, which still serves when the other addresses have
    /// reached theirs.
    pub(crate) operator_connections: Arc<ConnectionLimits>,
    /// True if connections with files begin with a header of the PROXY protocol.
    pub(crate) proxy_protocol: bool,
    pub(crate) stop: Stop,
    /// Time for which a client may accept no bytes of a response.
    pub(crate) send_time: Duration,
    /// Time that connections have to finish after the stop signal.
    pub(crate) grace: Duration,
    /// Number of open files that each shard may keep.
    pub(crate) files_max: usize,
    /// Memory of listings that clients have not received yet.
    pub(crate) listings: ListingBudget,
    pub(crate) started: SystemTime,
}

/// The certificate and the settings of handshakes, which follow it after a reload.
#[derive(Debug)]
pub(crate) struct Tls {
    pub(crate) options: TlsOptions,
    pub(crate) config: ArcSwap<ServerConfig>,
}

impl Shared {
    /// The TLS state of a new connection.
    pub(crate) fn session(&self) -> Result<TlsSession, rustls::Error> {
        let tls = self.tls.as_ref().expect("an address with TLS has a certificate");
        TlsSession::new(tls.config.load_full())
    }
}

/// State that the connections of one shard share; never leaves its thread.
pub(crate) struct Shard {
    pub(crate) shared: Arc<Shared>,
    pub(crate) engine: RefCell<Engine>,
    pub(crate) responder: Responder,
    pub(crate) clock: Clock,
    pub(crate) access_log: Option<LogHandle>,
    /// The buffer of all sockets: a whole request is processed in it, and an idle connection has no
    /// buffer.
    pub(crate) inbox: RefCell<Vec<u8>>,
    pub(crate) stopping: Cell<bool>,
    /// Notifies idle connections that the server stops.
    pub(crate) stopped: Notify,
}

impl Shard {
    /// A shard at its start.
    pub(crate) fn new(shared: Arc<Shared>, access_log: Option<LogHandle>) -> Self {
        let mut engine = Engine::new(&shared.caps, shared.counters.clone());
        engine.prefer_sendfile();
        Self {
            responder: Responder::new(shared.site.clone(), shared.files_max, shared.listings.clone()),
            engine: RefCell::new(engine),
            clock: Clock::default(),
            access_log,
            inbox: RefCell::new(vec![0; INBOX_BYTES]),
            stopping: Cell::new(false),
            stopped: Notify::new(),
            shared,
        }
    }

    /// Does work that waits for the disk on a thread that may block.
    pub(crate) async fn perform(&self, work: Work) -> Prepared {
        let (site, key) = (self.responder.site(), work.key().to_vec());
        let done = tokio::task::spawn_blocking(move || work.run(&site)).await;
        done.unwrap_or_else(|error| Prepared::failed(key, error.into()))
    }
}
