//! Tests of `MSG_ZEROCOPY` on real sockets; over loopback the kernel copies, which it must say.

use std::os::fd::AsFd;

use super::*;
use crate::tests::{content, read_some, read_to_end, sockets, wait};
use crate::thresholds::Thresholds;

fn terms(thresholds: &Thresholds, budget: usize) -> Terms<'_> {
    Terms { budget, may_refer: true, thresholds }
}

#[test]
fn zero_copy_pieces_arrive_and_are_released() {
    if crate::tests::cramped("zero_copy_pieces_arrive_and_are_released") {
        return;
    }
    let thresholds = Thresholds::default();
    for (tcp, tight) in [(true, false), (true, true), (false, false)] {
        let (sender, mut receiver) = sockets(tcp, tight);
        let counters = Counters::default();
        let mut outbox = ZeroCopyOutbox::new(sender.as_fd());
        let expected = content(2_000_000);
        let mut rest = Bytes::from(expected.clone());
        for size in [4096, 4096, 16384, 32768, 2048, 0, 700_000].into_iter().cycle() {
            outbox.push(rest.split_to(size.min(rest.len())));
            if rest.is_empty() {
                break;
            }
        }
        let mut arrived = Vec::new();
        let mut copied = false;
        loop {
            let before = outbox.queued_bytes();
            let turn = outbox.step(sender.as_fd(), terms(&thresholds, 100_000), &counters).unwrap();
            assert!(before - outbox.queued_bytes() <= 100_000);
            copied |= outbox.collect(sender.as_fd(), &counters).unwrap() == Some(true);
            match turn {
                Turn::Done => break,
                Turn::Blocked => {
                    wait(sender.as_fd(), receiver.as_fd());
                    read_some(&mut receiver, 1 << 20, &mut arrived);
                }
                Turn::Yield | Turn::Cold => {}
            }
        }
        while outbox.parked_bytes() > 0 {
            read_some(&mut receiver, 1 << 20, &mut arrived);
            copied |= outbox.collect(sender.as_fd(), &counters).unwrap() == Some(true);
        }
        drop(sender);
        read_to_end(&mut receiver, &mut arrived);
        assert!(arrived == expected, "{tcp} {tight}");
        let counted = counters.snapshot();
        let referred = counted.bytes(Path::MsgZerocopy);
        assert_eq!(referred + counted.bytes(Path::Send), 2_000_000);
        assert_eq!((referred > 0, copied), (tcp, tcp), "loopback copies, and AF_UNIX has none of it");
        assert_eq!(counted.copied_by_kernel(), referred);
    }
}

#[test]
fn a_lost_peer_is_an_error() {
    let thresholds = Thresholds::default();
    let (sender, receiver) = sockets(true, false);
    drop(receiver);
    let mut outbox = ZeroCopyOutbox::new(sender.as_fd());
    let error = loop {
        outbox.push(content(100_000).into());
        match outbox.step(sender.as_fd(), terms(&thresholds, 1 << 20), &Counters::default()) {
            Ok(Turn::Blocked) => panic!("a lost peer does not block"),
            Ok(_) => {}
            Err(error) => break error,
        }
    };
    assert!(matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset), "{error}");
}
