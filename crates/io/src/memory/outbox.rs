//! The data that one connection sends from memory through a ring: divided into runs, linked in
//! order, and resumed after a broken chain.
//!
//! Tiny neighbours become one piece first. The runs of a chain start one after the other, and each
//! must be sent whole before the next. When all have their result the next chain may start, without
//! waiting for notifications; memory stays parked in the ring until they arrive. A connection
//! therefore has at most one chain in flight, and must not be used for other sends at that time.
//!
//! ```text
//!   push ─► queue ─► submit ─► SENDMSG ─ SENDMSG_ZC ─ SEND   (linked)
//!                      ▲            results │     │ notifications, later and in any order
//!                      └──── settled ◄──────┘     └──► memory free, "copied?"
//! ```
//!
//! # `SEND`, `SENDMSG`: copied once
//!
//! *Saves* system calls: sends of many connections leave by one call, and a socket that is full is
//! waited for by the kernel, in order with the sends after it. *Needs* a ring. *Loses* to a plain
//! `send` for one small piece on a socket that has room: the ring's bookkeeping costs more than the
//! call.
//!
//! # `SEND_ZC`, `SENDMSG_ZC`: by reference
//!
//! *Saves* the one copy that a send of memory has. *Needs* a ring on Linux 6.1, a network card with
//! scatter-gather, and patience: the memory is the kernel's until the peer has acknowledged it.
//! *Loses* below some 16 KiB (4 KiB in registered buffers), where pinning and the notification cost
//! more than copying, and on routes where the kernel copies after all: loopback, veth, tun. Each
//! notification reports a copy ([`Outcome::Released`]).
//!
//! `SENDMSG_ZC` does not name registered buffers, which Linux 6.15 would allow: all pieces of such
//! a message have to lie in one of them, while a pool registers each of its buffers by itself, and
//! the `io-uring` crate (0.7) cannot name it. A piece in a registered buffer leaves by a separate
//! `SEND_ZC` instead, linked with its neighbours; other pieces share a `SENDMSG_ZC`.

use std::collections::VecDeque;
use std::io;

use super::MemoryPiece;
use super::runs::{self, Length, Run, SendMode};
use crate::counters::{Counters, Fallback};
use crate::path::Path;
use crate::ring::{Completion, Event, Key, Memory, Operation, Ring, Target};
use crate::thresholds::Thresholds;

mod gather;

/// Construction of the next chain.
#[derive(Debug, Clone, Copy)]
pub struct Terms<'a> {
    /// Bytes in the chain at most, so that a thread with many connections stays fair.
    pub budget: usize,
    /// True if sending by reference is worth an attempt on this route. Loopback, veth and tun
    /// always copy, and so does a card without scatter-gather; [`Outcome::Released`] reports it.
    pub may_refer: bool,
    /// Thresholds that determine which pieces are small.
    pub thresholds: &'a Thresholds,
}

/// Meaning of a completion for the connection.
#[derive(Debug)]
pub enum Outcome {
    /// Other operations of the chain are still in flight.
    Waiting,
    /// The chain has ended, whole or not: [`submit`](Outbox::submit) the rest.
    Settled,
    /// Memory of an earlier send is free again.
    Released {
        /// True if the kernel copied it after all; so will it do with the next one on this route.
        copied: bool,
    },
    /// The connection failed; it accepts no more data.
    Failed(io::Error),
}

/// The queue of one connection.
#[derive(Debug)]
pub struct Outbox {
    socket: Target,
    queue: VecDeque<MemoryPiece>,
    queued_bytes: u64,
    chain: Vec<Link>,
    /// Sends by reference whose memory the kernel still refers to, with the bytes that the socket
    /// took.
    parked: Vec<(Key, usize)>,
    /// True once the kernel had no memory to pin pages; data is copied from then on.
    refused: bool,
    /// Bytes that were put together and have not been counted.
    gathered: usize,
}

/// One operation of the chain in flight.
#[derive(Debug)]
struct Link {
    key: Key,
    mode: SendMode,
    result: Option<io::Result<usize>>,
}

/// A chain has no more operations than this.
const LINKS: usize = 32;

impl Outbox {
    /// An empty queue.
    pub fn new(socket: impl Into<Target>) -> Self {
        Self {
            socket: socket.into(),
            queue: VecDeque::new(),
            queued_bytes: 0,
            chain: Vec::new(),
            parked: Vec::new(),
            refused: false,
            gathered: 0,
        }
    }

    /// Adds to the end of the queue.
    pub fn push(&mut self, piece: MemoryPiece) {
        if !piece.is_empty() {
            self.queued_bytes += piece.len() as u64;
            self.queue.push_back(piece);
        }
    }

    /// Number of bytes that no socket has accepted.
    pub fn queued_bytes(&self) -> u64 {
        self.queued_bytes
    }

    /// True if a chain is in flight.
    pub fn is_busy(&self) -> bool {
        !self.chain.is_empty()
    }

    /// Queues the next chain in the ring, unless one is in flight, and returns its keys: pass
    /// completions with these keys to [`take_in`](Outbox::take_in). None if there is nothing to
    /// send, or if the ring is full.
    pub fn submit(&mut self, ring: &mut Ring, terms: Terms<'_>) -> Vec<Key> {
        if self.is_busy() || self.queue.is_empty() {
            return Vec::new();
        }
        self.gathered += gather::gather(&mut self.queue, terms.budget.max(1));
        let runs = self.runs(&terms, ring);
        let operations = self.operations(&runs, terms.budget);
        debug_assert_eq!(operations.len(), runs.len());
        let Ok(keys) = ring.push_linked(operations) else { return Vec::new() };
        assert_eq!(keys.len(), runs.len(), "one operation for each run");
        let links = keys.iter().zip(&runs);
        self.chain = links.map(|(key, run)| Link { key: *key, mode: run.mode, result: None }).collect();
        keys
    }

    /// Processes a completion of one of this connection's operations.
    pub fn take_in(&mut self, completion: Completion, counters: &Counters) -> Outcome {
        let Completion { key, event } = completion;
        match event {
            Event::Sent { result } => {
                if self.chain.iter().any(|link| link.key == key) {
                    // The notification of a send that failed reports a copy as well.
                    self.parked.push((key, *result.as_ref().unwrap_or(&0)));
                }
                self.result(key, result, counters)
            }
            Event::Done { result, .. } => self.result(key, result, counters),
            Event::Released { copied, .. } => {
                let at = self.parked.iter().position(|(parked, _)| *parked == key);
                if let Some((_, bytes)) = at.map(|at| self.parked.swap_remove(at))
                    && copied
                {
                    counters.copied_by_kernel(bytes as u64);
                }
                Outcome::Released { copied }
            }
        }
    }

    /// The runs of the next chain, within the budget.
    fn runs(&self, terms: &Terms<'_>, ring: &Ring) -> Vec<Run> {
        let mut left = terms.budget.max(1);
        let lengths = self.queue.iter().map_while(move |piece| {
            let bytes = piece.len().min(left);
            left -= bytes;
            let registered = matches!(piece, MemoryPiece::Buffer(buffer, _) if ring.is_registered(buffer));
            (bytes > 0).then_some(Length { bytes, registered })
        });
        let may_refer = terms.may_refer && !self.refused;
        runs::cut(lengths, terms.thresholds, may_refer).take(LINKS.min(ring.chain_limit())).collect()
    }

    /// One operation for each run. The queue keeps its own references, in case the chain breaks.
    fn operations(&self, runs: &[Run], budget: usize) -> Vec<Operation> {
        let mut left = budget.max(1);
        let mut queued = self.queue.iter().map(move |piece| {
            let count = piece.len().min(left);
            left -= count;
            piece.first(count)
        });
        let operation = |(index, run): (usize, &Run)| {
            let mut pieces: Vec<MemoryPiece> = queued.by_ref().take(run.count).collect();
            let memory = match pieces.pop() {
                Some(only) if pieces.is_empty() => only.into_memory(),
                last => Memory::Pieces(pieces.into_iter().chain(last).map(MemoryPiece::into_bytes).collect()),
            };
            let send = Operation::send(self.socket.clone(), memory);
            let operation = match run.mode {
                SendMode::Copied => send,
                SendMode::Referenced | SendMode::Registered => send.zero_copy(),
            };
            if index + 1 < runs.len() { operation.more() } else { operation }
        };
        runs.iter().enumerate().map(operation).collect()
    }

    /// Notes one result, and settles the chain with the last of them.
    fn result(&mut self, key: Key, result: io::Result<usize>, counters: &Counters) -> Outcome {
        if let Some(link) = self.chain.iter_mut().find(|link| link.key == key) {
            assert!(link.result.is_none(), "an operation has one result");
            link.result = Some(result);
        }
        if self.chain.iter().any(|link| link.result.is_none()) {
            return Outcome::Waiting;
        }
        counters.copied(std::mem::take(&mut self.gathered) as u64);
        let mut failure = None;
        for link in std::mem::take(&mut self.chain) {
            let path = if link.mode == SendMode::Copied { Path::UringSend } else { Path::UringSendZc };
            match link.result {
                Some(Ok(count)) => {
                    counters.moved(path, count as u64);
                    if link.mode == SendMode::Copied {
                        counters.copied(count as u64);
                    }
                    self.taken(count);
                }
                Some(Err(error)) => match error.raw_os_error() {
                    // Completion of an operation after a link that failed or stopped short.
                    Some(libc::ECANCELED) => {}
                    Some(libc::ENOBUFS | libc::ENOMEM) if link.mode != SendMode::Copied => {
                        counters.fell_back(Fallback::NoLockedMemory);
                        self.refused = true;
                    }
                    Some(libc::EOPNOTSUPP) if link.mode != SendMode::Copied => {
                        counters.fell_back(Fallback::ZeroCopyRefused);
                        self.refused = true;
                    }
                    Some(libc::EINTR | libc::EAGAIN) => {}
                    _ => failure = failure.or(Some(error)),
                },
                None => {}
            }
        }
        failure.map_or(Outcome::Settled, Outcome::Failed)
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
        debug_assert_eq!(count, 0, "bytes after the end of the queue");
        debug_assert_eq!(self.queue.is_empty(), self.queued_bytes == 0);
    }
}

#[cfg(test)]
mod tests;
