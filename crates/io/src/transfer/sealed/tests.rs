//! Transfers through something that encrypts, here a cipher of one byte that frames what it gets.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use super::*;
use crate::tests::{all_left, engine, sockets};
use crate::{Caps, Counters, Path, Thresholds};

struct Flip;

impl Seal for Flip {
    fn seal(&mut self, plain: &[u8], sealed: &mut Vec<u8>) -> io::Result<()> {
        for record in plain.chunks(16 << 10) {
            sealed.extend((record.len() as u32).to_be_bytes());
            sealed.extend(record.iter().map(|byte| byte ^ 0x5a));
        }
        Ok(())
    }
}

fn opened(mut sealed: &[u8]) -> Vec<u8> {
    let mut plain = Vec::new();
    while let Some((len, rest)) = sealed.split_first_chunk::<4>() {
        let (record, rest) = rest.split_at(u32::from_be_bytes(*len) as usize);
        plain.extend(record.iter().map(|byte| byte ^ 0x5a));
        sealed = rest;
    }
    plain
}

fn file(len: usize) -> (Arc<File>, Vec<u8>) {
    let bytes: Vec<u8> = (0..len).map(|at| (at * 7 % 251) as u8).collect();
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&bytes).unwrap();
    (Arc::new(file), bytes)
}

#[test]
fn sealed_transfer_delivers_every_byte_encrypted_once() {
    for len in [0, 1, 16 << 10, 128 << 10, (1 << 20) + 3] {
        let (file, bytes) = file(len);
        let counters = Arc::new(Counters::default());
        let mut engine = Engine::new(&Caps::probe(), Arc::clone(&counters));
        let (socket, mut peer) = UnixStream::pair().unwrap();
        socket.set_nonblocking(true).unwrap();
        peer.set_nonblocking(true).unwrap();
        let pieces = [
            Piece::Bytes("head".into()),
            Piece::Extent(Extent { file: Arc::clone(&file), offset: 0, len: len as u64 }),
            Piece::Bytes("tail".into()),
            Piece::Volatile(Extent { file, offset: 0, len: len as u64 }),
        ];
        let mut transfer = SealedTransfer::new(pieces);
        let mut received = Vec::new();
        loop {
            let turn = transfer.step(&mut engine, (socket.as_fd(), &mut Flip), 300_000).unwrap();
            if turn == Turn::Done {
                break;
            }
            let mut some = [0; 50_000];
            let count = peer.read(&mut some).unwrap_or(0);
            received.extend(&some[..count]);
        }
        drop(socket);
        peer.set_nonblocking(false).unwrap();
        peer.read_to_end(&mut received).unwrap();
        let expected = [b"head", &bytes[..], b"tail", &bytes[..]].concat();
        assert!(opened(&received) == expected, "{len}");
        assert_eq!(counters.snapshot().bytes(Path::UserTls), received.len() as u64);
        let others = Path::ALL.into_iter().filter(|path| *path != Path::UserTls);
        assert_eq!(others.map(|path| counters.snapshot().bytes(path)).sum::<u64>(), 0);
    }
}

#[test]
fn sealed_transfer_of_truncated_file_is_an_error() {
    let (file, _) = file(1000);
    let mut engine = Engine::new(&Caps::probe(), Arc::default());
    let (socket, _peer) = UnixStream::pair().unwrap();
    let mut transfer = SealedTransfer::new([Piece::Extent(Extent { file, offset: 0, len: 1001 })]);
    let error = transfer.step(&mut engine, (socket.as_fd(), &mut Flip), 1 << 20).unwrap_err();
    assert!(matches!(error, TransferError::Source { offset: 1000, missing: 1, .. }), "{error}");
}

#[test]
fn sealed_transfer_reports_a_vanished_peer() {
    let (file, _) = file(1 << 20);
    let mut engine = Engine::new(&Caps::probe(), Arc::default());
    let (socket, peer) = UnixStream::pair().unwrap();
    drop(peer);
    let mut transfer = SealedTransfer::new([Piece::Extent(Extent { file, offset: 0, len: 1 << 20 })]);
    let error = transfer.step(&mut engine, (socket.as_fd(), &mut Flip), 1 << 20).unwrap_err();
    assert!(matches!(error, TransferError::Peer { .. }), "{error}");
}

#[test]
fn exhausted_budget_flushes_the_held_header() {
    let mut engine = engine(&Caps::probe(), Thresholds { copy_bytes: 4, ..Thresholds::default() });
    let missing = Extent { file: file(0).0, offset: 0, len: 1 };
    let header = || SealedTransfer::new([Piece::Bytes("head".into()), Piece::Extent(missing.clone())]);
    let (ends, _receiver) = sockets(true, false);
    assert_eq!(header().step(&mut engine, (ends.as_fd(), &mut Flip), 4).unwrap(), Turn::Yield);
    assert!(all_left(ends.as_fd()));
    // With budget left, the header waits for the range, which cannot be read.
    let (goes_on, _receiver) = sockets(true, false);
    assert!(header().step(&mut engine, (goes_on.as_fd(), &mut Flip), 5).is_err());
    assert!(!all_left(goes_on.as_fd()));
}
