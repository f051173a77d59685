//! A TLS connection whose records the kernel handles: passes the keys, receives decrypted data, and
//! handles records that are not data.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use levada_io::ktls::{self, Cipher, Direction, Keys, Kind, Suites, Version};
use rustls::kernel::KernelConnection;
use rustls::server::ServerConnectionData;
use rustls::{ConnectionTrafficSecrets, ProtocolVersion};

use crate::session::TlsSession;

/// A connection that the kernel encrypts.
pub struct KernelSession {
    tls: KernelConnection<ServerConnectionData>,
    /// About how many records were sent with the keys in use.
    records: u64,
    /// True if new keys are due before the next data.
    due: bool,
    /// True if the client of TLS 1.2 has requested a new handshake, and was refused.
    was_refused: bool,
}

/// Result of the handover.
pub enum Offload {
    /// The kernel has the keys.
    Done(Box<KernelSession>),
    /// The hand-over failed; nothing has changed.
    Declined(Box<TlsSession>),
}

/// Maximum number of records that one key encrypts in Galois/counter mode; rustls has the same
/// limit.
const RECORDS_MAX: u64 = 1 << 24;

/// Maximum number of bytes of data in one record.
pub const RECORD_BYTES: usize = 16 << 10;

const CLIENT_HELLO: u8 = 1;
const KEY_UPDATE: u8 = 24;
const CLOSE_NOTIFY: [u8; 2] = [1, 0];
const NO_RENEGOTIATION: [u8; 2] = [1, 100];

/// Hands the keys to the kernel, if it has the suite and, for TLS 1.3, can replace keys later: a
/// peer may require that at any time.
///
/// # Errors
/// The kernel took them half. The connection is lost.
pub fn offer(session: Box<TlsSession>, socket: &impl AsFd, suites: Suites) -> io::Result<Offload> {
    let socket = socket.as_fd();
    let Some(suite) = suite(&session).filter(|suite| {
        suites.has(suite.version, suite.cipher) && (suite.version == Version::Tls12 || suites.rekeys)
    }) else {
        return Ok(Offload::Declined(session));
    };
    if !session.is_even() || ktls::enable(socket).is_err() {
        return Ok(Offload::Declined(session));
    }
    let (secrets, tls) = session.into_kernel().map_err(io::Error::other)?;
    install(socket, Direction::Send, suite, secrets.tx)?;
    install(socket, Direction::Receive, suite, secrets.rx)?;
    Ok(Offload::Done(Box::new(KernelSession { tls, records: 0, due: false, was_refused: false })))
}

/// The version and cipher of a connection, as the kernel names them.
#[derive(Clone, Copy)]
struct Suite {
    version: Version,
    cipher: Cipher,
}

fn suite(session: &TlsSession) -> Option<Suite> {
    let (version, suite) = session.suite()?;
    let name = format!("{:?}", suite.suite());
    let cipher = [
        ("AES_128_GCM", Cipher::Aes128Gcm),
        ("AES_256_GCM", Cipher::Aes256Gcm),
        ("CHACHA20_POLY1305", Cipher::Chacha20Poly1305),
    ];
    let (_, cipher) = cipher.into_iter().find(|(part, _)| name.contains(part))?;
    Some(Suite { version: kernel_version(version)?, cipher })
}

fn kernel_version(version: ProtocolVersion) -> Option<Version> {
    match version {
        ProtocolVersion::TLSv1_2 => Some(Version::Tls12),
        ProtocolVersion::TLSv1_3 => Some(Version::Tls13),
        _ => None,
    }
}

fn install(
    socket: BorrowedFd<'_>,
    direction: Direction,
    Suite { version, cipher }: Suite,
    (sequence, secrets): (u64, ConnectionTrafficSecrets),
) -> io::Result<()> {
    let (ConnectionTrafficSecrets::Aes128Gcm { key, iv }
    | ConnectionTrafficSecrets::Aes256Gcm { key, iv }
    | ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv }) = &secrets
    else {
        return Err(io::ErrorKind::Unsupported.into());
    };
    let iv = iv.as_ref().try_into().map_err(io::Error::other)?;
    ktls::install(socket, direction, &Keys { version, cipher, key: key.as_ref(), iv, sequence })
}

impl KernelSession {
    /// Receives a record into `room`, which has [`RECORD_BYTES`] at least. Returns the number of
    /// bytes of data, 0 if the record was of another kind, or `None` at the end of the connection.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`], or a connection that is over otherwise than by a farewell.
    pub fn receive(&mut self, socket: BorrowedFd<'_>, room: &mut [u8]) -> io::Result<Option<usize>> {
        let (kind, count) = ktls::receive(socket, room)?;
        let received = &room[..count];
        match kind {
            Kind::Data if received.is_empty() => Err(io::ErrorKind::UnexpectedEof.into()),
            Kind::Data => Ok(Some(count)),
            Kind::Alert if received.get(1) == Some(&CLOSE_NOTIFY[1]) => Ok(None),
            Kind::Alert => Err(io::Error::other(format!("the client sent TLS alert {received:?}"))),
            Kind::Handshake => self.handshake(socket, received).map(|()| Some(0)),
            Kind::Other(kind) => Err(io::Error::other(format!("the client sent a record of kind {kind}"))),
        }
    }

    fn handshake(&mut self, socket: BorrowedFd<'_>, message: &[u8]) -> io::Result<()> {
        match (self.tls.protocol_version(), message) {
            (ProtocolVersion::TLSv1_3, [KEY_UPDATE, 0, 0, 1, wish @ (0 | 1)]) => {
                let secrets = self.tls.update_rx_secret().map_err(io::Error::other)?;
                self.install(socket, Direction::Receive, secrets)?;
                if *wish == 1 { self.update(socket) } else { Ok(()) }
            }
            (ProtocolVersion::TLSv1_2, [CLIENT_HELLO, ..]) => self.refuse_handshake(socket),
            _ => Err(io::Error::other("the client sent a handshake message that has no place here")),
        }
    }

    /// Refuses a new handshake once, as rustls does: a client that repeats the request ends the
    /// connection. So does a request while the socket cannot accept the refusal, for which the
    /// client would wait.
    fn refuse_handshake(&mut self, socket: BorrowedFd<'_>) -> io::Result<()> {
        if std::mem::replace(&mut self.was_refused, true) {
            return Err(io::Error::other("the client has asked for a new handshake again"));
        }
        let sent = ktls::send_record(socket, Kind::Alert, &NO_RENEGOTIATION);
        sent.map_err(|error| io::Error::other(format!("cannot refuse a new handshake: {error}")))
    }

    /// Sends with new keys from now on; if the socket is full, from the next response on.
    fn update(&mut self, socket: BorrowedFd<'_>) -> io::Result<()> {
        self.due = true;
        match self.settle(socket) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
            outcome => outcome,
        }
    }

    /// Installs new keys, if they are due, before a response.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`], or a broken connection.
    pub fn settle(&mut self, socket: BorrowedFd<'_>) -> io::Result<()> {
        if !self.due {
            return Ok(());
        }
        ktls::send_record(socket, Kind::Handshake, &[KEY_UPDATE, 0, 0, 1, 0])?;
        let secrets = self.tls.update_tx_secret().map_err(io::Error::other)?;
        (self.records, self.due) = (0, false);
        self.install(socket, Direction::Send, secrets)
    }

    fn install(
        &self,
        socket: BorrowedFd<'_>,
        direction: Direction,
        secrets: (u64, ConnectionTrafficSecrets),
    ) -> io::Result<()> {
        let name = format!("{:?}", self.tls.negotiated_cipher_suite().suite());
        let cipher = match () {
            () if name.contains("AES_128") => Cipher::Aes128Gcm,
            () if name.contains("AES_256") => Cipher::Aes256Gcm,
            () => Cipher::Chacha20Poly1305,
        };
        install(socket, direction, Suite { version: Version::Tls13, cipher }, secrets)
    }

    /// Records that a response with this number of bytes was sent.
    ///
    /// # Errors
    /// The keys are used up and cannot be replaced: the client has to come again.
    pub fn sent(&mut self, socket: BorrowedFd<'_>, bytes: u64) -> io::Result<()> {
        // Its pieces may leave in records that are not full.
        self.records += 2 * (bytes / RECORD_BYTES as u64 + 1);
        if self.records < RECORDS_MAX {
            return Ok(());
        }
        match self.tls.protocol_version() {
            ProtocolVersion::TLSv1_3 => self.update(socket),
            _ => Err(io::Error::other("the keys of the connection are used up")),
        }
    }

    /// Sends the end of the stream.
    pub fn send_close_notify(socket: BorrowedFd<'_>) {
        // A socket that takes no more is closed without.
        let _ = ktls::send_record(socket, Kind::Alert, &CLOSE_NOTIFY);
    }
}

impl std::fmt::Debug for KernelSession {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("KernelSession")
    }
}
