//! A transfer: pieces to one socket, in order, once, resumable wherever the socket stopped taking them.

use std::os::fd::BorrowedFd;

use crate::Piece;
use crate::engine::Engine;
use crate::error::TransferError;
use crate::path::{Job, Path, Progress, read_write, sendfile, splice};
use crate::queue::Queue;

/// Pieces on their way to one socket.
///
/// The caller drives it: [`Transfer::step`] whenever the socket is writable, until [`Turn::Done`]. Between steps it holds its
/// pieces and, after a short splice, the pipe with the bytes that the socket has not taken; dropping it closes that pipe.
///
/// After an error the peer has a prefix of the pieces, and no step can succeed; close the connection.
#[derive(Debug)]
pub struct Transfer {
    queue: Queue,
}

/// Why a step ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// The kernel has taken every byte.
    Done,
    /// The socket would block (it said `EAGAIN`): step again when it is writable.
    Blocked,
    /// The budget is spent and the socket takes more: let others go first, then step again without waiting.
    Yield,
}

impl Transfer {
    /// A transfer of `pieces`, in this order. Empty pieces are left out.
    pub fn new(pieces: impl IntoIterator<Item = Piece>) -> Transfer {
        Transfer { queue: Queue::new(pieces) }
    }

    /// How many bytes the kernel has not taken.
    pub fn remaining(&self) -> u64 {
        self.queue.remaining()
    }

    /// Sends up to `budget` bytes (about 1 MiB keeps a thread fair), rounded up to whole pages of a file, by the planned paths.
    ///
    /// Does not wait for a non-blocking socket; on a blocking one it waits. May wait for the disk if pages are not in the cache.
    /// Never raises `SIGPIPE`. The `socket` must be the same in every step.
    ///
    /// # Errors
    /// [`TransferError::Peer`] when the connection broke, [`TransferError::Source`] when a file could not give what its extent
    /// promised, which is never answered by sending less.
    pub fn step(
        &mut self,
        engine: &mut Engine,
        socket: BorrowedFd<'_>,
        budget: u64,
    ) -> Result<Turn, TransferError> {
        let _signal = engine.hold_sigpipe();
        let mut job = Job { engine, socket, budget };
        while let Some(path) = self.queue.front_path(job.engine) {
            if job.budget == 0 {
                return Ok(Turn::Yield);
            }
            if path != Path::Splice {
                // Only after a step on another engine: this one reads again what the pipe holds.
                drop(self.queue.take_pipe());
            }
            let progress = match path {
                Path::Send | Path::ReadWrite => read_write::advance(&mut job, &mut self.queue)?,
                Path::Sendfile => sendfile::advance(&mut job, &mut self.queue)?,
                Path::Splice => splice::advance(&mut job, &mut self.queue)?,
            };
            match progress {
                Progress::Moved => {}
                Progress::Blocked => return Ok(Turn::Blocked),
                Progress::Refused(cause) => {
                    job.engine.counters.fell_back(cause);
                    self.queue.detour(job.engine.means.after(path));
                }
            }
        }
        Ok(Turn::Done)
    }
}

#[cfg(test)]
mod tests;
