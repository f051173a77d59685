//! Replay of the log that contains a coordinator's state, and the classification of failed appends
//! to it.

use levada_base::batch::{self, BatchError, BatchView};
use levada_coordination::machine::{Machine, PersistFailure, ReplayFault};
use levada_log::{AppendError, LogError, ReadError};

use crate::replica::Partition;
use crate::replica::led::CommitFailure;
use crate::replica::submitted::{SubmitError, SubmitResult};

/// True if the log is unchanged after an append that failed with `error`, so that the append can be
/// repeated: the disk was full. Any other failure has taken the partition offline.
fn may_be_repeated(partition: &Partition, error: &LogError) -> bool {
    !matches!(error, LogError::Offline { .. }) && !partition.log().is_offline()
}

/// The reason why a coordinator could not be loaded.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReplayError {
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error(transparent)]
    Batch(#[from] BatchError),
    #[error(transparent)]
    Machine(#[from] ReplayFault),
}

/// Bytes of the log that the replay reads at a time.
const REPLAY_BYTES: u32 = 1 << 20;

/// Passes every batch of `log` in order, each checked, to the caller.
pub(crate) fn replay(
    log: &levada_log::Partition,
    mut show: impl FnMut(&BatchView<'_>) -> Result<(), ReplayFault>,
) -> Result<(), ReplayError> {
    let mut offset = log.log_start();
    while offset < log.log_end() {
        let bytes = log.read_batches(offset, REPLAY_BYTES)?;
        let mut rest = &bytes[..];
        if rest.is_empty() {
            break;
        }
        while !rest.is_empty() {
            let batch = batch::check_stored(rest)?;
            show(&batch)?;
            offset = batch.last_offset() + 1;
            rest = &rest[batch.size_bytes()..];
        }
    }
    Ok(())
}

/// The result of an append for the machine: the base offset, or the common classification of
/// failures.
pub(crate) fn stored<M: Machine>(partition: &Partition, result: SubmitResult) -> Result<i64, PersistFailure> {
    let error = match result {
        Ok(appended) => return Ok(appended.base_offset),
        Err(SubmitError::Refused(error)) => error,
        // The next leader's log decides, and the next term follows it.
        Err(SubmitError::Uncommitted(
            CommitFailure::LeadershipLost | CommitFailure::NotEnoughReplicas { .. } | CommitFailure::TimedOut,
        )) => return Err(PersistFailure::Unavailable),
    };
    Err(match error {
        AppendError::ProducerEpoch { .. } => PersistFailure::ProducerFenced,
        AppendError::CoordinatorEpoch { .. } => PersistFailure::CoordinatorFenced,
        AppendError::TransactionState { .. }
        | AppendError::OutOfOrderSequence { .. }
        | AppendError::Overtakes { .. } => PersistFailure::TransactionState,
        AppendError::TooLarge { .. } | AppendError::LargerThanSegment { .. } => PersistFailure::TooLarge,
        // No record of it is in the log; the coordinator of another epoch continues from there.
        AppendError::LeaderEpoch { .. } => PersistFailure::Unavailable,
        // The lane logs the failure.
        AppendError::Storage(error) if may_be_repeated(partition, &error) => PersistFailure::Unavailable,
        AppendError::Batch(_) | AppendError::Order { .. } | AppendError::Storage(_) => {
            tracing::error!(
                partition = partition.name(),
                %error,
                "{} records not stored; the coordinator stops until the broker restarts",
                M::SUBJECT
            );
            PersistFailure::Lost
        }
    })
}
