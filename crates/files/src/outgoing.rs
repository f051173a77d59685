//! Outgoing responses of one socket: in the clear, or encrypted by this process.

use std::io;
use std::os::fd::BorrowedFd;

use levada_io::residency::Warm;
use levada_io::{Engine, Piece, SealedTransfer, Transfer, TransferError, Turn};

use crate::tls::Session;

/// What a connection may send by reference in one turn before others of its shard get theirs.
const TURN_BYTES: u64 = 1 << 20;

/// The same for bytes that are copied or encrypted, which takes several times as long.
const COSTLY_TURN_BYTES: u64 = 256 << 10;

/// What is to be sent, in order.
#[derive(Debug)]
pub(crate) enum Outgoing {
    Plain(Transfer),
    Sealed(Box<Sealed>),
}

/// The same of a connection with TLS.
#[derive(Debug)]
pub(crate) struct Sealed {
    pub(crate) session: Session,
    /// Not yet given to a transfer.
    waiting: Vec<Piece>,
    current: Option<SealedTransfer>,
}

impl Outgoing {
    /// In the clear.
    pub(crate) fn plain() -> Outgoing {
        Outgoing::Plain(Transfer::new([]))
    }

    /// Encrypted.
    pub(crate) fn sealed(session: Session) -> Outgoing {
        Outgoing::Sealed(Box::new(Sealed { session, waiting: Vec::new(), current: None }))
    }

    /// The TLS state, if there is one.
    pub(crate) fn session(&mut self) -> Option<&mut Session> {
        match self {
            Outgoing::Plain(_) => None,
            Outgoing::Sealed(sealed) => Some(&mut sealed.session),
        }
    }

    pub(crate) fn push(&mut self, piece: Piece) {
        match self {
            Outgoing::Plain(transfer) => transfer.push(piece),
            Outgoing::Sealed(sealed) => sealed.waiting.push(piece),
        }
    }

    /// Notes that the socket is closed or shut down as soon as everything is sent: the end of the connection then leaves with
    /// the last bytes.
    pub(crate) fn expect_end(&mut self) {
        if let Outgoing::Plain(transfer) = self {
            transfer.expect_more();
        }
    }

    /// Bytes of pieces that the socket has not taken; of those that are encrypted already, those that are in no transfer's queue any more
    /// count as taken.
    pub(crate) fn remaining(&self) -> u64 {
        match self {
            Outgoing::Plain(transfer) => transfer.remaining(),
            Outgoing::Sealed(sealed) => {
                let waiting: u64 = sealed.waiting.iter().map(Piece::len).sum();
                waiting + sealed.current.as_ref().map_or(0, SealedTransfer::remaining)
            }
        }
    }

    /// Whether there is nothing to send, not even of the handshake.
    pub(crate) fn is_idle(&self) -> bool {
        match self {
            Outgoing::Plain(transfer) => transfer.remaining() == 0,
            Outgoing::Sealed(sealed) => {
                sealed.waiting.is_empty() && sealed.current.is_none() && !sealed.session.has_outgoing()
            }
        }
    }

    /// One turn. Does not wait for the socket.
    pub(crate) fn step(
        &mut self,
        engine: &mut Engine,
        socket: BorrowedFd<'_>,
    ) -> Result<Turn, TransferError> {
        match self {
            Outgoing::Plain(transfer) => {
                let by_reference = transfer.in_memory() <= COSTLY_TURN_BYTES;
                let budget = if by_reference { TURN_BYTES } else { COSTLY_TURN_BYTES };
                transfer.step(engine, socket, budget)
            }
            Outgoing::Sealed(sealed) => sealed.step(engine, socket),
        }
    }

    /// After [`Turn::Cold`]: what is to be brought in.
    pub(crate) fn cold(&self, ahead_bytes: u64) -> Option<Warm> {
        match self {
            Outgoing::Plain(transfer) => transfer.cold(ahead_bytes),
            Outgoing::Sealed(sealed) => sealed.current.as_ref()?.cold(ahead_bytes),
        }
    }
}

impl Sealed {
    fn step(&mut self, engine: &mut Engine, socket: BorrowedFd<'_>) -> Result<Turn, TransferError> {
        let Sealed { session, waiting, current } = self;
        let transfer =
            current.get_or_insert_with(|| SealedTransfer::behind(session.take_outgoing(), waiting.drain(..)));
        let turn = transfer.step(engine, (socket, session), COSTLY_TURN_BYTES)?;
        if turn == Turn::Done {
            *current = None;
            if !self.waiting.is_empty() || self.session.has_outgoing() {
                return Ok(Turn::Yield);
            }
        }
        Ok(turn)
    }
}

/// Says goodbye, if the socket takes it at once.
pub(crate) fn send_close_notify(
    outgoing: &mut Outgoing,
    engine: &mut Engine,
    socket: BorrowedFd<'_>,
) -> io::Result<()> {
    if let Outgoing::Sealed(sealed) = outgoing
        && sealed.current.is_none()
        && sealed.waiting.is_empty()
    {
        sealed.session.send_close_notify();
        sealed.step(engine, socket).map_err(io::Error::other)?;
    }
    Ok(())
}
