//! The pipes for `splice`: large, limited in number, reused while they are empty.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::pipe::PipeFlags;

use crate::counters::Fallback;
use crate::thresholds::Thresholds;

/// One engine's pipes.
#[derive(Debug)]
pub(crate) struct PipePool {
    idle: Vec<Pipe>,
    /// All pipes of this pool that exist: idle, in use, or kept by a blocked transfer.
    alive: Arc<AtomicUsize>,
    limit: usize,
    size: usize,
    floor: usize,
}

impl PipePool {
    pub(crate) fn new(thresholds: &Thresholds) -> Self {
        Self {
            idle: Vec::new(),
            alive: Arc::new(AtomicUsize::new(0)),
            limit: thresholds.pipes,
            size: thresholds.pipe_bytes,
            floor: thresholds.pipe_floor_bytes,
        }
    }

    /// An empty pipe, or why there is none.
    pub(crate) fn take(&mut self) -> Result<Pipe, Fallback> {
        if let Some(pipe) = self.idle.pop() {
            return Ok(pipe);
        }
        let permit = Permit::new(&self.alive, self.limit).ok_or(Fallback::PipesInUse)?;
        let flags = PipeFlags::CLOEXEC | PipeFlags::NONBLOCK;
        let (reader, writer) = rustix::pipe::pipe_with(flags).map_err(|_| Fallback::NoPipe)?;
        // A user with many pipes gets them with one or two pages, and may not be allowed to grow
        // them.
        let grown = rustix::pipe::fcntl_setpipe_size(&writer, self.size)
            .or_else(|_| rustix::pipe::fcntl_getpipe_size(&writer))
            .map_err(|_| Fallback::NoPipe)?;
        if grown < self.floor {
            return Err(Fallback::SmallPipe);
        }
        Ok(Pipe { reader, writer, capacity: grown as u64, filled: 0, permit })
    }

    /// Returns an empty pipe to the pool. A pipe of another engine's pool is closed.
    pub(crate) fn put_back(&mut self, pipe: Pipe) {
        assert!(pipe.is_empty(), "a pipe with bytes in it belongs to its transfer");
        if Arc::ptr_eq(&pipe.permit.alive, &self.alive) {
            self.idle.push(pipe);
        }
    }
}

/// A pipe and the number of bytes in it. Dropping it closes both ends and discards the bytes.
#[derive(Debug)]
pub(crate) struct Pipe {
    reader: OwnedFd,
    writer: OwnedFd,
    capacity: u64,
    filled: u64,
    permit: Permit,
}

impl Pipe {
    /// The end to read from.
    pub(crate) fn reader(&self) -> BorrowedFd<'_> {
        self.reader.as_fd()
    }

    /// The end to write to.
    pub(crate) fn writer(&self) -> BorrowedFd<'_> {
        self.writer.as_fd()
    }

    /// Number of bytes that fit at most; fewer if the pages are not all filled.
    pub(crate) fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Number of bytes that are in it.
    pub(crate) fn filled(&self) -> u64 {
        self.filled
    }

    /// True if nothing is in it.
    pub(crate) fn is_empty(&self) -> bool {
        self.filled == 0
    }

    /// Records that `count` bytes were written to the pipe.
    pub(crate) fn put(&mut self, count: u64) {
        let room = self.capacity - self.filled;
        assert!(count <= room, "{count} bytes went into a pipe with room for {room}");
        self.filled += count;
    }

    /// Records that `count` bytes were read from the pipe.
    pub(crate) fn drained(&mut self, count: u64) {
        assert!(count <= self.filled, "{count} bytes came out of a pipe that held {}", self.filled);
        self.filled -= count;
    }
}

/// A permit for one of the limited pipes; released when the pipe is closed.
#[derive(Debug)]
struct Permit {
    alive: Arc<AtomicUsize>,
}

impl Permit {
    fn new(alive: &Arc<AtomicUsize>, limit: usize) -> Option<Self> {
        let admitted = |count| (count < limit).then_some(count + 1);
        alive.fetch_update(Ordering::Relaxed, Ordering::Relaxed, admitted).ok()?;
        Some(Self { alive: Arc::clone(alive) })
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.alive.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
