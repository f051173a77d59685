//! Tests with the real kernel. Where it allows no ring, there is nothing to test.

use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;

use super::*;
use crate::tests::content;

const SOCKETS: u32 = 8;

fn ring(pool: &BufferPool) -> Option<SocketRing> {
    if crate::tests::cramped("a test of sockets on a ring") {
        return None;
    }
    match SocketRing::new(SOCKETS, pool) {
        Ok(ring) => Some(ring),
        Err(error) if matches!(error.kind(), ErrorKind::PermissionDenied | ErrorKind::OutOfMemory) => {
            crate::tests::links::skipped("a test of sockets on a ring", &error.to_string());
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn turn(ring: &mut SocketRing) -> Vec<SocketEvent> {
    let mut events = Vec::new();
    ring.turn(&mut events).unwrap();
    events
}

/// Number of buffers that are free in a pool.
fn free(pool: &BufferPool) -> usize {
    std::iter::from_fn(|| pool.take()).collect::<Vec<_>>().len()
}

#[test]
fn bytes_of_all_sockets_arrive_in_order() {
    // Fewer buffers than sockets: receives end for lack of buffers, and begin again.
    let pool = BufferPool::new(512, 4).unwrap();
    let Some(mut ring) = ring(&pool) else { return };
    let pairs: Vec<_> = (0..SOCKETS).map(|_| UnixStream::pair().unwrap()).collect();
    let sent: Vec<_> = (1..=pairs.len()).map(|number| content(number * 3001)).collect();
    for (number, (own, _)) in pairs.iter().enumerate() {
        assert_eq!(ring.attach(own).unwrap() as usize, number);
    }
    assert!(ring.attach(&pairs[0].0).is_err(), "the ring has no further place");
    let mut received = vec![Vec::new(); pairs.len()];
    std::thread::scope(|scope| {
        for ((_, peer), bytes) in pairs.iter().zip(&sent) {
            scope.spawn(move || {
                (&*peer).write_all(bytes).unwrap();
                peer.shutdown(Shutdown::Write).unwrap();
            });
        }
        let mut open = pairs.len();
        while open > 0 {
            for event in turn(&mut ring) {
                match event {
                    SocketEvent::Received { socket, buffer } => {
                        assert!(!buffer.is_empty());
                        received[socket as usize].extend_from_slice(buffer.filled());
                    }
                    SocketEvent::Ended { error: None, .. } => open -= 1,
                    other => panic!("{other:?}"),
                }
            }
        }
    });
    assert!(received == sent, "other bytes");
    drop(ring);
    assert_eq!(free(&pool), 4, "the ring returns its buffers");
}

#[test]
fn a_turn_waits_beyond_its_sends() {
    let (pool, responses) = (BufferPool::new(512, 4).unwrap(), BufferPool::new(512, 2).unwrap());
    let Some(mut ring) = ring(&pool) else { return };
    let (own, mut peer) = UnixStream::pair().unwrap();
    let socket = ring.attach(&own).unwrap();
    let response = |text: &[u8]| {
        let mut buffer = responses.take().unwrap();
        buffer.space()[..text.len()].copy_from_slice(text);
        buffer.set_len(text.len());
        buffer
    };
    ring.send(socket, response(b"one")).unwrap();
    let second = ring.send(socket, response(b"two")).unwrap_err();
    assert_eq!(second.filled(), b"two", "one send at a time");
    drop(second);
    peer.write_all(b"next").unwrap();
    let before = ring.calls();
    let mut events = turn(&mut ring);
    events.sort_by_key(|event| matches!(event, SocketEvent::Sent { .. }));
    let [SocketEvent::Received { buffer, .. }, SocketEvent::Sent { result: Ok(3), .. }] = events.as_slice()
    else {
        panic!("{events:?}")
    };
    assert_eq!((buffer.filled(), ring.calls() - before), (&b"next"[..], 1));
    assert_eq!(free(&responses), 2, "a sent buffer is free");
    let mut got = [0; 3];
    peer.read_exact(&mut got).unwrap();
    assert_eq!(&got, b"one");
}

#[test]
fn lack_of_buffers_is_an_error() {
    let pool = BufferPool::new(64, 1).unwrap();
    let Some(mut ring) = ring(&pool) else { return };
    let (own, mut peer) = UnixStream::pair().unwrap();
    ring.attach(&own).unwrap();
    peer.write_all(&[7; 100]).unwrap();
    let mut events = Vec::new();
    while events.is_empty() {
        ring.turn(&mut events).unwrap();
    }
    assert!(matches!(&events[..], [SocketEvent::Received { buffer, .. }] if buffer.filled() == [7; 64]));
    // The caller holds the only buffer.
    let failed = ring.turn(&mut Vec::new()).and_then(|()| ring.turn(&mut Vec::new()));
    assert_eq!(failed.unwrap_err().kind(), ErrorKind::OutOfMemory);
}

#[test]
fn dropped_ring_returns_its_buffers() {
    let pool = BufferPool::new(4096, 8).unwrap();
    let responses = BufferPool::new(1 << 20, 1).unwrap();
    let Some(mut ring) = ring(&pool) else { return };
    let (own, peer) = UnixStream::pair().unwrap();
    let socket = ring.attach(&own).unwrap();
    let mut buffer = responses.take().unwrap();
    buffer.set_len(buffer.capacity());
    // The peer reads nothing, so the send does not end.
    ring.send(socket, buffer).unwrap();
    ring.submit().unwrap();
    assert_eq!((free(&pool), free(&responses)), (0, 0));
    drop(ring);
    assert_eq!((free(&pool), free(&responses)), (8, 1));
    drop(peer);
}
