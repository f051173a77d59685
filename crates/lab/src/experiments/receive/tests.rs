//! Every method receives every batch, and a damaged batch is detected.

use super::*;
use crate::method::limits::Scale;
use crate::tests::tiny;

fn bench() -> Bench {
    Bench::new(&std::env::temp_dir(), Scale::Tiny).unwrap()
}

#[test]
fn every_method_receives_every_batch() {
    let bench = bench();
    tiny(&bench, &mut Receives::new(&bench).unwrap());
}

#[test]
fn checked_receive_detects_a_damaged_batch() {
    let bench = bench();
    let receives = Receives::new(&bench).unwrap();
    let (mut batch, _) = frames::batch(16 << 10, 1024, 1).unwrap();
    let last = batch.len() - 1;
    batch[last] ^= 1;
    let sent = batch.freeze();
    for way in ReceiveMethod::ALL {
        let received = receives.receive(way, &sent);
        let is_checked =
            matches!(way, ReceiveMethod::Buffer { checked: true } | ReceiveMethod::Splice { checked: true });
        assert_eq!(received.is_err(), is_checked, "{}", way.name());
    }
}
