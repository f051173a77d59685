//! The data that one connection sends from memory by `MSG_ZEROCOPY`, for readiness loops and for
//! systems without a ring.
//!
//! The same cutting as in an [`Outbox`](crate::outbox::Outbox): small pieces are copied together,
//! large ones go by reference. Memory is parked until the kernel has said, in the socket's error
//! queue, that it is done with the send; [`collect`](ZeroCopyOutbox::collect) reads that. Dropping
//! the outbox while memory is parked is safe for this process, but not for the peer: if the memory
//! is reused before the last byte was acknowledged, the peer receives the new contents. Keep it
//! until [`parked_bytes`](ZeroCopyOutbox::parked_bytes) is 0, or reset the connection.
//!
//! *Saves* the one copy that a send of memory has. *Needs* `SO_ZEROCOPY` on a TCP socket, memory
//! that may be pinned, and a caller that reads the socket's error queue, where the kernel says
//! which sends it is done with: in ranges, several sends at the same time, in any order. *Loses*
//! below some 10 KiB, where pinning and that second call cost more than copying, to `SEND_ZC`,
//! whose notifications need no call, and on loopback and virtual devices, where the kernel copies
//! after all.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::os::fd::BorrowedFd;

use bytes::{Buf, Bytes};
use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendFlags};

use super::outbox::Terms;
use super::runs::{self, Length, SendMode};
use crate::counters::{Counters, Fallback};
use crate::path::Path;
use crate::sys::{calls, error_queue};
use crate::transfer::Turn;

mod ledger;

use ledger::Ledger;

/// The queue of one connection.
#[derive(Debug)]
pub struct ZeroCopyOutbox {
    queue: VecDeque<Bytes>,
    queued_bytes: u64,
    ledger: Ledger,
    /// True if the socket or the kernel does not support zero-copy sends; data is copied.
    refused: bool,
}

impl ZeroCopyOutbox {
    /// An empty queue for a connected socket that has never sent by `MSG_ZEROCOPY`, because its
    /// sends are counted from the first. If the socket does not support it, everything is copied.
    pub fn new(socket: BorrowedFd<'_>) -> Self {
        let refused = calls::enable_zerocopy(socket).is_err();
        Self { queue: VecDeque::new(), queued_bytes: 0, ledger: Ledger::default(), refused }
    }

    /// Adds to the end of the queue.
    pub fn push(&mut self, bytes: Bytes) {
        if !bytes.is_empty() {
            self.queued_bytes += bytes.len() as u64;
            self.queue.push_back(bytes);
        }
    }

    /// Number of bytes that the socket has not accepted.
    pub fn queued_bytes(&self) -> u64 {
        self.queued_bytes
    }

    /// Number of bytes the kernel still refers to.
    pub fn parked_bytes(&self) -> u64 {
        self.ledger.parked_bytes()
    }

    /// Sends up to the budget, run by run, until the socket would block. Does not wait for a
    /// non-blocking socket.
    ///
    /// # Errors
    /// The connection failed.
    pub fn step(
        &mut self,
        socket: BorrowedFd<'_>,
        terms: Terms<'_>,
        counters: &Counters,
    ) -> io::Result<Turn> {
        let mut left = terms.budget;
        while !self.queue.is_empty() {
            if left == 0 {
                return Ok(Turn::Yield);
            }
            let lengths = self.queue.iter().map(|bytes| Length { bytes: bytes.len(), registered: false });
            let may_refer = terms.may_refer && !self.refused;
            let Some(run) = runs::cut(lengths, terms.thresholds, may_refer).next() else { break };
            let pieces = self.first(run.count.min(SLICES), left);
            let more = pieces.iter().map(Bytes::len).sum::<usize>() as u64 != self.queued_bytes;
            let flags = if more { SendFlags::MORE } else { SendFlags::empty() };
            match self.send(socket, &pieces, (run.mode, flags), counters) {
                Ok(count) => {
                    left -= count;
                    self.taken(count);
                }
                Err(Errno::AGAIN) => return Ok(Turn::Blocked),
                Err(Errno::INTR) => {}
                Err(Errno::NOBUFS | Errno::NOMEM) if run.mode != SendMode::Copied => {
                    counters.fell_back(Fallback::NoLockedMemory);
                    self.refused = true;
                }
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(Turn::Done)
    }

    /// Reads the kernel's notifications and releases the memory of finished sends; returns true if
    /// the kernel had copied any of it, if there were any. Call it when the socket polls `POLLERR`,
    /// or periodically.
    ///
    /// # Errors
    /// The error queue cannot be read.
    pub fn collect(&mut self, socket: BorrowedFd<'_>, counters: &Counters) -> io::Result<Option<bool>> {
        let mut copied = None;
        while let Some(acknowledged) = counters.call(Path::MsgZerocopy, || error_queue::next(socket))? {
            let freed = self.ledger.acknowledged(acknowledged.first, acknowledged.last);
            if acknowledged.copied {
                counters.copied_by_kernel(freed);
            }
            copied = Some(copied.unwrap_or(false) || acknowledged.copied);
        }
        Ok(copied)
    }

    /// The first `count` pieces, cut to `limit` bytes.
    fn first(&self, count: usize, limit: usize) -> Vec<Bytes> {
        let mut left = limit;
        let pieces = self.queue.iter().take(count).map(|bytes| {
            let now = bytes.len().min(left);
            left -= now;
            bytes.slice(..now)
        });
        pieces.filter(|bytes| !bytes.is_empty()).collect()
    }

    fn send(
        &mut self,
        socket: BorrowedFd<'_>,
        pieces: &[Bytes],
        (mode, flags): (SendMode, SendFlags),
        counters: &Counters,
    ) -> Result<usize, Errno> {
        let slices: Vec<IoSlice<'_>> = pieces.iter().map(|bytes| IoSlice::new(bytes)).collect();
        if mode == SendMode::Copied {
            let flags = flags | SendFlags::NOSIGNAL;
            let mut control = SendAncillaryBuffer::default();
            let count =
                counters.call(Path::Send, || rustix::net::sendmsg(socket, &slices, &mut control, flags))?;
            counters.moved(Path::Send, count as u64);
            counters.copied(count as u64);
            return Ok(count);
        }
        let count = counters.call(Path::MsgZerocopy, || calls::send_zerocopy(socket, &slices, flags))?;
        counters.moved(Path::MsgZerocopy, count as u64);
        if count > 0 {
            self.ledger.sent(pieces.to_vec(), count as u64);
        }
        Ok(count)
    }

    /// Removes bytes from the front of the queue.
    fn taken(&mut self, mut count: usize) {
        assert!(count as u64 <= self.queued_bytes, "{count} bytes of {} were taken", self.queued_bytes);
        self.queued_bytes -= count as u64;
        while let Some(first) = self.queue.front_mut() {
            let now = count.min(first.len());
            first.advance(now);
            count -= now;
            if !first.is_empty() {
                break;
            }
            self.queue.pop_front();
        }
    }
}

/// Slices of one call; more leave by the next.
const SLICES: usize = 64;
const _: () = assert!(SLICES <= runs::COPIED_PIECES);

#[cfg(test)]
mod tests;
