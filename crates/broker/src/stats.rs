//! Counts of connections, requests and bytes since the start, in relaxed atomics that hot paths may touch.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::SystemTime,
};

use levada_wire::{ApiKey, api::APIS};

/// Numbers of APIs fit below this; checked by a test.
const API_SLOTS: usize = 128;

/// Counts since the start.
#[derive(Debug)]
pub struct Stats {
    started: SystemTime,
    requests: [AtomicU64; API_SLOTS],
    connections_opened: AtomicU64,
    connections_closed: AtomicU64,
    http_connections: AtomicU64,
    handshakes_failed: AtomicU64,
    produced_bytes: AtomicU64,
    fetched_bytes: AtomicU64,
    authenticated: AtomicU64,
    not_authenticated: AtomicU64,
    expired: AtomicU64,
}

impl Stats {
    /// All counts at 0, for a broker started at this time.
    pub fn new(started: SystemTime) -> Self {
        Self {
            started,
            requests: [const { AtomicU64::new(0) }; API_SLOTS],
            connections_opened: AtomicU64::new(0),
            connections_closed: AtomicU64::new(0),
            http_connections: AtomicU64::new(0),
            handshakes_failed: AtomicU64::new(0),
            produced_bytes: AtomicU64::new(0),
            fetched_bytes: AtomicU64::new(0),
            authenticated: AtomicU64::new(0),
            not_authenticated: AtomicU64::new(0),
            expired: AtomicU64::new(0),
        }
    }

    /// A request was received.
    pub fn request(&self, api: ApiKey) {
        if let Some(count) = self.slot(api) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// A connection was opened; it counts as closed when the returned value is dropped.
    pub fn connection(&self) -> Connection<'_> {
        self.connections_opened.fetch_add(1, Ordering::Relaxed);
        Connection { stats: self }
    }

    /// An HTTP connection was opened; it is one less when the returned value is dropped.
    pub(crate) fn http_connection(&self) -> HttpConnection<'_> {
        self.http_connections.fetch_add(1, Ordering::Relaxed);
        HttpConnection { stats: self }
    }

    /// HTTP connections open now.
    pub(crate) fn http_connections(&self) -> u64 {
        self.http_connections.load(Ordering::Relaxed)
    }

    /// A client has shown who it is, or could not.
    pub fn authenticated(&self, successfully: bool) {
        let count = if successfully { &self.authenticated } else { &self.not_authenticated };
        count.fetch_add(1, Ordering::Relaxed);
    }

    /// A connection was closed because its client had not shown again who it is.
    pub fn session_expired(&self) {
        self.expired.fetch_add(1, Ordering::Relaxed);
    }

    /// How many clients have shown who they are, how many could not, and how many sessions have expired.
    pub(crate) fn authentications(&self) -> [(&'static str, u64); 3] {
        let counts = [
            ("success", &self.authenticated),
            ("failure", &self.not_authenticated),
            ("expired", &self.expired),
        ];
        counts.map(|(result, count)| (result, count.load(Ordering::Relaxed)))
    }

    /// A TLS handshake did not succeed.
    pub fn handshake_failed(&self) {
        self.handshakes_failed.fetch_add(1, Ordering::Relaxed);
    }

    /// Record bytes were appended.
    pub fn produced(&self, bytes: u64) {
        self.produced_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Record bytes were answered to fetches.
    pub fn fetched(&self, bytes: u64) {
        self.fetched_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn started(&self) -> SystemTime {
        self.started
    }

    /// Each API that was asked for, with its count.
    pub(crate) fn requests(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let counted = APIS.iter().map(|api| {
            let count = self.slot(api.key).map_or(0, |count| count.load(Ordering::Relaxed));
            (api.name, count)
        });
        counted.filter(|(_, count)| *count > 0)
    }

    pub(crate) fn connections_opened(&self) -> u64 {
        self.connections_opened.load(Ordering::Relaxed)
    }

    pub(crate) fn connections_open(&self) -> u64 {
        // Read in this order, the difference cannot be negative.
        let closed = self.connections_closed.load(Ordering::Acquire);
        self.connections_opened.load(Ordering::Relaxed).saturating_sub(closed)
    }

    pub(crate) fn handshakes_failed(&self) -> u64 {
        self.handshakes_failed.load(Ordering::Relaxed)
    }

    pub(crate) fn produced_bytes(&self) -> u64 {
        self.produced_bytes.load(Ordering::Relaxed)
    }

    pub(crate) fn fetched_bytes(&self) -> u64 {
        self.fetched_bytes.load(Ordering::Relaxed)
    }

    fn slot(&self, api: ApiKey) -> Option<&AtomicU64> {
        self.requests.get(usize::try_from(api.wire()).ok()?)
    }
}

/// An open connection, for as long as this value lives.
#[derive(Debug)]
pub struct Connection<'a> {
    stats: &'a Stats,
}

/// An open HTTP connection.
pub(crate) struct HttpConnection<'a> {
    stats: &'a Stats,
}

impl Drop for HttpConnection<'_> {
    fn drop(&mut self) {
        self.stats.http_connections.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Drop for Connection<'_> {
    fn drop(&mut self) {
        self.stats.connections_closed.fetch_add(1, Ordering::Release);
    }
}
