//! Errors that a transaction coordinator returns.

use crate::machine::PersistFailure;

/// A refusal by a transaction coordinator. Each one is an error code of Kafka's, named after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, thiserror::Error)]
pub enum TxnError {
    /// `COORDINATOR_LOAD_IN_PROGRESS`: the partition's records are still being replayed.
    #[error("the transaction coordinator is still loading")]
    CoordinatorLoadInProgress,
    /// `COORDINATOR_NOT_AVAILABLE`: try again.
    #[error("the transaction coordinator is not available")]
    CoordinatorNotAvailable,
    /// `NOT_COORDINATOR`: the client must find the coordinator again.
    #[error("this broker does not coordinate the transactional id")]
    NotCoordinator,
    /// `INVALID_REQUEST`
    #[error("the transactional id is empty")]
    InvalidRequest,
    /// `INVALID_TRANSACTION_TIMEOUT`
    #[error("the transaction timeout is outside the allowed range")]
    InvalidTransactionTimeout,
    /// `INVALID_PRODUCER_ID_MAPPING`: the transactional id is unknown or belongs to another
    /// producer id.
    #[error("the transactional id does not belong to this producer id")]
    InvalidProducerIdMapping,
    /// `PRODUCER_FENCED`: a newer producer uses the transactional id.
    #[error("a newer producer with the same transactional id has taken over")]
    ProducerFenced,
    /// `INVALID_PRODUCER_EPOCH`: the error for request versions from before `PRODUCER_FENCED`.
    #[error("the producer's epoch is not the current one")]
    InvalidProducerEpoch,
    /// `CONCURRENT_TRANSACTIONS`: the transaction is on its way into another state; try again.
    #[error("another request is changing the state of the transaction")]
    ConcurrentTransactions,
    /// `INVALID_TXN_STATE`
    #[error("the state of the transaction does not allow this request")]
    InvalidTxnState,
    /// `TRANSACTION_ABORTABLE`: the partition is not part of the transaction.
    #[error("the partition is not part of the transaction, which must be aborted")]
    TransactionAbortable,
    /// `TRANSACTIONAL_ID_NOT_FOUND`
    #[error("the transactional id does not exist")]
    TransactionalIdNotFound,
    /// `TRANSACTIONAL_ID_AUTHORIZATION_FAILED`: two-phase commit is switched off.
    #[error("the transactional id may not be used in this way")]
    TransactionalIdAuthorizationFailed,
    /// `UNSUPPORTED_VERSION`: prepared transactions cannot be kept.
    #[error("this combination of request fields is not supported")]
    UnsupportedVersion,
    /// `UNKNOWN_SERVER_ERROR`
    #[error("the transaction coordinator failed to execute the request")]
    UnknownServerError,
}

impl TxnError {
    /// The error for requests older than `PRODUCER_FENCED`: InitProducerId below version 4,
    /// AddPartitionsToTxn, AddOffsetsToTxn and EndTxn below version 2, and every Produce.
    #[must_use]
    pub fn before_fencing(self) -> Self {
        match self {
            Self::ProducerFenced => Self::InvalidProducerEpoch,
            error => error,
        }
    }

    /// True if a producer sends a batch again that was refused with this error.
    pub fn is_repeated(self) -> bool {
        matches!(
            self,
            Self::ConcurrentTransactions
                | Self::CoordinatorLoadInProgress
                | Self::CoordinatorNotAvailable
                | Self::NotCoordinator
        )
    }
}

impl From<PersistFailure> for TxnError {
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
