//! What is known about routes: on which of them the kernel copies what was to go by reference.
//!
//! Loopback, veth and tun always copy, and so does a card without scatter-gather; only the report after a send tells. A route that
//! copies is not used by reference for a while, then tried again. Owns no clock: the time is the caller's.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;

/// The routes of one thread, told apart by the local address: it stands for the device.
#[derive(Debug)]
pub struct Routes {
    /// Until when a route is not to be used by reference.
    copying: HashMap<IpAddr, Duration>,
    rest: Duration,
}

/// More addresses than this, a machine does not have; should it have them, the oldest knowledge goes.
const ROUTES: usize = 256;

impl Default for Routes {
    fn default() -> Routes {
        Routes::new(Duration::from_secs(60))
    }
}

impl Routes {
    /// Knows nothing yet. A route that copies rests for `rest`.
    pub fn new(rest: Duration) -> Routes {
        Routes { copying: HashMap::new(), rest }
    }

    /// Whether sending by reference from `local` is worth a try at the time `now` (since any fixed moment).
    pub fn may_refer(&self, local: IpAddr, now: Duration) -> bool {
        !local.is_loopback() && self.copying.get(&local).is_none_or(|until| now >= *until)
    }

    /// Takes in what the kernel reported about a send by reference from `local`.
    pub fn report(&mut self, local: IpAddr, copied: bool, now: Duration) {
        if !copied {
            self.copying.remove(&local);
            return;
        }
        if self.copying.len() >= ROUTES && !self.copying.contains_key(&local) {
            let oldest = self.copying.iter().min_by_key(|(_, until)| **until).map(|(local, _)| *local);
            self.copying.remove(&oldest.unwrap_or(local));
        }
        self.copying.insert(local, now.saturating_add(self.rest));
    }
}

#[cfg(test)]
mod tests;
