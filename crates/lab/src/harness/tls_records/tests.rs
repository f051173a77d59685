//! Sealed records can be opened, and changed records cannot.

use std::io::Write;
use std::net::TcpListener;

use super::*;
use crate::harness::payload::Payload;

fn connection() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (sender, listener.accept().unwrap().0)
}

fn sealed(plain: &[u8]) -> Vec<u8> {
    let mut sealed = Vec::new();
    Sealer::new().unwrap().seal(plain, &mut sealed).unwrap();
    sealed
}

#[test]
fn opener_returns_what_the_sealer_encrypted() {
    let plain = Payload::bytes(1, 40_000);
    let sealed = sealed(&plain);
    assert_eq!(sealed.len(), plain.len() + 3 * (HEADER_BYTES + TAIL_BYTES));
    for take in [ReceiveMode::Check, ReceiveMode::Copy, ReceiveMode::Discard] {
        let (mut sender, receiver) = connection();
        sender.write_all(&sealed).unwrap();
        drop(sender);
        let mut opener = Opener::new().unwrap();
        let (mut count, mut opened) = (0, Vec::new());
        while let Some((len, bytes)) = opener.next(&receiver, take).unwrap() {
            count += len;
            opened.extend_from_slice(bytes);
        }
        assert_eq!(count, plain.len(), "{take:?}");
        assert!(opened == if take == ReceiveMode::Check { plain.clone() } else { Vec::new() }, "{take:?}");
    }
}

#[test]
fn opener_refuses_changed_records() {
    let mut changed = sealed(&[7; 100]);
    changed[50] ^= 1;
    let nonsense = vec![0; 100];
    for bytes in [changed, nonsense] {
        let (mut sender, receiver) = connection();
        sender.write_all(&bytes).unwrap();
        drop(sender);
        assert!(Opener::new().unwrap().next(&receiver, ReceiveMode::Check).is_err());
    }
}
