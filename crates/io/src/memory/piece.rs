//! A piece of memory that a ring sends: bytes, or a part of a buffer.

use std::ops::Range;
use std::sync::Arc;

use bytes::{Buf, Bytes};

use crate::ring::Memory;
use crate::sys::buf::Buffer;

/// A piece of memory to send through a ring.
#[derive(Debug, Clone)]
pub enum MemoryPiece {
    /// Bytes.
    Bytes(Bytes),
    /// A part of the filled bytes of a buffer, registered or not.
    Buffer(Arc<Buffer>, Range<usize>),
}

impl MemoryPiece {
    /// Length in bytes.
    pub fn len(&self) -> usize {
        match self {
            MemoryPiece::Bytes(bytes) => bytes.len(),
            MemoryPiece::Buffer(_, range) => range.len(),
        }
    }

    /// True if it sends nothing.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes themselves.
    pub(super) fn bytes(&self) -> &[u8] {
        match self {
            MemoryPiece::Bytes(bytes) => bytes,
            MemoryPiece::Buffer(buffer, range) => &buffer.filled()[range.clone()],
        }
    }

    /// Leaves the first `count` bytes out.
    pub(super) fn advance(&mut self, count: usize) {
        match self {
            MemoryPiece::Bytes(bytes) => bytes.advance(count),
            MemoryPiece::Buffer(_, range) => range.start += count,
        }
    }

    /// The first `count` bytes, which stay where they are.
    pub(super) fn first(&self, count: usize) -> MemoryPiece {
        match self {
            MemoryPiece::Bytes(bytes) => MemoryPiece::Bytes(bytes.slice(..count)),
            MemoryPiece::Buffer(buffer, range) => {
                MemoryPiece::Buffer(Arc::clone(buffer), range.start..range.start + count)
            }
        }
    }

    /// The form that an operation of a ring takes.
    pub(super) fn into_memory(self) -> Memory {
        match self {
            MemoryPiece::Bytes(bytes) => Memory::Bytes(bytes),
            MemoryPiece::Buffer(buffer, range) => Memory::Shared(buffer, range),
        }
    }

    /// The same as [`Bytes`], which keep the buffer.
    pub fn into_bytes(self) -> Bytes {
        match self {
            MemoryPiece::Bytes(bytes) => bytes,
            MemoryPiece::Buffer(buffer, range) => Bytes::from_owner(Shared(buffer)).slice(range),
        }
    }
}

/// The filled bytes of a buffer that is shared.
struct Shared(Arc<Buffer>);

impl AsRef<[u8]> for Shared {
    fn as_ref(&self) -> &[u8] {
        self.0.filled()
    }
}
