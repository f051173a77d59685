//! Origin of a connection: its listener, the client's address, and the name in the client's TLS
//! certificate. The client's software is added when the client reports it.

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};

use levada_config::Listener;

use crate::share_partitions::ShareConnection;
use crate::stats::{ClientTraffic, NamedClient};
use crate::telemetry::TelemetryConnection;
use crate::tls::names::CertifiedName;

/// Origin of a connection, known before its first request.
#[derive(Clone, Debug)]
pub(crate) struct ConnectionInfo {
    /// The listener that accepted it.
    pub(crate) listener: Arc<Listener>,
    /// Address of the client.
    pub(crate) peer: SocketAddr,
    /// Name in the client's certificate; none without TLS, or without a client certificate.
    pub(crate) certificate: Option<Arc<CertifiedName>>,
    /// Software of the client, if the client has reported it.
    pub(crate) software: OnceLock<Arc<NamedClient>>,
    /// Share sessions of the connection, which end with it; none before the first one.
    pub(crate) shares: OnceLock<Arc<ShareConnection>>,
    /// Client instance of the connection, which ends with it; none before the first request for
    /// telemetry.
    pub(crate) telemetry: OnceLock<Arc<TelemetryConnection>>,
    /// Counters of the connection's client; none before it first produces or fetches. Its user and
    /// the client id of that request count until the connection closes.
    pub(crate) traffic: OnceLock<Arc<ClientTraffic>>,
}

impl ConnectionInfo {
    /// A connection from `peer` that `listener` has accepted, without a certificate.
    pub(crate) fn new(listener: Arc<Listener>, peer: SocketAddr) -> Self {
        let (software, shares, telemetry, traffic) = Default::default();
        Self { listener, peer, certificate: None, software, shares, telemetry, traffic }
    }
}
