//! TLS in the kernel, between two sockets with the same keys. A machine without it can only show
//! that the probe says so; `cargo xtask vm` runs these where `LEVADA_VM` says that it must be
//! there.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::Arc;

use super::*;
use crate::counters::Counters;
use crate::path::Path;
use crate::{Caps, Engine, Extent, Piece, Transfer, TransferError, Turn};

fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let one = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (other, _) = listener.accept().unwrap();
    one.set_nonblocking(true).unwrap();
    other.set_nonblocking(true).unwrap();
    (one, other)
}

/// Every suite that this kernel has; none where it has no TLS at all, which no machine that must
/// have it may say.
fn suites() -> Vec<(Version, Cipher)> {
    let caps = Caps::probe();
    let all = Version::ALL.into_iter().flat_map(|version| Cipher::ALL.map(|cipher| (version, cipher)));
    let there: Vec<_> = all.filter(|(version, cipher)| caps.tls_suites.has(*version, *cipher)).collect();
    assert_eq!(there.is_empty(), !caps.kernel_tls.works());
    if std::env::var_os("LEVADA_VM").is_some() {
        assert_eq!(there.len(), 6, "{:?}", caps.tls_suites);
    }
    there
}

fn keys(version: Version, cipher: Cipher, secret: &[u8; 32]) -> Keys<'_> {
    let key = &secret[..if cipher == Cipher::Aes128Gcm { 16 } else { 32 }];
    Keys { version, cipher, key, iv: *secret.first_chunk().unwrap(), sequence: 7 }
}

/// A connection whose first end encrypts and whose second decrypts.
fn encrypted((version, cipher): (Version, Cipher)) -> (TcpStream, TcpStream) {
    let (one, other) = pair();
    for (socket, direction) in [(&one, Direction::Send), (&other, Direction::Receive)] {
        enable(socket.as_fd()).unwrap();
        install(socket.as_fd(), direction, &keys(version, cipher, &[0x6b; 32])).unwrap();
    }
    (one, other)
}

fn file(len: usize) -> (Arc<File>, Vec<u8>) {
    let mut bytes = (0..253_u8).collect::<Vec<_>>().repeat(len / 253 + 1);
    bytes.truncate(len);
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&bytes).unwrap();
    (Arc::new(file), bytes)
}

/// The next record, waiting for it.
fn next(socket: &TcpStream, into: &mut [u8]) -> (Kind, usize) {
    loop {
        match receive(socket.as_fd(), into) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => std::thread::yield_now(),
            other => return other.unwrap(),
        }
    }
}

#[test]
fn ranges_are_spliced_into_the_encryption() {
    const LEN: usize = (1 << 20) + 17;
    for suite in suites() {
        let (one, other) = encrypted(suite);
        let (file, bytes) = file(LEN);
        let counters = Arc::new(Counters::default());
        let mut engine = Engine::new(&Caps::probe(), Arc::clone(&counters));
        let extent = Extent { file, offset: 0, len: LEN as u64 };
        let mut transfer = Transfer::into_kernel_tls([Piece::Bytes("head".into()), Piece::Extent(extent)]);
        let mut received: Vec<u8> = Vec::new();
        let mut some = vec![0; 64 << 10];
        while received.len() < LEN + 4 {
            transfer.step(&mut engine, one.as_fd(), 1 << 20).unwrap();
            while let Ok((kind, count)) = receive(other.as_fd(), &mut some) {
                assert_eq!(kind, Kind::Data);
                received.extend(&some[..count]);
            }
        }
        assert!(received[..4] == *b"head" && received[4..] == bytes, "{suite:?}");
        assert_eq!(counters.snapshot().bytes(Path::Splice), LEN as u64, "{suite:?}");
    }
}

#[test]
fn kernel_tls_sends_no_plaintext() {
    for (version, cipher) in suites() {
        let (one, mut other) = pair();
        enable(one.as_fd()).unwrap();
        install(one.as_fd(), Direction::Send, &keys(version, cipher, &[0x6b; 32])).unwrap();
        (&one).write_all(b"a secret of some length").unwrap();
        other.set_nonblocking(false).unwrap();
        let mut header = [0; 5];
        other.read_exact(&mut header).unwrap();
        assert_eq!(header[..3], [23, 3, 3]);
        let mut record = vec![0; u16::from_be_bytes([header[3], header[4]]).into()];
        other.read_exact(&mut record).unwrap();
        assert!(!record.windows(6).any(|part| part == b"secret"), "{version:?} {cipher:?}");
    }
}

#[test]
fn ktls_reports_records_of_other_types() {
    for suite in suites() {
        let (one, other) = encrypted(suite);
        let mut some = [0; 100];
        assert_eq!(receive(other.as_fd(), &mut some).unwrap_err().kind(), ErrorKind::WouldBlock);
        (&one).write_all(b"data").unwrap();
        send_record(one.as_fd(), Kind::Alert, &[1, 0]).unwrap();
        assert_eq!(next(&other, &mut some), (Kind::Data, 4));
        assert_eq!((next(&other, &mut some), &some[..2]), ((Kind::Alert, 2), &[1, 0][..]), "{suite:?}");
        drop(one);
        assert_eq!(next(&other, &mut some).1, 0, "the end");
    }
}

#[test]
fn mismatched_kernel_tls_keys_are_an_error() {
    for (version, cipher) in suites() {
        let (one, other) = pair();
        enable(one.as_fd()).unwrap();
        enable(other.as_fd()).unwrap();
        let short = Keys { key: &[1; 8], ..keys(version, cipher, &[1; 32]) };
        let refused = install(one.as_fd(), Direction::Send, &short).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidInput);
        install(one.as_fd(), Direction::Send, &keys(version, cipher, &[1; 32])).unwrap();
        install(other.as_fd(), Direction::Receive, &keys(version, cipher, &[2; 32])).unwrap();
        (&one).write_all(b"data").unwrap();
        let mut some = [0; 100];
        let error = loop {
            match receive(other.as_fd(), &mut some) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => std::thread::yield_now(),
                other => break other.unwrap_err(),
            }
        };
        assert_eq!(error.raw_os_error(), Some(rustix::io::Errno::BADMSG.raw_os_error()));
    }
}

#[test]
fn peer_reset_is_reported_as_peer_error() {
    for suite in suites() {
        let (one, other) = encrypted(suite);
        let (file, _) = file(4 << 20);
        let mut engine = Engine::new(&Caps::probe(), Arc::default());
        let extent = Extent { file, offset: 0, len: 4 << 20 };
        let mut transfer = Transfer::into_kernel_tls([Piece::Extent(extent)]);
        assert_ne!(transfer.step(&mut engine, one.as_fd(), 64 << 10).unwrap(), Turn::Done);
        // Bytes that it has not read make its kernel answer with a reset.
        drop(other);
        let error = loop {
            match transfer.step(&mut engine, one.as_fd(), 1 << 20) {
                Ok(Turn::Done) => panic!("{suite:?}: sent to nobody"),
                Ok(_) => std::thread::yield_now(),
                Err(error) => break error,
            }
        };
        assert!(matches!(error, TransferError::Peer { .. }), "{suite:?}: {error}");
    }
}
