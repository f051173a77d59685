//! How many connections there may be: in all (`max.connections`) and from one address
//! (`max.connections.per.ip`).

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::config::BrokerConfig;

#[cfg(test)]
mod tests;

/// The connections that there are, counted.
#[derive(Debug, Default)]
pub(crate) struct Places {
    taken: Mutex<Taken>,
    freed: Notify,
}

#[derive(Debug, Default)]
struct Taken {
    total: u32,
    by_address: HashMap<IpAddr, u32>,
}

/// Why there is no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Full {
    /// There are as many connections as there may be at all.
    Broker,
    /// There are as many from this address.
    Address,
}

/// A connection's place, its own until dropped.
#[derive(Debug)]
pub(crate) struct Place {
    places: Arc<Places>,
    address: IpAddr,
}

impl Places {
    /// A place for a connection from `address`, if the limits have one left.
    ///
    /// # Errors
    /// Which limit is reached.
    pub(crate) fn take(self: &Arc<Self>, address: IpAddr, limits: &BrokerConfig) -> Result<Place, Full> {
        // One host behind a listener for both families is one address.
        let address = address.to_canonical();
        let mut taken = self.taken.lock();
        let from_there = taken.by_address.get(&address).copied().unwrap_or(0);
        if from_there >= limits.max_connections_per_ip {
            return Err(Full::Address);
        }
        if taken.total >= limits.max_connections {
            return Err(Full::Broker);
        }
        taken.total += 1;
        taken.by_address.insert(address, from_there + 1);
        Ok(Place { places: self.clone(), address })
    }

    /// Completes when a connection has gone since the last time somebody waited.
    pub(crate) async fn freed(&self) {
        self.freed.notified().await;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.places.taken.lock();
        taken.total -= 1;
        match taken.by_address.get_mut(&self.address) {
            Some(count) if *count > 1 => *count -= 1,
            _ => {
                taken.by_address.remove(&self.address);
            }
        }
        drop(taken);
        self.places.freed.notify_one();
    }
}
