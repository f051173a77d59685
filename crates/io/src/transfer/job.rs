//! One turn of a transfer for a path: the socket, the budget, and the result.

use std::os::fd::BorrowedFd;

use rustix::io::Errno;

use super::engine::Engine;
use super::queue::Queue;
use crate::counters::Fallback;
use crate::error::{SourceFault, TransferError};
use crate::piece::Extent;

/// One turn of one transfer: the socket, the budget, and the result.
pub(crate) struct Job<'a> {
    pub(crate) engine: &'a mut Engine,
    pub(crate) socket: BorrowedFd<'a>,
    /// Bytes that this turn may still send.
    pub(crate) budget: u64,
    /// True if the turn continues from memory after the budget, which ends with the first piece.
    pub(crate) continues: bool,
}

impl Job<'_> {
    /// Notes that the socket took `count` bytes from the front of the queue.
    pub(crate) fn sent(&mut self, queue: &mut Queue, count: u64) {
        self.budget = self.budget.saturating_sub(count);
        queue.sent(count);
    }

    /// Bytes of `extent` to move after its first `done` bytes: as many as the budget allows, but
    /// never a part of a page that the extent has whole. A cut within a page would make every later
    /// step of the extent touch one page more.
    pub(crate) fn allowance(&self, extent: &Extent, done: u64) -> u64 {
        let left = extent.len - done;
        let start = extent.offset.saturating_add(done);
        let end = start.saturating_add(self.budget).checked_next_multiple_of(self.engine.page_bytes);
        end.map_or(left, |end| left.min(end - start))
    }

    /// True if this turn will continue after the next `offered` bytes, so that the kernel should
    /// wait for a full segment.
    pub(crate) fn more_after(&self, queue: &Queue, offered: u64) -> bool {
        offered < queue.remaining() && (offered < self.budget || self.continues)
    }

    /// The error of a call that reads pages of `extent` and sends them: the error number alone
    /// distinguishes file and socket.
    pub(crate) fn either_failed(queue: &Queue, extent: &Extent, done: u64, errno: Errno) -> TransferError {
        match errno {
            Errno::IO | Errno::BADMSG | Errno::UCLEAN | Errno::NODATA | Errno::STALE => {
                TransferError::source(extent, done, SourceFault::Read(errno.into()))
            }
            errno => Job::peer_failed(queue, 0, errno),
        }
    }

    /// The error for a socket that failed after it took `sent` bytes that the queue has not counted
    /// yet.
    pub(crate) fn peer_failed(queue: &Queue, sent: u64, errno: Errno) -> TransferError {
        TransferError::Peer { remaining: queue.remaining() - sent, cause: errno.into() }
    }
}

/// Result of one step of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Progress {
    /// The piece is done or the budget is spent.
    Moved,
    /// The socket would block.
    Blocked,
    /// The next pages are not in the cache, and the engine reports that.
    Cold,
    /// This path cannot carry the piece; nothing is lost, another path continues from the same
    /// byte.
    Refused(Fallback),
}
