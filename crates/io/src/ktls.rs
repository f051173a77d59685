//! TLS in the kernel: after the handshake the socket gets the keys, and data that is sent or
//! spliced into it leaves encrypted.
//!
//! *Saves* what [`user_tls`](crate::paths::user_tls) costs except the encryption itself: ranges go
//! by [`splice`](crate::paths::splice) and are counted there, in plain bytes. *Needs* the kernel's
//! `tls` module and, for TLS 1.3, a kernel that takes new keys later (6.14): a peer may ask for
//! them at any time. *Loses* below a record of 16 KiB, and for ciphers the kernel does not have.
//!
//! Received records come one at a time, with their kind: the caller interprets all kinds but data.
//! Such a socket refuses zero-copy sends.

use std::io;
use std::os::fd::BorrowedFd;

use crate::sys::{calls, tls_record};

/// A TLS version that the kernel may support.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Version {
    /// TLS 1.2.
    Tls12,
    /// TLS 1.3.
    Tls13,
}

/// A cipher that the kernel may support.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Cipher {
    /// AES-128 in Galois/counter mode.
    Aes128Gcm,
    /// AES-256 in Galois/counter mode.
    Aes256Gcm,
    /// ChaCha20 with Poly1305.
    Chacha20Poly1305,
}

/// Direction that keys are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// The direction in which this side sends.
    Send,
    /// The direction in which this side receives.
    Receive,
}

/// The keys of one direction of a connection.
pub struct Keys<'a> {
    /// TLS version.
    pub version: Version,
    /// Cipher and its keys.
    pub cipher: Cipher,
    /// The key, 16 or 32 bytes.
    pub key: &'a [u8],
    /// The initialisation vector, 12 bytes.
    pub iv: [u8; 12],
    /// The number of the next record.
    pub sequence: u64,
}

/// Type of a received record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The peer's data.
    Data,
    /// An alert: its level and description follow.
    Alert,
    /// A message of the handshake protocol: new keys, tickets.
    Handshake,
    /// A cipher without a name here.
    Other(u8),
}

/// Versions and ciphers that the kernel takes, found out by trying.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Suites {
    works: [[bool; 3]; 2],
    /// True if keys of TLS 1.3 can be replaced.
    pub rekeys: bool,
}

impl Version {
    /// Both versions.
    pub const ALL: [Self; 2] = [Self::Tls12, Self::Tls13];

    fn code(self) -> u16 {
        match self {
            Self::Tls12 => 0x0303,
            Self::Tls13 => 0x0304,
        }
    }
}

impl Cipher {
    /// All ciphers that the kernel may support.
    pub const ALL: [Self; 3] = [Self::Aes128Gcm, Self::Aes256Gcm, Self::Chacha20Poly1305];

    fn code(self) -> u16 {
        match self {
            Self::Aes128Gcm => 51,
            Self::Aes256Gcm => 52,
            Self::Chacha20Poly1305 => 54,
        }
    }

    fn key_bytes(self) -> usize {
        if self == Self::Aes128Gcm { 16 } else { 32 }
    }
}

impl Suites {
    /// True if the kernel takes keys for this, in both directions.
    pub fn has(&self, version: Version, cipher: Cipher) -> bool {
        self.works[version as usize][cipher as usize]
    }

    /// Probes all suites; `connection` creates a new connection each time.
    pub(crate) fn probe<S: std::os::fd::AsFd>(connection: impl Fn() -> io::Result<(S, S)>) -> Self {
        let mut suites = Self::default();
        let keys = |version, cipher: Cipher| Keys {
            version,
            cipher,
            key: &[0x5c; 32][..cipher.key_bytes()],
            iv: [0x5c; 12],
            sequence: 0,
        };
        for version in Version::ALL {
            for cipher in Cipher::ALL {
                let attempt = || -> io::Result<bool> {
                    let (sender, _receiver) = connection()?;
                    let socket = sender.as_fd();
                    enable(socket)?;
                    install(socket, Direction::Send, &keys(version, cipher))?;
                    install(socket, Direction::Receive, &keys(version, cipher))?;
                    Ok(version == Version::Tls13
                        && install(socket, Direction::Send, &keys(version, cipher)).is_ok())
                };
                if let Ok(rekeys) = attempt() {
                    suites.works[version as usize][cipher as usize] = true;
                    suites.rekeys |= rekeys;
                }
            }
        }
        suites
    }
}

/// Prepares a connected TCP socket for keys. Nothing changes on the wire yet.
///
/// # Errors
/// The kernel has no TLS, or the socket is not connected.
pub fn enable(socket: BorrowedFd<'_>) -> io::Result<()> {
    calls::enable_kernel_tls(socket)
}

/// Hands the keys of one direction over. From then on everything sent is encrypted, or everything
/// received decrypted.
///
/// # Errors
/// The kernel does not have this cipher, or has keys already and cannot take others.
pub fn install(socket: BorrowedFd<'_>, direction: Direction, keys: &Keys<'_>) -> io::Result<()> {
    if keys.key.len() != keys.cipher.key_bytes() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut info = Vec::with_capacity(64);
    info.extend(keys.version.code().to_ne_bytes());
    info.extend(keys.cipher.code().to_ne_bytes());
    let sequence = keys.sequence.to_be_bytes();
    match keys.cipher {
        Cipher::Chacha20Poly1305 => {
            info.extend(keys.iv);
            info.extend(keys.key);
        }
        // The kernel expects the salt, which is the first part of the vector, after the key.
        Cipher::Aes128Gcm | Cipher::Aes256Gcm => {
            info.extend(&keys.iv[4..]);
            info.extend(keys.key);
            info.extend(&keys.iv[..4]);
        }
    }
    info.extend(sequence);
    let result = calls::set_kernel_tls(socket, direction == Direction::Send, &info);
    // The copy of the key is overwritten with the buffer.
    info.fill(0);
    std::hint::black_box(&info);
    result
}

/// Receives from one record into `into`, without waiting; 0 bytes of data mean that the peer has
/// closed the connection without saying so.
///
/// # Errors
/// [`io::ErrorKind::WouldBlock`], a record that cannot be decrypted (`EBADMSG`), or a broken
/// connection.
pub fn receive(socket: BorrowedFd<'_>, into: &mut [u8]) -> io::Result<(Kind, usize)> {
    let (kind, count) = tls_record::receive(socket, into)?;
    let kind = match kind {
        None | Some(23) => Kind::Data,
        Some(21) => Kind::Alert,
        Some(22) => Kind::Handshake,
        Some(other) => Kind::Other(other),
    };
    Ok((kind, count))
}

/// Sends a whole record of another kind than data, without waiting.
///
/// # Errors
/// [`io::ErrorKind::WouldBlock`], or a broken connection.
pub fn send_record(socket: BorrowedFd<'_>, kind: Kind, bytes: &[u8]) -> io::Result<()> {
    let kind = match kind {
        Kind::Data => 23,
        Kind::Alert => 21,
        Kind::Handshake => 22,
        Kind::Other(other) => other,
    };
    tls_record::send(socket, kind, bytes)
}

#[cfg(test)]
mod tests;
