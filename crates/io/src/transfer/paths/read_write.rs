//! Read into memory, send from memory: small extents, and bytes that are there already.
//!
//! *Saves* system calls: a run of small pieces, headers and extents mixed, leaves by one `sendmsg`,
//! so a small response costs two calls and one packet. *Needs* nothing, which makes it the last
//! resort of every other path, and the only one for ranges that may change in flight. *Loses* on
//! large extents: every byte is copied twice by the CPU (page cache → buffer → socket), which costs
//! about twice the CPU time of the paths by reference from 256 KiB up.
//!
//! Bytes that were read but not taken by the socket are dropped and read again on the next turn: a
//! blocked transfer holds no buffer.

use std::io::{IoSlice, IoSliceMut};

use rustix::io::{Errno, ReadWriteFlags};
use rustix::net::{SendAncillaryBuffer, SendFlags};

use crate::counters::{Counters, Fallback};
use crate::error::{SourceFault, TransferError};
use crate::path::{Path, SocketPath};
use crate::piece::{Extent, Piece};
use crate::transfer::engine::Engine;
use crate::transfer::job::{Job, Progress};
use crate::transfer::queue::Queue;

/// Maximum number of slices of one call; further slices need another call. Enough for a response of
/// 32 partitions.
const SLICES: usize = 64;
const _: () = assert!(SLICES <= 1024, "the kernel takes no more in one call (IOV_MAX)");

/// Gathers pieces from the front of the queue up to the next large extent and sends them by one
/// `sendmsg`.
pub(crate) fn advance(job: &mut Job<'_>, queue: &mut Queue) -> Result<Progress, TransferError> {
    let mut scratch = job.engine.take_scratch();
    let (sent, outcome) = match gather(job, queue, &mut scratch) {
        Ok(batch) if batch.cold && batch.count == 0 => (0, Ok(Progress::Cold)),
        Ok(batch) => send(job, queue, batch),
        Err(error) => (0, Err(error)),
    };
    job.engine.return_scratch(scratch);
    job.sent(queue, sent);
    outcome
}

/// Slices that leave together, and which of them were read from files.
struct Batch<'a> {
    slices: [IoSlice<'a>; SLICES],
    read: [bool; SLICES],
    count: usize,
    len: u64,
    /// True if it ends before pages that are not in the cache.
    cold: bool,
}

impl<'a> Batch<'a> {
    fn push(&mut self, bytes: &'a [u8], read: bool) {
        self.slices[self.count] = IoSlice::new(bytes);
        self.read[self.count] = read;
        self.count += 1;
        self.len += bytes.len() as u64;
    }

    /// The path under which its system calls count.
    fn path(&self) -> Path {
        if self.read[..self.count].contains(&true) { Path::ReadWrite } else { Path::Send }
    }

    /// Counts bytes `from..to` of the batch, each under its own path.
    fn account(&self, from: u64, to: u64, counters: &Counters) {
        let mut start = 0;
        for (slice, read) in self.slices[..self.count].iter().zip(self.read) {
            let end = start + slice.len() as u64;
            let count = end.min(to).saturating_sub(start.max(from));
            counters.moved(if read { Path::ReadWrite } else { Path::Send }, count);
            start = end;
        }
        counters.copied(to - from);
    }
}

/// Borrows bytes and reads small extents, until a large extent, the budget, the buffer or the
/// slices end the batch.
fn gather<'a>(job: &Job<'_>, queue: &'a Queue, scratch: &'a mut [u8]) -> Result<Batch<'a>, TransferError> {
    let mut batch =
        Batch { slices: [IoSlice::new(&[]); SLICES], read: [false; SLICES], count: 0, len: 0, cold: false };
    let mut free = scratch;
    // Bytes that may be waited for: all, or those reported as cold before.
    let mut patience = if job.engine.reports_cold { queue.resident_bytes() } else { u64::MAX };
    for (piece, path, done) in queue.unsent(job.engine) {
        let left = job.budget - batch.len;
        if batch.count == SLICES || left == 0 {
            break;
        }
        let want = usize::try_from((piece.len() - done).min(left)).unwrap_or(usize::MAX);
        match (piece, path) {
            (Piece::Bytes(bytes), _) => {
                let start = bytes.len() - usize::try_from(piece.len() - done).unwrap_or(0);
                batch.push(&bytes[start..start + want], false);
            }
            (Piece::Extent(extent) | Piece::Volatile(extent), SocketPath::ReadWrite) => {
                let mut now = want.min(free.len());
                let wait = patience > 0;
                if wait {
                    now = now.min(usize::try_from(patience).unwrap_or(usize::MAX));
                }
                if now == 0 {
                    break;
                }
                let (into, rest) = free.split_at_mut(now);
                free = rest;
                let got = read(job.engine, Path::ReadWrite, Span { extent, done, wait }, into)?;
                if got > 0 {
                    batch.push(&into[..got], true);
                }
                batch.cold = got < now;
                if got < want {
                    break;
                }
                patience = if job.engine.reports_cold { 0 } else { u64::MAX };
            }
            _ => break,
        }
    }
    Ok(batch)
}

/// A read: from `done` bytes after the extent's start, and whether the disk may be
/// waited for.
pub(crate) struct Span<'a> {
    pub(crate) extent: &'a Extent,
    pub(crate) done: u64,
    pub(crate) wait: bool,
}

/// Fills `into` from the page cache, then from the disk if waiting is permitted; returns the filled
/// length. The calls count under `path`.
pub(crate) fn read(
    engine: &Engine,
    path: Path,
    span: Span<'_>,
    into: &mut [u8],
) -> Result<usize, TransferError> {
    let Span { extent, done, wait } = span;
    let counters = &engine.counters;
    let mut nowait = engine.means.nowait_reads;
    let mut filled = 0;
    while filled < into.len() {
        let at = done + filled as u64;
        let got = counters.call(path, || {
            let (into, offset) = (&mut into[filled..], extent.offset.saturating_add(at));
            if nowait {
                let mut slices = [IoSliceMut::new(into)];
                rustix::io::preadv2(&extent.file, &mut slices, offset, ReadWriteFlags::NOWAIT)
            } else {
                // Not `preadv2` without flags: where that is forbidden, this still works.
                rustix::io::pread(&extent.file, into, offset)
            }
        });
        match got {
            Ok(0) => return Err(TransferError::source(extent, at, SourceFault::Truncated)),
            Ok(count) => {
                counters.copied(count as u64);
                filled += count;
            }
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) if nowait && !wait => break,
            Err(Errno::AGAIN) if nowait => {
                counters.fell_back(Fallback::ColdRead);
                nowait = false;
            }
            Err(Errno::OPNOTSUPP) if nowait => nowait = false,
            Err(errno) => {
                return Err(TransferError::source(extent, at, SourceFault::Read(errno.into())));
            }
        }
    }
    Ok(filled)
}

/// Sends the batch until all of it is accepted or the socket would block; returns the number of
/// accepted bytes in either case.
fn send(job: &Job<'_>, queue: &Queue, batch: Batch<'_>) -> (u64, Result<Progress, TransferError>) {
    let counters = &job.engine.counters;
    let is_last = batch.len == queue.remaining();
    let has_more = if is_last { queue.expects_more() } else { job.more_after(queue, batch.len) };
    let more = if has_more { SendFlags::MORE } else { SendFlags::empty() };
    let path = batch.path();
    let count = batch.count;
    let mut sent = 0;
    let len = batch.len;
    let mut unsent = batch.slices;
    let mut slices = &mut unsent[..count];
    while sent < len {
        let taken = counters.call(path, || {
            let mut control = SendAncillaryBuffer::default();
            rustix::net::sendmsg(job.socket, slices, &mut control, SendFlags::NOSIGNAL | more)
        });
        match taken {
            // Not a thing that sockets do; going round again would never end.
            Ok(0) => return (sent, Err(Job::peer_failed(queue, sent, Errno::PIPE))),
            Ok(count) => {
                batch.account(sent, sent + count as u64, counters);
                IoSlice::advance_slices(&mut slices, count);
                sent += count as u64;
            }
            Err(Errno::AGAIN) => return (sent, Ok(Progress::Blocked)),
            Err(Errno::INTR) => {}
            Err(errno) => return (sent, Err(Job::peer_failed(queue, sent, errno))),
        }
    }
    (sent, Ok(Progress::Moved))
}
