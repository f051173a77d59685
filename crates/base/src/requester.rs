//! Key by which the clients of a broker share limited resources.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

/// Bits of an IPv6 address that name a network: each client has a whole one.
const NETWORK_BITS: u32 = 64;

/// Party whose requests share one queue: a principal, or the address of an unauthenticated client.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Requester {
    /// An address, or the network of an IPv6 address.
    Address(IpAddr),
    /// The name of a user.
    User(Arc<str>),
    /// A share group, for its members together.
    ShareGroup(Arc<str>),
    /// The broker itself, for work on behalf of all clients.
    Broker,
}

impl Requester {
    /// A client without a name.
    pub fn at(address: IpAddr) -> Self {
        Self::Address(match address.to_canonical() {
            IpAddr::V6(address) => {
                let network = address.to_bits() & (u128::MAX << NETWORK_BITS);
                // A loopback address stands for this machine, not for a network.
                if address.is_loopback() { address.into() } else { Ipv6Addr::from_bits(network).into() }
            }
            address @ IpAddr::V4(_) => address,
        })
    }
}

#[cfg(test)]
mod tests;
