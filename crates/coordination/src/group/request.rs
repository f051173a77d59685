//! Requests to a group coordinator and their outcomes, independent of any wire version.
//!
//! An API file converts its message to one of these requests, and the outcome back. The request has
//! the version if versions differ in behaviour; the API file handles versions that differ only in
//! fields.

use bytes::Bytes;
use levada_wire::Uuid;
use levada_wire::record_json;
use serde::Serialize;

use super::error::GroupError;
use super::topics::Visible;
use crate::machine::Keyed;

mod consumer;
mod offsets;
mod share;
mod streams;

pub use self::consumer::{ConsumerBeat, ConsumerHeartbeatOutcome, ConsumerHeartbeatRequest};
pub use self::offsets::{
    EndTxnOutcome, EndTxnRequest, OffsetDeleteOutcome, OffsetDeleteRequest, TxnCommitRequest,
};
pub use self::share::{
    AlterShareOffsetsOutcome, AlterShareOffsetsRequest, AlteredTopic, DeleteShareOffsetsOutcome,
    DeleteShareOffsetsRequest, DeletedTopic, ShareBeat, ShareHeartbeatOutcome, ShareHeartbeatRequest,
    StartOffsetTopic, StartOffsets,
};
pub use self::streams::{
    EndpointPartitions, StreamsBeat, StreamsHeartbeatOutcome, StreamsHeartbeatRequest, StreamsStatus,
    TaskOffsets,
};

/// The response to a request whose effect is stored before it is sent.
pub(super) trait Answer {
    /// The response to send instead of this one if its effect could not be stored.
    fn failed(self, error: GroupError) -> Self;
}

/// JoinGroup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JoinRequest {
    /// Version of the request: from 4 on new members must rejoin with their assigned id, from 9 on
    /// the response can make a returning static leader skip the assignment.
    pub api_version: i16,
    /// Id of the group.
    pub group_id: String,
    /// The member; empty for a new one.
    pub member_id: String,
    /// Name of a static member.
    pub group_instance_id: Option<String>,
    /// Client id from the request header.
    pub client_id: String,
    /// Address of the client, as Kafka writes it: `/10.0.0.1`.
    pub client_host: String,
    /// Time without a heartbeat after which the member is removed.
    pub session_timeout_ms: i32,
    /// Time that the group waits for this member to join again.
    pub rebalance_timeout_ms: i32,
    /// Opaque kind of group: `consumer`, `connect`, `sr`.
    pub protocol_type: String,
    /// Supported protocols of the member, in order of preference.
    pub protocols: Vec<Protocol>,
    /// A new random value; as a UUID, it becomes part of the member id if one has to be made.
    pub nonce: u128,
    /// Largest record of the coordinator's partition, in bytes.
    pub record_bytes_max: usize,
    /// The topics that the member may describe: expressions of members of the new protocol select
    /// among them.
    pub visible: Visible,
}

/// One protocol (for consumers: an assignor) a member offers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Protocol {
    /// The name members vote for.
    pub name: String,
    /// Opaque to the broker; handed to the leader.
    #[serde(serialize_with = "record_json::bytes")]
    pub metadata: Bytes,
}

/// Response to [`JoinRequest`]; sent once the group has a new generation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JoinOutcome {
    /// Error of the join; `None` if the member is part of the generation.
    pub error: Option<GroupError>,
    /// The generation; -1 with most errors.
    pub generation: i32,
    /// Kind of group (sent from version 7 on).
    pub protocol_type: Option<String>,
    /// The protocol that won the vote (below version 7 an absent name is sent as "").
    pub protocol_name: Option<String>,
    /// Member id of the leader; empty with most errors.
    pub leader: String,
    /// True if the leader must only sync, without a new assignment (sent from version 9 on).
    pub skip_assignment: bool,
    /// The member's id; the coordinator generates one if it is empty.
    pub member_id: String,
    /// Metadata of every member; for the leader only.
    pub members: Vec<JoinedMember>,
}

/// A member as the leader sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JoinedMember {
    /// Member id that the coordinator has issued.
    pub member_id: String,
    /// Name of a static member (sent from version 5 on).
    pub group_instance_id: Option<String>,
    /// The member's metadata for the chosen protocol.
    pub metadata: Bytes,
}

impl JoinOutcome {
    /// A response with only an error and a member id.
    pub fn error(member_id: impl Into<String>, error: GroupError) -> Self {
        Self {
            error: Some(error),
            generation: -1,
            protocol_type: None,
            protocol_name: None,
            leader: String::new(),
            skip_assignment: false,
            member_id: member_id.into(),
            members: Vec::new(),
        }
    }
}

/// SyncGroup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyncRequest {
    /// Id of the group.
    pub group_id: String,
    /// Id of the member.
    pub member_id: String,
    /// Name of a static member.
    pub group_instance_id: Option<String>,
    /// The member's generation in the request.
    pub generation: i32,
    /// Kind of group (version 5 and up).
    pub protocol_type: Option<String>,
    /// The chosen protocol (version 5 and up).
    pub protocol_name: Option<String>,
    /// Member id and its assignment; from the leader only.
    pub assignments: Vec<(String, Bytes)>,
}

/// Response to [`SyncRequest`]; followers get it once the leader's assignment has been stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyncOutcome {
    /// Error of the sync; `None` if the assignment is valid.
    pub error: Option<GroupError>,
    /// Kind of group (sent from version 5 on).
    pub protocol_type: Option<String>,
    /// The chosen protocol (sent from version 5 on).
    pub protocol_name: Option<String>,
    /// Opaque to the broker.
    pub assignment: Bytes,
}

impl SyncOutcome {
    /// A response with only an error.
    pub fn error(error: GroupError) -> Self {
        Self { error: Some(error), protocol_type: None, protocol_name: None, assignment: Bytes::new() }
    }
}

/// Heartbeat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeartbeatRequest {
    /// Id of the group.
    pub group_id: String,
    /// Id of the member.
    pub member_id: String,
    /// Name of a static member.
    pub group_instance_id: Option<String>,
    /// The member's generation in the request.
    pub generation: i32,
}

/// Response to [`HeartbeatRequest`].
pub type HeartbeatOutcome = Result<(), GroupError>;

/// LeaveGroup. Versions below 3 name exactly one member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaveRequest {
    /// Id of the group.
    pub group_id: String,
    /// Members that leave.
    pub members: Vec<LeavingMember>,
}

/// One member of a [`LeaveRequest`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeavingMember {
    /// The member; empty when a static member is removed by name.
    pub member_id: String,
    /// Name of a static member.
    pub group_instance_id: Option<String>,
}

/// Response to [`LeaveRequest`]: one entry per member, in the order of the request. Below version 3
/// the only member's error is the error of the response.
pub type LeaveOutcome = Result<Vec<LeftMember>, GroupError>;

/// Result for one leaving member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftMember {
    /// Member id as in the request.
    pub member_id: String,
    /// Instance id as in the request.
    pub group_instance_id: Option<String>,
    /// Error; `None` if the member has left.
    pub error: Option<GroupError>,
}

/// OffsetCommit. The caller has already removed topics that do not exist or may not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommitRequest {
    /// Version of the request: from 9 on an unknown group is GROUP_ID_NOT_FOUND.
    pub api_version: i16,
    /// Id of the group.
    pub group_id: String,
    /// The member; empty for a consumer that assigns its partitions itself.
    pub member_id: String,
    /// Name of a static member.
    pub group_instance_id: Option<String>,
    /// The member's generation in the request; -1 for a consumer that assigns its partitions
    /// itself.
    pub generation: i32,
    /// Time to keep the offsets (versions 2 to 4); none for the broker's own rule (-1 on the
    /// wire).
    pub retention_ms: Option<i64>,
    /// Offsets to store.
    pub topics: Vec<CommitTopic>,
}

/// One topic of a [`CommitRequest`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommitTopic {
    /// Name of the topic.
    pub name: String,
    /// Id of the topic where the request named it by id (version 10 and up); nil otherwise.
    pub topic_id: Uuid,
    /// Partitions of the topic.
    pub partitions: Vec<CommitPartition>,
}

/// One partition of a [`CommitRequest`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommitPartition {
    /// Index of the partition.
    pub index: i32,
    /// The next offset to read.
    pub offset: i64,
    /// Leader epoch of the last record read; -1 if unknown.
    pub leader_epoch: i32,
    /// Metadata that the client stores with the offset.
    pub metadata: Option<String>,
}

/// Response to [`CommitRequest`]; an error of the whole request applies to every partition.
pub type CommitOutcome = Result<Vec<CommittedTopic>, GroupError>;

/// One topic of a [`CommitOutcome`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommittedTopic {
    /// Topic name as in the request.
    pub name: String,
    /// Topic id as in the request.
    pub topic_id: Uuid,
    /// Partitions and their errors, in the order of the request.
    pub partitions: Vec<(i32, Option<GroupError>)>,
}

/// OffsetFetch of one group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchRequest {
    /// Id of the group.
    pub group_id: String,
    /// The member (version 9 and up).
    pub member_id: Option<String>,
    /// The member's epoch (version 9 and up); -1 otherwise.
    pub member_epoch: i32,
    /// Partitions to look up; none for all committed offsets of the group.
    pub topics: Option<Vec<FetchTopic>>,
    /// True to refuse partitions for which an open transaction has a commit.
    pub require_stable: bool,
}

/// One topic of a [`FetchRequest`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchTopic {
    /// Name of the topic.
    pub name: String,
    /// Id of the topic where the request named it by id (version 10 and up); nil otherwise.
    pub topic_id: Uuid,
    /// Partitions of the topic.
    pub partitions: Vec<i32>,
}

/// Response to [`FetchRequest`]. A group that does not exist has committed nothing, which is not an
/// error.
pub type FetchOutcome = Result<Vec<FetchedTopic>, GroupError>;

/// One topic of a [`FetchOutcome`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchedTopic {
    /// Name of the topic.
    pub name: String,
    /// Topic id, in the order of the request; nil if the request was for all topics.
    pub topic_id: Uuid,
    /// Partitions of the topic.
    pub partitions: Vec<FetchedPartition>,
}

/// One partition of a [`FetchOutcome`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchedPartition {
    /// Index of the partition.
    pub index: i32,
    /// The committed offset; -1 if there is none.
    pub offset: i64,
    /// Leader epoch of the last record read; -1 if unknown.
    pub leader_epoch: i32,
    /// Metadata from the client; empty if there is none.
    pub metadata: String,
    /// Error; `None` if the offset, or its absence, is certain.
    pub error: Option<GroupError>,
}

/// DeleteGroups, for groups of one coordinator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeleteRequest {
    /// Ids of the groups.
    pub group_ids: Vec<String>,
}

/// Response to [`DeleteRequest`]: groups and their errors, in the order of the request.
pub type DeleteOutcome = Vec<(String, Option<GroupError>)>;

impl JoinOutcome {
    /// The refusal of a whole request. As in Kafka, the response has the member's id only if the
    /// request itself is invalid.
    pub(super) fn refusing(request: &JoinRequest, error: GroupError) -> Self {
        let member_id = match error {
            GroupError::InvalidGroupId | GroupError::InvalidSessionTimeout => request.member_id.as_str(),
            _ => "",
        };
        Self::error(member_id, error)
    }
}

impl SyncOutcome {
    /// The refusal of a whole request.
    pub(super) fn refusing(_: &SyncRequest, error: GroupError) -> Self {
        Self::error(error)
    }
}

/// The refusal of a whole request.
pub(super) fn refuse<R, T>(_: &R, error: GroupError) -> Result<T, GroupError> {
    Err(error)
}

/// The refusal of a heartbeat. While the coordinator loads, the member keeps its session.
pub(super) fn refuse_heartbeat(_: &HeartbeatRequest, error: GroupError) -> HeartbeatOutcome {
    match error {
        GroupError::CoordinatorLoadInProgress => Ok(()),
        error => Err(error),
    }
}

/// The refusal of a deletion, for each of its groups.
pub(super) fn refuse_delete(request: &DeleteRequest, error: GroupError) -> DeleteOutcome {
    request.group_ids.iter().map(|id| (id.clone(), Some(error))).collect()
}

impl<T> Answer for Result<T, GroupError> {
    fn failed(self, error: GroupError) -> Self {
        Err(error)
    }
}

impl Answer for JoinOutcome {
    fn failed(self, error: GroupError) -> Self {
        Self::error(self.member_id, error)
    }
}

impl Answer for SyncOutcome {
    fn failed(self, error: GroupError) -> Self {
        Self::error(error)
    }
}

impl Answer for DeleteOutcome {
    fn failed(self, error: GroupError) -> Self {
        self.into_iter().map(|(group_id, _)| (group_id, Some(error))).collect()
    }
}

macro_rules! keyed_by_group {
    ($($request:ty),*) => {
        $(impl Keyed for $request {
            fn key(&self) -> &str {
                &self.group_id
            }
        })*
    };
}

keyed_by_group!(
    JoinRequest,
    SyncRequest,
    HeartbeatRequest,
    LeaveRequest,
    ConsumerHeartbeatRequest,
    CommitRequest,
    TxnCommitRequest,
    FetchRequest,
    OffsetDeleteRequest,
    ShareHeartbeatRequest,
    StreamsHeartbeatRequest,
    AlterShareOffsetsRequest,
    DeleteShareOffsetsRequest
);

impl Keyed for DeleteRequest {
    fn key(&self) -> &str {
        self.group_ids.first().map_or("", String::as_str)
    }
}
