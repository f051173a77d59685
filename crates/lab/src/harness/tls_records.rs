//! TLS 1.3 records without a handshake. Both sides know the keys, so that a run measures only
//! encryption.

use std::io::{self, Read};
use std::net::TcpStream;

use levada_io::Seal;
use levada_io::ktls::{Cipher, Keys, Version};
use rustix::net::RecvFlags;
use rustls::crypto::cipher::{
    InboundOpaqueMessage, Iv, MessageDecrypter, MessageEncrypter, OutboundChunks, OutboundPlainMessage,
};
use rustls::crypto::ring::cipher_suite::TLS13_AES_256_GCM_SHA384;
use rustls::{ContentType, ProtocolVersion, Tls13CipherSuite};

use crate::harness::peer::ReceiveMode;

/// Key and IV, which are not secret: only the two processes of an experiment use them.
const KEY: [u8; 32] = [0x4c; 32];
const IV: [u8; 12] = [0x5a; 12];

/// Maximum number of bytes of a record's payload, and the bytes before and after the payload.
const PLAIN_BYTES: usize = 16 << 10;
const HEADER_BYTES: usize = 5;
const TAIL_BYTES: usize = 17;

/// Key and IV in the form for kernel TLS.
pub(crate) fn kernel_keys() -> Keys<'static> {
    Keys { version: Version::Tls13, cipher: Cipher::Aes256Gcm, key: &KEY, iv: IV, sequence: 0 }
}

fn suite() -> io::Result<&'static Tls13CipherSuite> {
    TLS13_AES_256_GCM_SHA384.tls13().ok_or_else(|| io::ErrorKind::Unsupported.into())
}

/// Encrypts records with rustls in this process.
pub(crate) struct Sealer {
    encrypter: Box<dyn MessageEncrypter>,
    sequence: u64,
}

impl Sealer {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self { encrypter: suite()?.aead_alg.encrypter(KEY.into(), Iv::new(IV)), sequence: 0 })
    }
}

impl Seal for Sealer {
    fn seal(&mut self, plain: &[u8], sealed: &mut Vec<u8>) -> io::Result<()> {
        for payload in plain.chunks(PLAIN_BYTES) {
            let message = OutboundPlainMessage {
                typ: ContentType::ApplicationData,
                version: ProtocolVersion::TLSv1_3,
                payload: OutboundChunks::Single(payload),
            };
            let record = self.encrypter.encrypt(message, self.sequence).map_err(io::Error::other)?;
            self.sequence += 1;
            sealed.extend_from_slice(&record.encode());
        }
        Ok(())
    }
}

/// Receives records from a connection, and decrypts them if the receiver checks bytes.
pub(crate) struct Opener {
    decrypter: Box<dyn MessageDecrypter>,
    sequence: u64,
    record: Vec<u8>,
    pub(crate) calls: u64,
}

impl Opener {
    pub(crate) fn new() -> io::Result<Self> {
        let decrypter = suite()?.aead_alg.decrypter(KEY.into(), Iv::new(IV));
        Ok(Self { decrypter, sequence: 0, record: vec![0; PLAIN_BYTES + 256], calls: 0 })
    }

    /// Receives the next record. Returns the length of its payload, and the payload if it was
    /// decrypted. Returns none at the end of the connection.
    pub(crate) fn next(
        &mut self,
        socket: &TcpStream,
        take: ReceiveMode,
    ) -> io::Result<Option<(usize, &[u8])>> {
        let mut header = [0; HEADER_BYTES];
        if !self.fill(socket, &mut header, RecvFlags::empty())? {
            return Ok(None);
        }
        let len = usize::from(u16::from_be_bytes([header[3], header[4]]));
        let mut record = std::mem::take(&mut self.record);
        let wrong = || io::Error::new(io::ErrorKind::InvalidData, "the bytes are not a TLS record");
        let body = record.get_mut(..len).filter(|_| len >= TAIL_BYTES).ok_or_else(wrong)?;
        let flags = if take == ReceiveMode::Discard { RecvFlags::TRUNC } else { RecvFlags::empty() };
        let whole = self.fill(socket, body, flags)?;
        if whole && take == ReceiveMode::Check {
            let version = ProtocolVersion::TLSv1_2;
            let message = InboundOpaqueMessage::new(ContentType::ApplicationData, version, body);
            let plain = self.decrypter.decrypt(message, self.sequence).map_err(io::Error::other)?;
            let count = plain.payload.len();
            self.sequence += 1;
            self.record = record;
            return Ok(Some((count, &self.record[..count])));
        }
        self.record = record;
        Ok(whole.then_some((len - TAIL_BYTES, &[])))
    }

    /// Receives until `into` is full. Returns false if the connection ended before.
    fn fill(&mut self, mut socket: &TcpStream, mut into: &mut [u8], flags: RecvFlags) -> io::Result<bool> {
        while !into.is_empty() {
            self.calls += 1;
            let count = if flags.is_empty() {
                socket.read(into)?
            } else {
                rustix::net::recv(socket, &mut *into, flags)?.0
            };
            if count == 0 {
                return Ok(false);
            }
            into = &mut into[count..];
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests;
