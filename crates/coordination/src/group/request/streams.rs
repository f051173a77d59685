//! Requests about streams groups, independent of their wire versions.

use std::collections::BTreeMap;

use crate::group::error::GroupError;
use crate::group::records::{Endpoint, InternalTopic, TaskSets, Topology};

/// Offsets in the changelogs of tasks, added up for each task: by subtopology and partition.
pub type TaskOffsets = BTreeMap<String, BTreeMap<i32, i64>>;

/// StreamsGroupHeartbeat. A field that is `None` has not changed since the last heartbeat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamsHeartbeatRequest {
    /// Id of the group.
    pub group_id: String,
    /// Id of the member, which the member itself has generated.
    pub member_id: String,
    /// The member's epoch in the request; 0 to join, below 0 to leave.
    pub member_epoch: i32,
    /// Epoch of the endpoints that the member knows.
    pub endpoint_epoch: i32,
    /// Name of a static member.
    pub instance_id: Option<String>,
    /// The member's rack; stored only.
    pub rack_id: Option<String>,
    /// Time that the member may take to give tasks up.
    pub rebalance_timeout_ms: Option<i32>,
    /// Client id from the request header.
    pub client_id: String,
    /// Address of the client, as Kafka writes it: `/10.0.0.1`.
    pub client_host: String,
    /// The topology of its application; needed to join.
    pub topology: Option<Topology>,
    /// Tasks that the member owns.
    pub owned: Option<TaskSets>,
    /// The process that it is a thread of.
    pub process_id: Option<String>,
    /// Address for interactive queries.
    pub user_endpoint: Option<Endpoint>,
    /// Tags; a group may require some.
    pub client_tags: Option<BTreeMap<String, String>>,
    /// Progress of the restoration of the state of tasks.
    pub task_offsets: Option<TaskOffsets>,
    /// The ends of their changelogs.
    pub task_end_offsets: Option<TaskOffsets>,
    /// True if the client supports the status `MISSING_CLIENT_TAGS`.
    pub knows_missing_tags: bool,
    /// True if all members are to shut down.
    pub shutdown_application: bool,
}

/// Response to [`StreamsHeartbeatRequest`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamsBeat {
    /// Id of the member.
    pub member_id: String,
    /// Epoch of the member from now on.
    pub member_epoch: i32,
    /// Heartbeat interval of the member, ms; 0 for a member that has left.
    pub heartbeat_interval_ms: i32,
    /// Shortest time between two reports of task offsets; 0 for a member that has left.
    pub task_offset_interval_ms: i32,
    /// Maximum number of records that a task may lag to become active; -1 for a member that has
    /// left.
    pub acceptable_recovery_lag: i64,
    /// States of the group that its members should know.
    pub status: Vec<StreamsStatus>,
    /// Tasks of the member, if they have changed.
    pub assigned: Option<TaskSets>,
    /// Epoch of the endpoints.
    pub endpoint_epoch: i32,
    /// The endpoints, if the member does not know this epoch.
    pub endpoints: Option<Vec<EndpointPartitions>>,
    /// Internal topics that are to be created.
    pub missing_topics: Vec<InternalTopic>,
}

/// A state of a group that its members should know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamsStatus {
    /// Code, one of the constants below.
    pub code: i8,
    /// Explanation for people.
    pub detail: String,
}

impl StreamsStatus {
    /// The member's topology is older than the group's.
    pub const STALE_TOPOLOGY: i8 = 0;
    /// Source topics do not exist.
    pub const MISSING_SOURCE_TOPICS: i8 = 1;
    /// Numbers of partitions do not fit.
    pub const INCORRECTLY_PARTITIONED_TOPICS: i8 = 2;
    /// Internal topics do not exist.
    pub const MISSING_INTERNAL_TOPICS: i8 = 3;
    /// A member has requested all members to shut down.
    pub const SHUTDOWN_APPLICATION: i8 = 4;
    /// The assignment is delayed.
    pub const ASSIGNMENT_DELAYED: i8 = 5;
    /// The member lacks tags that the group requires.
    pub const MISSING_CLIENT_TAGS: i8 = 6;
}

/// An endpoint for interactive queries, and the partitions that can be queried there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointPartitions {
    /// Address of the process.
    pub endpoint: Endpoint,
    /// Partitions of active tasks, by topic.
    pub active: Vec<(String, Vec<i32>)>,
    /// Partitions of standby tasks, by topic.
    pub standby: Vec<(String, Vec<i32>)>,
}

/// Response to a heartbeat of a streams group, or an error.
pub type StreamsHeartbeatOutcome = Result<StreamsBeat, GroupError>;
