//! Errors that a group coordinator returns.

use std::fmt;

use crate::machine::PersistFailure;

/// A refusal by a group coordinator. Each one is an error code of Kafka's, named after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, thiserror::Error)]
pub enum GroupError {
    /// `COORDINATOR_LOAD_IN_PROGRESS`: the partition's records are still being replayed.
    #[error("the group coordinator is still loading")]
    CoordinatorLoadInProgress,
    /// `COORDINATOR_NOT_AVAILABLE`: try again.
    #[error("the group coordinator is not available")]
    CoordinatorNotAvailable,
    /// `NOT_COORDINATOR`: the client must find the coordinator again.
    #[error("this broker does not coordinate the group")]
    NotCoordinator,
    /// `INVALID_GROUP_ID`
    #[error("the group id is invalid")]
    InvalidGroupId,
    /// `GROUP_ID_NOT_FOUND`
    #[error("the group does not exist")]
    GroupIdNotFound,
    /// `GROUP_ID_NOT_FOUND`: a classic group with members cannot be converted.
    #[error("cannot upgrade the classic group to a consumer group because {0}")]
    NoUpgrade(&'static str),
    /// `NON_EMPTY_GROUP`
    #[error("the group is not empty")]
    NonEmptyGroup,
    /// `GROUP_MAX_SIZE_REACHED`
    #[error("the group has reached its maximum size")]
    GroupMaxSizeReached,
    /// `INVALID_SESSION_TIMEOUT`
    #[error(
        "the session timeout is below group.min.session.timeout.ms or above group.max.session.timeout.ms"
    )]
    InvalidSessionTimeout,
    /// `MEMBER_ID_REQUIRED`: the member must join again with the id in this response.
    #[error("the group member needs a valid member id before it can join")]
    MemberIdRequired,
    /// `UNKNOWN_MEMBER_ID`
    #[error("the group has no such member")]
    UnknownMemberId,
    /// `FENCED_INSTANCE_ID`: another member has this group instance id now.
    #[error("another member with the same group instance id has taken over")]
    FencedInstanceId,
    /// `ILLEGAL_GENERATION`
    #[error("the group generation is not the current one")]
    IllegalGeneration,
    /// `INCONSISTENT_GROUP_PROTOCOL`
    #[error("the member shares no protocol with the group")]
    InconsistentGroupProtocol,
    /// `REBALANCE_IN_PROGRESS`
    #[error("the group is rebalancing")]
    RebalanceInProgress,
    /// `OFFSET_METADATA_TOO_LARGE`
    #[error("the metadata of the offset commit is too large")]
    OffsetMetadataTooLarge,
    /// `UNSTABLE_OFFSET_COMMIT`: a transaction with a commit for this partition is still open.
    #[error("an open transaction has a pending commit for this partition")]
    UnstableOffsetCommit,
    /// `GROUP_SUBSCRIBED_TO_TOPIC`: the offset is in use by a member of the group.
    #[error("the group is subscribed to the topic")]
    GroupSubscribedToTopic,
    /// `INVALID_PRODUCER_EPOCH`: the transactional producer has been replaced.
    #[error("the producer has been replaced by one with a later epoch")]
    InvalidProducerEpoch,
    /// `INVALID_TXN_STATE`
    #[error("the state of the transaction does not allow this write")]
    InvalidTxnState,
    /// `TRANSACTION_COORDINATOR_FENCED`
    #[error("the transaction coordinator has been replaced")]
    TransactionCoordinatorFenced,
    /// `INVALID_REQUEST`
    #[error("{0}")]
    InvalidRequest(&'static str),
    /// `STREAMS_INVALID_TOPOLOGY`
    #[error("{0}")]
    StreamsInvalidTopology(&'static str),
    /// `UNSUPPORTED_VERSION`: members of consumer groups must commit with a version that has their
    /// epoch.
    #[error("OffsetCommit version 9 or above must be used by members using the modern group protocol")]
    UnsupportedVersion,
    /// `FENCED_MEMBER_EPOCH`: the member must release all partitions and join again.
    #[error("{0}")]
    FencedMemberEpoch(FencedEpoch),
    /// `STALE_MEMBER_EPOCH`: the member must fetch its epoch and try again.
    #[error("the member epoch is stale")]
    StaleMemberEpoch,
    /// `UNRELEASED_INSTANCE_ID`: another member has this group instance id and has not left.
    #[error("the instance id is owned by another member")]
    UnreleasedInstanceId,
    /// `UNSUPPORTED_ASSIGNOR`
    #[error("the server assignor is not supported; choose uniform or range")]
    UnsupportedAssignor,
    /// `INVALID_REGULAR_EXPRESSION`
    #[error("the SubscribedTopicRegex is not a valid regular expression")]
    InvalidRegularExpression,
    /// `UNKNOWN_TOPIC_OR_PARTITION`
    #[error("the topic or the partition does not exist")]
    UnknownTopicOrPartition,
    /// `UNKNOWN_TOPIC_OR_PARTITION`: the share group has no state of the topic.
    #[error("There is no offset information to delete.")]
    NoShareOffsets,
    /// The error code of Kafka's with this number, with which the share coordinator has refused a
    /// change of its state.
    #[error("the share coordinator has refused the change (error code {0})")]
    ShareState(i16),
    /// `UNKNOWN_SERVER_ERROR`
    #[error("the group coordinator failed to execute the request")]
    UnknownServerError,
}

/// The epoch of a member that its group does not accept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FencedEpoch {
    /// The kind of group, as in "streams".
    pub kind: &'static str,
    /// Epoch of the request.
    pub received: i32,
    /// Epoch that the group has for the member.
    pub known: i32,
}

impl GroupError {
    /// The refusal of a member's epoch by a group of this kind.
    pub(crate) fn fenced(kind: &'static str, received: i32, known: i32) -> Self {
        Self::FencedMemberEpoch(FencedEpoch { kind, received, known })
    }
}

impl fmt::Display for FencedEpoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, received, known } = self;
        let relation = if received > known { "greater" } else { "smaller" };
        write!(
            f,
            "The {kind} group member has a {relation} member epoch ({received}) than the one known by the group \
             coordinator ({known}). The member must abandon all its partitions and rejoin."
        )
    }
}

impl From<PersistFailure> for GroupError {
    fn from(failure: PersistFailure) -> Self {
        match failure {
            PersistFailure::Unavailable => Self::CoordinatorNotAvailable,
            PersistFailure::Lost => Self::NotCoordinator,
            PersistFailure::TooLarge => Self::UnknownServerError,
            PersistFailure::ProducerFenced => Self::InvalidProducerEpoch,
            PersistFailure::TransactionState => Self::InvalidTxnState,
            PersistFailure::CoordinatorFenced => Self::TransactionCoordinatorFenced,
        }
    }
}
