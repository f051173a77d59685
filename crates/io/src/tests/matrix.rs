//! Every way to send, over every kind of connection, at every size, to peers that read, read slowly
//! or disconnect: each byte is compared.
//!
//! Large sizes run for a few combinations only; from scale 10 on, the full matrix runs.
//! Below scale 1 nothing is left out: each cell is a combination that no other cell covers.
//!
//! Soak: scale 10, repeated

use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::time::Duration;

use levada_testing::scale;
use rustix::net::sockopt;

use super::lacks;
use super::links::{Link, Place, Veth, in_namespaces, skipped};
use super::ways::{self, Bench, Goods, OFFSET, Way};
use crate::path::SocketPath;

/// Behaviour of a receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Peer {
    Reads,
    /// Takes a little at a time, from a sender whose buffer is as small as can be.
    ReadsSlowly,
    /// Resets the connection in the middle.
    Resets,
}

const PEERS: [Peer; 3] = [Peer::Reads, Peer::ReadsSlowly, Peer::Resets];

const SMALL: [usize; 4] = [1, 4097, 65_537, (1 << 20) + 1];

/// More bytes than a pair of sockets holds: a sender that has sent them has been read from.
const LARGE: usize = 64 << 20;

/// Scale from which all sizes run for all combinations.
const SCALE_FULL: f64 = 10.0;

fn is_full() -> bool {
    scale() >= SCALE_FULL
}

fn sizes() -> Vec<usize> {
    if is_full() {
        [&[2, 4095, 4096, 65_535, (8 << 20) + 3, LARGE], &SMALL[..]].concat()
    } else {
        SMALL.to_vec()
    }
}

/// True if 64 MiB are a part of every run: where the kernel's side differs most.
fn is_short_run(way: Way, peer: Peer, link: &Link) -> bool {
    use ways::{From, How};
    let ways = [Way::Transfer(SocketPath::Splice), Way::Ring(From::Registered), Way::File(How::Direct)];
    matches!(link, Link::Loopback) && peer != Peer::ReadsSlowly && ways.contains(&way)
}

#[test]
fn every_path_sends_over_loopback_and_unix_sockets() {
    run(&[Link::Loopback, Link::Unix]);
}

#[test]
fn every_path_sends_over_veth() {
    if let Place::Inside = in_namespaces("tests::matrix::every_path_sends_over_veth") {
        run(&[Link::Veth(Veth::new())]);
    }
}

fn run(links: &[Link]) {
    let goods = Goods::new(LARGE);
    for link in links {
        for way in Way::ALL {
            if let Way::Transfer(path) = way
                && lacks(path.into(), &format!("{way:?} over {}", link.name()))
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

/// Runs one cell of the matrix.
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
    // Odd, so that it never ends where a packet does; large files would take too many turns with a
    // small one.
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
