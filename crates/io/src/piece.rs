//! A part of the data to send: bytes in memory, or a range of a file.

use std::fs::File;
use std::sync::Arc;

use bytes::Bytes;

/// A range of a file that will not change any more: a zero-copy path passes it on by reference.
///
/// The kernel sends the pages of the page cache themselves, so bytes that are overwritten,
/// truncated or punched out in flight change the data that the peer receives. Ranges that were only
/// ever appended to are safe.
#[derive(Debug, Clone)]
pub struct Extent {
    /// The file, open for reading; every extent of it keeps it open, also after it was unlinked.
    pub file: Arc<File>,
    /// Start of the range, in bytes from the start of the file.
    pub offset: u64,
    /// Length in bytes.
    pub len: u64,
}

impl Extent {
    /// The rest of the range after its first `done` bytes.
    ///
    /// # Panics
    /// If it has fewer.
    pub fn after(&self, done: u64) -> Self {
        assert!(done <= self.len, "{done} bytes of an extent of {}", self.len);
        let offset = self.offset.saturating_add(done);
        Self { file: Arc::clone(&self.file), offset, len: self.len - done }
    }
}

/// One part of the data that a [`Transfer`](crate::Transfer) sends.
#[derive(Debug, Clone)]
pub enum Piece {
    /// Bytes that are in memory already: headers, mostly.
    Bytes(Bytes),
    /// A range of a file that will not change; the [plan](crate::plan) chooses its path.
    Extent(Extent),
    /// A range of a file that may be rewritten or cut while it is in flight; always copied first.
    Volatile(Extent),
}

impl Piece {
    /// Length in bytes.
    pub fn len(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::Extent(extent) | Self::Volatile(extent) => extent.len,
        }
    }

    /// True if it sends nothing.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
