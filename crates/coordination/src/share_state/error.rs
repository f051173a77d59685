//! Errors that a coordinator of share-group state returns.

use levada_wire::ErrorCode;

use crate::machine::PersistFailure;

/// A refusal by a coordinator of share-group state. Each one is an error code of Kafka's, named
/// after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, thiserror::Error)]
pub enum ShareStateError {
    /// `COORDINATOR_LOAD_IN_PROGRESS`: the partition's records are still being replayed.
    #[error("the share coordinator is still loading")]
    CoordinatorLoadInProgress,
    /// `COORDINATOR_NOT_AVAILABLE`: try again.
    #[error("the share coordinator is not available")]
    CoordinatorNotAvailable,
    /// `NOT_COORDINATOR`: the client must find the coordinator again.
    #[error("this broker does not coordinate the share partition")]
    NotCoordinator,
    /// `INVALID_REQUEST`, with the reason.
    #[error("{0}")]
    InvalidRequest(&'static str),
    /// `UNKNOWN_TOPIC_OR_PARTITION`: the topic does not exist, or does not have the partition.
    #[error("the topic does not exist, or does not have the partition")]
    UnknownTopicOrPartition,
    /// `FENCED_LEADER_EPOCH`: a later leader of the partition has read the state.
    #[error("a later leader of the partition has taken over the state")]
    FencedLeaderEpoch,
    /// `FENCED_STATE_EPOCH`: the state has been initialized again since.
    #[error("the state of the share partition has been initialized with a later epoch")]
    FencedStateEpoch,
    /// `UNKNOWN_SERVER_ERROR`
    #[error("the share coordinator failed to execute the request")]
    UnknownServerError,
}

impl ShareStateError {
    /// The error with this code that a share coordinator on another broker has sent.
    pub fn of_code(code: i16) -> Self {
        match ErrorCode::of_code(code) {
            Some(ErrorCode::CoordinatorLoadInProgress) => Self::CoordinatorLoadInProgress,
            Some(ErrorCode::CoordinatorNotAvailable) => Self::CoordinatorNotAvailable,
            Some(ErrorCode::NotCoordinator) => Self::NotCoordinator,
            Some(ErrorCode::InvalidRequest) => {
                Self::InvalidRequest("the share coordinator refuses the request")
            }
            Some(ErrorCode::UnknownTopicOrPartition) => Self::UnknownTopicOrPartition,
            Some(ErrorCode::FencedLeaderEpoch) => Self::FencedLeaderEpoch,
            Some(ErrorCode::FencedStateEpoch) => Self::FencedStateEpoch,
            _ => Self::UnknownServerError,
        }
    }

    /// A request without a group.
    pub(super) const NO_GROUP: Self = Self::InvalidRequest("the group id is empty");
    /// A number that is no partition.
    pub(super) const NEGATIVE_PARTITION: Self = Self::InvalidRequest("the partition is negative");
    /// A read or a write of a key without state.
    pub(super) const UNINITIALIZED: Self =
        Self::InvalidRequest("the state of the share partition is not initialized");
    /// A state batch that no log can have.
    pub(super) const NO_RANGE: Self = Self::InvalidRequest("a state batch is not a range of offsets");
    /// A write with too many state batches.
    pub(super) const TOO_MANY_BATCHES: Self = Self::InvalidRequest("the write has too many state batches");
}

impl From<PersistFailure> for ShareStateError {
    fn from(failure: PersistFailure) -> Self {
        match failure {
            PersistFailure::Unavailable => Self::CoordinatorNotAvailable,
            PersistFailure::Lost => Self::NotCoordinator,
            // Records without a producer are never refused for the producer's sake.
            PersistFailure::TooLarge
            | PersistFailure::ProducerFenced
            | PersistFailure::TransactionState
            | PersistFailure::CoordinatorFenced => Self::UnknownServerError,
        }
    }
}
