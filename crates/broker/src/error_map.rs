//! The map from errors of logs and of replication to Kafka's error codes. Coordinators and metadata
//! map their errors in their own crates.

use levada_log::{AppendError, Passing, ReadError};
use levada_wire::error_code::{ErrorCode, Failure, sentence};

use crate::remote_reads::RemoteFault;
use crate::replica::led::CommitFailure;
use crate::replica::submitted::SubmitError;

/// The code for a failed read of a log.
pub(crate) fn read_error(error: ReadError) -> ErrorCode {
    match error {
        ReadError::OutOfRange { .. } => ErrorCode::OffsetOutOfRange,
        ReadError::Remote { .. } => ErrorCode::OffsetMovedToTieredStorage,
        ReadError::Cold | ReadError::Storage(_) => ErrorCode::KafkaStorageError,
        ReadError::Corrupt { .. } | ReadError::Expands { .. } => ErrorCode::CorruptMessage,
    }
}

/// The code for a failed read of remote storage. Kafka has no specific code: clients repeat the
/// fetch after UNKNOWN_SERVER_ERROR.
pub(crate) fn remote_error(fault: &RemoteFault) -> ErrorCode {
    match fault {
        RemoteFault::OutOfRange { .. } => ErrorCode::OffsetOutOfRange,
        RemoteFault::Damaged { .. } => ErrorCode::CorruptMessage,
        RemoteFault::TimedOut { .. } => ErrorCode::RequestTimedOut,
        RemoteFault::Local(_) => ErrorCode::KafkaStorageError,
        RemoteFault::NotReady(_) => ErrorCode::ReplicaNotAvailable,
        RemoteFault::Store(_)
        | RemoteFault::Cache(_)
        | RemoteFault::Busy { .. }
        | RemoteFault::Stopping
        | RemoteFault::Abandoned(_) => ErrorCode::UnknownServerError,
    }
}

/// The failure of a refused append.
pub(crate) fn append_error(error: AppendError) -> Failure {
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
    Failure::new(code, error.to_string())
}

impl From<SubmitError> for Failure {
    fn from(error: SubmitError) -> Self {
        let failure = match error {
            SubmitError::Refused(error) => return append_error(error),
            SubmitError::Uncommitted(failure) => failure,
        };
        let code = match failure {
            CommitFailure::LeadershipLost => ErrorCode::NotLeaderOrFollower,
            CommitFailure::NotEnoughReplicas { .. } => ErrorCode::NotEnoughReplicasAfterAppend,
            CommitFailure::TimedOut => ErrorCode::RequestTimedOut,
        };
        Self::new(code, sentence(failure.to_string()))
    }
}
