//! Every way to send, over every kind of connection, at every size, to peers that read, read slowly or go away: each byte is compared.
//!
//! Large sizes run for a few combinations only; `LEVADA_TEST_MATRIX=full` runs all of them.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use rustix::event::PollFlags;
use rustix::net::sockopt;

use super::links::{Link, Place, Veth, in_namespaces, skipped};
use super::ways::{self, Bench, Goods, OFFSET, Way};
use super::{caps, engine, lacks, wait_for};
use crate::receive::{Receive, ReceiveError};
use crate::{Extent, Path, Thresholds, Turn};

/// How a receiver behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Peer {
    Reads,
    /// Takes a little at a time, from a sender whose buffer is as small as can be.
    ReadsSlowly,
    /// Goes away in the middle.
    Resets,
}

const PEERS: [Peer; 3] = [Peer::Reads, Peer::ReadsSlowly, Peer::Resets];

const SMALL: [usize; 4] = [1, 4097, 65_537, (1 << 20) + 1];

/// What no pair of sockets holds: a sender that has sent it has been read from.
const LARGE: usize = 64 << 20;

fn is_full() -> bool {
    std::env::var("LEVADA_TEST_MATRIX").is_ok_and(|what| what == "full")
}

fn sizes() -> Vec<usize> {
    if is_full() {
        [&[2, 4095, 4096, 65_535, (8 << 20) + 3, LARGE], &SMALL[..]].concat()
    } else {
        SMALL.to_vec()
    }
}

/// Whether 64 MiB are a part of every run: where the kernel's side differs most.
fn is_short_run(way: Way, peer: Peer, link: &Link) -> bool {
    use ways::{From, How};
    let ways = [Way::Transfer(Path::Splice), Way::Ring(From::Registered), Way::File(How::Direct)];
    matches!(link, Link::Loopback) && peer != Peer::ReadsSlowly && ways.contains(&way)
}

#[test]
fn every_way_over_loopback_and_unix() {
    run(&[Link::Loopback, Link::Unix]);
}

#[test]
fn every_way_over_veth() {
    if let Place::Inside = in_namespaces("tests::matrix::every_way_over_veth") {
        run(&[Link::Veth(Veth::new())]);
    }
}

fn run(links: &[Link]) {
    let goods = Goods::new(LARGE);
    let splice = !lacks(Path::Splice, "storing what a socket sends by splice");
    for link in links {
        for len in sizes() {
            for stores in [true, false].into_iter().filter(|splices| !splices || splice) {
                PEERS.iter().for_each(|peer| store(stores, link, len, *peer, &goods));
            }
        }
        for way in Way::ALL {
            if let Way::Transfer(path) = way
                && lacks(path, &format!("{way:?} over {}", link.name()))
            {
                continue;
            }
            let mut bench = match Bench::of(way) {
                Ok(bench) => bench,
                Err(error) => {
                    skipped(&format!("{way:?} over {}", link.name()), &error.to_string());
                    continue;
                }
            };
            let mut cells: Vec<(usize, Peer)> =
                sizes().into_iter().flat_map(|len| PEERS.map(|peer| (len, peer))).collect();
            if !is_full() {
                let short = PEERS.iter().filter(|peer| is_short_run(way, **peer, link));
                cells.extend(short.map(|peer| (LARGE, *peer)));
            }
            for (len, peer) in cells {
                cell((way, bench.as_mut()), link, len, peer, &goods);
            }
        }
    }
}

/// One cell.
fn cell((way, bench): (Way, Option<&mut Bench>), link: &Link, len: usize, peer: Peer, goods: &Goods) {
    let name = format!("{way:?} over {}, {len} bytes, {peer:?}", link.name());
    let (sender, receiver) = link.connect();
    if peer == Peer::ReadsSlowly {
        sockopt::set_socket_send_buffer_size(&sender, 1).unwrap();
    }
    let frame = way.frame();
    let whole = len + 2 * frame.len();
    let ((outcome, counted), arrived) = std::thread::scope(|scope| {
        let arrived = scope.spawn(move || receive(receiver, whole, peer));
        (ways::send(way, bench, goods, len, sender), arrived.join().unwrap())
    });
    let expected = [frame, &goods.bytes[OFFSET..OFFSET + len], frame].concat();
    assert!(expected.starts_with(&arrived), "{name}: other bytes arrived");
    match peer {
        Peer::Reads | Peer::ReadsSlowly => {
            assert!(outcome.is_ok(), "{name}: {outcome:?}");
            assert!(arrived.len() == whole, "{name}: {} bytes arrived", arrived.len());
            assert!(way.counted(&counted, len as u64, link.is_tcp()), "{name}: {counted:?}");
        }
        Peer::Resets => assert!(len < LARGE || outcome.is_err(), "{name}: nobody noticed"),
    }
}

/// Reads until the sender closes, or half of it all.
fn receive(receiver: OwnedFd, whole: usize, peer: Peer) -> Vec<u8> {
    let mut receiver = File::from(receiver);
    let mut arrived = Vec::new();
    // Odd, so that it never ends where a packet does; large files would take too many turns with a small one.
    let bite = if peer == Peer::ReadsSlowly { 3_001.max(whole / 50) } else { 1 << 20 };
    let mut bytes = vec![0; bite];
    let half = whole / 2;
    while peer != Peer::Resets || arrived.len() < half {
        let bite = if peer == Peer::Resets { bite.min(half - arrived.len()) } else { bite };
        match receiver.read(&mut bytes[..bite]).unwrap() {
            0 => return arrived,
            count => arrived.extend_from_slice(&bytes[..count]),
        }
    }
    // Not a quiet end: a reset, whatever was read.
    let _ = sockopt::set_socket_linger(&receiver, Some(Duration::ZERO));
    arrived
}

/// The other direction: what a socket sends goes into a file.
fn store(splices: bool, link: &Link, len: usize, peer: Peer, goods: &Goods) {
    let name = format!("stored over {}, {len} bytes, {peer:?}, splice {splices}", link.name());
    let (receiver, sender) = link.connect();
    let expected = &goods.bytes[..len];
    let file = Arc::new(tempfile::tempfile().unwrap());
    let mut engine = engine(&caps(splices, true), Thresholds::default());
    let outcome = std::thread::scope(|scope| {
        scope.spawn(|| dribble(sender, expected, peer));
        rustix::io::ioctl_fionbio(&receiver, true).unwrap();
        let mut receive =
            Receive::new(Extent { file: Arc::clone(&file), offset: OFFSET as u64, len: len as u64 });
        loop {
            match receive.step(&mut engine, receiver.as_fd(), 1 << 20) {
                Ok(Turn::Done) => break Ok(receive.received()),
                Ok(Turn::Blocked) => wait_for(receiver.as_fd(), PollFlags::IN),
                Ok(_) => {}
                Err(ReceiveError::Peer { .. }) => break Err(receive.received()),
                Err(error) => panic!("{name}: {error}"),
            }
        }
    });
    let mut stored = Vec::new();
    let mut reader = &*file;
    std::io::Seek::seek(&mut reader, std::io::SeekFrom::Start(OFFSET as u64)).unwrap();
    reader.read_to_end(&mut stored).unwrap();
    assert!(expected.starts_with(&stored), "{name}: other bytes are stored");
    match outcome {
        Ok(count) => {
            assert!(peer != Peer::Resets, "{name}: more than was sent");
            assert!(stored.len() == len && count == len as u64, "{name}");
            let path = if splices { Path::Splice } else { Path::ReadWrite };
            assert_eq!(engine.counters().snapshot().bytes(path), len as u64, "{name}");
        }
        Err(count) => assert!(peer == Peer::Resets && stored.len() as u64 == count, "{name}: {count}"),
    }
}

/// Sends at once, in pieces, or half and then resets.
fn dribble(sender: OwnedFd, bytes: &[u8], peer: Peer) {
    let mut sender = File::from(sender);
    let pieces = if peer == Peer::ReadsSlowly { 3_001.max(bytes.len() / 50) } else { 1 << 20 };
    let whole = if peer == Peer::Resets { bytes.len() / 2 } else { bytes.len() };
    for piece in bytes[..whole].chunks(pieces) {
        sender.write_all(piece).unwrap();
    }
    if peer == Peer::Resets {
        let _ = sockopt::set_socket_linger(&sender, Some(Duration::ZERO));
    }
}
