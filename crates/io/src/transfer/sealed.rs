//! A transfer over a connection that this process encrypts: [`Transfer`](crate::Transfer) with a
//! [`Seal`] between the pieces and the socket.

use std::io;
use std::os::fd::BorrowedFd;

use super::Turn;
use super::engine::Engine;
use super::job::{Job, Progress};
use super::paths::user_tls;
use super::plan::Tls;
use super::queue::Queue;
use crate::error::TransferError;
use crate::piece::{Extent, Piece};
use crate::residency::Warm;

/// The encrypting half of one connection.
pub trait Seal {
    /// Appends `plain`, encrypted, to `sealed`. The appended bytes must be sent, whole and in this
    /// order.
    ///
    /// # Errors
    /// The connection can encrypt no further record, for example because its keys are exhausted.
    fn seal(&mut self, plain: &[u8], sealed: &mut Vec<u8>) -> io::Result<()>;
}

/// Pieces that are encrypted and sent to one socket.
///
/// Driven like [`Transfer`](crate::Transfer). Between steps it holds its pieces and the encrypted
/// bytes that the socket has not accepted, at most about 130 KiB.
#[derive(Debug)]
pub struct SealedTransfer {
    queue: Queue,
    /// Missing range that the last turn reported.
    cold: Option<Extent>,
    /// Encrypted bytes that the socket has not accepted.
    rest: Vec<u8>,
}

impl SealedTransfer {
    /// A transfer of `pieces`, in this order, which the caller encrypts. Empty pieces are left out.
    pub fn new(pieces: impl IntoIterator<Item = Piece>) -> Self {
        Self { queue: Queue::new(Tls::None, pieces), cold: None, rest: Vec::new() }
    }

    /// A transfer of `pieces` after the bytes in `sealed`, which are encrypted already.
    pub fn behind(sealed: Vec<u8>, pieces: impl IntoIterator<Item = Piece>) -> Self {
        Self { rest: sealed, ..Self::new(pieces) }
    }

    /// Number of bytes that were not encrypted yet.
    pub fn remaining(&self) -> u64 {
        self.queue.remaining()
    }

    /// Encrypts and sends up to `budget` bytes, rounded up to a buffer.
    ///
    /// Does not wait for a non-blocking socket. `seal` and `socket` must be the same in every step.
    ///
    /// # Errors
    /// Same as [`Transfer::step`](crate::Transfer::step); a `seal` that fails is the connection's
    /// fault.
    pub fn step(
        &mut self,
        engine: &mut Engine,
        (socket, seal): (BorrowedFd<'_>, &mut dyn Seal),
        budget: u64,
    ) -> Result<Turn, TransferError> {
        let mut plain = engine.take_scratch();
        let mut sealed = engine.take_sealed();
        let mut job = Job { engine, socket, budget, continues: false };
        let turn = self.turn(&mut job, seal, (&mut plain, &mut sealed));
        job.engine.return_scratch(plain);
        job.engine.return_sealed(sealed);
        turn
    }

    /// Range to bring into the page cache after [`Turn::Cold`]; see
    /// [`Transfer::cold`](crate::Transfer::cold).
    pub fn cold(&self, ahead_bytes: u64) -> Option<Warm> {
        let extent = self.cold.clone()?;
        let ahead = self.queue.ahead(extent.len, ahead_bytes);
        Some(Warm::of(extent, ahead))
    }

    fn turn(
        &mut self,
        job: &mut Job<'_>,
        seal: &mut dyn Seal,
        (plain, sealed): (&mut [u8], &mut Vec<u8>),
    ) -> Result<Turn, TransferError> {
        self.cold = None;
        loop {
            let rest = std::mem::take(&mut self.rest);
            if self.send(job, &rest)? == Progress::Blocked {
                return Ok(Turn::Blocked);
            }
            if self.queue.remaining() == 0 {
                return Ok(Turn::Done);
            }
            if job.budget == 0 {
                return Ok(Turn::Yield);
            }
            let gathered = user_tls::gather(job.engine, &self.queue, plain)?;
            debug_assert!(gathered as u64 <= self.queue.remaining());
            if gathered == 0 {
                self.cold = self.queue.missing(job.engine);
                return Ok(Turn::Cold);
            }
            sealed.clear();
            let failed = |cause| TransferError::Peer { remaining: self.queue.remaining(), cause };
            seal.seal(&plain[..gathered], sealed).map_err(failed)?;
            job.sent(&mut self.queue, gathered as u64);
            if self.send(job, sealed)? == Progress::Blocked {
                return Ok(Turn::Blocked);
            }
        }
    }

    /// Sends encrypted bytes and keeps those that the socket does not accept.
    fn send(&mut self, job: &Job<'_>, bytes: &[u8]) -> Result<Progress, TransferError> {
        let (sent, outcome) = user_tls::send(job, &self.queue, bytes);
        if sent < bytes.len() {
            self.rest = bytes[sent..].to_vec();
        }
        outcome
    }
}

#[cfg(test)]
mod tests;
