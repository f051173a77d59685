//! The channel between a connection and its socket: in the clear, encrypted by this process, or
//! encrypted by the kernel.

use std::os::fd::AsFd;

use bytes::BytesMut;
use levada_io::residency::Warm;
use levada_io::{COSTLY_TURN_BYTES, Engine, Piece, SealedTransfer, Transfer, TransferError, Turn};
use levada_tls::{KernelSession, RECORD_BYTES, TlsSession};
use tokio::net::TcpStream;

pub(crate) mod handshakes;

/// Security of a connection.
pub(crate) enum Channel {
    /// Plaintext.
    Plain,
    /// TLS, encrypted by this process.
    Sealed(Box<TlsSession>),
    /// TLS, encrypted by the kernel.
    Kernel(Box<KernelSession>),
}

/// Result of one receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Received {
    /// Data may be available, perhaps only a part of a record.
    Something,
    /// End of the stream.
    End,
}

/// A response that is being sent.
pub(crate) enum Sending {
    /// Plain bytes, which the kernel may encrypt below the socket.
    Plain(Transfer),
    /// Bytes that this process encrypts.
    Sealed(SealedTransfer),
}

impl Channel {
    /// Appends the available bytes of the socket to `plain`, without waiting. An error of kind
    /// `WouldBlock` means that there are none.
    pub(crate) fn receive(&mut self, stream: &TcpStream, plain: &mut BytesMut) -> std::io::Result<Received> {
        match self {
            Self::Plain => match receive(stream, plain)? {
                0 => Ok(Received::End),
                _ => Ok(Received::Something),
            },
            Self::Sealed(session) => {
                if session.closed {
                    return Ok(Received::End);
                }
                let start = plain.len();
                let got = session.read(|room| stream.try_read(room));
                if got.is_err() {
                    session.rest();
                }
                let got = got?;
                let processed = session.process(plain);
                // An alert or new keys; bytes that the socket does not take now leave before the
                // next response.
                session.flush(|bytes| stream.try_write(bytes))?;
                processed.map_err(std::io::Error::other)?;
                session.rest();
                // Requests before the end of the stream are answered, as in Kafka: the next
                // receive reports the end.
                let is_over = (got == 0 || session.closed) && plain.len() == start;
                Ok(if is_over { Received::End } else { Received::Something })
            }
            Self::Kernel(session) => {
                let start = plain.len();
                plain.resize(start + RECORD_BYTES, 0);
                let room = &mut plain[start..];
                let received =
                    stream.try_io(tokio::io::Interest::READABLE, || session.receive(stream.as_fd(), room));
                let count = received.as_ref().map_or(0, |count| count.unwrap_or(0));
                plain.truncate(start + count);
                Ok(if received?.is_some() { Received::Something } else { Received::End })
            }
        }
    }

    /// Begins to send a response of these pieces.
    pub(crate) fn sending(&mut self, pieces: Vec<Piece>) -> Sending {
        match self {
            Self::Plain => Sending::Plain(Transfer::new(pieces)),
            Self::Kernel(_) => Sending::Plain(Transfer::into_kernel_tls(pieces)),
            Self::Sealed(session) => {
                let first = session.take_outgoing();
                Sending::Sealed(SealedTransfer::behind(first, pieces))
            }
        }
    }

    /// Sends until the turn of the response ends.
    pub(crate) fn step(
        &mut self,
        (sending, stream): (&mut Sending, &TcpStream),
        engine: &mut Engine,
    ) -> Result<Turn, TransferError> {
        let budget = match (&*self, &*sending) {
            (Self::Plain, Sending::Plain(transfer)) => transfer.turn_bytes(),
            _ => COSTLY_TURN_BYTES,
        };
        match (sending, self) {
            (Sending::Plain(transfer), Self::Kernel(session)) => match session.settle(stream.as_fd()) {
                Ok(()) => transfer.step(engine, stream.as_fd(), budget),
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => Ok(Turn::Blocked),
                Err(cause) => Err(TransferError::Peer { remaining: transfer.remaining(), cause }),
            },
            (Sending::Plain(transfer), _) => transfer.step(engine, stream.as_fd(), budget),
            (Sending::Sealed(transfer), Self::Sealed(session)) => {
                transfer.step(engine, (stream.as_fd(), &mut **session), budget)
            }
            (Sending::Sealed(_), _) => unreachable!("an answer is sent by the channel that made it"),
        }
    }

    /// Records that the socket has accepted all bytes of a response.
    pub(crate) fn sent(&mut self, stream: &TcpStream, bytes: u64) -> std::io::Result<()> {
        match self {
            Self::Kernel(session) => session.sent(stream.as_fd(), bytes),
            Self::Plain | Self::Sealed(_) => Ok(()),
        }
    }

    /// Sends the end of the stream, if the socket takes it immediately.
    pub(crate) fn send_close_notify(&mut self, stream: &TcpStream) {
        match self {
            Self::Plain => {}
            Self::Kernel(_) => KernelSession::send_close_notify(stream.as_fd()),
            Self::Sealed(session) => {
                session.send_close_notify();
                // A peer that has disconnected needs no message.
                let _ = session.flush(|bytes| stream.try_write(bytes));
            }
        }
    }
}

/// Reads the available bytes of the socket. A read that does not fill the buffer has emptied the
/// socket: later bytes are signalled again, so no further read is needed until then.
fn receive(stream: &TcpStream, plain: &mut BytesMut) -> std::io::Result<usize> {
    let count = stream.try_read_buf(plain)?;
    if count > 0 && plain.len() < plain.capacity() {
        // Clears the readiness in the runtime. The runtime watches the socket on this thread, so
        // there was no announcement since.
        let forget = || Err::<(), _>(std::io::ErrorKind::WouldBlock.into());
        let _ = stream.try_io(tokio::io::Interest::READABLE, forget);
    }
    Ok(count)
}

impl Sending {
    /// Range to load into the page cache after [`Turn::Cold`].
    pub(crate) fn cold(&self, ahead_bytes: u64) -> Option<Warm> {
        match self {
            Self::Plain(transfer) => transfer.cold(ahead_bytes),
            Self::Sealed(transfer) => transfer.cold(ahead_bytes),
        }
    }
}

#[cfg(test)]
mod tests;
