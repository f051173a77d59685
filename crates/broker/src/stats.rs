//! Counters of connections, requests and bytes since the start, in relaxed atomics that hot paths
//! may update.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

pub(crate) use self::clients::Authentication;
use self::clients::Clients;
pub use self::clients::{ListenerCounts, NamedClient, OpenConnection};
pub(crate) use self::durations::SharedDurations;
pub use self::durations::{BOUNDS_US, Durations};
pub(crate) use self::lags::LagHistory;
pub use self::lags::LagSample;
pub(crate) use self::requests::Answered;
use self::requests::RequestTables;
pub use self::requests::{ApiTotals, Phase, Recorder};
use self::traffic::TrafficBook;
pub use self::traffic::{BusiestClients, ByteRates, ClientTraffic};
pub(crate) use self::traffic::{SAMPLE_STEP, shortened};

mod clients;
mod durations;
mod lags;
mod requests;
mod traffic;

/// Counts since the start.
#[derive(Debug)]
pub struct Stats {
    started: SystemTime,
    requests: RequestTables,
    clients: Clients,
    http_connections: AtomicU64,
    handshakes_failed: AtomicU64,
    produced_bytes: AtomicU64,
    fetched_bytes: AtomicU64,
    replicated_bytes: AtomicU64,
    lags: LagHistory,
    traffic: TrafficBook,
}

impl Stats {
    /// Counts of zero, for a broker started at this time.
    pub fn new(started: SystemTime) -> Self {
        Self {
            started,
            requests: RequestTables::default(),
            clients: Clients::default(),
            http_connections: AtomicU64::new(0),
            handshakes_failed: AtomicU64::new(0),
            produced_bytes: AtomicU64::new(0),
            fetched_bytes: AtomicU64::new(0),
            replicated_bytes: AtomicU64::new(0),
            lags: LagHistory::default(),
            traffic: TrafficBook::default(),
        }
    }

    /// A new table of requests, for one thread that processes requests.
    pub fn recorder(&self) -> Recorder {
        self.requests.recorder()
    }

    /// Counts an accepted connection to this listener, which is open until the returned value is
    /// dropped.
    pub fn connection(&self, listener: &str) -> OpenConnection {
        self.clients.opened(listener)
    }

    /// Counts a client's software until the returned value is dropped.
    pub fn software(&self, name: &str, version: &str) -> NamedClient {
        self.clients.software(name, version)
    }

    /// Counts an HTTP connection until the returned value is dropped.
    pub fn http_connection(&self) -> HttpConnection<'_> {
        self.http_connections.fetch_add(1, Ordering::Relaxed);
        HttpConnection { stats: self }
    }

    /// HTTP connections open now.
    pub fn http_connections(&self) -> u64 {
        self.http_connections.load(Ordering::Relaxed)
    }

    /// Counts an authentication that has ended, by listener, mechanism and result.
    pub fn authentication(&self, listener: &str, mechanism: &'static str, result: &'static str) {
        self.clients.authentication((listener.to_owned(), mechanism, result));
    }

    /// Numbers of authentications.
    pub fn authentications(&self) -> BTreeMap<Authentication, u64> {
        self.clients.authentications()
    }

    /// Connections by listener.
    pub fn listeners(&self) -> BTreeMap<String, ListenerCounts> {
        self.clients.listeners()
    }

    /// Open connections by name and version of the client software.
    pub fn softwares(&self) -> BTreeMap<(String, String), u64> {
        self.clients.softwares()
    }

    /// A TLS handshake did not succeed.
    pub fn handshake_failed(&self) {
        self.handshakes_failed.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts record bytes that were appended for producers.
    pub fn produced(&self, bytes: u64) {
        self.produced_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts record bytes in responses to fetches of consumers.
    pub fn fetched(&self, bytes: u64) {
        self.fetched_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts record bytes in responses to fetches of followers.
    pub fn replicated(&self, bytes: u64) {
        self.replicated_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Lag of groups over the last hour.
    pub(crate) fn lags(&self) -> &LagHistory {
        &self.lags
    }

    /// Counters of the clients with this user and client id, for a connection of one of them.
    pub fn client(&self, user: &str, client_id: &str) -> Arc<ClientTraffic> {
        self.traffic.client(user, client_id)
    }

    /// Takes a sample of the counters of all clients; due every [`SAMPLE_STEP`].
    pub(crate) fn sample_clients(&self, now_ms: i64) {
        self.traffic.sample(now_ms);
    }

    /// Client ids and users with the highest rates of the last minute: at most this number of those
    /// that have produced most, and of those that have fetched most.
    pub fn busiest(&self, most: usize, now_ms: i64) -> BusiestClients {
        self.traffic.busiest(most, now_ms)
    }

    /// Time at which counting began.
    pub fn started(&self) -> SystemTime {
        self.started
    }

    /// Each requested API, with the counters of all threads.
    pub fn requests(&self) -> Vec<(&'static str, ApiTotals)> {
        self.requests.totals()
    }

    /// Connections that are open now.
    pub fn connections_open(&self) -> u64 {
        self.listeners().values().map(|counts| counts.open).sum()
    }

    /// TLS handshakes that failed.
    pub fn handshakes_failed(&self) -> u64 {
        self.handshakes_failed.load(Ordering::Relaxed)
    }

    /// Bytes of records that producers have sent.
    pub fn produced_bytes(&self) -> u64 {
        self.produced_bytes.load(Ordering::Relaxed)
    }

    /// Bytes of records that consumers have been sent.
    pub fn fetched_bytes(&self) -> u64 {
        self.fetched_bytes.load(Ordering::Relaxed)
    }

    /// Bytes of records that followers have been sent.
    pub fn replicated_bytes(&self) -> u64 {
        self.replicated_bytes.load(Ordering::Relaxed)
    }
}

/// An open HTTP connection.
pub struct HttpConnection<'a> {
    stats: &'a Stats,
}

impl Drop for HttpConnection<'_> {
    fn drop(&mut self) {
        self.stats.http_connections.fetch_sub(1, Ordering::Relaxed);
    }
}
