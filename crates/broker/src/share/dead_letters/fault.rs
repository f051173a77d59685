//! Reasons why dead letters are not written.

use std::io;

use levada_wire::error_code::ErrorCode;

/// The reason why a batch of dead letters was not written.
#[derive(Debug, thiserror::Error)]
pub(super) enum Fault {
    #[error("group {0} no longer has errors.deadletterqueue.topic.name")]
    NoTopic(String),
    #[error(
        "the name of the topic {topic} does not begin with errors.deadletterqueue.topic.name.prefix ({prefix})"
    )]
    Name { topic: String, prefix: String },
    #[error("the name of the topic {topic} begins with {prefix}, as only internal topics do")]
    Internal { topic: String, prefix: &'static str },
    #[error(
        "the dead letter topic {0} is the topic of the records: its dead letters would be delivered again"
    )]
    OwnTopic(String),
    #[error("errors.deadletterqueue.group.enable of the topic {0} is not true")]
    NotEnabled(String),
    #[error("the topic {0} does not exist, and errors.deadletterqueue.auto.create.topics.enable is false")]
    Missing(String),
    #[error("the topic {0} does not exist yet")]
    BeingCreated(String),
    #[error("the partition {1} of the topic {0} has no leader")]
    Leaderless(String, i32),
    #[error("the leader of the topic's partition, node {0}, is not available")]
    Unreachable(i32),
    #[error("{}", .0.name())]
    Refused(ErrorCode),
    #[error("the batch cannot be encoded: {0}")]
    Encoding(#[from] io::Error),
}

impl Fault {
    /// True if another attempt may succeed.
    pub(super) fn is_transient(&self) -> bool {
        match self {
            Self::BeingCreated(_) | Self::Leaderless(..) | Self::Unreachable(_) => true,
            Self::Refused(code) => is_transient(*code),
            Self::NoTopic(_)
            | Self::Name { .. }
            | Self::Internal { .. }
            | Self::OwnTopic(_)
            | Self::NotEnabled(_)
            | Self::Missing(_)
            | Self::Encoding(_) => false,
        }
    }
}

fn is_transient(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::FencedLeaderEpoch
            | ErrorCode::KafkaStorageError
            | ErrorCode::LeaderNotAvailable
            | ErrorCode::NetworkException
            | ErrorCode::NotController
            | ErrorCode::NotEnoughReplicas
            | ErrorCode::NotEnoughReplicasAfterAppend
            | ErrorCode::NotLeaderOrFollower
            | ErrorCode::RequestTimedOut
            | ErrorCode::ThrottlingQuotaExceeded
            | ErrorCode::UnknownTopicId
            | ErrorCode::UnknownTopicOrPartition
    )
}
