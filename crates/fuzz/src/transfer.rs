//! Arbitrary pieces in arbitrary turns to a receiver of any speed, by any path: the received bytes
//! are the sent ones, or a prefix after it disconnected.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use levada_io::{
    Caps, Counters, Engine, Extent, Piece, SocketPath, Thresholds, Transfer, TransferError, Turn,
};

const FILE_BYTES: usize = 1 << 20;

/// Paths that move a byte at a time get few bytes: one input is one transfer, not a million system
/// calls.
const STEPS: usize = 1024;

static CONTENT: LazyLock<(Vec<u8>, Arc<File>)> = LazyLock::new(|| {
    let content: Vec<u8> =
        (0..FILE_BYTES as u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let file = tempfile::tempfile().expect("a directory for temporary files");
    file.write_all_at(&content, 0).expect("room for a megabyte");
    (content, Arc::new(file))
});

static CAPS: LazyLock<Caps> = LazyLock::new(Caps::probe);

/// Checks one input.
pub fn run(input: &[u8]) {
    let Some((head, rest)) = input.split_first_chunk::<8>() else { return };
    let thresholds = Thresholds {
        small_extent_bytes: u64::from(head[0]) << 8,
        copy_bytes: usize::from(head[1]) << 6,
        pipe_bytes: 4096 << (head[2] % 9),
        pipe_floor_bytes: 0,
        pipes: usize::from(head[3] % 3),
        cold_window_bytes: u64::from(head[4]) << 10,
        ..Thresholds::default()
    };
    let counters = Arc::new(Counters::default());
    let mut engine = Engine::with_thresholds(&CAPS, Arc::clone(&counters), thresholds);
    engine.report_cold(head[5] & 1 == 1);
    engine.force((head[5] & 2 == 2).then(|| SocketPath::ALL[usize::from(head[5] >> 2) % 4]));
    let budget = 1 + (u64::from(head[6]) << 9);
    let gone = head[7] & 0x80 != 0;
    let bite = 1 + (usize::from(head[7] & 0x7f) << 9);
    let least = thresholds.copy_bytes.clamp(1, bite).min(budget as usize);
    let (pieces, expected) = pieces(rest, least * STEPS);
    let arrived = deliver(&mut engine, Transfer::new(pieces), (budget, bite, gone));
    assert!(expected.starts_with(&arrived));
    assert!(gone || arrived.len() == expected.len());
}

/// Three bytes and a kind for each piece, up to `limit` bytes in all; and the bytes that they send.
fn pieces(input: &[u8], limit: usize) -> (Vec<Piece>, Vec<u8>) {
    let (content, file) = &*CONTENT;
    let mut expected = Vec::new();
    let piece = |part: &[u8]| {
        let offset = usize::from(part[0]) * 2_999;
        let len =
            (usize::from(part[1]) << (part[2] % 11)).min(FILE_BYTES - offset).min(limit - expected.len());
        let range = &content[offset..offset + len];
        expected.extend_from_slice(range);
        let extent = Extent { file: Arc::clone(file), offset: offset as u64, len: len as u64 };
        match part[3] % 4 {
            0 => Piece::Bytes(Bytes::copy_from_slice(range)),
            1 => Piece::Volatile(extent),
            _ => Piece::Extent(extent),
        }
    };
    (input.chunks_exact(4).take(16).map(piece).collect(), expected)
}

/// Steps and reads in turns. A peer that leaves does so at its first bite.
fn deliver(engine: &mut Engine, mut transfer: Transfer, (budget, bite, gone): (u64, usize, bool)) -> Vec<u8> {
    let (sender, receiver) = UnixStream::pair().expect("two descriptors");
    sender.set_nonblocking(true).expect("a socket of ours");
    receiver.set_nonblocking(true).expect("a socket of ours");
    let mut receiver = Some(receiver);
    let mut arrived = Vec::new();
    let mut buffer = vec![0; bite];
    loop {
        match transfer.step(engine, sender.as_fd(), budget) {
            Ok(Turn::Done) => break,
            Ok(Turn::Yield | Turn::Cold) => {}
            Ok(Turn::Blocked) => {
                let open = receiver.as_mut().expect("a closed socket does not block");
                let count = open.read(&mut buffer).expect("there is something to read");
                arrived.extend_from_slice(&buffer[..count]);
                if gone {
                    receiver = None;
                }
            }
            Err(TransferError::Peer { .. }) => {
                assert!(receiver.is_none());
                break;
            }
            Err(error) => panic!("{error}"),
        }
    }
    drop(sender);
    while let Some(open) = &mut receiver {
        match open.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => arrived.extend_from_slice(&buffer[..count]),
            Err(error) => assert_eq!(error.kind(), ErrorKind::Interrupted),
        }
    }
    arrived
}
