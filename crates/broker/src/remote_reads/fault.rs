//! The reasons why a remote read has no records.

use std::time::Duration;

use levada_chunks::search::SearchError;
use levada_chunks::{ChunkError, ChunkKey};
use levada_log::ReadError;
use levada_remote::RemoteError;

use super::fetches::RemotePart;

/// A remote read has failed.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum RemoteFault {
    /// No remote segment has the offset.
    #[error("no remote segment has offset {offset} of leader epoch {epoch} (-1 for none)")]
    OutOfRange { offset: i64, epoch: i32 },
    /// The partition's part of `__remote_log_metadata` is not read yet.
    #[error("{0}")]
    NotReady(String),
    /// The store, or its connection, has failed.
    #[error("{0}")]
    Store(#[from] RemoteError),
    /// A file of the cache cannot be written or read, or the store sent a wrong number of bytes.
    #[error("{0}; if the disk is full, make room or lower levada.remote.cache.bytes")]
    Cache(String),
    /// The records or an index are damaged.
    #[error("remote segment {segment}: {fault}; compare the store: levada storage remote check")]
    Damaged { segment: String, fault: String },
    /// Too many reads wait for a reader thread.
    #[error("{waiting} reads wait for the remote store, the limit (remote.log.reader.max.pending.tasks)")]
    Busy { waiting: usize },
    /// The reader threads end.
    #[error("the broker is stopping")]
    Stopping,
    /// The result did not arrive in time.
    #[error("the remote store did not respond within {} ms (remote.list.offsets.request.timeout.ms)", waited.as_millis())]
    TimedOut { waited: Duration },
    /// A fetch ended by a panic.
    #[error("the fetch of {0} from the remote store was abandoned: report the panic in the log")]
    Abandoned(ChunkKey),
    /// The local part of the log cannot be read.
    #[error("the local log: {0}")]
    Local(String),
}

impl From<ChunkError<RemoteError>> for RemoteFault {
    fn from(error: ChunkError<RemoteError>) -> Self {
        match error {
            ChunkError::Fetch(error) => Self::Store(error),
            ChunkError::Abandoned(key) => Self::Abandoned(key),
            other => Self::Cache(other.to_string()),
        }
    }
}

impl From<ReadError> for RemoteFault {
    fn from(error: ReadError) -> Self {
        Self::Local(error.to_string())
    }
}

/// The end of an attempt without a result.
pub(super) enum Stop {
    /// The cache lacks this part.
    Lacks(RemotePart),
    Failed(RemoteFault),
}

impl<T: Into<RemoteFault>> From<T> for Stop {
    fn from(fault: T) -> Self {
        Self::Failed(fault.into())
    }
}

impl Stop {
    /// The end of a search in a segment.
    pub(super) fn of_search(segment: &levada_tiered::RemoteSegment) -> impl Fn(SearchError<Self>) -> Self {
        let segment = segment.id.to_string();
        move |error| match error {
            SearchError::Read(stop) => stop,
            other => {
                Self::Failed(RemoteFault::Damaged { segment: segment.clone(), fault: other.to_string() })
            }
        }
    }
}
