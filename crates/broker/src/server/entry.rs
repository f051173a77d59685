//! How a connection came in: by which listener, from where, and who its TLS certificate says it is.

use std::net::SocketAddr;
use std::sync::Arc;

use crate::config::Listener;

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

/// Whom a client certificate that was verified names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertifiedName {
    /// The subject's distinguished name in the form of RFC 2253, as Java writes it.
    pub(crate) distinguished: String,
    /// The name of the principal, by `ssl.principal.mapping.rules`: what comes after `User:`.
    pub(crate) principal: String,
}
