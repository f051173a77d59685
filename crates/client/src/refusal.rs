//! The response of a broker with an error code, and the operation that it refuses.

use std::error::Error;
use std::fmt;

use levada_wire::ErrorCode;

/// Kinds of coordinators, numbered as in FindCoordinator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coordinated {
    /// Coordinator of a consumer group.
    Group = 0,
    /// Coordinator of a transactional id.
    Transaction = 1,
}

/// A request of this crate, described by its subject. Its text is a phrase such as
/// `fetch clicks/0 at offset 7`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names of the fields say everything")]
pub enum Operation {
    /// Metadata request for a topic.
    Topic { topic: String },
    /// The lookup of the leader of a partition, and the number of `others` without one.
    Leader { topic: String, partition: i32, others: usize },
    /// The broker that coordinates a group or a transactional id.
    FindCoordinator { kind: Coordinated, key: String },
    /// An offset at a time.
    ListOffset { topic: String, partition: i32 },
    /// Records of several partitions; the topic of the first one.
    Fetch { topic: String },
    /// Records of one partition; the offset, if the request was sent.
    FetchPartition { topic: String, partition: i32, offset: Option<i64> },
    /// Records to store; the partition, if the request had one only.
    Produce { topic: String, partition: Option<i32> },
    /// Request for a producer id.
    InitProducer,
    /// A heartbeat of a member.
    Join { group: String },
    /// A heartbeat, a fetch or an acknowledgement of a member of a share group.
    Share { group: String },
    /// All committed offsets of a group.
    CommittedOffsets { group: String },
    /// Committed offset of one partition of a group.
    CommittedOffset { group: String, topic: String, partition: i32 },
    /// Commit of the offset of one partition.
    Commit { group: String, topic: String, partition: i32 },
    /// The deletion of committed offsets.
    DeleteOffsets { group: String },
    /// The deletion of one of them.
    DeleteOffset { group: String, topic: String, partition: i32 },
    /// Start offsets of a share group.
    ShareOffsets { group: String },
    /// A change of start offsets.
    SetShareOffsets { group: String },
    /// A change of the start offset of one partition.
    SetShareOffset { group: String, topic: String, partition: i32 },
    /// The deletion of the state of a topic in a share group.
    DeleteShareOffsets { group: String, topic: String },
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Topic { topic } => write!(f, "topic {topic}"),
            Self::Leader { topic, partition, others: 0 } => write!(f, "{topic}/{partition}"),
            Self::Leader { topic, partition, others: 1 } => {
                write!(f, "{topic}/{partition} and 1 other partition")
            }
            Self::Leader { topic, partition, others } => {
                write!(f, "{topic}/{partition} and {others} other partitions")
            }
            Self::FindCoordinator { key, .. } => write!(f, "find the coordinator of {key}"),
            Self::ListOffset { topic, partition } => write!(f, "offsets of {topic}/{partition}"),
            Self::Fetch { topic } => write!(f, "fetch {topic}"),
            Self::FetchPartition { topic, partition, offset: None } => write!(f, "fetch {topic}/{partition}"),
            Self::FetchPartition { topic, partition, offset: Some(offset) } => {
                write!(f, "fetch {topic}/{partition} at offset {offset}")
            }
            Self::Produce { topic, partition: None } => write!(f, "produce to {topic}"),
            Self::Produce { topic, partition: Some(partition) } => {
                write!(f, "produce to {topic}/{partition}")
            }
            Self::InitProducer => f.write_str("produce idempotently"),
            Self::Join { group } => write!(f, "join group {group}"),
            Self::Share { group } => write!(f, "consume in share group {group}"),
            Self::CommittedOffsets { group } => write!(f, "offsets of group {group}"),
            Self::CommittedOffset { group, topic, partition } => {
                write!(f, "offset of group {group} in {topic}/{partition}")
            }
            Self::Commit { group, topic, partition } => {
                write!(f, "commit {topic}/{partition} for group {group}")
            }
            Self::DeleteOffsets { group } => write!(f, "delete offsets of group {group}"),
            Self::DeleteOffset { group, topic, partition } => {
                write!(f, "delete offset {topic}/{partition} of {group}")
            }
            Self::ShareOffsets { group } => write!(f, "start offsets of share group {group}"),
            Self::SetShareOffsets { group } => write!(f, "set start offsets of share group {group}"),
            Self::SetShareOffset { group, topic, partition } => {
                write!(f, "set the start offset of {topic}/{partition} in share group {group}")
            }
            Self::DeleteShareOffsets { group, topic } => {
                write!(f, "delete the state of {topic} in share group {group}")
            }
        }
    }
}

/// A response with an error code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The refused operation.
    pub operation: Operation,
    /// Kafka's error code, never 0.
    pub code: i16,
    /// The broker's text, if it sent one.
    pub message: Option<String>,
}

impl Refusal {
    /// A refusal, unless `code` is 0.
    ///
    /// # Errors
    /// The refusal.
    pub fn check(
        code: i16,
        message: Option<&str>,
        operation: impl FnOnce() -> Operation,
    ) -> Result<(), Self> {
        if code == 0 {
            return Ok(());
        }
        Err(Self { operation: operation(), code, message: message.map(str::to_owned) })
    }

    /// The error, if Kafka has one with this code.
    #[must_use]
    pub fn error_code(&self) -> Option<ErrorCode> {
        ErrorCode::of_code(self.code)
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let message = self.message.as_deref().filter(|message| !message.is_empty());
        write!(f, "{}: {} ", self.operation, message.unwrap_or("the broker refuses"))?;
        match self.error_code() {
            Some(code) => write!(f, "({})", code.name()),
            None => write!(f, "(error code {})", self.code),
        }
    }
}

impl Error for Refusal {}

/// True for codes that a moment heals: a coordinator that is starting, loading or moving.
pub(crate) fn is_passing(code: i16) -> bool {
    matches!(
        ErrorCode::of_code(code),
        Some(
            ErrorCode::CoordinatorLoadInProgress
                | ErrorCode::CoordinatorNotAvailable
                | ErrorCode::NotCoordinator
        )
    )
}

/// True for codes that a restart or a move of partitions causes: partitions and coordinators
/// return.
pub(crate) fn is_of_restart(code: i16) -> bool {
    matches!(
        ErrorCode::of_code(code),
        Some(
            ErrorCode::UnknownTopicOrPartition
                | ErrorCode::LeaderNotAvailable
                | ErrorCode::NotLeaderOrFollower
                | ErrorCode::RequestTimedOut
                | ErrorCode::ReplicaNotAvailable
                | ErrorCode::NetworkException
                | ErrorCode::CoordinatorLoadInProgress
                | ErrorCode::CoordinatorNotAvailable
                | ErrorCode::NotCoordinator
                | ErrorCode::NotEnoughReplicas
                | ErrorCode::NotEnoughReplicasAfterAppend
                | ErrorCode::KafkaStorageError
                | ErrorCode::FencedLeaderEpoch
                | ErrorCode::UnknownLeaderEpoch
                | ErrorCode::OffsetNotAvailable
                | ErrorCode::UnstableOffsetCommit
                | ErrorCode::UnknownTopicId
                | ErrorCode::ShareSessionLimitReached
        )
    )
}
