//! Tests of receiving into a file, on real sockets.

use std::io::Write;
use std::os::fd::AsFd;
use std::sync::Arc;

use super::*;
use crate::Thresholds;
use crate::tests::{caps, content, engine, sockets};

/// Sends `bytes` from another thread while they are received behind the first 5 bytes of a file.
fn receive(
    mut engine: Engine,
    bytes: &[u8],
    tcp: bool,
    append: bool,
) -> (Result<(), ReceiveError>, Vec<u8>, Engine) {
    let (receiver, mut sender) = sockets(tcp, false);
    rustix::io::ioctl_fionbio(&sender, false).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    let mut options = File::options();
    options.create(true).read(true);
    let file = if append { options.append(true) } else { options.write(true).truncate(true) };
    let file = Arc::new(file.open(&path).unwrap());
    let to_send = bytes.to_vec();
    let peer = std::thread::spawn(move || sender.write_all(&to_send).unwrap());
    let len = bytes.len() as u64;
    let mut receive = Receive::new(Extent { file: Arc::clone(&file), offset: 5, len });
    let outcome = loop {
        match receive.step(&mut engine, receiver.as_fd(), 100_000) {
            Ok(Turn::Done) => break Ok(()),
            Ok(Turn::Blocked) => crate::tests::wait_readable(receiver.as_fd()),
            Ok(_) => {}
            Err(error) => break Err(error),
        }
    };
    assert!(outcome.is_err() || receive.received() == len);
    drop((receive, receiver));
    peer.join().unwrap();
    (outcome, std::fs::read(&path).unwrap(), engine)
}

#[test]
fn everything_lands_where_it_should() {
    if crate::tests::lacks(crate::Path::Splice, "everything_lands_where_it_should") {
        return;
    }
    for (splice, path) in [(true, Path::Splice), (false, Path::ReadWrite)] {
        for tcp in [true, false] {
            for len in [1, 4096, 3_000_001] {
                let expected = content(len);
                let engine = engine(&caps(splice, true), Thresholds::default());
                let (outcome, file, engine) = receive(engine, &expected, tcp, false);
                outcome.unwrap();
                assert!(file[..5] == [0; 5] && file[5..] == expected, "{path} {tcp} {len}");
                let counted = engine.counters().snapshot();
                assert_eq!(counted.bytes(path), len as u64, "{path} {tcp}");
                assert_eq!(counted.copied() > 0, path == Path::ReadWrite);
            }
        }
    }
}

#[test]
fn a_file_that_takes_no_pipes_is_written_through_memory() {
    if crate::tests::lacks(crate::Path::Splice, "a_file_that_takes_no_pipes_is_written_through_memory") {
        return;
    }
    // Opened for appending: splice refuses it, and positions do not count.
    let expected = content(300_000);
    let engine = engine(&caps(true, true), Thresholds::default());
    let (outcome, file, engine) = receive(engine, &expected, true, true);
    outcome.unwrap();
    assert!(file == expected);
    let counted = engine.counters().snapshot();
    assert_eq!(counted.fallbacks(Fallback::SpliceRefused), 1);
    assert_eq!(counted.bytes(Path::ReadWrite), 300_000);
}

#[test]
fn a_peer_that_leaves_early_is_an_error() {
    for splice in [true, false] {
        let (receiver, mut sender) = sockets(true, false);
        sender.write_all(&[7; 1000]).unwrap();
        drop(sender);
        let mut engine = engine(&caps(splice, true), Thresholds::default());
        let file = Arc::new(tempfile::tempfile().unwrap());
        let mut receive = Receive::new(Extent { file, offset: 0, len: 5000 });
        let error = loop {
            match receive.step(&mut engine, receiver.as_fd(), 1 << 20) {
                Ok(Turn::Done) => panic!("it cannot be done"),
                Ok(_) => crate::tests::wait_readable(receiver.as_fd()),
                Err(error) => break error,
            }
        };
        assert!(matches!(error, ReceiveError::Peer { missing: 4000, .. }), "{error}");
        assert_eq!(receive.received(), 1000);
    }
}
