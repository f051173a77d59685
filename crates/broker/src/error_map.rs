//! The map from this crate's errors to Kafka's error codes: one implementation of [`From`] for each
//! type of error. There is no other such map.

use levada_log::batch::BatchError;
use levada_log::{AppendError, Passing, ReadError};

use crate::error_code::{ErrorCode, Failure, sentence};
use crate::group::GroupError;
use crate::metadata::controller::{Reason, Refusal};
use crate::metadata::store::StoreError;
use crate::replica::lane::SubmitError;
use crate::replica::led::CommitFailure;
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
            GroupError::UnsupportedVersion => Self::UnsupportedVersion,
            GroupError::FencedMemberEpoch => Self::FencedMemberEpoch,
            GroupError::StaleMemberEpoch => Self::StaleMemberEpoch,
            GroupError::UnreleasedInstanceId => Self::UnreleasedInstanceId,
            GroupError::UnsupportedAssignor => Self::UnsupportedAssignor,
            GroupError::InvalidRegularExpression => Self::InvalidRegularExpression,
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

impl From<ReadError> for ErrorCode {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::OutOfRange { .. } => Self::OffsetOutOfRange,
            ReadError::Cold | ReadError::Storage(_) => Self::KafkaStorageError,
            ReadError::Corrupt { .. } | ReadError::Expands { .. } => Self::CorruptMessage,
        }
    }
}

impl From<BatchError> for Failure {
    fn from(error: BatchError) -> Self {
        let code = match &error {
            BatchError::Crc { .. } | BatchError::Length(_) | BatchError::Truncated { .. } => {
                ErrorCode::CorruptMessage
            }
            _ => ErrorCode::InvalidRecord,
        };
        Self::new(code, error.to_string())
    }
}

impl From<AppendError> for Failure {
    fn from(error: AppendError) -> Self {
        let code = match error {
            AppendError::Batch(batch) => return batch.into(),
            AppendError::TooLarge { .. } => ErrorCode::MessageTooLarge,
            AppendError::LargerThanSegment { .. } => ErrorCode::RecordListTooLarge,
            AppendError::ProducerEpoch { .. } => ErrorCode::InvalidProducerEpoch,
            AppendError::OutOfOrderSequence { .. } => ErrorCode::OutOfOrderSequenceNumber,
            AppendError::TransactionState { .. } => ErrorCode::InvalidTxnState,
            AppendError::CoordinatorEpoch { .. } => ErrorCode::TransactionCoordinatorFenced,
            AppendError::LeaderEpoch { .. } | AppendError::Overtakes { reason: Passing::Leadership, .. } => {
                ErrorCode::NotLeaderOrFollower
            }
            // The client sends the batch again, without a search for another leader.
            AppendError::Overtakes { reason: Passing::Replicas, .. } => ErrorCode::NotEnoughReplicas,
            AppendError::Order { .. } => ErrorCode::CorruptMessage,
            AppendError::Storage(_) | AppendError::Overtakes { reason: Passing::Storage, .. } => {
                ErrorCode::KafkaStorageError
            }
        };
        Self::new(code, error.to_string())
    }
}

impl From<SubmitError> for Failure {
    fn from(error: SubmitError) -> Self {
        let failure = match error {
            SubmitError::Refused(error) => return error.into(),
            SubmitError::Uncommitted(failure) => failure,
        };
        let code = match failure {
            CommitFailure::LeadershipLost => ErrorCode::NotLeaderOrFollower,
            CommitFailure::NotEnoughReplicas => ErrorCode::NotEnoughReplicasAfterAppend,
            CommitFailure::TimedOut => ErrorCode::RequestTimedOut,
        };
        Self::new(code, sentence(failure.to_string()))
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        let code = match refusal.reason {
            Reason::InvalidTopic => ErrorCode::InvalidTopic,
            Reason::TopicExists => ErrorCode::TopicAlreadyExists,
            Reason::InvalidPartitions => ErrorCode::InvalidPartitions,
            Reason::InvalidReplicationFactor => ErrorCode::InvalidReplicationFactor,
            Reason::InvalidReplicaAssignment => ErrorCode::InvalidReplicaAssignment,
            Reason::InvalidConfig => ErrorCode::InvalidConfig,
            Reason::InvalidRequest => ErrorCode::InvalidRequest,
            Reason::UnknownTopic => ErrorCode::UnknownTopicOrPartition,
            Reason::UnknownTopicId => ErrorCode::UnknownTopicId,
            Reason::PolicyViolation => ErrorCode::PolicyViolation,
            Reason::Duplicate => ErrorCode::DuplicateResource,
            Reason::NotFound => ErrorCode::ResourceNotFound,
            Reason::UnacceptableCredential => ErrorCode::UnacceptableCredential,
            Reason::UnknownMechanism => ErrorCode::UnsupportedSaslMechanism,
            Reason::UnsupportedVersion => ErrorCode::UnsupportedVersion,
            Reason::QuotaExceeded => ErrorCode::ThrottlingQuotaExceeded,
            Reason::InvalidUpdateVersion => ErrorCode::InvalidUpdateVersion,
            Reason::ServerError => ErrorCode::UnknownServerError,
        };
        Self { code, message: refusal.message.map(sentence) }
    }
}

/// Kafka's error of a controller for a request with too many records.
const EXCESSIVE: &str = "Unable to perform excessively large batch operation.";

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        if let StoreError::TooLarge { .. } = error {
            return Self::new(ErrorCode::PolicyViolation, EXCESSIVE);
        }
        Self::new(ErrorCode::KafkaStorageError, error.to_string())
    }
}
