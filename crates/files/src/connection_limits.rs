//! Limits on the number of connections, in total and per address.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

/// The connections that there are.
#[derive(Debug)]
pub(crate) struct ConnectionLimits {
    most: usize,
    most_of_address: usize,
    taken: Mutex<InUse>,
    freed: Notify,
}

#[derive(Debug, Default)]
struct InUse {
    total: usize,
    by_address: HashMap<IpAddr, usize>,
}

/// The limit that is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Full {
    All,
    Address,
}

/// A connection's permit, which counts against the limits until it is dropped.
#[derive(Debug)]
pub(crate) struct ConnectionPermit {
    connections: Arc<ConnectionLimits>,
    address: Option<IpAddr>,
}

impl ConnectionLimits {
    pub(crate) fn new(most: usize, most_of_address: usize) -> Arc<Self> {
        Arc::new(Self { most, most_of_address, taken: Mutex::default(), freed: Notify::new() })
    }

    /// Acquires a permit; sockets of this machine have no address and count only against the total.
    pub(crate) fn take(self: &Arc<Self>, address: Option<IpAddr>) -> Result<ConnectionPermit, Full> {
        let address = address.map(|address| address.to_canonical());
        let mut taken = self.taken.lock();
        if taken.total >= self.most {
            return Err(Full::All);
        }
        if let Some(address) = address {
            let count = taken.by_address.entry(address).or_insert(0);
            if *count >= self.most_of_address {
                return Err(Full::Address);
            }
            *count += 1;
        }
        taken.total += 1;
        let is_more_free = taken.total < self.most;
        drop(taken);
        if is_more_free {
            // Places that were freed together have woken only one of the waits.
            self.freed.notify_one();
        }
        Ok(ConnectionPermit { connections: self.clone(), address })
    }

    /// Completes when a connection has closed since the last wait, or another connection has left a
    /// permit unused.
    pub(crate) async fn freed(&self) {
        self.freed.notified().await;
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        let mut taken = self.connections.taken.lock();
        taken.total -= 1;
        if let Some(address) = self.address {
            match taken.by_address.get_mut(&address) {
                Some(count) if *count > 1 => *count -= 1,
                _ => drop(taken.by_address.remove(&address)),
            }
        }
        drop(taken);
        self.connections.freed.notify_one();
    }
}

#[cfg(test)]
mod tests;
