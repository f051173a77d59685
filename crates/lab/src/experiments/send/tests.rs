//! Every method of sending memory transfers every byte, on every route of this machine.

use super::*;
use crate::method::limits::Scale;
use crate::tests::tiny;

fn bench() -> Bench {
    Bench::new(&std::env::temp_dir(), Scale::Tiny).unwrap()
}

#[test]
fn every_method_sends_every_byte() {
    let bench = bench();
    tiny(&bench, &mut Sends::new(&bench));
}

#[test]
fn mixed_messages_arrive_with_all_bytes() {
    let bench = bench();
    tiny(&bench, &mut Mixed::new(&bench));
}

#[test]
fn worker_sends_more_messages_than_ring_capacity() {
    let mut worker = Worker::start(&bench(), Route::Loopback).unwrap();
    for how in [How::Whole { wait: Wait::Result }, How::Cut { wait: Wait::Result }] {
        if missing(&bench(), how).is_some() {
            return;
        }
        let load = Load { how, bytes: 20 << 10, pieces: 2, piece_bytes: 16, messages: 3000, check: true };
        let sent = worker.send(&load).unwrap();
        assert!(sent.verdict().sound, "{sent:?}");
        assert!(sent.arrived.is_some() && sent.calls > 0 && sent.cpu_ns > 0, "{sent:?}");
    }
}

#[test]
fn ifb_device_copies_no_referenced_message() {
    let Ok(mut worker) = Worker::start(&bench(), Route::Ifb) else { return };
    let how = How::RingZeroCopy { registered: true, wait: Wait::Result };
    if missing(&bench(), how).is_some() {
        return;
    }
    let load = Load { how, bytes: 65_000, pieces: 0, piece_bytes: 0, messages: 64, check: false };
    let sent = worker.send(&load).unwrap();
    assert_eq!((sent.copied, sent.arrived), (0, None));
}
