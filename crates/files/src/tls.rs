//! TLS: the certificate and key from files, converted for handshakes, and the encryption of one
//! connection without a socket.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use levada_io::Seal;
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ServerConnectionData, UnbufferedServerConnection};
use rustls::unbuffered::{ConnectionState, EncodeError, EncodeTlsData, EncryptError, UnbufferedStatus};

/// The files of a certificate.
#[derive(Debug, Clone)]
pub struct TlsOptions {
    /// The certificate and those that lead to its authority, in PEM.
    pub certificate: PathBuf,
    /// The key, in PEM; in the file of the certificate if not given.
    pub key: Option<PathBuf>,
}

/// Why a certificate cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The file has no certificate that can be read.
    #[error("cannot read a certificate from {}: {reason}; the file must be PEM", path.display())]
    Certificate {
        /// The file.
        path: PathBuf,
        /// The fault.
        reason: String,
    },
    /// The file has no key that can be read.
    #[error("cannot read a private key from {}: {reason}; the file must be unencrypted PEM", path.display())]
    Key {
        /// The file.
        path: PathBuf,
        /// The fault.
        reason: String,
    },
    /// Key and certificate are not a pair, or of a kind that is not known.
    #[error("cannot use the private key with the certificate {}: {source}", path.display())]
    Pair {
        /// The file of the certificate.
        path: PathBuf,
        /// The fault.
        source: rustls::Error,
    },
}

impl TlsOptions {
    /// Reads the files.
    ///
    /// # Errors
    /// The first that cannot be used.
    pub(crate) fn load(&self) -> Result<ServerConfig, TlsError> {
        let path = self.certificate.clone();
        let unreadable = |reason: String| TlsError::Certificate { path: path.clone(), reason };
        let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_file_iter(&self.certificate)
            .and_then(Iterator::collect)
            .map_err(|error| unreadable(error.to_string()))?;
        if chain.is_empty() {
            return Err(unreadable("it has none".to_owned()));
        }
        let key_path = self.key.as_ref().unwrap_or(&self.certificate);
        let key = PrivateKeyDer::from_pem_file(key_path)
            .map_err(|error| TlsError::Key { path: key_path.clone(), reason: error.to_string() })?;
        let pair = |source| TlsError::Pair { path: path.clone(), source };
        let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let builder = builder.with_safe_default_protocol_versions().map_err(pair)?.with_no_client_auth();
        let mut config = builder.with_single_cert(chain, key).map_err(pair)?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        config.ticketer = ring::Ticketer::new().map_err(pair)?;
        Ok(config)
    }
}

/// Bytes that are read at a time.
const READ_BYTES: usize = 32 << 10;

/// The first byte of a handshake's first record.
const HANDSHAKE: u8 = 22;

/// The TLS state of one connection.
pub(crate) struct Session {
    tls: UnbufferedServerConnection,
    /// Received and not processed: the front of a record.
    incoming: Vec<u8>,
    /// Encrypted and not sent: messages of the handshake, alerts.
    outgoing: Vec<u8>,
    /// Whether the peer has said that nothing more comes.
    pub(crate) is_closed: bool,
    /// Whether the handshake is over.
    pub(crate) is_open: bool,
    /// Whether nothing was received yet that looked like TLS.
    is_new: bool,
    /// Whether something failed: whatever there is to say has been said.
    is_over: bool,
}

impl Session {
    pub(crate) fn new(config: Arc<ServerConfig>) -> Result<Session, rustls::Error> {
        let tls = UnbufferedServerConnection::new(config)?;
        let (incoming, outgoing) = (Vec::new(), Vec::new());
        Ok(Session {
            tls,
            incoming,
            outgoing,
            is_closed: false,
            is_open: false,
            is_new: true,
            is_over: false,
        })
    }

    /// Reads what there is; [`Session::process`] looks at it.
    pub(crate) fn read(&mut self, read: impl FnOnce(&mut [u8]) -> io::Result<usize>) -> io::Result<usize> {
        let start = self.incoming.len();
        self.incoming.resize(start + READ_BYTES, 0);
        let got = read(&mut self.incoming[start..]);
        self.incoming.truncate(start + got.as_ref().copied().unwrap_or(0));
        if self.incoming.is_empty() {
            // An idle connection has no buffer.
            self.incoming = Vec::new();
        }
        got
    }

    /// Whether the peer's first bytes are no TLS.
    pub(crate) fn is_no_tls(&self) -> bool {
        self.is_new && self.incoming.first().is_some_and(|kind| *kind != HANDSHAKE)
    }

    /// Processes what has been received. Decrypted data goes to the end of `plain`; what the peer is to be told in return waits in
    /// [`Session::take_outgoing`], also after an error.
    ///
    /// # Errors
    /// What came is not what may come; the connection is over.
    pub(crate) fn process(&mut self, plain: &mut Vec<u8>) -> Result<(), rustls::Error> {
        self.is_new = false;
        let outcome = self.advance(plain);
        self.is_over |= outcome.is_err();
        if self.incoming.is_empty() {
            self.incoming = Vec::new();
        }
        outcome
    }

    fn advance(&mut self, plain: &mut Vec<u8>) -> Result<(), rustls::Error> {
        loop {
            let UnbufferedStatus { mut discard, state } = self.tls.process_tls_records(&mut self.incoming);
            let mut is_done = false;
            match state {
                Err(error) => {
                    self.incoming.drain(..discard);
                    self.encode_alert();
                    return Err(error);
                }
                Ok(ConnectionState::ReadTraffic(mut traffic)) => {
                    while let Some(record) = traffic.next_record() {
                        let record = record?;
                        discard += record.discard;
                        plain.extend_from_slice(record.payload);
                    }
                }
                Ok(ConnectionState::EncodeTlsData(mut message)) => encode(&mut message, &mut self.outgoing),
                // It is in `outgoing`, which leaves before anything else.
                Ok(ConnectionState::TransmitTlsData(transmitted)) => transmitted.done(),
                Ok(ConnectionState::PeerClosed) => self.is_closed = true,
                Ok(ConnectionState::BlockedHandshake) => is_done = true,
                Ok(ConnectionState::Closed) => (self.is_closed, is_done) = (true, true),
                Ok(ConnectionState::WriteTraffic(_)) => (self.is_open, is_done) = (true, true),
                // Early data is not offered.
                Ok(_) => is_done = true,
            }
            self.incoming.drain(..discard);
            if is_done {
                return Ok(());
            }
        }
    }

    /// Takes the alert that a failure has left, and no step more: rustls would look at what failed again, and find the same fault.
    fn encode_alert(&mut self) {
        while self.tls.wants_write() {
            let status = self.tls.process_tls_records(&mut self.incoming);
            let Ok(ConnectionState::EncodeTlsData(mut message)) = status.state else { return };
            encode(&mut message, &mut self.outgoing);
        }
    }

    /// Whether something is to be sent before anything else.
    pub(crate) fn has_outgoing(&self) -> bool {
        !self.outgoing.is_empty()
    }

    /// The bytes to send before anything else; whoever takes them sends them.
    pub(crate) fn take_outgoing(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.outgoing)
    }

    /// Says that nothing more comes from here.
    pub(crate) fn send_close_notify(&mut self) {
        if self.is_over {
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

impl Seal for Session {
    fn seal(&mut self, plain: &[u8], sealed: &mut Vec<u8>) -> io::Result<()> {
        loop {
            // With what has come of a message: rustls may have looked at the front of it.
            let UnbufferedStatus { discard, state } = self.tls.process_tls_records(&mut self.incoming);
            let done = match state.map_err(io::Error::other)? {
                ConnectionState::WriteTraffic(mut traffic) => {
                    let mut is_used_up = false;
                    append(sealed, |room| match outcome(traffic.encrypt(plain, room)) {
                        Ok(written) => Ok(written),
                        Err(Some(size)) => Err(size),
                        Err(None) => {
                            is_used_up = true;
                            Ok(0)
                        }
                    });
                    Some(if is_used_up { Err(io::Error::other("the keys are used up")) } else { Ok(()) })
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
                    self.is_closed = true;
                    None
                }
                _ => Some(Err(io::ErrorKind::NotConnected.into())),
            };
            self.incoming.drain(..discard);
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

/// Has something written behind the end of `bytes`, with as much room as it asks for.
fn append(bytes: &mut Vec<u8>, mut write: impl FnMut(&mut [u8]) -> Result<usize, usize>) {
    let start = bytes.len();
    // What the writing asks for at first is room enough, so that it is asked twice at most.
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

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Session")
    }
}
