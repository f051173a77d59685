//! Receiving: data in the clear or decrypted by the kernel or by this process, the header of the
//! PROXY protocol, and bodies of requests, which are dropped.

use std::io;
use std::os::fd::AsFd;
use std::task::Poll;
use std::time::SystemTime;

use rustix::net::RecvFlags;
use tokio::io::Interest;

use super::{CloseReason, Connection, HEAD_TIME, Taken};
use crate::answer;
use crate::outgoing::Outgoing;
use crate::proxy::{self, Header};
use crate::request::Refusal;
use crate::socket::{Peer, Socket};

impl Connection {
    /// Reads the header of the PROXY protocol and no further byte: TLS may follow.
    pub(super) async fn introduce(&mut self) -> Result<(), CloseReason> {
        self.timer.until(tokio::time::Instant::now() + HEAD_TIME);
        let (socket, timer) = (&self.socket, &mut self.timer);
        let (mut room, mut filled) = ([0; proxy::HEADER_BYTES_MAX], 0);
        loop {
            // The timer first: a client that always has one byte more is slow as well.
            let ready = std::future::poll_fn(|context| match timer.poll(context) {
                Poll::Ready(()) => {
                    let action = "send its PROXY protocol header";
                    Poll::Ready(Err(CloseReason::Slow { action, limit: HEAD_TIME }))
                }
                Poll::Pending => socket.poll_readable(context).map_err(CloseReason::from),
            });
            ready.await?;
            match take_header(socket, &mut room, &mut filled) {
                Ok(Header::Whole(client, _)) => {
                    if let Some((address, port)) = client {
                        self.peer = Peer::Address(address.to_canonical(), port);
                    }
                    return Ok(());
                }
                Ok(Header::Partial) => {}
                Ok(Header::Malformed) => return Err(CloseReason::NoHeader),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Continues with a handshake on another thread, whose cryptography would delay the other
    /// connections of the shard.
    pub(super) async fn handshake(&mut self) -> Result<(), CloseReason> {
        if let Outgoing::Sealed(mut sealed) = std::mem::replace(&mut self.outgoing, Outgoing::plain()) {
            let advanced = tokio::task::spawn_blocking(move || {
                let outcome = sealed.advance_handshake();
                (sealed, outcome)
            });
            let (sealed, outcome) = advanced.await.map_err(io::Error::other)?;
            if sealed.is_open {
                self.head_since = None;
            }
            self.outgoing = Outgoing::Sealed(sealed);
            outcome?;
        }
        // The peer waits for the server's messages. A request after the handshake is still in the
        // socket.
        self.flush().await?;
        self.outgoing.offer(&self.socket, self.shard.shared.caps.tls_suites)?;
        Ok(())
    }

    /// Receives data that needs no decryption here; none at the end of the connection.
    pub(super) fn receive(&mut self, room: &mut [u8]) -> io::Result<Option<usize>> {
        match &mut self.outgoing {
            Outgoing::Kernel(sealed) => {
                let (socket, session) = (&self.socket, &mut sealed.session);
                socket.try_io(Interest::READABLE, || session.receive(socket.as_fd(), room))
            }
            _ => self.socket.try_read(room).map(|count| Some(count).filter(|count| *count > 0)),
        }
    }

    /// Receives records and decrypts them; nothing if there is then a request to process.
    pub(super) fn decrypt(&mut self) -> Result<Option<Taken>, CloseReason> {
        let Some(sealed) = self.outgoing.sealing() else { return Ok(None) };
        if sealed.session.closed {
            return Ok(Some(Taken::End));
        }
        let socket = &self.socket;
        let read = |room: &mut [u8]| socket.try_read(room);
        let received =
            if sealed.is_open { sealed.session.read(read) } else { sealed.session.read_within_record(read) };
        match received {
            Ok(0) => return Ok(Some(Taken::End)),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                sealed.session.rest();
                if !sealed.is_open || !self.pending.is_empty() {
                    self.head_since.get_or_insert_with(tokio::time::Instant::now);
                }
                return Ok(Some(Taken::More));
            }
            Err(error) => return Err(error.into()),
        }
        if sealed.session.is_no_tls() {
            // A browser that was sent here by http:// shows the reason.
            self.outgoing = Outgoing::plain();
            let reason = "this port requires HTTPS";
            let refusal = Refusal { status: http::StatusCode::BAD_REQUEST, reason };
            let refused = |moment: answer::Moment<'_>| answer::refused(refusal, false, moment);
            let reply = self.shard.clock.with(SystemTime::now(), refused);
            return Ok(Some(Taken::Refused(reply, self.draft(None))));
        }
        if !sealed.is_open {
            self.head_since.get_or_insert_with(tokio::time::Instant::now);
            return Ok(sealed.session.has_record().then_some(Taken::Handshake));
        }
        let before = self.pending.len();
        sealed.session.process(&mut self.pending)?;
        sealed.session.rest();
        if before == 0 && self.pending.is_empty() {
            self.head_since = None;
        }
        // Everything for the peer is sent before this waits for the peer.
        if self.pending.len() == before && sealed.session.has_outgoing() {
            Ok(Some(Taken::More))
        } else {
            Ok(None)
        }
    }

    /// Drops the rest of a request's body; true if all of it has been received.
    pub(super) fn pass_over(&mut self, inbox: &mut [u8]) -> Result<bool, CloseReason> {
        loop {
            let here = self.skip.min(self.pending.len() as u64);
            self.consume(usize::try_from(here).unwrap_or(usize::MAX));
            self.skip -= here;
            if self.skip == 0 {
                return Ok(true);
            }
            if self.outgoing.sealing().is_some() {
                match self.decrypt()? {
                    None => continue,
                    Some(Taken::More) => return Ok(false),
                    Some(_) => return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
                }
            }
            match self.receive(inbox) {
                Ok(None) => return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
                Ok(Some(count)) => self.pending.extend_from_slice(&inbox[..count]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// Reads the available bytes of a header after the first `filled` bytes of it, and no further byte.
/// At the end of the connection no header can become complete.
fn take_header(
    socket: &Socket,
    room: &mut [u8; proxy::HEADER_BYTES_MAX],
    filled: &mut usize,
) -> io::Result<Header> {
    let before = *filled;
    let count = socket.try_io(Interest::READABLE, || {
        let (count, _) = rustix::net::recv(socket.as_fd(), &mut room[before..], RecvFlags::PEEK)?;
        Ok(count)
    })?;
    let header = proxy::parse(&room[..before + count]);
    let end = match header {
        Header::Malformed => return Ok(header),
        Header::Partial if count == 0 => return Ok(Header::Malformed),
        // All of it belongs to the header. Left in the socket, it would announce itself for ever.
        Header::Partial => before + count,
        Header::Whole(_, len) => len,
    };
    let taken = socket.try_read(&mut room[before..end])?;
    debug_assert_eq!(before + taken, end, "it was there");
    *filled = end;
    Ok(header)
}
