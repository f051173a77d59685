//! A member of a classic group.

use std::collections::BTreeSet;

use bytes::Bytes;

use crate::group::event::Ticket;
use crate::group::request::{JoinRequest, Protocol};

/// A member, its protocols and its waiting requests.
#[derive(Debug)]
pub(super) struct Member {
    /// Id of the member.
    pub(super) id: String,
    /// Instance id of a static member.
    pub(super) group_instance_id: Option<String>,
    /// Client id of the member.
    pub(super) client_id: String,
    /// Address of the member.
    pub(super) client_host: String,
    /// Time that the group waits for it to join again.
    pub(super) rebalance_timeout_ms: i32,
    /// Time without a heartbeat after which the member is removed.
    pub(super) session_timeout_ms: i32,
    /// Supported protocols, in order of preference.
    pub(super) protocols: Vec<Protocol>,
    /// Assignment by the leader.
    pub(super) assignment: Bytes,
    /// The join that waits for the next generation.
    pub(super) join: Option<Ticket>,
    /// The sync that waits for the leader.
    pub(super) sync: Option<Ticket>,
    /// True if the member does not have its id yet, so that it cannot send heartbeats.
    pub(super) is_new: bool,
}

impl Member {
    /// A member that joins for the first time.
    pub(super) fn new(id: String, request: &mut JoinRequest, ticket: Ticket) -> Self {
        Self {
            id,
            group_instance_id: request.group_instance_id.take(),
            client_id: std::mem::take(&mut request.client_id),
            client_host: std::mem::take(&mut request.client_host),
            rebalance_timeout_ms: request.rebalance_timeout_ms,
            session_timeout_ms: request.session_timeout_ms,
            protocols: std::mem::take(&mut request.protocols),
            assignment: Bytes::new(),
            join: Some(ticket),
            sync: None,
            is_new: true,
        }
    }

    /// The member's metadata for a protocol; empty if it does not support it.
    pub(super) fn metadata(&self, protocol: Option<&str>) -> Bytes {
        let found = self.protocols.iter().find(|offered| Some(offered.name.as_str()) == protocol);
        found.map(|offered| offered.metadata.clone()).unwrap_or_default()
    }

    /// The member's most preferred protocol among those `acceptable` to all.
    pub(super) fn vote(&self, acceptable: impl Fn(&str) -> bool) -> Option<&str> {
        self.protocols.iter().map(|offered| offered.name.as_str()).find(|name| acceptable(name))
    }

    /// Each protocol once, however often the member names it.
    pub(super) fn protocol_names(&self) -> BTreeSet<&str> {
        self.protocols.iter().map(|offered| offered.name.as_str()).collect()
    }

    /// True if the member waits for a response, so that it need not send heartbeats. This does not
    /// apply to a new member: a lost connection would stay unnoticed while it waits.
    pub(super) fn is_excused(&self) -> bool {
        !self.is_new && (self.join.is_some() || self.sync.is_some())
    }
}
