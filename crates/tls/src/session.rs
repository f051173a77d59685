//! A TLS connection that this process encrypts and decrypts: rustls over byte buffers, without a
//! socket.
//!
//! The handshake reads at most up to the end of a record, so that the kernel could take over at any
//! record.

use std::io;
use std::sync::Arc;

use bytes::BufMut;
use levada_io::Seal;
use rustls::kernel::KernelConnection;
use rustls::pki_types::CertificateDer;
use rustls::server::{ServerConnectionData, UnbufferedServerConnection};
use rustls::unbuffered::{ConnectionState, EncodeError, EncodeTlsData, EncryptError, UnbufferedStatus};
use rustls::{ExtractedSecrets, HandshakeKind, ProtocolVersion, ServerConfig, SupportedCipherSuite};

/// The header of a record: its kind, a version, its length.
const HEADER_BYTES: usize = 5;

/// Maximum number of bytes of a record after its header.
const RECORD_BYTES: usize = (16 << 10) + 2048;

/// Size of a read from the socket once the handshake is over, in bytes.
const READ_BYTES: usize = 32 << 10;
const _: () = assert!(HEADER_BYTES + RECORD_BYTES <= READ_BYTES, "a read has room for a whole record");

/// The first byte of a handshake's first record.
const HANDSHAKE: u8 = 22;

/// Next step of a handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// More bytes of the peer are needed.
    Read,
    /// The handshake is complete, and the peer is authenticated.
    Done,
}

/// A connection's TLS state.
pub struct TlsSession {
    tls: UnbufferedServerConnection,
    /// Received and not processed: the front of a record, after the records that hold the front of
    /// a message.
    incoming: Vec<u8>,
    /// Position in `incoming` of the record that a handshake is receiving. Its header must be read
    /// before rustls processes it: rustls joins the parts of a message.
    record: usize,
    /// True if the last read of a handshake completed a record.
    has_record: bool,
    /// Encrypted and not sent.
    outgoing: Vec<u8>,
    /// True if the peer has sent the end of the stream.
    pub closed: bool,
    /// True if nothing has been sent yet.
    said_nothing: bool,
    /// True if the session failed: its last alert has been sent.
    over: bool,
}

impl TlsSession {
    /// A new connection without received bytes.
    ///
    /// # Errors
    /// The configuration cannot be used.
    pub fn new(config: Arc<ServerConfig>) -> Result<Self, rustls::Error> {
        let tls = UnbufferedServerConnection::new(config)?;
        let (incoming, outgoing) = (Vec::new(), Vec::new());
        let (record, has_record) = Default::default();
        let (closed, said_nothing, over) = (false, true, false);
        Ok(Self { tls, incoming, record, has_record, outgoing, closed, said_nothing, over })
    }

    /// Processes received bytes. Decrypted data is appended to `plain`; bytes to be sent to the
    /// peer wait in [`TlsSession::take_outgoing`], also after an error.
    ///
    /// # Errors
    /// The peer sent a record that the protocol does not allow here; the connection is over.
    pub fn process(&mut self, plain: &mut impl BufMut) -> Result<Next, rustls::Error> {
        let next = self.advance(plain);
        self.over |= next.is_err();
        next
    }

    fn advance(&mut self, plain: &mut impl BufMut) -> Result<Next, rustls::Error> {
        loop {
            let UnbufferedStatus { mut discard, state } = self.tls.process_tls_records(&mut self.incoming);
            let next = match state {
                Err(error) => {
                    self.discard(discard);
                    self.encode_alert();
                    return Err(error);
                }
                Ok(ConnectionState::ReadTraffic(mut traffic)) => {
                    while let Some(record) = traffic.next_record() {
                        let record = record?;
                        discard += record.discard;
                        plain.put_slice(record.payload);
                    }
                    None
                }
                Ok(ConnectionState::EncodeTlsData(mut message)) => {
                    encode(&mut message, &mut self.outgoing);
                    None
                }
                Ok(ConnectionState::TransmitTlsData(transmitted)) => {
                    // The alert is in `outgoing`, which leaves first.
                    transmitted.done();
                    None
                }
                Ok(ConnectionState::PeerClosed) => {
                    self.closed = true;
                    None
                }
                Ok(ConnectionState::BlockedHandshake) => Some(Next::Read),
                Ok(ConnectionState::WriteTraffic(_)) => Some(Next::Done),
                Ok(ConnectionState::Closed) => {
                    self.closed = true;
                    Some(Next::Done)
                }
                // Early data is not offered.
                Ok(_) => Some(Next::Done),
            };
            self.discard(discard);
            if let Some(next) = next {
                return Ok(next);
            }
        }
    }

    /// Drops processed bytes.
    fn discard(&mut self, count: usize) {
        self.incoming.drain(..count);
        self.record = self.record.saturating_sub(count);
    }

    /// Encodes the alert of a failure, without a further step: rustls would process the failed
    /// bytes again, and find the same fault.
    fn encode_alert(&mut self) {
        while self.tls.wants_write() {
            let status = self.tls.process_tls_records(&mut self.incoming);
            let Ok(ConnectionState::EncodeTlsData(mut message)) = status.state else { return };
            encode(&mut message, &mut self.outgoing);
        }
    }

    /// Removes and returns the bytes that the caller must send before anything else.
    pub fn take_outgoing(&mut self) -> Vec<u8> {
        self.said_nothing &= self.outgoing.is_empty();
        std::mem::take(&mut self.outgoing)
    }

    /// Reads from the front of a record to its end at most, as a handshake may.
    ///
    /// # Errors
    /// Errors of `read`.
    pub fn read_within_record(
        &mut self,
        read: impl FnOnce(&mut [u8]) -> io::Result<usize>,
    ) -> io::Result<usize> {
        let end = record_end(&self.incoming[self.record..]).min(HEADER_BYTES + RECORD_BYTES);
        let got = self.read_up_to(self.record + end, read)?;
        let received = &self.incoming[self.record..];
        self.has_record = received.len() >= HEADER_BYTES && received.len() >= record_end(received);
        if self.has_record {
            // A message may continue in the next record.
            self.record = self.incoming.len();
        }
        Ok(got)
    }

    /// True if the last read within a record completed it.
    #[must_use]
    pub fn has_record(&self) -> bool {
        self.has_record
    }

    /// Reads the bytes that the socket has.
    ///
    /// # Errors
    /// Errors of `read`.
    pub fn read(&mut self, read: impl FnOnce(&mut [u8]) -> io::Result<usize>) -> io::Result<usize> {
        self.read_up_to(self.incoming.len() + READ_BYTES, read)
    }

    fn read_up_to(
        &mut self,
        end: usize,
        read: impl FnOnce(&mut [u8]) -> io::Result<usize>,
    ) -> io::Result<usize> {
        let start = self.incoming.len();
        self.incoming.resize(end.max(start + 1), 0);
        let got = read(&mut self.incoming[start..]);
        self.incoming.truncate(start + got.as_ref().copied().unwrap_or(0));
        got
    }

    /// True if the peer's first bytes are no TLS.
    #[must_use]
    pub fn is_no_tls(&self) -> bool {
        self.said_nothing && self.incoming.first().is_some_and(|kind| *kind != HANDSHAKE)
    }

    /// True if bytes wait in [`TlsSession::take_outgoing`].
    #[must_use]
    pub fn has_outgoing(&self) -> bool {
        !self.outgoing.is_empty()
    }

    /// Sends the waiting bytes, as far as `write` takes them now.
    ///
    /// # Errors
    /// Errors of `write`, except [`io::ErrorKind::WouldBlock`].
    pub fn flush(&mut self, mut write: impl FnMut(&[u8]) -> io::Result<usize>) -> io::Result<()> {
        while !self.outgoing.is_empty() {
            match write(&self.outgoing) {
                Ok(count) => drop(self.outgoing.drain(..count)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Releases memory while nothing arrives.
    pub fn rest(&mut self) {
        if self.incoming.is_empty() {
            self.incoming = Vec::new();
        }
    }

    /// The peer's certificates, its own first; none if it presented none.
    #[must_use]
    pub fn peer_certificates(&self) -> Option<&[CertificateDer<'static>]> {
        self.tls.peer_certificates()
    }

    /// True if the client has resumed an earlier session: its certificates are those of that
    /// session, and were not verified again.
    #[must_use]
    pub fn is_resumed(&self) -> bool {
        self.tls.handshake_kind() == Some(HandshakeKind::Resumed)
    }

    pub(crate) fn suite(&self) -> Option<(ProtocolVersion, SupportedCipherSuite)> {
        Some((self.tls.protocol_version()?, self.tls.negotiated_cipher_suite()?))
    }

    /// True if all received bytes are processed and all outgoing bytes are sent, so that another
    /// owner can take over.
    pub(crate) fn is_even(&self) -> bool {
        self.incoming.is_empty() && self.outgoing.is_empty()
    }

    /// Extracts the secrets, for the kernel.
    pub(crate) fn into_kernel(
        self,
    ) -> Result<(ExtractedSecrets, KernelConnection<ServerConnectionData>), rustls::Error> {
        self.tls.dangerous_into_kernel_connection()
    }

    /// Sends the end of the stream.
    pub fn send_close_notify(&mut self) {
        if self.over {
            return;
        }
        let status = self.tls.process_tls_records(&mut self.incoming);
        if let Ok(ConnectionState::WriteTraffic(mut traffic)) = status.state {
            append(&mut self.outgoing, |room| {
                outcome(traffic.queue_close_notify(room)).map_err(|size| size.unwrap_or(0))
            });
        }
    }
}

/// Number of bytes of the record that begins with these bytes; of its header, until the header is
/// whole.
fn record_end(received: &[u8]) -> usize {
    match received.first_chunk::<HEADER_BYTES>() {
        None => HEADER_BYTES,
        Some([.., high, low]) => HEADER_BYTES + usize::from(u16::from_be_bytes([*high, *low])),
    }
}

impl Seal for TlsSession {
    fn seal(&mut self, plain: &[u8], sealed: &mut Vec<u8>) -> io::Result<()> {
        loop {
            // With the received part of a message: rustls may have read its beginning.
            let UnbufferedStatus { discard, state } = self.tls.process_tls_records(&mut self.incoming);
            let done = match state.map_err(io::Error::other)? {
                ConnectionState::WriteTraffic(mut traffic) => {
                    let mut used_up = false;
                    append(sealed, |room| match outcome(traffic.encrypt(plain, room)) {
                        Ok(written) => Ok(written),
                        Err(Some(size)) => Err(size),
                        Err(None) => {
                            used_up = true;
                            Ok(0)
                        }
                    });
                    Some(if used_up { Err(io::Error::other("the keys are used up")) } else { Ok(()) })
                }
                ConnectionState::EncodeTlsData(mut message) => {
                    encode(&mut message, sealed);
                    None
                }
                ConnectionState::TransmitTlsData(transmitted) => {
                    transmitted.done();
                    None
                }
                ConnectionState::PeerClosed => {
                    self.closed = true;
                    None
                }
                _ => Some(Err(io::ErrorKind::NotConnected.into())),
            };
            self.discard(discard);
            if let Some(done) = done {
                return done;
            }
        }
    }
}

fn encode(message: &mut EncodeTlsData<'_, ServerConnectionData>, bytes: &mut Vec<u8>) {
    append(bytes, |room| match message.encode(room) {
        Err(EncodeError::InsufficientSize(wanted)) => Err(wanted.required_size),
        written => Ok(written.unwrap_or(0)),
    });
}

fn outcome(written: Result<usize, EncryptError>) -> Result<usize, Option<usize>> {
    written.map_err(|error| match error {
        EncryptError::InsufficientSize(wanted) => Some(wanted.required_size),
        EncryptError::EncryptExhausted => None,
    })
}

/// Appends output to `bytes`, with as much free capacity as rustls requires.
fn append(bytes: &mut Vec<u8>, mut write: impl FnMut(&mut [u8]) -> Result<usize, usize>) {
    let start = bytes.len();
    // The room that the first attempt requires is enough, so that there are at most two attempts.
    for _ in 0..2 {
        match write(&mut bytes[start..]) {
            Ok(written) => {
                bytes.truncate(start + written);
                return;
            }
            Err(required) => bytes.resize(start + required, 0),
        }
    }
    bytes.truncate(start);
}

impl std::fmt::Debug for TlsSession {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TlsSession")
    }
}
