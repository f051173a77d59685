//! A connected TCP or AF_UNIX socket.

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::task::{Context, Poll};

use tokio::io::Interest;
use tokio::net::{TcpStream, UnixStream};

/// A connection's socket.
#[derive(Debug)]
pub(crate) enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Socket {
    pub(crate) fn poll_readable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Tcp(stream) => stream.poll_read_ready(context),
            Self::Unix(stream) => stream.poll_read_ready(context),
        }
    }

    pub(crate) fn poll_writable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Tcp(stream) => stream.poll_write_ready(context),
            Self::Unix(stream) => stream.poll_write_ready(context),
        }
    }

    /// Runs an operation that may return `WouldBlock`; the socket is then waited for again.
    pub(crate) fn try_io<T>(
        &self,
        interest: Interest,
        work: impl FnOnce() -> io::Result<T>,
    ) -> io::Result<T> {
        match self {
            Self::Tcp(stream) => stream.try_io(interest, work),
            Self::Unix(stream) => stream.try_io(interest, work),
        }
    }

    /// Reads without waiting. A read that does not fill the buffer has emptied the socket, and no
    /// further read happens before it is readable again.
    pub(crate) fn try_read(&self, room: &mut [u8]) -> io::Result<usize> {
        let count = match self {
            Self::Tcp(stream) => stream.try_read(room)?,
            Self::Unix(stream) => stream.try_read(room)?,
        };
        if count > 0 && count < room.len() {
            // The runtime watches the socket on this thread, so that nothing was announced since.
            let _ = self.try_io(Interest::READABLE, || Err::<(), _>(io::ErrorKind::WouldBlock.into()));
        }
        Ok(count)
    }

    /// Sends the end of the stream.
    pub(crate) fn shut(&self) {
        // A peer that has disconnected needs no message.
        let _ = rustix::net::shutdown(self.as_fd(), rustix::net::Shutdown::Write);
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(stream) => stream.as_fd(),
            Self::Unix(stream) => stream.as_fd(),
        }
    }
}

/// The other end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Peer {
    Address(IpAddr, u16),
    /// A process of this machine.
    Local,
}

impl std::fmt::Display for Peer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Address(address, _) => address.fmt(f),
            Self::Local => f.write_str("unix:"),
        }
    }
}
