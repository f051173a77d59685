//! A transfer: sends pieces to one socket once, in order, and resumes where the socket stopped.

use std::os::fd::BorrowedFd;

use bytes::Bytes;

use crate::error::TransferError;
use crate::path::SocketPath;
use crate::piece::{Extent, Piece};
use crate::residency::Warm;

mod engine;
mod job;
pub mod paths;
pub mod plan;
mod queue;
mod sealed;

pub use engine::Engine;
use job::{Job, Progress};
use paths::{mmap_write, read_write, sendfile, splice};
use plan::{Tls, next_best};
use queue::Queue;
pub use sealed::{Seal, SealedTransfer};

/// Bytes of one turn that are sent by reference.
const TURN_BYTES: u64 = 1 << 20;

/// Bytes of one turn that the processor copies or encrypts: a quarter, because that takes several
/// times as long.
pub const COSTLY_TURN_BYTES: u64 = TURN_BYTES / 4;

/// Pieces on their way to one socket.
///
/// The caller drives it: [`Transfer::step`] whenever the socket is writable, until [`Turn::Done`].
/// Between steps it holds its pieces and, after a short splice, the pipe with the bytes that the
/// socket has not taken; dropping it closes that pipe.
///
/// After an error the peer has a prefix of the pieces, and no step can succeed; close the
/// connection.
#[derive(Debug)]
pub struct Transfer {
    queue: Queue,
    /// Missing range that the last turn reported.
    cold: Option<Extent>,
}

/// The reason why a step ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// The kernel has accepted every byte.
    Done,
    /// The socket would block (`EAGAIN`): step again when it is writable.
    Blocked,
    /// The budget is spent and the socket accepts more: let others continue first, then step again
    /// without waiting.
    Yield,
    /// The next pages of a file are not in the cache: have them read ([`Transfer::cold`]), then
    /// step again. Only on an engine that [reports cold pages](Engine::report_cold), and once for a
    /// range: another step continues in any case.
    Cold,
}

impl Transfer {
    /// A transfer of `pieces`, in this order. Empty pieces are left out.
    pub fn new(pieces: impl IntoIterator<Item = Piece>) -> Self {
        Self { queue: Queue::new(Tls::None, pieces), cold: None }
    }

    /// A transfer of `pieces`, in this order, to a socket that [encrypts by itself](crate::ktls).
    pub fn into_kernel_tls(pieces: impl IntoIterator<Item = Piece>) -> Self {
        Self { queue: Queue::new(Tls::Kernel, pieces), cold: None }
    }

    /// Appends a piece after the remaining ones; an empty piece is omitted. A finished transfer can
    /// be reused in this way, without a new allocation.
    pub fn push(&mut self, piece: Piece) {
        self.queue.push(piece);
    }

    /// Notes whether the caller sends more after the last piece: the kernel may then hold an
    /// incomplete segment back until the caller sends more or closes the socket. A caller that
    /// closes it immediately sends the last bytes and the end of the connection in one segment. Not
    /// expected at first.
    pub fn expect_more(&mut self, is_expected: bool) {
        self.queue.expect_more(is_expected);
    }

    /// Number of bytes that the kernel has not accepted.
    pub fn remaining(&self) -> u64 {
        self.queue.remaining()
    }

    /// Number of bytes to send from memory, before the next range of a file or the end. The kernel
    /// copies them, which takes several times as long as sending pages by reference.
    pub fn in_memory(&self) -> u64 {
        self.queue.in_memory()
    }

    /// Number of bytes for the next step of a thread with many connections: 1 MiB by reference, or
    /// [`COSTLY_TURN_BYTES`] if more than these are sent [from memory](Transfer::in_memory).
    pub fn turn_bytes(&self) -> u64 {
        if self.in_memory() <= COSTLY_TURN_BYTES { TURN_BYTES } else { COSTLY_TURN_BYTES }
    }

    /// Sends up to `budget` bytes ([`Transfer::turn_bytes`] keep a thread fair), rounded up to
    /// whole pages of a file, by the planned paths.
    ///
    /// Does not wait for a non-blocking socket; on a blocking one it waits. May wait for the disk
    /// if pages are not in the cache. Never raises `SIGPIPE`. The `socket` must be the same in
    /// every step.
    ///
    /// # Errors
    /// [`TransferError::Peer`] if the connection broke, [`TransferError::Source`] if a file does
    /// not have the bytes of its extent; the transfer never sends less instead.
    pub fn step(
        &mut self,
        engine: &mut Engine,
        socket: BorrowedFd<'_>,
        budget: u64,
    ) -> Result<Turn, TransferError> {
        let _signal = engine.hold_sigpipe();
        let mut job = Job { engine, socket, budget, continues: false };
        self.cold = None;
        while let Some(path) = self.queue.front_path(job.engine) {
            if job.budget == 0 {
                return Ok(Turn::Yield);
            }
            if path != SocketPath::Splice {
                // Only after a step on another engine: this one reads the contents of the pipe
                // again.
                drop(self.queue.take_pipe());
            }
            match self.advance(path, &mut job)? {
                Progress::Moved => {}
                Progress::Blocked => {
                    self.queue.blocked(job.engine);
                    return Ok(Turn::Blocked);
                }
                Progress::Cold => {
                    self.queue.uncork(socket);
                    self.cold = self.queue.missing(job.engine);
                    return Ok(Turn::Cold);
                }
                Progress::Refused(cause) => {
                    job.engine.counters.fell_back(cause);
                    self.queue.detour(next_best(path, job.engine.means));
                }
            }
        }
        if !self.queue.expects_more() {
            self.queue.uncork(socket);
        }
        Ok(Turn::Done)
    }

    /// Range to read into the page cache after [`Turn::Cold`] and before the next step, with up to
    /// `ahead_bytes` of the range that is read after it.
    pub fn cold(&self, ahead_bytes: u64) -> Option<Warm> {
        let extent = self.cold.clone()?;
        let ahead = self.queue.ahead(extent.len, ahead_bytes);
        Some(Warm::of(extent, ahead))
    }

    /// Supplies, after [`Turn::Cold`], the bytes of the range, or the first of them, from another
    /// source than the page cache. The next steps send them from memory, and count them as
    /// [`Path::Send`](crate::Path::Send).
    ///
    /// # Panics
    /// If they are more than the range has.
    pub fn supply(&mut self, bytes: impl IntoIterator<Item = Bytes>) {
        if let Some(cold) = self.cold.take() {
            self.queue.supply(bytes, cold.len);
        }
    }

    /// Sends from the front of the queue by `path`; by reference only pages that are there, if the
    /// engine cares.
    fn advance(&mut self, path: SocketPath, job: &mut Job<'_>) -> Result<Progress, TransferError> {
        let by_reference = match path {
            SocketPath::ReadWrite => return read_write::advance(job, &mut self.queue),
            SocketPath::MmapWrite => mmap_write::advance,
            SocketPath::Sendfile => sendfile::advance,
            SocketPath::Splice => splice::advance,
        };
        if !job.engine.reports_cold {
            return by_reference(job, &mut self.queue);
        }
        if self.queue.resident_bytes() == 0 && !self.queue.ask(job.engine, job.budget) {
            return Ok(Progress::Cold);
        }
        // The path must not continue into pages that were not checked.
        let beyond = job.budget.saturating_sub(self.queue.resident_bytes());
        job.budget -= beyond;
        // The bytes after a range leave with its end.
        job.continues = beyond > 0 && self.queue.leads_to_memory();
        let progress = by_reference(job, &mut self.queue);
        job.continues = false;
        debug_assert!(
            beyond == 0 || job.budget <= self.queue.resident_bytes(),
            "the path ran on into other pages"
        );
        job.budget += beyond;
        progress
    }
}

#[cfg(test)]
mod tests;
