//! The quorum as seen from outside: its epoch, its leader, and the node for the next request.
//!
//! Nodes come from the configuration (`controller.quorum.bootstrap.servers` or
//! `controller.quorum.voters`), from responses and from the metadata log. An unreachable leader is
//! normal for the seconds of an election: until then the other voters still name it, so the quorum
//! sends a request to each of them once before it retries the leader.

use std::collections::BTreeMap;

use thiserror::Error;

#[cfg(test)]
mod tests;

/// Host and port of a controller's listener. Names are resolved by the driver, at each attempt.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Address {
    /// Host name or IP address, without brackets.
    pub host: String,
    /// TCP port.
    pub port: u16,
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

/// The node to send a request to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Node id, unless only the address is known.
    pub node: Option<i32>,
    /// Host and port.
    pub address: Address,
}

/// Effect of a response on the known state of the quorum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// The response is of an earlier epoch.
    Stale,
    /// No change.
    Same,
    /// The epoch or the leader is new.
    Changed,
    /// The response names another leader of the same epoch, which contradicts the protocol.
    Conflict,
}

/// Epoch, leader and addresses of a quorum.
#[derive(Clone, Debug)]
pub struct Quorum {
    bootstrap: Vec<Address>,
    voters: BTreeMap<i32, Address>,
    epoch: i32,
    leader: Option<i32>,
    /// Index of the next candidate if there is no leader.
    next: usize,
    /// Number of other nodes before the leader is retried; 0 if the leader is not suspected.
    detour: usize,
}

impl Quorum {
    /// A quorum of unknown voters, reached by `controller.quorum.bootstrap.servers`.
    ///
    /// # Errors
    /// An entry is not `host:port`, or there is none.
    pub fn from_bootstrap_servers(servers: &str) -> Result<Self, AddressError> {
        let bootstrap: Vec<Address> = entries(servers).map(parse_address).collect::<Result<_, _>>()?;
        if bootstrap.is_empty() {
            return Err(AddressError { entry: servers.into() });
        }
        Ok(Self::new(bootstrap, BTreeMap::new()))
    }

    /// The quorum that `controller.quorum.voters` lists as `id@host:port`.
    ///
    /// # Errors
    /// An entry has another form, or there is none.
    pub fn from_voters(voters: &str) -> Result<Self, AddressError> {
        let voter = |entry: &str| {
            let invalid = || AddressError { entry: entry.into() };
            let (id, address) = entry.split_once('@').ok_or_else(invalid)?;
            let id = id.parse::<i32>().ok().filter(|id| *id >= 0).ok_or_else(invalid)?;
            Ok((id, parse_address(address)?))
        };
        let voters: BTreeMap<i32, Address> = entries(voters).map(voter).collect::<Result<_, _>>()?;
        if voters.is_empty() {
            return Err(AddressError { entry: String::new() });
        }
        Ok(Self::new(Vec::new(), voters))
    }

    /// Adds the addresses of `other` as further ways to reach the quorum.
    #[must_use]
    pub fn with_bootstrap_servers(mut self, other: Self) -> Self {
        self.bootstrap = other.bootstrap;
        self
    }

    fn new(bootstrap: Vec<Address>, voters: BTreeMap<i32, Address>) -> Self {
        Self { bootstrap, voters, epoch: 0, leader: None, next: 0, detour: 0 }
    }

    /// The highest epoch seen.
    pub fn epoch(&self) -> i32 {
        self.epoch
    }

    /// The leader of that epoch, if known.
    pub fn leader(&self) -> Option<i32> {
        self.leader
    }

    /// True if `node` is known as a voter. A broker must not have a voter's id.
    pub fn is_voter(&self, node: i32) -> bool {
        self.voters.contains_key(&node)
    }

    /// The node for the next request: the leader, or one known node after the other while no leader
    /// responds.
    pub fn target(&self) -> Target {
        if let Some(target) = self.leader_target().filter(|_| self.detour == 0) {
            return target;
        }
        let candidates = self.candidates();
        candidates[self.next % candidates.len()].clone()
    }

    /// The leader with its address, if both are known.
    pub fn leader_target(&self) -> Option<Target> {
        let leader = self.leader?;
        self.voters.get(&leader).map(|address| Target { node: Some(leader), address: address.clone() })
    }

    /// Processes the epoch and the leader (-1 is none) of a response, with the leader's address if
    /// the response contains it.
    pub fn told(&mut self, epoch: i32, leader: i32, address: Option<Address>) -> Told {
        let leader = (leader >= 0).then_some(leader);
        if epoch < self.epoch {
            return Told::Stale;
        }
        if epoch == self.epoch && self.leader.is_some() && leader.is_some() && leader != self.leader {
            return Told::Conflict;
        }
        if let (Some(leader), Some(address)) = (leader, address) {
            self.voters.insert(leader, address);
        }
        let known = (self.epoch, self.leader);
        let leader = if epoch == self.epoch { leader.or(self.leader) } else { leader };
        (self.epoch, self.leader) = (epoch, leader);
        if known == (epoch, leader) {
            return Told::Same;
        }
        self.detour = 0;
        Told::Changed
    }

    /// Records that the last node was of no use, and moves on to another one.
    pub fn failed(&mut self) {
        let others = self.candidates().len().saturating_sub(1);
        if self.detour > 0 {
            self.detour -= 1;
        } else if self.leader_target().is_some() {
            self.detour = others;
        }
        self.next = self.next.wrapping_add(1);
        // The suspected leader itself is not part of the detour.
        let candidates = self.candidates();
        if self.detour > 0 && self.leader_target().as_ref() == Some(&candidates[self.next % candidates.len()])
        {
            self.next = self.next.wrapping_add(1);
        }
    }

    /// Notes that the node at `target` has served a request that only the leader serves.
    pub fn served(&mut self, target: &Target) {
        self.detour = 0;
        if let Some(leader) = self.leader {
            self.voters.entry(leader).or_insert_with(|| target.address.clone());
        }
    }

    /// Applies the voters that the metadata log names.
    pub fn set_voters(&mut self, voters: BTreeMap<i32, Address>) {
        if voters.is_empty() {
            return;
        }
        let leader = self.leader_target();
        self.voters = voters;
        if let Some(Target { node: Some(node), address }) = leader {
            self.voters.entry(node).or_insert(address);
        }
    }

    fn candidates(&self) -> Vec<Target> {
        let voters = self.voters.iter();
        let mut all: Vec<Target> =
            voters.map(|(id, address)| Target { node: Some(*id), address: address.clone() }).collect();
        for address in &self.bootstrap {
            if !all.iter().any(|target| target.address == *address) {
                all.push(Target { node: None, address: address.clone() });
            }
        }
        all
    }
}

fn entries(list: &str) -> impl Iterator<Item = &str> {
    list.split(',').map(str::trim).filter(|entry| !entry.is_empty())
}

fn parse_address(entry: &str) -> Result<Address, AddressError> {
    let invalid = || AddressError { entry: entry.into() };
    let (host, port) = entry.rsplit_once(':').ok_or_else(invalid)?;
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let port = port.parse().ok().filter(|port| *port != 0).ok_or_else(invalid)?;
    if host.is_empty() {
        return Err(invalid());
    }
    Ok(Address { host: host.into(), port })
}

/// An address of a controller that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "controller address {entry:?} is not valid: write host:port in controller.quorum.bootstrap.servers, or \
     id@host:port in controller.quorum.voters"
)]
pub struct AddressError {
    /// The entry as configured.
    pub entry: String,
}
