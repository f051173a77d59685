//! The map from the errors of coordinators to Kafka's error codes.

use levada_wire::ErrorCode;

use crate::group::GroupError;
use crate::share_state::ShareStateError;
use crate::txn::TxnError;

impl From<GroupError> for ErrorCode {
    fn from(error: GroupError) -> Self {
        match error {
            GroupError::CoordinatorLoadInProgress => Self::CoordinatorLoadInProgress,
            GroupError::CoordinatorNotAvailable => Self::CoordinatorNotAvailable,
            GroupError::NotCoordinator => Self::NotCoordinator,
            GroupError::InvalidGroupId => Self::InvalidGroupId,
            GroupError::GroupIdNotFound | GroupError::NoUpgrade(_) => Self::GroupIdNotFound,
            GroupError::NonEmptyGroup => Self::NonEmptyGroup,
            GroupError::GroupMaxSizeReached => Self::GroupMaxSizeReached,
            GroupError::InvalidSessionTimeout => Self::InvalidSessionTimeout,
            GroupError::MemberIdRequired => Self::MemberIdRequired,
            GroupError::UnknownMemberId => Self::UnknownMemberId,
            GroupError::FencedInstanceId => Self::FencedInstanceId,
            GroupError::IllegalGeneration => Self::IllegalGeneration,
            GroupError::InconsistentGroupProtocol => Self::InconsistentGroupProtocol,
            GroupError::RebalanceInProgress => Self::RebalanceInProgress,
            GroupError::OffsetMetadataTooLarge => Self::OffsetMetadataTooLarge,
            GroupError::UnstableOffsetCommit => Self::UnstableOffsetCommit,
            GroupError::GroupSubscribedToTopic => Self::GroupSubscribedToTopic,
            GroupError::InvalidProducerEpoch => Self::InvalidProducerEpoch,
            GroupError::InvalidTxnState => Self::InvalidTxnState,
            GroupError::TransactionCoordinatorFenced => Self::TransactionCoordinatorFenced,
            GroupError::InvalidRequest(_) => Self::InvalidRequest,
            GroupError::StreamsInvalidTopology(_) => Self::StreamsInvalidTopology,
            GroupError::UnsupportedVersion => Self::UnsupportedVersion,
            GroupError::FencedMemberEpoch(_) => Self::FencedMemberEpoch,
            GroupError::StaleMemberEpoch => Self::StaleMemberEpoch,
            GroupError::UnreleasedInstanceId => Self::UnreleasedInstanceId,
            GroupError::UnsupportedAssignor => Self::UnsupportedAssignor,
            GroupError::InvalidRegularExpression => Self::InvalidRegularExpression,
            GroupError::UnknownTopicOrPartition | GroupError::NoShareOffsets => Self::UnknownTopicOrPartition,
            GroupError::ShareState(code) => Self::of_code(code).unwrap_or(Self::UnknownServerError),
            GroupError::UnknownServerError => Self::UnknownServerError,
        }
    }
}

impl From<TxnError> for ErrorCode {
    fn from(error: TxnError) -> Self {
        match error {
            TxnError::CoordinatorLoadInProgress => Self::CoordinatorLoadInProgress,
            TxnError::CoordinatorNotAvailable => Self::CoordinatorNotAvailable,
            TxnError::NotCoordinator => Self::NotCoordinator,
            TxnError::InvalidRequest => Self::InvalidRequest,
            TxnError::InvalidTransactionTimeout => Self::InvalidTransactionTimeout,
            TxnError::InvalidProducerIdMapping => Self::InvalidProducerIdMapping,
            TxnError::ProducerFenced => Self::ProducerFenced,
            TxnError::InvalidProducerEpoch => Self::InvalidProducerEpoch,
            TxnError::ConcurrentTransactions => Self::ConcurrentTransactions,
            TxnError::InvalidTxnState => Self::InvalidTxnState,
            TxnError::TransactionAbortable => Self::TransactionAbortable,
            TxnError::TransactionalIdNotFound => Self::TransactionalIdNotFound,
            TxnError::TransactionalIdAuthorizationFailed => Self::TransactionalIdAuthorizationFailed,
            TxnError::UnsupportedVersion => Self::UnsupportedVersion,
            TxnError::UnknownServerError => Self::UnknownServerError,
        }
    }
}

impl From<ShareStateError> for ErrorCode {
    fn from(error: ShareStateError) -> Self {
        match error {
            ShareStateError::CoordinatorLoadInProgress => Self::CoordinatorLoadInProgress,
            ShareStateError::CoordinatorNotAvailable => Self::CoordinatorNotAvailable,
            ShareStateError::NotCoordinator => Self::NotCoordinator,
            ShareStateError::InvalidRequest(_) => Self::InvalidRequest,
            ShareStateError::UnknownTopicOrPartition => Self::UnknownTopicOrPartition,
            ShareStateError::FencedLeaderEpoch => Self::FencedLeaderEpoch,
            ShareStateError::FencedStateEpoch => Self::FencedStateEpoch,
            ShareStateError::UnknownServerError => Self::UnknownServerError,
        }
    }
}
