//! Replay of the log that contains a coordinator's state, and the classification of failed appends
//! to it.

use levada_log::batch::{self, BatchError, BatchView};
use levada_log::{LogError, ReadError};

use crate::replica::Partition;

/// True if the log is as it was before an append that failed with `error`, so that the append can
/// be tried again: its disk was full. Any other failure has taken the partition out of use.
pub(crate) fn may_be_repeated(partition: &Partition, error: &LogError) -> bool {
    !matches!(error, LogError::Offline { .. }) && !partition.log().is_offline()
}

/// Why a coordinator could not be loaded.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReplayError {
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error(transparent)]
    Batch(#[from] BatchError),
}

/// Read so much of the log at a time when replaying it.
const REPLAY_BYTES: u32 = 1 << 20;

/// Shows every batch of `log` in order, each checked.
pub(crate) fn replay(
    log: &levada_log::Partition,
    mut show: impl FnMut(&BatchView<'_>) -> Result<(), BatchError>,
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
