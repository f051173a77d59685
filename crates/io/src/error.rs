//! Errors of transfers, typed by their origin.

use std::io;
use std::os::fd::AsRawFd;
use std::path::PathBuf;

use crate::piece::Extent;

/// A transfer that cannot continue. The peer received a prefix of the data; the connection is
/// useless.
#[derive(Debug, thiserror::Error)]
pub enum TransferError {
    /// The connection broke: the peer closed or reset it, or the network lost it.
    #[error("the connection failed with {remaining} bytes left to send: {cause}")]
    Peer {
        /// Bytes that the kernel had not accepted.
        remaining: u64,
        /// Error of the socket.
        cause: io::Error,
    },
    /// The file does not have the bytes of the extent.
    #[error("cannot read {} at offset {offset}, {missing} bytes before the end of the extent: {cause}", path.display())]
    Source {
        /// The file, as the kernel names it now.
        path: PathBuf,
        /// Position in the file of the failed read.
        offset: u64,
        /// Number of bytes of the extent that were still to be read there.
        missing: u64,
        /// Fault of the source.
        cause: SourceFault,
    },
}

/// The reason why an extent could not be read.
#[derive(Debug, thiserror::Error)]
pub enum SourceFault {
    /// The file ends before the extent does: it was truncated.
    #[error("the file was truncated")]
    Truncated,
    /// The device or file system reported an error.
    #[error(transparent)]
    Read(#[from] io::Error),
}

impl TransferError {
    /// An error of `extent` after its first `done` bytes.
    pub(crate) fn source(extent: &Extent, done: u64, cause: SourceFault) -> Self {
        let link = format!("/proc/self/fd/{}", extent.file.as_raw_fd());
        let path = std::fs::read_link(&link).unwrap_or_else(|_| PathBuf::from(link));
        Self::Source { path, offset: extent.offset.saturating_add(done), missing: extent.len - done, cause }
    }
}
