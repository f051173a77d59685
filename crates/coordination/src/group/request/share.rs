//! Requests about share groups, independent of their wire versions.

use std::collections::BTreeMap;

use levada_wire::Uuid;

use crate::group::error::GroupError;
use crate::group::records::Partitions;

/// ShareGroupHeartbeat. A field that is `None` has not changed since the last heartbeat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShareHeartbeatRequest {
    /// Id of the group.
    pub group_id: String,
    /// Id of the member, which the member itself has generated.
    pub member_id: String,
    /// The member's epoch in the request; 0 to join, -1 to leave.
    pub member_epoch: i32,
    /// The member's rack; stored only.
    pub rack_id: Option<String>,
    /// Client id from the request header.
    pub client_id: String,
    /// Address of the client, as Kafka writes it: `/10.0.0.1`.
    pub client_host: String,
    /// Names of the subscribed topics; `None` if they have not changed.
    pub topics: Option<Vec<String>>,
}

/// Response to [`ShareHeartbeatRequest`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShareBeat {
    /// Id of the member.
    pub member_id: String,
    /// Epoch of the member from now on.
    pub member_epoch: i32,
    /// Time until the next heartbeat; 0 for a member that has left.
    pub heartbeat_interval_ms: i32,
    /// The assignment, if it has changed or the member has named its topics.
    pub assigned: Option<Partitions>,
}

/// Response to [`ShareHeartbeatRequest`], or an error.
pub type ShareHeartbeatOutcome = Result<ShareBeat, GroupError>;

/// AlterShareGroupOffsets. The caller has removed topics without permission.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlterShareOffsetsRequest {
    /// The group, which must be empty; it is made if it does not exist.
    pub group_id: String,
    /// Topics and new start offsets.
    pub topics: Vec<StartOffsetTopic>,
}

/// One topic of an [`AlterShareOffsetsRequest`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartOffsetTopic {
    /// Name of the topic.
    pub name: String,
    /// Partitions, and the offset of each from which its records are shared.
    pub partitions: Vec<(i32, i64)>,
}

/// Start offsets by topic and partition; -1 for the group's own rule.
pub type StartOffsets = BTreeMap<Uuid, BTreeMap<i32, i64>>;

/// Response to [`AlterShareOffsetsRequest`], or an error. An error of the share coordinator about
/// the whole request applies to every partition.
pub type AlterShareOffsetsOutcome = Result<Vec<AlteredTopic>, GroupError>;

/// One topic of an [`AlterShareOffsetsOutcome`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlteredTopic {
    /// Topic name as in the request.
    pub name: String,
    /// The topic's id; nil if it does not exist.
    pub topic_id: Uuid,
    /// Partitions and their errors, in the order of the request.
    pub partitions: Vec<(i32, Option<GroupError>)>,
}

/// DeleteShareGroupOffsets. The caller has removed topics without permission.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeleteShareOffsetsRequest {
    /// The group, which must be empty.
    pub group_id: String,
    /// Names of the topics.
    pub topics: Vec<String>,
}

/// Response to [`DeleteShareOffsetsRequest`], or an error. Topics without an error come first.
pub type DeleteShareOffsetsOutcome = Result<Vec<DeletedTopic>, GroupError>;

/// One topic of a [`DeleteShareOffsetsOutcome`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeletedTopic {
    /// Topic name as in the request.
    pub name: String,
    /// The topic's id; nil if the group has no state of it.
    pub topic_id: Uuid,
    /// Error; `None` if the state of the topic's partitions is deleted.
    pub error: Option<GroupError>,
}
