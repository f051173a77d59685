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
            Self::Bytes(bytes) => bytes.len(),
            Self::Buffer(_, range) => range.len(),
        }
    }

    /// True if it sends nothing.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes themselves.
    pub(super) fn bytes(&self) -> &[u8] {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Buffer(buffer, range) => &buffer.filled()[range.clone()],
        }
    }

    /// Leaves the first `count` bytes out.
    pub(super) fn advance(&mut self, count: usize) {
        match self {
            Self::Bytes(bytes) => bytes.advance(count),
            Self::Buffer(_, range) => range.start += count,
        }
    }

    /// The first `count` bytes, which stay where they are.
    pub(super) fn first(&self, count: usize) -> Self {
        match self {
            Self::Bytes(bytes) => Self::Bytes(bytes.slice(..count)),
            Self::Buffer(buffer, range) => Self::Buffer(Arc::clone(buffer), range.start..range.start + count),
        }
    }

    /// The form that an operation of a ring takes.
    pub(super) fn into_memory(self) -> Memory {
        match self {
            Self::Bytes(bytes) => Memory::Bytes(bytes),
            Self::Buffer(buffer, range) => Memory::Shared(buffer, range),
        }
    }

    /// Converts into [`Bytes`], which keep the buffer. Copies nothing.
    pub fn into_bytes(self) -> Bytes {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Buffer(buffer, range) => Bytes::from_owner(Shared(buffer)).slice(range),
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
