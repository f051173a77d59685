//! ConsumerGroupHeartbeat, independent of its wire version.

use crate::group::error::GroupError;
use crate::group::records::Partitions;
use crate::group::topics::Visible;

/// ConsumerGroupHeartbeat. A field that is `None` or -1 has not changed since the last heartbeat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsumerHeartbeatRequest {
    /// Version of the request: from 1 on members choose their own id.
    pub api_version: i16,
    /// Id of the group.
    pub group_id: String,
    /// The member; in version 0 the caller has made one up for a member that joins without.
    pub member_id: String,
    /// The member's epoch in the request; 0 to join, -1 to leave, -2 to leave for a while.
    pub member_epoch: i32,
    /// Name of a static member.
    pub instance_id: Option<String>,
    /// The member's rack; stored only.
    pub rack_id: Option<String>,
    /// Client id from the request header.
    pub client_id: String,
    /// Address of the client, as Kafka writes it: `/10.0.0.1`.
    pub client_host: String,
    /// Time that the member may take to give partitions up.
    pub rebalance_timeout_ms: i32,
    /// Names of the subscribed topics; `None` if they have not changed.
    pub topics: Option<Vec<String>>,
    /// The expression it selects topics by.
    pub regex: Option<String>,
    /// Server-side assignor that the member requests.
    pub assignor: Option<String>,
    /// Partitions that the member owns.
    pub owned: Option<Partitions>,
    /// The topics that the member may describe: its expression selects among them.
    pub visible: Visible,
}

/// Response to [`ConsumerHeartbeatRequest`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsumerBeat {
    /// Id of the member.
    pub member_id: String,
    /// Epoch of the member from now on.
    pub member_epoch: i32,
    /// Time until the next heartbeat; 0 for a member that has left.
    pub heartbeat_interval_ms: i32,
    /// New assignment, if it has changed.
    pub assigned: Option<Partitions>,
}

/// Response to [`ConsumerHeartbeatRequest`], or an error.
pub type ConsumerHeartbeatOutcome = Result<ConsumerBeat, GroupError>;
