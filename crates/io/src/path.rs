//! The paths that bytes can take. One file each, whose head says what the path saves, what it needs and when it loses.
//!
//! A path from file to socket has `needs` (what must hold on this machine) and `advance` (send from the front of a transfer's queue until
//! the piece is done, the budget is spent, or the socket would block); one from file to file has `between`; one through a
//! ring makes the operation for it. Callers do not name them: the [plan](crate::plan) does.

use std::fmt;
use std::os::fd::BorrowedFd;

use rustix::io::Errno;

use crate::Extent;
use crate::counters::Fallback;
use crate::engine::Engine;
use crate::error::{SourceFault, TransferError};
use crate::probe::Caps;
use crate::queue::Queue;

pub mod copy_file_range;
pub mod ktls;
pub mod mmap_write;
pub mod msg_zerocopy;
pub mod read_write;
pub mod reflink;
pub mod sendfile;
pub mod splice;
pub mod uring_read;
pub mod uring_send;
pub mod uring_send_zc;
pub mod user_tls;

/// How bytes reached the socket, or another file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Path {
    /// From memory where they already were, by `sendmsg`: the kernel copies them once.
    Send,
    /// From a file into a buffer by `preadv2`, from there by `sendmsg`: copied twice.
    ReadWrite,
    /// From the page cache by `sendfile`: by reference, in steps of 64 KiB.
    Sendfile,
    /// From the page cache through a pipe of ours by `splice`: by reference, in steps of the pipe's size.
    Splice,
    /// From file to file inside the kernel, by `copy_file_range`.
    CopyFileRange,
    /// From file to file by sharing blocks (`FICLONE`): nothing is moved.
    Reflink,
    /// From a file into a buffer through a ring; how the buffer is sent counts on its own.
    UringRead,
    /// From memory through a ring, copied once.
    UringSend,
    /// From memory through a ring, by reference; [`Snapshot::copied_by_kernel`](crate::Snapshot::copied_by_kernel) says when it was not.
    UringSendZc,
    /// From a mapping of the file by `send`: copied once.
    MmapWrite,
    /// From memory by `MSG_ZEROCOPY`, by reference; see [`Snapshot::copied_by_kernel`](crate::Snapshot::copied_by_kernel).
    MsgZerocopy,
    /// Encrypted in this process, then by `send`; bytes are counted as they leave, encrypted.
    UserTls,
}

impl Path {
    /// Every path, in the order of its index in counters.
    pub const ALL: [Path; 12] = [
        Path::Send,
        Path::ReadWrite,
        Path::Sendfile,
        Path::Splice,
        Path::CopyFileRange,
        Path::Reflink,
        Path::UringRead,
        Path::UringSend,
        Path::UringSendZc,
        Path::MmapWrite,
        Path::MsgZerocopy,
        Path::UserTls,
    ];

    /// The paths that a [`Transfer`](crate::Transfer) can send an extent by.
    pub const FILE_TO_SOCKET: [Path; 4] = [Path::ReadWrite, Path::MmapWrite, Path::Sendfile, Path::Splice];

    /// The name used in metrics and tables.
    pub fn label(self) -> &'static str {
        match self {
            Path::Send => "send",
            Path::ReadWrite => "read_write",
            Path::Sendfile => "sendfile",
            Path::Splice => "splice",
            Path::CopyFileRange => "copy_file_range",
            Path::Reflink => "reflink",
            Path::UringRead => "uring_read",
            Path::UringSend => "uring_send",
            Path::UringSendZc => "uring_send_zc",
            Path::MmapWrite => "mmap_write",
            Path::MsgZerocopy => "msg_zerocopy",
            Path::UserTls => "user_tls",
        }
    }

    /// Whether this machine has it.
    pub fn works(self, caps: &Caps) -> bool {
        match self {
            Path::Send | Path::ReadWrite => read_write::needs(caps),
            Path::UserTls => user_tls::needs(caps),
            Path::Sendfile => sendfile::needs(caps),
            Path::Splice => splice::needs(caps),
            Path::CopyFileRange => copy_file_range::needs(caps),
            Path::Reflink => reflink::needs(caps),
            Path::UringRead => uring_read::needs(caps),
            Path::UringSend => uring_send::needs(caps),
            Path::UringSendZc => uring_send_zc::needs(caps),
            Path::MmapWrite => mmap_write::needs(caps),
            Path::MsgZerocopy => msg_zerocopy::needs(caps),
        }
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.label())
    }
}

/// One turn of one transfer: where to, and how much.
pub(crate) struct Job<'a> {
    pub(crate) engine: &'a mut Engine,
    pub(crate) socket: BorrowedFd<'a>,
    /// Bytes that this turn may still send.
    pub(crate) budget: u64,
}

impl Job<'_> {
    /// Notes that the socket took `count` bytes from the front of the queue.
    pub(crate) fn sent(&mut self, queue: &mut Queue, count: u64) {
        self.budget = self.budget.saturating_sub(count);
        queue.sent(count);
    }

    /// How much of `extent` to move after its first `done` bytes: what the budget allows, but never a part of a page that the
    /// extent has whole. A cut within a page would make every later step of the extent touch one page more.
    pub(crate) fn allowance(&self, extent: &Extent, done: u64) -> u64 {
        let left = extent.len - done;
        let start = extent.offset.saturating_add(done);
        let end = start.saturating_add(self.budget).checked_next_multiple_of(self.engine.page_bytes);
        end.map_or(left, |end| left.min(end - start))
    }

    /// Whether this turn will go on after the next `offered` bytes, so that the kernel had better wait for a full segment.
    pub(crate) fn more_after(&self, queue: &Queue, offered: u64) -> bool {
        offered < self.budget && offered < queue.remaining()
    }

    /// The error of a call that reads pages of `extent` and sends them: the error number alone tells whose fault it was.
    pub(crate) fn either_failed(queue: &Queue, extent: &Extent, done: u64, errno: Errno) -> TransferError {
        match errno {
            Errno::IO | Errno::BADMSG | Errno::UCLEAN | Errno::NODATA | Errno::STALE => {
                TransferError::source(extent, done, SourceFault::Read(errno.into()))
            }
            errno => Job::peer_failed(queue, 0, errno),
        }
    }

    /// The error for a socket that failed after it took `sent` bytes that the queue does not know of yet.
    pub(crate) fn peer_failed(queue: &Queue, sent: u64, errno: Errno) -> TransferError {
        TransferError::Peer { remaining: queue.remaining() - sent, cause: errno.into() }
    }
}

/// What a path achieved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Progress {
    /// The piece is done or the budget is spent.
    Moved,
    /// The socket said that it would block.
    Blocked,
    /// The next pages are not in the cache, and the engine reports that.
    Cold,
    /// This path cannot carry the piece; nothing is lost, another path goes on from the same byte.
    Refused(Fallback),
}
