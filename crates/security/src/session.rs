//! The authenticated session of a connection.

use std::net::IpAddr;

use levada_base::Requester;

use crate::acl::AddressRange;

/// A client as access control and quotas see it. The principal's type is always `User`.
#[derive(Clone, Debug, PartialEq)]
pub struct Session {
    user: String,
    principal: String,
    host: String,
    address: IpAddr,
    by_token: bool,
}

impl Session {
    /// The name of clients that have not shown who they are.
    pub const ANONYMOUS: &'static str = "ANONYMOUS";

    /// An authenticated user with a connection from `address`.
    pub fn new(user: &str, address: IpAddr) -> Self {
        Self {
            user: user.to_owned(),
            principal: format!("User:{user}"),
            host: address.to_canonical().to_string(),
            address: address.to_canonical(),
            by_token: false,
        }
    }

    /// The owner of a delegation token, who has authenticated with it.
    pub fn by_token(owner: &str, address: IpAddr) -> Self {
        Self { by_token: true, ..Self::new(owner, address) }
    }

    /// A user without a name.
    pub fn anonymous(address: IpAddr) -> Self {
        Self::new(Self::ANONYMOUS, address)
    }

    /// True for clients that have not shown who they are.
    pub fn is_anonymous(&self) -> bool {
        self.user == Self::ANONYMOUS
    }

    /// True if the client has authenticated with a delegation token.
    pub fn is_by_token(&self) -> bool {
        self.by_token
    }

    /// Name of the user.
    pub fn user(&self) -> &str {
        &self.user
    }

    /// The name with its type, in the form of access control.
    pub fn principal(&self) -> &str {
        &self.principal
    }

    /// The address, in text.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// IP address of the client.
    pub fn address(&self) -> IpAddr {
        self.address
    }

    /// The party whose requests share a queue: the user, or the address of an anonymous client.
    pub fn requester(&self) -> Requester {
        if self.is_anonymous() {
            Requester::at(self.address)
        } else {
            Requester::User(self.user.as_str().into())
        }
    }

    /// True if `host` is the same address, however an IPv6 address is written, or a range that
    /// contains it.
    pub fn is_at(&self, host: &str) -> bool {
        if host == self.host {
            return true;
        }
        if host.contains('/') {
            return host.parse::<AddressRange>().is_ok_and(|range| range.contains(self.address));
        }
        // Java writes the interface of a link-local address after it.
        let address = host.split('%').next().filter(|text| text.contains(':')).map(str::parse::<IpAddr>);
        address.is_some_and(|address| address.is_ok_and(|address| address.to_canonical() == self.address))
    }
}

#[cfg(test)]
mod tests;
