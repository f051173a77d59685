//! Buffers that a ring reads into and sends from: page-aligned, pooled, and owned by the kernel
//! during an operation.

use std::io;
use std::sync::Arc;

use bytes::Bytes;

use super::memory::{Chunk, Region};

/// A number of buffers of one size, allocated together. A ring can
/// [register](crate::ring::Ring::register_buffers) one pool: the kernel then looks up and pins its
/// pages once instead of in each operation.
#[derive(Debug, Clone)]
pub struct BufferPool {
    region: Arc<Region>,
}

impl BufferPool {
    /// `count` buffers of `buffer_bytes` each, zeroed. A multiple of 4096 bytes keeps each aligned
    /// for direct reads.
    ///
    /// # Errors
    /// No memory, or a size of 0.
    pub fn new(buffer_bytes: usize, count: u16) -> io::Result<Self> {
        Ok(Self { region: Region::new(buffer_bytes, count)? })
    }

    /// A buffer, unless all are in use.
    pub fn take(&self) -> Option<Buffer> {
        self.region.take().map(|chunk| Buffer { chunk, len: 0 })
    }

    pub(crate) fn region(&self) -> &Arc<Region> {
        &self.region
    }
}

/// A buffer of a [`BufferPool`]; dropping it returns it. The bytes of a former user are still in
/// it, after `len`.
///
/// A ring takes it by value and returns it with the last completion, so that no code can read,
/// change or free it while the kernel uses it.
#[derive(Debug)]
pub struct Buffer {
    chunk: Chunk,
    len: usize,
}

impl Buffer {
    /// Number of bytes that fit.
    pub fn capacity(&self) -> usize {
        self.chunk.len()
    }

    /// Number of bytes at the start that count as filled.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if no bytes are filled.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The filled bytes.
    pub fn filled(&self) -> &[u8] {
        &self.chunk.as_slice()[..self.len]
    }

    /// All bytes, to be written to.
    pub fn space(&mut self) -> &mut [u8] {
        self.chunk.as_mut_slice()
    }

    /// Sets the number of filled bytes at the start.
    ///
    /// # Panics
    /// If more than fit.
    pub fn set_len(&mut self, len: usize) {
        assert!(len <= self.capacity(), "{len} bytes do not fit into {}", self.capacity());
        self.len = len;
    }

    /// The filled bytes as [`Bytes`], without copying; the buffer returns to its pool with the last
    /// clone of them.
    pub fn into_bytes(self) -> Bytes {
        Bytes::from_owner(self)
    }

    pub(crate) fn chunk(&self) -> &Chunk {
        &self.chunk
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        self.filled()
    }
}

#[cfg(test)]
mod tests;
