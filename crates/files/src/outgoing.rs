//! Outgoing responses of one socket: in the clear, encrypted by this process, or by the kernel.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use levada_io::ktls::Suites;
use levada_io::residency::Warm;
use levada_io::{COSTLY_TURN_BYTES, Engine, Piece, SealedTransfer, Transfer, TransferError, Turn};
use levada_tls::{KernelSession, Next, Offload, TlsSession};

/// Data to send, in order.
#[derive(Debug)]
pub(crate) enum Outgoing {
    Plain(Transfer),
    Sealed(Box<Sealed>),
    Kernel(Box<KernelSealed>),
}

/// Output of a connection that this process encrypts.
#[derive(Debug)]
pub(crate) struct Sealed {
    pub(crate) session: Box<TlsSession>,
    /// True if the handshake has ended.
    pub(crate) is_open: bool,
    /// Pieces that are not yet given to a transfer.
    waiting: Vec<Piece>,
    current: Option<SealedTransfer>,
}

/// Output of a connection that the kernel encrypts.
#[derive(Debug)]
pub(crate) struct KernelSealed {
    pub(crate) session: Box<KernelSession>,
    transfer: Transfer,
    /// Bytes that were passed to the transfer since it was last empty.
    pushed: u64,
}

impl Outgoing {
    /// Output in plaintext.
    pub(crate) fn plain() -> Self {
        Self::Plain(Transfer::new([]))
    }

    /// Encrypted by this process, before the handshake.
    pub(crate) fn sealed(session: TlsSession) -> Self {
        let (session, waiting) = (Box::new(session), Vec::new());
        Self::Sealed(Box::new(Sealed { session, is_open: false, waiting, current: None }))
    }

    /// The TLS state of a connection that this process encrypts.
    pub(crate) fn sealing(&mut self) -> Option<&mut Sealed> {
        match self {
            Self::Sealed(sealed) => Some(sealed),
            Self::Plain(_) | Self::Kernel(_) => None,
        }
    }

    /// Passes the keys to the kernel after a handshake, when nothing is in flight, if the kernel
    /// supports the suite.
    ///
    /// # Errors
    /// The kernel took the keys of one direction only. The connection is lost.
    pub(crate) fn offer(&mut self, socket: &impl AsFd, suites: Suites) -> io::Result<()> {
        if !matches!(self, Self::Sealed(sealed) if sealed.is_open && sealed.is_idle()) {
            return Ok(());
        }
        if let Self::Sealed(sealed) = std::mem::replace(self, Self::plain()) {
            *self = match levada_tls::offer(sealed.session, socket, suites)? {
                Offload::Done(session) => {
                    let transfer = Transfer::into_kernel_tls([]);
                    Self::Kernel(Box::new(KernelSealed { session, transfer, pushed: 0 }))
                }
                Offload::Declined(session) => Self::Sealed(Box::new(Sealed { session, ..*sealed })),
            };
        }
        Ok(())
    }

    pub(crate) fn push(&mut self, piece: Piece) {
        match self {
            Self::Plain(transfer) => transfer.push(piece),
            Self::Sealed(sealed) => sealed.waiting.push(piece),
            Self::Kernel(sealed) => {
                sealed.pushed += piece.len();
                sealed.transfer.push(piece);
            }
        }
    }

    /// Sets if more data follows the present data, or the socket is closed or shut down, which then
    /// leaves with the last bytes.
    pub(crate) fn expect_more(&mut self, is_expected: bool) {
        if let Self::Plain(transfer) = self {
            transfer.expect_more(is_expected);
        }
    }

    /// Bytes of pieces that the socket has not accepted. Encrypted bytes that are no longer in a
    /// transfer's queue count as accepted.
    pub(crate) fn remaining(&self) -> u64 {
        match self {
            Self::Plain(transfer) => transfer.remaining(),
            Self::Sealed(sealed) => {
                let waiting: u64 = sealed.waiting.iter().map(Piece::len).sum();
                waiting + sealed.current.as_ref().map_or(0, SealedTransfer::remaining)
            }
            Self::Kernel(sealed) => sealed.transfer.remaining(),
        }
    }

    /// True if there is nothing to send, not even of the handshake.
    pub(crate) fn is_idle(&self) -> bool {
        match self {
            Self::Plain(transfer) => transfer.remaining() == 0,
            Self::Sealed(sealed) => sealed.is_idle(),
            Self::Kernel(sealed) => sealed.transfer.remaining() == 0,
        }
    }

    /// Sends until the turn ends. Does not wait for the socket.
    pub(crate) fn step(
        &mut self,
        engine: &mut Engine,
        socket: BorrowedFd<'_>,
    ) -> Result<Turn, TransferError> {
        match self {
            Self::Plain(transfer) => {
                let budget = transfer.turn_bytes();
                transfer.step(engine, socket, budget)
            }
            Self::Sealed(sealed) => sealed.step(engine, socket),
            Self::Kernel(sealed) => sealed.step(engine, socket),
        }
    }

    /// Range to load into the page cache after [`Turn::Cold`].
    pub(crate) fn cold(&self, ahead_bytes: u64) -> Option<Warm> {
        match self {
            Self::Plain(transfer) => transfer.cold(ahead_bytes),
            Self::Sealed(sealed) => sealed.current.as_ref()?.cold(ahead_bytes),
            Self::Kernel(sealed) => sealed.transfer.cold(ahead_bytes),
        }
    }
}

impl Sealed {
    /// Continues the handshake after a received message. Uses the processor for up to a few
    /// milliseconds.
    ///
    /// # Errors
    /// The message is not valid; the alert is to be sent.
    pub(crate) fn advance_handshake(&mut self) -> Result<(), rustls::Error> {
        let mut early = Vec::new();
        self.is_open = self.session.process(&mut early)? == Next::Done;
        debug_assert!(early.is_empty(), "nothing is read beyond a message of the handshake");
        Ok(())
    }

    fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.current.is_none() && !self.session.has_outgoing()
    }

    fn step(&mut self, engine: &mut Engine, socket: BorrowedFd<'_>) -> Result<Turn, TransferError> {
        let Self { session, waiting, current, .. } = self;
        let transfer =
            current.get_or_insert_with(|| SealedTransfer::behind(session.take_outgoing(), waiting.drain(..)));
        let turn = transfer.step(engine, (socket, &mut **session), COSTLY_TURN_BYTES)?;
        if turn == Turn::Done {
            *current = None;
            if !self.is_idle() {
                return Ok(Turn::Yield);
            }
        }
        Ok(turn)
    }
}

impl KernelSealed {
    fn step(&mut self, engine: &mut Engine, socket: BorrowedFd<'_>) -> Result<Turn, TransferError> {
        let remaining = self.transfer.remaining();
        let lost = |cause| TransferError::Peer { remaining, cause };
        match self.session.settle(socket) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(Turn::Blocked),
            Err(cause) => return Err(lost(cause)),
        }
        let turn = self.transfer.step(engine, socket, COSTLY_TURN_BYTES)?;
        if turn == Turn::Done {
            self.session.sent(socket, std::mem::take(&mut self.pushed)).map_err(lost)?;
        }
        Ok(turn)
    }
}

/// Sends close_notify, if the socket takes it immediately.
pub(crate) fn send_close_notify(
    outgoing: &mut Outgoing,
    engine: &mut Engine,
    socket: BorrowedFd<'_>,
) -> io::Result<()> {
    match outgoing {
        Outgoing::Sealed(sealed) if sealed.current.is_none() && sealed.waiting.is_empty() => {
            sealed.session.send_close_notify();
            sealed.step(engine, socket).map_err(io::Error::other)?;
        }
        Outgoing::Kernel(sealed) if sealed.transfer.remaining() == 0 => {
            KernelSession::send_close_notify(socket);
        }
        Outgoing::Plain(_) | Outgoing::Sealed(_) | Outgoing::Kernel(_) => {}
    }
    Ok(())
}
