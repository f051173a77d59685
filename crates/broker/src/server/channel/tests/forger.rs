//! A TLS client that says what no library would: after an honest handshake, records of any kind
//! under the right keys, and whatever else may go to the socket. Also the client of the fuzz target
//! `tls`.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

use rustls::client::{ClientConnectionData, UnbufferedClientConnection};
use rustls::crypto::cipher::{
    AeadKey, InboundOpaqueMessage, Iv, MessageDecrypter, MessageEncrypter, OutboundChunks,
    OutboundPlainMessage,
};
use rustls::kernel::KernelConnection;
use rustls::unbuffered::{ConnectionState, UnbufferedStatus};
use rustls::{ClientConfig, ConnectionTrafficSecrets, ContentType, ProtocolVersion, SupportedCipherSuite};

/// The kinds of records.
pub(crate) const ALERT: u8 = 21;
pub(crate) const HANDSHAKE: u8 = 22;
pub(crate) const DATA: u8 = 23;

/// A message for new keys; its last byte is 1 if the other side shall take new ones as well.
pub(crate) const KEY_UPDATE: [u8; 5] = [24, 0, 0, 1, 0];

/// The header of a record.
const HEADER_BYTES: usize = 5;

/// A connection whose hands are shaken.
pub(crate) struct Forger<S = TcpStream> {
    pub(crate) socket: S,
    tls: KernelConnection<ClientConnectionData>,
    sealer: Box<dyn MessageEncrypter>,
    opener: Box<dyn MessageDecrypter>,
    /// The numbers of the next records, out and in.
    numbers: [u64; 2],
    /// Received and not opened.
    incoming: Vec<u8>,
}

impl<S: Read + Write> Forger<S> {
    /// Shakes hands; `config` has to allow that secrets are taken out.
    pub(crate) fn new(config: Arc<ClientConfig>, mut socket: S) -> io::Result<Self> {
        let host = "localhost".try_into().map_err(io::Error::other)?;
        let mut tls = UnbufferedClientConnection::new(config, host).map_err(io::Error::other)?;
        let (mut incoming, mut outgoing) = (Vec::new(), Vec::new());
        loop {
            let UnbufferedStatus { discard, state } = tls.process_tls_records(&mut incoming);
            let (mut reads, mut done) = (false, false);
            match state.map_err(io::Error::other)? {
                ConnectionState::EncodeTlsData(mut message) => {
                    let start = outgoing.len();
                    outgoing.resize(start + (32 << 10), 0);
                    let count = message.encode(&mut outgoing[start..]).map_err(io::Error::other)?;
                    outgoing.truncate(start + count);
                }
                ConnectionState::TransmitTlsData(message) => {
                    socket.write_all(&outgoing)?;
                    outgoing.clear();
                    message.done();
                }
                ConnectionState::BlockedHandshake => reads = true,
                ConnectionState::WriteTraffic(_) => done = true,
                _ => return Err(ErrorKind::ConnectionAborted.into()),
            }
            incoming.drain(..discard);
            if done {
                break;
            }
            if reads {
                fill(&mut socket, &mut incoming)?;
            }
        }
        let (secrets, tls) = tls.dangerous_into_kernel_connection().map_err(io::Error::other)?;
        let suite = tls.negotiated_cipher_suite();
        let ((sent, tx), (received, rx)) = (secrets.tx, secrets.rx);
        let (sealer, opener) = (sealer(suite, tx), opener(suite, rx));
        Ok(Self { socket, tls, sealer, opener, numbers: [sent, received], incoming })
    }

    /// Bytes of a record of this kind on the wire.
    pub(crate) fn seal(&mut self, kind: u8, payload: &[u8]) -> io::Result<Vec<u8>> {
        let message = OutboundPlainMessage {
            typ: ContentType::from(kind),
            version: ProtocolVersion::TLSv1_2,
            payload: OutboundChunks::Single(payload),
        };
        let sealed = self.sealer.encrypt(message, self.numbers[0]).map_err(io::Error::other)?;
        self.numbers[0] += 1;
        Ok(sealed.encode())
    }

    /// Says something as one record.
    pub(crate) fn say(&mut self, kind: u8, payload: &[u8]) -> io::Result<()> {
        let record = self.seal(kind, payload)?;
        self.socket.write_all(&record)
    }

    /// Goes on with new keys, of which the other side has to be told before.
    pub(crate) fn renew(&mut self) -> io::Result<()> {
        let (number, secrets) = self.tls.update_tx_secret().map_err(io::Error::other)?;
        self.sealer = sealer(self.tls.negotiated_cipher_suite(), secrets);
        self.numbers[0] = number;
        Ok(())
    }

    /// The next record, opened; none at the end. New keys of the other side's are taken.
    ///
    /// # Errors
    /// Of kind `InvalidData` for what is not a record under the right keys, else the socket's.
    pub(crate) fn hear(&mut self) -> io::Result<Option<(u8, Vec<u8>)>> {
        let invalid =
            |error: &dyn std::fmt::Display| io::Error::new(ErrorKind::InvalidData, error.to_string());
        loop {
            let len = self.incoming.first_chunk().map(|[_, _, _, high, low]: &[u8; HEADER_BYTES]| {
                HEADER_BYTES + usize::from(u16::from_be_bytes([*high, *low]))
            });
            if let Some(len) = len.filter(|len| self.incoming.len() >= *len) {
                let mut record: Vec<u8> = self.incoming.drain(..len).collect();
                let kind = ContentType::from(record[0]);
                let (_, body) = record.split_at_mut(HEADER_BYTES);
                let message = InboundOpaqueMessage::new(kind, ProtocolVersion::TLSv1_2, body);
                let opened =
                    self.opener.decrypt(message, self.numbers[1]).map_err(|error| invalid(&error))?;
                self.numbers[1] += 1;
                let (kind, payload) = (u8::from(opened.typ), opened.payload.to_vec());
                if kind == HANDSHAKE && payload.first() == Some(&KEY_UPDATE[0]) {
                    let (number, secrets) = self.tls.update_rx_secret().map_err(io::Error::other)?;
                    self.opener = opener(self.tls.negotiated_cipher_suite(), secrets);
                    self.numbers[1] = number;
                }
                return Ok(Some((kind, payload)));
            }
            match fill(&mut self.socket, &mut self.incoming) {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::UnexpectedEof && self.incoming.is_empty() => {
                    return Ok(None);
                }
                Err(error) => return Err(error),
            }
        }
    }
}

/// Reads what there is, at least a byte.
fn fill(socket: &mut impl Read, incoming: &mut Vec<u8>) -> io::Result<()> {
    let mut some = [0; 16 << 10];
    loop {
        match socket.read(&mut some) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(count) => {
                incoming.extend_from_slice(&some[..count]);
                return Ok(());
            }
            // A machine that is stopped and continues interrupts a read that has a time limit.
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

fn parts(secrets: ConnectionTrafficSecrets) -> (AeadKey, Iv) {
    match secrets {
        ConnectionTrafficSecrets::Aes128Gcm { key, iv }
        | ConnectionTrafficSecrets::Aes256Gcm { key, iv }
        | ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv } => (key, iv),
        _ => unreachable!("there are three ciphers"),
    }
}

/// Length of the fixed part of a vector in TLS 1.2; the rest begins each record.
fn fixed(suite: &rustls::Tls12CipherSuite) -> usize {
    suite.aead_alg.key_block_shape().fixed_iv_len
}

fn sealer(suite: SupportedCipherSuite, secrets: ConnectionTrafficSecrets) -> Box<dyn MessageEncrypter> {
    let (key, iv) = parts(secrets);
    match suite {
        SupportedCipherSuite::Tls13(suite) => suite.aead_alg.encrypter(key, iv),
        SupportedCipherSuite::Tls12(suite) => {
            let (fixed, rest) = iv.as_ref().split_at(fixed(suite));
            suite.aead_alg.encrypter(key, fixed, rest)
        }
    }
}

fn opener(suite: SupportedCipherSuite, secrets: ConnectionTrafficSecrets) -> Box<dyn MessageDecrypter> {
    let (key, iv) = parts(secrets);
    match suite {
        SupportedCipherSuite::Tls13(suite) => suite.aead_alg.decrypter(key, iv),
        SupportedCipherSuite::Tls12(suite) => suite.aead_alg.decrypter(key, &iv.as_ref()[..fixed(suite)]),
    }
}
