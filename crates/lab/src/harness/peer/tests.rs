//! The second process executes commands, counts and checks bytes, and reports errors.

use super::*;
use crate::harness::payload::{Payload, checksum};
use crate::method::limits::Scale;

/// The process that [`program_by`] starts; on its own, this test checks nothing.
#[test]
fn peer_serves_requested_bytes() {
    if std::env::var_os(ROLE).is_some() {
        serve().unwrap();
    }
}

fn bench() -> Bench {
    Bench::new(&std::env::temp_dir(), Scale::Tiny).unwrap()
}

#[test]
fn received_parts_are_counted_and_checked() {
    let mut peer = Peer::start(&bench()).unwrap();
    let bytes = Payload::bytes(3, 300_000);
    for take in [ReceiveMode::Check, ReceiveMode::Copy, ReceiveMode::Discard] {
        let socket = peer.connect(take, &[100_000, 150_000]).unwrap();
        socket.set_nonblocking(false).unwrap();
        (&socket).write_all(&bytes).unwrap();
        let parts = [peer.part().unwrap(), peer.part().unwrap()];
        assert_eq!(parts.map(|part| part.bytes), [100_000, 150_000]);
        let expected = if take == ReceiveMode::Check {
            [&bytes[..100_000], &bytes[100_000..250_000]].map(checksum)
        } else {
            [0; 2]
        };
        assert_eq!(parts.map(|part| part.checksum), expected);
        assert!(parts[0].done_ns <= parts[1].done_ns && parts[1].done_ns <= cpu::monotonic_ns());
    }
}

#[test]
fn connections_share_each_part() {
    let mut peer = Peer::start(&bench()).unwrap();
    let (one, other) = (Payload::bytes(3, 75_000), Payload::bytes(4, 75_000));
    let sockets = peer.connect_many(ReceiveMode::Check, &[50_000, 100_000], 2).unwrap();
    for (mut socket, bytes) in sockets.iter().zip([&one, &other]) {
        socket.set_nonblocking(false).unwrap();
        socket.write_all(bytes).unwrap();
    }
    let parts = [peer.part().unwrap(), peer.part().unwrap()];
    assert_eq!(parts.map(|part| part.bytes), [50_000, 100_000]);
    let sum =
        |range: std::ops::Range<usize>| checksum(&one[range.clone()]).wrapping_add(checksum(&other[range]));
    assert_eq!(parts.map(|part| part.checksum), [sum(0..25_000), sum(25_000..75_000)]);
}

#[test]
fn part_ends_with_connections_that_end_early() {
    let mut peer = Peer::start(&bench()).unwrap();
    let sockets = peer.connect_many(ReceiveMode::Copy, &[2000], 2).unwrap();
    (&sockets[0]).write_all(&[1; 1000]).unwrap();
    (&sockets[1]).write_all(&[1; 400]).unwrap();
    drop(sockets);
    assert_eq!(peer.part().unwrap().bytes, 1400);
}

#[test]
fn part_reports_fewer_bytes_after_early_end() {
    let mut peer = Peer::start(&bench()).unwrap();
    let socket = peer.connect(ReceiveMode::Copy, &[1000, 1000]).unwrap();
    (&socket).write_all(&[1; 1500]).unwrap();
    drop(socket);
    assert_eq!([peer.part().unwrap().bytes, peer.part().unwrap().bytes], [1000, 500]);
}

#[test]
fn peer_serves_next_request_after_invalid_one() {
    let mut peer = Peer::start(&bench()).unwrap();
    let order = Order { take: ReceiveMode::Copy, sealed: false, connections: 1, parts: Vec::new() };
    peer.tell(&Request::Receive(order)).unwrap();
    let error = peer.part().unwrap_err().to_string();
    assert!(error.contains("nothing at all"), "{error}");
    let socket = peer.connect(ReceiveMode::Copy, &[1]).unwrap();
    (&socket).write_all(b"x").unwrap();
    assert_eq!(peer.part().unwrap().bytes, 1);
}
