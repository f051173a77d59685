//! The memory of requests from unauthenticated clients, limited in total and per address. The
//! broker closes a connection that exceeds the limit instead of letting it wait.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;

/// Bytes of all of them together. The requests of an authentication are far smaller than the
/// minimum that counts.
pub(crate) const ALL_BYTES: u64 = 16 << 20;

/// Maximum number of bytes in use by unauthenticated clients from one address.
pub(crate) const ADDRESS_BYTES: u64 = 2 << 20;
const _: () = assert!(ADDRESS_BYTES < ALL_BYTES, "one address cannot use up the share of all");

/// Memory of all of them together.
#[derive(Debug, Default)]
pub(crate) struct Newcomers {
    held: Mutex<HashMap<IpAddr, u64>>,
}

/// Memory of one connection, released on drop.
#[derive(Debug)]
pub(crate) struct NewcomerShare {
    newcomers: Arc<Newcomers>,
    address: IpAddr,
    bytes: u64,
}

impl Newcomers {
    /// A share of nothing yet, for a client from this address.
    pub(crate) fn share(self: &Arc<Self>, address: IpAddr) -> NewcomerShare {
        NewcomerShare { newcomers: self.clone(), address: address.to_canonical(), bytes: 0 }
    }

    /// Bytes in use by unauthenticated clients.
    pub(super) fn held_bytes(&self) -> u64 {
        self.held.lock().values().sum()
    }
}

impl NewcomerShare {
    /// Updates the number of received bytes; returns true if the client may hold them. A single
    /// request of `request_bytes_max` bytes always may.
    pub(crate) fn grow_to(&mut self, bytes: usize, request_bytes_max: u32) -> bool {
        let more = (bytes as u64).saturating_sub(self.bytes);
        let one = u64::from(request_bytes_max);
        let mut held = self.newcomers.held.lock();
        let all: u64 = held.values().sum();
        let own = held.get(&self.address).copied().unwrap_or(0);
        if all + more > ALL_BYTES.max(one) || own + more > ADDRESS_BYTES.max(one) {
            return false;
        }
        if more > 0 {
            held.insert(self.address, own + more);
            self.bytes += more;
        }
        true
    }
}

impl Drop for NewcomerShare {
    fn drop(&mut self) {
        let mut held = self.newcomers.held.lock();
        let own = held.get(&self.address).copied().unwrap_or(0);
        assert!(own >= self.bytes, "{} bytes are given back of {own}", self.bytes);
        match own - self.bytes {
            0 => drop(held.remove(&self.address)),
            rest => drop(held.insert(self.address, rest)),
        }
    }
}
