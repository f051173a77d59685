//! Messages of many small pieces and one body, either in one send by reference or cut by size into
//! runs.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use levada_io::outbox::{Outbox, Outcome, Terms};
use levada_io::ring::{Event, Memory, Operation, Ring, RingOptions};
use levada_io::runs::COPIED_PIECES;
use levada_io::{Counters, MemoryPiece, Thresholds};

use super::route::Socket;
use super::{How, Load, Wait};

/// Sender of mixed messages, ready to send.
pub(super) struct Mixed {
    socket: Socket,
    ring: Ring,
    outbox: Outbox,
    counters: Counters,
    /// Pieces of the message that is sent repeatedly without a check.
    pieces: Vec<Bytes>,
}

impl Mixed {
    pub(super) fn new(load: &Load, socket: Socket) -> io::Result<Self> {
        let ring = Ring::new(&RingOptions::default())?;
        let outbox = Outbox::new(Arc::clone(&socket));
        Ok(Self { socket, ring, outbox, counters: Counters::default(), pieces: pieces(load, 0) })
    }

    /// Number of system calls so far.
    pub(super) fn calls(&self) -> u64 {
        self.ring.calls()
    }

    pub(super) fn send(&mut self, load: &Load) -> io::Result<u64> {
        let mut copied = 0;
        for index in 0..load.messages {
            let pieces = if load.check { pieces(load, index) } else { self.pieces.clone() };
            copied += match load.how {
                How::Cut { wait } => self.cut(pieces, wait)?,
                How::Whole { wait } => self.whole(&pieces, wait)?,
                _ => return Err(io::Error::other("the method does not send mixed messages")),
            };
        }
        while self.ring.in_flight() > 0 {
            copied += self.settle()?;
        }
        Ok(copied)
    }

    /// Sends all pieces by reference, as many in a message as the kernel accepts.
    fn whole(&mut self, pieces: &[Bytes], wait: Wait) -> io::Result<u64> {
        let mut copied = 0;
        for message in pieces.chunks(COPIED_PIECES) {
            let send = Operation::send(Arc::clone(&self.socket), Memory::Pieces(message.to_vec()));
            while self.ring.room() == 0 {
                copied += self.settle()?;
            }
            let key = self.ring.push(send.zero_copy()).map_err(|full| io::Error::other(full.to_string()))?;
            let mut done = false;
            while !done {
                self.ring.submit_and_wait(1, None)?;
                for completion in self.ring.reap() {
                    let mine = completion.key == key;
                    match completion.event {
                        Event::Sent { result } => {
                            result?;
                            done |= mine && wait == Wait::Result;
                        }
                        Event::Released { copied: was_copied, .. } => {
                            copied += u64::from(was_copied);
                            done |= mine && wait == Wait::Release;
                        }
                        Event::Done { result, .. } => {
                            result?;
                            done |= mine;
                        }
                    }
                }
            }
        }
        Ok(copied)
    }

    /// Copies the small pieces together and sends the body by reference, in linked operations, as a
    /// connection of the product does.
    fn cut(&mut self, pieces: Vec<Bytes>, wait: Wait) -> io::Result<u64> {
        let thresholds = Thresholds::default();
        pieces.into_iter().for_each(|piece| self.outbox.push(MemoryPiece::Bytes(piece)));
        let mut copied = 0;
        while self.outbox.queued_bytes() > 0 {
            let terms = Terms { budget: 1 << 20, may_refer: true, thresholds: &thresholds };
            self.outbox.submit(&mut self.ring, terms);
            // If no chain is in flight, the ring was full.
            copied += self.settle()?;
            while self.outbox.is_busy() {
                copied += self.settle()?;
            }
        }
        while wait == Wait::Release && self.ring.in_flight() > 0 {
            copied += self.settle()?;
        }
        Ok(copied)
    }

    /// Waits for completions and processes them. Returns the number of sends that the kernel
    /// copied.
    fn settle(&mut self) -> io::Result<u64> {
        self.ring.submit_and_wait(1, None)?;
        let mut copied = 0;
        for completion in self.ring.reap() {
            match self.outbox.take_in(completion, &self.counters) {
                Outcome::Failed(error) => return Err(error),
                Outcome::Released { copied: was_copied } => copied += u64::from(was_copied),
                Outcome::Waiting | Outcome::Settled => {}
            }
        }
        Ok(copied)
    }
}

/// Pieces of message `index`: the small ones, then the body.
fn pieces(load: &Load, index: u32) -> Vec<Bytes> {
    let mut message = vec![0; load.pieces * load.piece_bytes + load.bytes];
    load.fill(index, &mut message);
    let mut message = Bytes::from(message);
    let mut pieces: Vec<Bytes> = (0..load.pieces).map(|_| message.split_to(load.piece_bytes)).collect();
    pieces.push(message);
    pieces
}
