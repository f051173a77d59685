//! Records that newer brokers have written.

use levada_base::batch::{BatchView, Builder};

use crate::group::coordinator::Coordinator;
use crate::group::tests::rig::config;
use crate::machine::{Machine, ReplayFault};

#[test]
fn group_load_stops_at_newer_record_versions_only() {
    let replay = |key: &[u8]| {
        let mut batch = Builder::new();
        batch.push(0, Some(key), Some(&[0, 99]));
        let batch = batch.build().unwrap();
        Machine::replay(&mut Coordinator::new(config()), &BatchView::parse(&batch).unwrap())
    };
    // The metadata of a group of each kind.
    for kind in [2, 3, 11, 17] {
        let key = [0, kind, 0, 1, b'g'];
        assert!(matches!(replay(&key), Err(ReplayFault::Newer { offset: 0, .. })), "kind {kind}");
    }
    // Topics of a streams group, which no release of Kafka writes.
    assert!(replay(&[0, 18, 0, 1, b'g']).is_ok());
}
