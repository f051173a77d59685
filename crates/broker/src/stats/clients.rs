//! Counts of connections by listener and by client software, and of authentications by listener and
//! mechanism. Connections begin and end far less often than requests, so a lock guards these
//! counts.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;

/// Pairs of name and version that are counted separately at the same time; further ones are
/// [`OTHER`].
const SOFTWARE_MAX: usize = 100;

/// Longest name or version of a client that is counted; a longer one is [`OTHER`].
const SOFTWARE_BYTES_MAX: usize = 64;

/// Name and version of clients beyond these limits.
const OTHER: &str = "other";

/// Connections of one listener.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ListenerCounts {
    /// Number of connections accepted since the start.
    pub opened: u64,
    /// Number of connections that are open now.
    pub open: u64,
}

/// Listener, mechanism and result of an authentication.
pub(crate) type Authentication = (String, &'static str, &'static str);

#[derive(Debug, Default)]
struct Book {
    listeners: BTreeMap<String, ListenerCounts>,
    software: BTreeMap<(String, String), u64>,
    authentications: BTreeMap<Authentication, u64>,
}

/// Counts of connections, client software and authentications; clones share them.
#[derive(Clone, Debug, Default)]
pub(super) struct Clients(Arc<Mutex<Book>>);

impl Clients {
    /// Counts an accepted connection to this listener.
    pub(super) fn opened(&self, listener: &str) -> OpenConnection {
        let mut book = self.0.lock();
        let counts = book.listeners.entry(listener.to_owned()).or_default();
        counts.opened += 1;
        counts.open += 1;
        OpenConnection { clients: self.clone(), listener: listener.to_owned() }
    }

    /// Records the software that a client has named.
    pub(super) fn software(&self, name: &str, version: &str) -> NamedClient {
        let mut book = self.0.lock();
        let own = (name.to_owned(), version.to_owned());
        let is_long = name.len().max(version.len()) > SOFTWARE_BYTES_MAX;
        let is_full = book.software.len() >= SOFTWARE_MAX && !book.software.contains_key(&own);
        let other = || (OTHER.to_owned(), OTHER.to_owned());
        let names = if is_long { other() } else { own };
        let key = if is_full { other() } else { names.clone() };
        *book.software.entry(key.clone()).or_default() += 1;
        NamedClient { clients: self.clone(), key, names }
    }

    /// Counts an authentication that has ended.
    pub(super) fn authentication(&self, authentication: Authentication) {
        *self.0.lock().authentications.entry(authentication).or_default() += 1;
    }

    pub(super) fn listeners(&self) -> BTreeMap<String, ListenerCounts> {
        self.0.lock().listeners.clone()
    }

    pub(super) fn softwares(&self) -> BTreeMap<(String, String), u64> {
        self.0.lock().software.clone()
    }

    pub(super) fn authentications(&self) -> BTreeMap<Authentication, u64> {
        self.0.lock().authentications.clone()
    }
}

/// An open connection, for as long as this value lives.
#[derive(Debug)]
pub struct OpenConnection {
    clients: Clients,
    listener: String,
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        if let Some(counts) = self.clients.0.lock().listeners.get_mut(&self.listener) {
            counts.open -= 1;
        }
    }
}

/// A connection whose client has named its software, for as long as this value lives.
#[derive(Debug)]
pub struct NamedClient {
    clients: Clients,
    key: (String, String),
    names: (String, String),
}

impl NamedClient {
    /// Name and version, as the client has reported them.
    #[must_use]
    pub fn names(&self) -> (&str, &str) {
        (&self.names.0, &self.names.1)
    }
}

impl Drop for NamedClient {
    fn drop(&mut self) {
        let mut book = self.clients.0.lock();
        if let Some(count) = book.software.get_mut(&self.key) {
            *count -= 1;
            // Otherwise names that clients make up would fill the list until the broker stops.
            if *count == 0 {
                book.software.remove(&self.key);
            }
        }
    }
}

#[cfg(test)]
mod tests;
