//! Errors of the client, and their causes, by which a caller decides to retry.

use std::io;

use levada_base::batch::BatchError;
use levada_wire::ErrorCode;

use crate::connection::ConnectionError;
use crate::login::LoginError;
use crate::refusal::{Refusal, is_of_restart};

/// Reason why an operation has no result.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the names of the fields say everything")]
pub enum ClientError {
    /// A request got no response.
    #[error(transparent)]
    Connection(#[from] ConnectionError),
    /// The broker does not accept the credentials.
    #[error(transparent)]
    Login(#[from] LoginError),
    /// The broker responded with an error code.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// A refusal of a member that no further heartbeat changes: the group is of another type.
    #[error(transparent)]
    OtherGroupType(Refusal),
    /// The list of addresses is empty.
    #[error("no address of a broker: expected host:port")]
    NoAddress,
    /// A broker that is not one of the cluster's brokers.
    #[error("the cluster has no broker {node}")]
    UnknownBroker { node: i32, known: Vec<i32> },
    /// A metadata response without the requested topic.
    #[error("no metadata for topic {topic}")]
    NoMetadata { topic: String },
    /// A partition that the topic does not have.
    #[error("{topic} has no partition {partition}; it has {count}, numbered from 0")]
    NoPartition { topic: String, partition: i32, count: usize },
    /// A record for a partition that the topic does not have, with the number of the record.
    #[error("record {number}: {topic} has no partition {partition}; it has {count}")]
    NoPartitionOfRecord { number: u64, topic: String, partition: i32, count: usize },
    /// A FindCoordinator response without a coordinator.
    #[error("the broker names no coordinator of {key}")]
    NoCoordinator { key: String },
    /// The broker is too old for [`MAX_TIMESTAMP`](crate::MAX_TIMESTAMP).
    #[error("broker {node} cannot find the greatest timestamp")]
    NoMaxTimestamp { node: i32 },
    /// A ListOffsets response without the partition.
    #[error("the response has no offset of {topic}/{partition}")]
    NoOffset { topic: String, partition: i32 },
    /// A batch that its checksum or its fields contradict.
    #[error("{topic}/{partition}: the batch at offset {offset} is damaged: {reason}")]
    DamagedBatch { topic: String, partition: i32, offset: i64, reason: BatchError },
    /// The broker has no groups of KIP-848.
    #[error("cannot join group {group}: {reason}")]
    NoMembers { group: String, reason: ConnectionError },
    /// The broker has no share groups.
    #[error("cannot join share group {group}: {reason}")]
    NoShareGroups { group: String, reason: ConnectionError },
    /// A range of acquired records that no broker can mean.
    #[error("{topic}/{partition}: the range of acquired records is not valid")]
    AcquiredRange { topic: String, partition: i32 },
    /// The groups of the broker take no regular expression.
    #[error(
        "group {group}: broker {node} offers ConsumerGroupHeartbeat only up to version {version}, without patterns: name the topics"
    )]
    NoPatterns { group: String, node: i32, version: i16 },
    /// A batch that cannot be encoded.
    #[error("cannot encode a batch: {0}")]
    Encode(io::Error),
    /// The caller requested a stop.
    #[error("stopped before the end")]
    Stopped,
}

/// The origin of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The connection was refused or broke: the broker may be restarting.
    Connection,
    /// The broker responded with this error code.
    Code(i16),
    /// Any other error.
    Other,
}

impl Cause {
    /// The broker's error, if it responded with a code of the catalogue.
    #[must_use]
    pub fn code(self) -> Option<ErrorCode> {
        match self {
            Self::Code(code) => ErrorCode::of_code(code),
            Self::Connection | Self::Other => None,
        }
    }

    /// True if the error ends when a broker returns, or when a partition gets a leader.
    #[must_use]
    pub fn passes(self) -> bool {
        match self {
            Self::Connection => true,
            Self::Code(code) => is_of_restart(code),
            Self::Other => false,
        }
    }
}

/// An error whose cause decides about a retry: that of this crate, or one that a caller derives
/// from it.
pub trait Caused: From<ClientError> {
    /// Cause of the error.
    fn cause(&self) -> Cause;
}

impl Caused for ClientError {
    fn cause(&self) -> Cause {
        match self {
            Self::Connection(error) if error.is_lost() => Cause::Connection,
            Self::Login(LoginError::Connection(error)) if error.is_lost() => Cause::Connection,
            Self::Login(LoginError::Mechanism { code, .. } | LoginError::Refused { code, .. }) => {
                Cause::Code(*code)
            }
            Self::Refused(refusal) => Cause::Code(refusal.code),
            _ => Cause::Other,
        }
    }
}
