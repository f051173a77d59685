//! Tests of transfers on real sockets.

use std::fs::File;
use std::io::Read;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use super::*;
use crate::{Caps, Counters, Extent};

fn file_of(bytes: &[u8]) -> Arc<File> {
    let file = tempfile::tempfile().unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, bytes, 0).unwrap();
    Arc::new(file)
}

#[test]
fn delivers_pieces_in_order() {
    let counters = Arc::new(Counters::default());
    let mut engine = Engine::new(&Caps::probe(), counters);
    let content: Vec<u8> = (0..1_000_000_u32).map(|at| at.to_le_bytes()[at as usize % 3]).collect();
    let file = file_of(&content);
    let mut transfer = Transfer::new([
        Piece::Bytes(bytes::Bytes::from_static(b"head")),
        Piece::Extent(Extent { file: Arc::clone(&file), offset: 0, len: 10 }),
        Piece::Extent(Extent { file: Arc::clone(&file), offset: 7, len: 900_000 }),
        Piece::Bytes(bytes::Bytes::from_static(b"tail")),
    ]);
    let (sender, mut receiver) = UnixStream::pair().unwrap();
    sender.set_nonblocking(true).unwrap();
    let reader = std::thread::spawn(move || {
        let mut all = Vec::new();
        receiver.read_to_end(&mut all).unwrap();
        all
    });
    while transfer.step(&mut engine, sender.as_fd(), 1 << 20).unwrap() != Turn::Done {
        std::thread::yield_now();
    }
    drop(sender);
    let expected = [b"head", &content[..10], &content[7..900_007], b"tail"].concat();
    assert!(reader.join().unwrap() == expected);
}
