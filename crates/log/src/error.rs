//! Errors of a log, typed by their origin.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use levada_base::batch::BatchError;
use thiserror::Error;

use crate::refused::Passing;

/// The disk failed, or its contents are not a log. Has the path.
#[derive(Clone, Debug, Error)]
pub enum LogError {
    /// An operation on a file failed.
    #[error("cannot {operation} {}: {source}", path.display())]
    Io {
        /// The operation that failed, as a verb.
        operation: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// Error of the operating system.
        source: Arc<io::Error>,
    },
    /// A file has invalid contents.
    #[error("{} is damaged: {detail}", path.display())]
    Corrupt {
        /// Damaged file.
        path: PathBuf,
        /// Description of the damage.
        detail: String,
    },
    /// A file is in a format that this version does not read.
    #[error("{}: {reason}", path.display())]
    Format {
        /// File in that format.
        path: PathBuf,
        /// The format, and the next step.
        reason: &'static str,
    },
    /// A mapped file was cut, or its disk failed, while it was in use.
    #[error("{} was truncated while in use, or its disk failed; restart the broker to rebuild it", path.display())]
    Lost {
        /// Mapped file.
        path: PathBuf,
    },
    /// An earlier failure left the partition in doubt: nothing more is written until it is opened
    /// again.
    #[error("partition {} is offline after a failure of its storage", dir.display())]
    Offline {
        /// The partition's directory.
        dir: PathBuf,
    },
    /// The storage of the log has refused records, and accepts none until it has free space again.
    #[error(
        "partition {} accepts no records while its storage refuses them; free disk space, or raise the limit of file descriptors",
        dir.display()
    )]
    Refuses {
        /// The partition's directory.
        dir: PathBuf,
    },
    /// An offset that is not valid for the operation.
    #[error("offset {offset} is outside the log ({log_start}..={log_end})")]
    OutOfRange {
        /// The requested offset.
        offset: i64,
        /// The first offset of the log.
        log_start: i64,
        /// The log end offset.
        log_end: i64,
    },
}

impl LogError {
    /// An operation on a file failed; `operation` is a verb.
    pub fn io(operation: &'static str, path: &Path, source: io::Error) -> Self {
        Self::Io { operation, path: path.to_owned(), source: Arc::new(source) }
    }

    /// The error of the kernel, if there was one.
    pub fn source_io(&self) -> Option<&io::Error> {
        match self {
            Self::Io { source, .. } => Some(source),
            _ => None,
        }
    }

    /// The error for a file with invalid contents.
    pub fn corrupt(path: &Path, detail: impl Into<String>) -> Self {
        Self::Corrupt { path: path.to_owned(), detail: detail.into() }
    }
}

/// Converts errors of the writer, which reads its own log: bytes that are not a batch are damage.
impl From<ReadError> for LogError {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Storage(error) => error,
            ReadError::Cold => unreachable!("the writer waits for what it reads"),
            ReadError::Expands { .. } => unreachable!("the writer expands what it reads"),
            ReadError::Corrupt { ref path, .. } => Self::corrupt(&path.clone(), error.to_string()),
            ReadError::OutOfRange { offset, log_start, log_end } => {
                Self::OutOfRange { offset, log_start, log_end }
            }
            ReadError::Remote { .. } => unreachable!("the writer reads its own segments"),
        }
    }
}

/// The reason why a read returned nothing.
#[derive(Clone, Debug, Error)]
pub enum ReadError {
    /// The requested offsets were never written or are deleted.
    #[error("offset {offset} is outside the log ({log_start}..={log_end})")]
    OutOfRange {
        /// The requested offset.
        offset: i64,
        /// The first offset of the log.
        log_start: i64,
        /// The log end offset.
        log_end: i64,
    },
    /// Remote storage has the record: its segment has left this log.
    #[error("offset {offset} is in remote storage (the local log starts at {local_log_start})")]
    Remote {
        /// The requested offset.
        offset: i64,
        /// The first offset of the local segments.
        local_log_start: i64,
    },
    /// The bytes are not in the page cache, and the reader does not wait.
    #[error("the data is not in the page cache")]
    Cold,
    /// The disk failed.
    #[error(transparent)]
    Storage(#[from] LogError),
    /// The bytes at this position are not a batch.
    #[error("{} has no batch at position {position} (search for offset {offset})", path.display())]
    Corrupt {
        /// The segment.
        path: PathBuf,
        /// Position in it, bytes.
        position: u64,
        /// The requested offset.
        offset: i64,
    },
    /// A batch expands to more bytes than the reader permits.
    #[error("a batch expands to more than {bytes_max} bytes")]
    Expands {
        /// The reader's limit.
        bytes_max: usize,
    },
}

impl ReadError {
    /// Converts `WouldBlock` of a file operation to [`Self::Cold`], for a reader that does not
    /// wait.
    pub(crate) fn or_cold(self) -> Self {
        match self {
            Self::Storage(LogError::Io { source, .. }) if source.kind() == io::ErrorKind::WouldBlock => {
                Self::Cold
            }
            other => other,
        }
    }
}

/// The reason why a batch was not appended. Nothing of it is in the log.
#[derive(Debug, Error)]
pub enum AppendError {
    /// The bytes are not a valid batch.
    #[error(transparent)]
    Batch(#[from] BatchError),
    /// Larger than `max.message.bytes`.
    #[error("batch of {size_bytes} bytes is larger than max.message.bytes ({limit_bytes})")]
    TooLarge {
        /// Size of the batch, bytes.
        size_bytes: u64,
        /// Limit, bytes.
        limit_bytes: u64,
    },
    /// Larger than `segment.bytes`.
    #[error("batch of {size_bytes} bytes is larger than segment.bytes ({limit_bytes})")]
    LargerThanSegment {
        /// Size of the batch, bytes.
        size_bytes: u64,
        /// Limit, bytes.
        limit_bytes: u64,
    },
    /// The producer has been replaced by one with a later epoch.
    #[error("producer {producer_id} has epoch {current}, the batch has {epoch}")]
    ProducerEpoch {
        /// Producer id of the batch.
        producer_id: i64,
        /// Producer epoch of the batch.
        epoch: i16,
        /// Producer epoch that the log has.
        current: i16,
    },
    /// The sequence number does not follow the producer's last.
    #[error("producer {producer_id} sent sequence {sequence} instead of {expected}")]
    OutOfOrderSequence {
        /// Producer id of the batch.
        producer_id: i64,
        /// The batch's first sequence.
        sequence: i32,
        /// The expected value.
        expected: i32,
    },
    /// An earlier batch of the producer was refused for a temporary reason, and must be stored
    /// first.
    #[error(
        "producer {producer_id} sent sequence {sequence} while sequence {refused} was refused for a reason that passes; the client sends both again"
    )]
    Overtakes {
        /// Producer id of the batch.
        producer_id: i64,
        /// The batch's first sequence.
        sequence: i32,
        /// The first sequence of the refused batch.
        refused: i32,
        /// The reason for which it was refused.
        reason: Passing,
    },
    /// Data outside a transaction while the producer has one open, or a client's control batch.
    #[error("producer {producer_id} cannot write this batch: {what}")]
    TransactionState {
        /// Producer id of the batch.
        producer_id: i64,
        /// The part that is not allowed.
        what: &'static str,
    },
    /// A marker from a coordinator that has been replaced.
    #[error("coordinator epoch {epoch} is older than {current}")]
    CoordinatorEpoch {
        /// Coordinator epoch of the marker.
        epoch: i32,
        /// Coordinator epoch that the log has recorded.
        current: i32,
    },
    /// This broker no longer leads the log, or leads it in another epoch than the one in which the
    /// batch was checked.
    #[error(
        "batch was checked in leader epoch {checked}, but the log is led in leader epoch {led} (-1 for none)"
    )]
    LeaderEpoch {
        /// Epoch in which the batch was checked.
        checked: i32,
        /// Epoch in which this broker leads the log, -1 if it does not.
        led: i32,
    },
    /// A batch of the leader that contradicts the log before it: offsets and leader epochs never
    /// decrease.
    #[error(
        "the leader's batch does not continue this log: it has offset {offset} and leader epoch {epoch}, but the log ends at offset {log_end} in leader epoch {latest} (the leader's log starts at {leader_start})"
    )]
    Order {
        /// The batch's first offset.
        offset: i64,
        /// The batch's leader epoch.
        epoch: i32,
        /// End offset of the log, or of the batches before this one.
        log_end: i64,
        /// Leader epoch at that end.
        latest: i32,
        /// Start of the leader's log.
        leader_start: i64,
    },
    /// The disk failed; the log is as before, or offline.
    #[error(transparent)]
    Storage(#[from] LogError),
}
