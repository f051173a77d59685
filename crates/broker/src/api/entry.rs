//! Origin of a connection: its listener, the client's address, and the name in the client's TLS certificate.

use std::net::SocketAddr;
use std::sync::Arc;

use crate::config::Listener;
use crate::tls::names::CertifiedName;

/// What is known of a connection before its first request.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    /// The listener that it came by.
    pub(crate) listener: Arc<Listener>,
    /// The other end.
    pub(crate) peer: SocketAddr,
    /// Whom its certificate names; none without TLS, or if the client showed none.
    pub(crate) certificate: Option<Arc<CertifiedName>>,
}
