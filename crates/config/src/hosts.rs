//! `max.connections.per.ip.overrides`: limits of connections from single hosts.
//!
//! The value is read whenever the configuration changes, while other changes of the metadata wait.
//! Host names in it are therefore kept as names, and `server` looks them up. Only the names that a
//! start or a reload finds in its sources must have an address.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, ToSocketAddrs};

use super::ConfigErrors;
use super::reader::Reader;
use super::words::words;

const KEY: &str = "max.connections.per.ip.overrides";

/// Maximum number of connections from single hosts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostLimits {
    /// Limits by client address.
    pub addresses: BTreeMap<IpAddr, u32>,
    /// Limits of hosts by name.
    pub names: BTreeMap<String, u32>,
}

impl HostLimits {
    /// Reads `address:number` or `name:number`, separated by commas; an IPv6 address contains
    /// colons itself.
    fn parse(text: &str) -> Option<Self> {
        let mut limits = Self::default();
        for word in words(text) {
            let (host, number) = word.rsplit_once(':')?;
            let number = number.trim().parse().ok()?;
            let host = host.trim().trim_start_matches('[').trim_end_matches(']');
            if let Ok(address) = host.parse::<IpAddr>() {
                limits.addresses.insert(address.to_canonical(), number);
            } else if !host.is_empty() {
                limits.names.insert(host.to_owned(), number);
            } else {
                return None;
            }
        }
        Some(limits)
    }
}

/// First address of a host. Waits for the name service.
pub fn address_of(name: &str) -> io::Result<IpAddr> {
    let none = || io::Error::new(io::ErrorKind::NotFound, "the host has no address");
    let mut found = (name, 0).to_socket_addrs()?;
    Ok(found.next().ok_or_else(none)?.ip().to_canonical())
}

impl Reader<'_> {
    pub(super) fn host_limits(&self) -> Result<HostLimits, ConfigErrors> {
        let allowed = "address:number, joined by commas";
        HostLimits::parse(self.text(KEY))
            .ok_or_else(|| ConfigErrors(vec![self.invalid(KEY, allowed.to_owned())]))
    }

    /// Refuses names of hosts that have no address. Waits for the name service.
    pub(super) fn check_hosts(&self, limits: &HostLimits) -> Result<(), ConfigErrors> {
        let Some(unknown) = limits.names.keys().find(|name| address_of(name).is_err()) else {
            return Ok(());
        };
        let allowed = format!("address:number, joined by commas; the host {unknown} has no address");
        Err(ConfigErrors(vec![self.invalid(KEY, allowed)]))
    }
}

#[cfg(test)]
mod tests;
