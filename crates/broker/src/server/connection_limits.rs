//! Limits on the number of connections: in total and per listener (`max.connections`), and per
//! address (`max.connections.per.ip`, `max.connections.per.ip.overrides`).

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::watch;

use levada_config::{BrokerConfig, Listener};

#[cfg(test)]
mod tests;

/// The connections that there are, counted.
#[derive(Debug)]
pub(crate) struct ConnectionLimits {
    taken: Mutex<InUse>,
    freed: watch::Sender<()>,
}

impl Default for ConnectionLimits {
    fn default() -> Self {
        Self { taken: Mutex::default(), freed: watch::Sender::new(()) }
    }
}

#[derive(Debug, Default)]
struct InUse {
    total: u32,
    by_address: HashMap<IpAddr, u32>,
    by_listener: HashMap<String, u32>,
    hosts: LimitedHosts,
}

/// Hosts with limits of their own that the configuration names, and the limits of their addresses.
#[derive(Debug, Default)]
struct LimitedHosts {
    names: BTreeMap<String, u32>,
    addresses: BTreeMap<IpAddr, u32>,
}

/// Spreads connections over time: up to a second's worth in a burst, then one after the other.
#[derive(Debug, Default)]
pub(crate) struct AcceptRate {
    /// Time at which the connections accepted so far are within the rate.
    until: Option<Instant>,
}

impl AcceptRate {
    /// Books one connection at this rate; returns the time that the next connection has to wait.
    pub(crate) fn take(&mut self, per_second: u32, now: Instant) -> Duration {
        let until = self.until.unwrap_or(now).max(now) + Duration::from_secs(1) / per_second.max(1);
        self.until = Some(until);
        (until - now).saturating_sub(Duration::from_secs(1))
    }
}

/// The limit that refuses a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Full {
    /// The maximum number of connections is reached.
    Broker,
    /// The maximum number of connections of this listener is reached.
    Listener,
    /// The maximum number of connections from this address is reached.
    Address,
}

/// Numbers of open connections.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpenConnections {
    /// Number of connections by the name of the listener.
    pub listeners: Vec<(String, u32)>,
    /// Number of connections by the address of the client, the largest numbers first; the rest of a
    /// long list is omitted.
    pub addresses: Vec<(IpAddr, u32)>,
    /// Number of the other addresses.
    pub others: usize,
}

/// A connection's permit, which counts against the limits until it is dropped.
#[derive(Debug)]
pub(crate) struct ConnectionPermit {
    connections: Arc<ConnectionLimits>,
    address: IpAddr,
    listener: Arc<Listener>,
}

impl ConnectionLimits {
    /// Acquires a permit for a connection from `address` to `listener`.
    ///
    /// # Errors
    /// Which limit is reached.
    pub(crate) fn take(
        self: &Arc<Self>,
        (address, listener): (IpAddr, &Arc<Listener>),
        limits: &BrokerConfig,
    ) -> Result<ConnectionPermit, Full> {
        // One host behind a listener for both families is one address.
        let address = address.to_canonical();
        let mut taken = self.taken.lock();
        let from_there = taken.by_address.get(&address).copied().unwrap_or(0);
        let own = limits.max_connections_of.addresses.get(&address);
        let own = own.or_else(|| taken.hosts.addresses.get(&address));
        let most = own.copied().unwrap_or(limits.max_connections_per_ip);
        if from_there >= most {
            return Err(Full::Address);
        }
        let of_listener = taken.by_listener.get(&listener.name).copied().unwrap_or(0);
        let own = limits.limits_of(&listener.name);
        if of_listener >= own.connections {
            return Err(Full::Listener);
        }
        if taken.total >= limits.max_connections && !own.is_protected {
            return Err(Full::Broker);
        }
        taken.total += 1;
        taken.by_address.insert(address, from_there + 1);
        taken.by_listener.insert(listener.name.clone(), of_listener + 1);
        Ok(ConnectionPermit { connections: self.clone(), address, listener: listener.clone() })
    }

    /// The open connections, with a maximum number of addresses.
    pub(crate) fn open(&self, addresses_max: usize) -> OpenConnections {
        let taken = self.taken.lock();
        let mut listeners: Vec<_> =
            taken.by_listener.iter().map(|(name, count)| (name.clone(), *count)).collect();
        let mut addresses: Vec<_> =
            taken.by_address.iter().map(|(address, count)| (*address, *count)).collect();
        drop(taken);
        listeners.sort_unstable();
        addresses.sort_unstable_by_key(|(address, count)| (Reverse(*count), *address));
        let others = addresses.len().saturating_sub(addresses_max);
        addresses.truncate(addresses_max);
        OpenConnections { listeners, addresses, others }
    }

    /// True if these names are equal to those of the last lookup.
    pub(crate) fn has_looked_up(&self, names: &BTreeMap<String, u32>) -> bool {
        self.taken.lock().hosts.names == *names
    }

    /// Applies the limits of `names`, which have been found to be these addresses.
    pub(crate) fn limit_hosts(&self, names: BTreeMap<String, u32>, addresses: BTreeMap<IpAddr, u32>) {
        self.taken.lock().hosts = LimitedHosts { names, addresses };
    }

    /// Notifies of connections that end from now on: all waiters then check again, as each may wait
    /// for another limit.
    pub(crate) fn freed(&self) -> watch::Receiver<()> {
        self.freed.subscribe()
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        let mut taken = self.connections.taken.lock();
        let from_there = taken.by_address.get(&self.address).copied().unwrap_or(0);
        assert!((1..=taken.total).contains(&from_there), "{from_there} of {} connections", taken.total);
        taken.total -= 1;
        release(&mut taken.by_address, &self.address);
        release(&mut taken.by_listener, &self.listener.name);
        drop(taken);
        self.connections.freed.send_replace(());
    }
}

/// Counts one less; without any, there is no entry.
fn release<K: Hash + Eq>(counts: &mut HashMap<K, u32>, key: &K) {
    match counts.get_mut(key) {
        Some(count) if *count > 1 => *count -= 1,
        _ => {
            counts.remove(key);
        }
    }
}
