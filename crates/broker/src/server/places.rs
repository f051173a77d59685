//! How many connections there may be: in all (`max.connections`) and from one address
//! (`max.connections.per.ip`, `max.connections.per.ip.overrides`).

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

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

/// Spreads connections over time: up to a second's worth at once, then one after the other.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    /// When the connections accepted so far have had their time.
    until: Option<Instant>,
}

impl Pace {
    /// Takes the time of one connection at so many a second; how long the next has to wait.
    pub(crate) fn take(&mut self, per_second: u32, now: Instant) -> Duration {
        let until = self.until.unwrap_or(now).max(now) + Duration::from_secs(1) / per_second.max(1);
        self.until = Some(until);
        (until - now).saturating_sub(Duration::from_secs(1))
    }
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
        let most = limits.max_connections_of.get(&address).copied().unwrap_or(limits.max_connections_per_ip);
        if from_there >= most {
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
