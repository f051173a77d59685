//! The transfer engine: bytes from disk to network without lifting them, each counted under the path it took.
//!
//! It knows no Kafka and no async runtime.

use std::fs::File;
use std::sync::Arc;

use bytes::Bytes;

pub mod counters;
pub mod error;
pub mod map;
pub mod path;
pub mod plan;
pub mod probe;

mod engine;
#[cfg(test)]
mod fixture;
mod pipe;
mod queue;
mod sys;
mod transfer;

pub use counters::{Counters, Fallback, Snapshot};
pub use engine::Engine;
pub use error::{SourceFault, TransferError};
pub use path::Path;
pub use plan::Thresholds;
pub use probe::Caps;
pub use transfer::{Transfer, Turn};

/// A range of a file that will not change any more: what a zero-copy path hands on by reference.
///
/// The kernel sends the pages of the page cache themselves, so bytes that are overwritten, cut off or punched out
/// while they are in flight change what the peer receives. Ranges that were only ever appended to are safe.
#[derive(Debug, Clone)]
pub struct Extent {
    /// The file, open for reading; kept alive by every extent of it, also after it was unlinked.
    pub file: Arc<File>,
    /// Where the range starts, in bytes from the start of the file.
    pub offset: u64,
    /// How many bytes it has.
    pub len: u64,
}

/// One part of what a [`Transfer`] sends.
#[derive(Debug, Clone)]
pub enum Piece {
    /// Bytes that are in memory already: headers, mostly.
    Bytes(Bytes),
    /// A range of a file that will not change; the plan chooses its path by size.
    Extent(Extent),
    /// A range of a file that may be rewritten or cut while it is in flight; always copied first.
    Volatile(Extent),
}

impl Piece {
    /// How many bytes it sends.
    pub fn len(&self) -> u64 {
        match self {
            Piece::Bytes(bytes) => bytes.len() as u64,
            Piece::Extent(extent) | Piece::Volatile(extent) => extent.len,
        }
    }

    /// Whether it sends nothing.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
