//! Bounds on keys, state batches, waiting operations and the size of batches.

use levada_wire::Uuid;

use crate::share_state::batches::StateBatch;
use crate::share_state::config::ShareStateConfig;
use crate::share_state::error::ShareStateError;
use crate::share_state::request::{InitializePart, WritePart};
use crate::share_state::tests::rig::{Rig, TOPIC, batch, delete, initialize, write};

/// As many separate ranges from an offset on.
fn apart(first: i64, count: i64) -> Vec<StateBatch> {
    (0..count).map(|index| batch(first + 2 * index, first + 2 * index, 2, 1)).collect()
}

fn on(partition: i32) -> InitializePart {
    InitializePart { partition, ..initialize(0, 0) }
}

#[test]
fn ranges_that_no_log_has_are_refused() {
    let mut rig = Rig::new(ShareStateConfig::default());
    rig.ask(on(0)).unwrap();
    for (first, last) in [(-1, 5), (6, 5), (0, i64::MAX), (i64::MIN, i64::MAX)] {
        let part = write(-1, &[batch(1, 2, 0, 1), batch(first, last, 0, 1)]);
        assert_eq!(rig.ask(part), Err(ShareStateError::NO_RANGE), "{first} {last}");
    }
    assert_eq!(rig.log.len(), 1);
}

#[test]
fn the_number_of_keys_is_bounded() {
    let mut rig = Rig::new(ShareStateConfig { keys_max: 2, ..ShareStateConfig::default() });
    rig.ask(on(0)).unwrap();
    rig.ask(on(1)).unwrap();
    assert_eq!(rig.ask(on(2)), Err(ShareStateError::CoordinatorNotAvailable));
    rig.ask(on(1)).unwrap();
    rig.ask(delete(0)).unwrap();
    rig.ask(on(2)).unwrap();
}

#[test]
fn the_state_of_a_key_is_bounded() {
    let mut rig = Rig::new(ShareStateConfig { key_batches_max: 10, ..ShareStateConfig::default() });
    rig.ask(on(0)).unwrap();
    assert_eq!(rig.ask(write(-1, &apart(0, 11))), Err(ShareStateError::TOO_MANY_BATCHES));
    rig.ask(write(-1, &apart(0, 8))).unwrap();
    rig.ask(write(-1, &apart(16, 2))).unwrap();
    assert_eq!(rig.ask(write(-1, &apart(20, 1))), Err(ShareStateError::UnknownServerError));
    // A write that adds none is always taken, and so is one that makes room.
    rig.ask(write(-1, &[batch(0, 2, 2, 1)])).unwrap();
    rig.ask(write(-1, &apart(20, 1))).unwrap();
    rig.ask(write(12, &apart(30, 5))).unwrap();
    assert_eq!(rig.state().batches.len(), 10);
}

#[test]
fn the_state_of_all_keys_is_bounded() {
    let mut rig = Rig::new(ShareStateConfig { batches_max: 20, ..ShareStateConfig::default() });
    let at = |partition, first, count| WritePart { partition, ..write(-1, &apart(first, count)) };
    rig.ask(on(0)).unwrap();
    rig.ask(on(1)).unwrap();
    rig.ask(at(0, 0, 10)).unwrap();
    rig.ask(at(1, 0, 9)).unwrap();
    assert_eq!(rig.ask(at(1, 20, 5)), Err(ShareStateError::CoordinatorNotAvailable));
    assert_eq!(rig.coordinator.batch_count(), 19);
    rig.ask(write(19, &[])).unwrap();
    rig.ask(at(1, 20, 2)).unwrap();
    assert_eq!(rig.coordinator.batch_count(), 11);
    rig.ask(delete(1)).unwrap();
    assert_eq!(rig.coordinator.batch_count(), 0);
}

#[test]
fn the_number_of_waiting_operations_is_bounded() {
    let mut rig = Rig::new(ShareStateConfig { waiting_max: 5, ..ShareStateConfig::default() });
    rig.ask(on(0)).unwrap();
    rig.hold_appends = true;
    let tickets = [1, 2, 3, 1].map(|count| rig.send(vec![write(-1, &apart(0, count))]));
    let refused = Some(vec![Err(ShareStateError::CoordinatorNotAvailable)]);
    // The first one does not wait. The second weighs 3 and the third 4.
    assert_eq!(rig.answer::<WritePart>(tickets[2]), refused);
    let again = rig.send(vec![write(-1, &apart(0, 1))]);
    assert_eq!(rig.answer::<WritePart>(again), refused);
    while rig.report(0) {}
    for index in [0, 1, 3] {
        assert_eq!(rig.answer::<WritePart>(tickets[index]), Some(vec![Ok(())]), "{index}");
    }
    let part = rig.send(vec![write(-1, &apart(0, 100))]);
    assert_eq!(rig.answer::<WritePart>(part), None);
}

#[test]
fn a_large_request_has_several_appends() {
    let mut rig = Rig::new(ShareStateConfig { batch_bytes: 1_000, ..ShareStateConfig::default() });
    rig.topics.0.insert(TOPIC, 100);
    rig.announce();
    rig.hold_appends = true;
    let ticket = rig.send((0..100).map(on).collect());
    assert!((7..15).contains(&rig.unreported()), "{}", rig.unreported());
    while rig.report(0) {}
    assert_eq!(rig.answer::<InitializePart>(ticket), Some(vec![Ok(()); 100]));
    // A key with large writes has one append at a time.
    let writes = [0, 100, 200].map(|first| rig.send(vec![write(-1, &apart(first, 60))]));
    assert_eq!(rig.unreported(), 1);
    rig.report(0);
    assert_eq!(rig.unreported(), 1);
    while rig.report(0) {}
    for ticket in writes {
        assert_eq!(rig.answer::<WritePart>(ticket), Some(vec![Ok(())]));
    }
}

#[test]
fn deleted_share_keys_free_all_memory() {
    let mut rig = Rig::new(ShareStateConfig::default());
    for round in 0..50 {
        let topic_id = Uuid::from_bytes([round; 16]);
        rig.topics.0.insert(topic_id, 1);
        rig.announce();
        rig.ask(InitializePart { topic_id, ..initialize(0, 0) }).unwrap();
        rig.ask(WritePart { topic_id, ..write(-1, &apart(0, 9)) }).unwrap();
        rig.topics.0.remove(&topic_id);
    }
    rig.announce();
    assert_eq!((rig.coordinator.summaries().count(), rig.coordinator.batch_count()), (50, 450));
    rig.pass(5 * rig.config.cold_interval_ms);
    assert_eq!((rig.coordinator.summaries().count(), rig.coordinator.batch_count()), (0, 0));
    assert_eq!(rig.coordinator.deadline(), None);
}
