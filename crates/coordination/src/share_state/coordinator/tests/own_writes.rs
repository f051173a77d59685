//! Snapshots of cold keys, tombstones for deleted topics, and pruning.

use levada_wire::Uuid;

use crate::machine::PersistFailure;
use crate::share_state::config::ShareStateConfig;
use crate::share_state::event::Event;
use crate::share_state::records::{Record, Snapshot};
use crate::share_state::request::{InitializePart, StateSummary};
use crate::share_state::tests::rig::{
    PARTITIONS, Rig, TOPIC, batch, delete, initialize, key, summarize, write,
};

const COLD_MS: i64 = 5 * 60 * 1_000;

fn rig() -> Rig {
    Rig::new(ShareStateConfig::default())
}

fn on(partition: i32) -> InitializePart {
    InitializePart { partition, ..initialize(0, 0) }
}

/// The snapshots in the log from an offset on.
fn snapshots(rig: &Rig, from: usize) -> Vec<(i32, Snapshot)> {
    let records = rig.records(from).into_iter();
    let snapshots = records.filter_map(|record| match record {
        Record::Snapshot(key, Some(snapshot)) => Some((key.partition, snapshot)),
        _ => None,
    });
    snapshots.collect()
}

#[test]
fn old_share_snapshots_are_rewritten() {
    let mut rig = rig();
    let made_ms = rig.now_ms;
    rig.ask(on(0)).unwrap();
    rig.ask(on(1)).unwrap();
    rig.pass(COLD_MS - 1);
    rig.ask(write(-1, &[batch(3, 4, 2, 1)])).unwrap();
    rig.ask(on(2)).unwrap();
    let records = rig.log.len();
    rig.pass(1);
    let written = snapshots(&rig, records);
    let [(0, first), (1, second)] = &written[..] else { panic!("{written:?}") };
    let expected = Snapshot {
        snapshot_epoch: 1,
        state_epoch: 0,
        leader_epoch: 0,
        start_offset: 0,
        delivery_complete_count: 0,
        create_ms: made_ms,
        write_ms: made_ms + COLD_MS,
        batches: vec![batch(3, 4, 2, 1)],
    };
    assert_eq!(*first, expected);
    assert_eq!(*second, Snapshot { batches: Vec::new(), ..expected });
    assert_eq!(rig.state().batches, [batch(3, 4, 2, 1)]);
}

#[test]
fn idle_share_coordinator_writes_nothing() {
    let mut rig = rig();
    rig.ask(on(0)).unwrap();
    rig.ask(on(1)).unwrap();
    rig.pass(COLD_MS);
    assert_eq!(rig.log.len(), 4);
    // Every snapshot is one of a cold key, until a request causes one.
    rig.pass(20 * COLD_MS);
    assert_eq!(rig.log.len(), 4);
    rig.ask(on(2)).unwrap();
    rig.pass(COLD_MS);
    assert_eq!(snapshots(&rig, 5).len(), 3);
}

#[test]
fn snapshot_scan_skips_keys_being_written() {
    let mut rig = rig();
    rig.ask(on(0)).unwrap();
    rig.pass(COLD_MS - 1);
    rig.hold_appends = true;
    rig.send(vec![write(-1, &[batch(0, 0, 2, 1)])]);
    rig.pass(1);
    assert_eq!(rig.unreported(), 1);
    rig.report(0);
    rig.pass(COLD_MS);
    assert_eq!(snapshots(&rig, 1).len(), 1);
}

#[test]
fn snapshot_scans_visit_bounded_key_counts() {
    let mut rig = Rig::new(ShareStateConfig { round_keys: 2, ..ShareStateConfig::default() });
    for group in ["a", "b", "c", "d", "e"] {
        rig.send_for(group, vec![on(0)]);
    }
    rig.pass(COLD_MS);
    assert_eq!(rig.log.len(), 7);
    rig.pass(rig.config.round_ms);
    assert_eq!(rig.log.len(), 9);
    rig.pass(10 * rig.config.round_ms);
    assert_eq!(rig.log.len(), 10);
}

#[test]
fn clock_set_back_triggers_no_snapshot() {
    let mut rig = rig();
    rig.ask(on(0)).unwrap();
    rig.ahead_ms = -COLD_MS;
    rig.pass(COLD_MS);
    assert_eq!(rig.log.len(), 1);
    rig.ahead_ms = 0;
    rig.pass(COLD_MS);
    assert_eq!(rig.log.len(), 2);
}

#[test]
fn keys_of_deleted_topics_are_removed() {
    let mut rig = Rig::new(ShareStateConfig { round_keys: 2, ..ShareStateConfig::default() });
    let other = Uuid::from_bytes([2; 16]);
    rig.topics.0.insert(other, 1);
    rig.announce();
    rig.ask(InitializePart { topic_id: other, ..on(0) }).unwrap();
    for partition in 0..PARTITIONS {
        rig.ask(on(partition)).unwrap();
    }
    rig.topics.0.remove(&TOPIC);
    rig.announce();
    rig.step(Event::TopicsDeleted(vec![TOPIC, Uuid::from_bytes([7; 16])]));
    assert_eq!(rig.coordinator.summaries().count(), 2);
    rig.pass(rig.config.round_ms);
    let keys: Vec<Uuid> = rig.coordinator.summaries().map(|(key, _)| key.topic_id).collect();
    assert_eq!(keys, [other]);
    let tombstones = rig.records(4);
    assert_eq!(tombstones, [0, 1, 2].map(|partition| Record::Snapshot(key(partition), None)));
}

#[test]
fn failed_key_removal_is_retried() {
    let mut rig = rig();
    rig.ask(on(0)).unwrap();
    rig.ask(on(1)).unwrap();
    rig.hold_appends = true;
    let busy = rig.send(vec![write(-1, &[batch(0, 0, 2, 1)])]);
    rig.failure = Some(PersistFailure::Unavailable);
    rig.step(Event::TopicsDeleted(vec![TOPIC]));
    assert_eq!(rig.unreported(), 2);
    rig.hold_appends = false;
    rig.report(0);
    assert!(rig.outcome(busy).is_some());
    rig.pass(3 * rig.config.round_ms);
    assert_eq!(rig.coordinator.summaries().count(), 2);
    rig.failure = None;
    rig.pass(rig.config.round_ms);
    assert_eq!(rig.coordinator.summaries().count(), 0);
    assert_eq!(rig.log.len(), 5);
}

#[test]
fn keys_without_topic_are_removed_after_two_scans() {
    let mut rig = rig();
    rig.ask(on(0)).unwrap();
    rig.topics.0.remove(&TOPIC);
    rig.restart(1);
    rig.pass(COLD_MS);
    assert_eq!(rig.coordinator.summaries().count(), 1);
    // The announcement was late.
    rig.topics.0.insert(TOPIC, PARTITIONS);
    rig.announce();
    rig.pass(COLD_MS);
    rig.topics.0.remove(&TOPIC);
    rig.announce();
    rig.pass(COLD_MS);
    assert_eq!(rig.coordinator.summaries().count(), 1);
    rig.pass(COLD_MS + rig.config.round_ms);
    assert_eq!(rig.coordinator.summaries().count(), 0);
    assert_eq!(rig.records(rig.log.len() - 1), [Record::Snapshot(key(0), None)]);
}

#[test]
fn log_pruning_stops_at_oldest_snapshot() {
    let mut rig = Rig::new(ShareStateConfig { updates_per_snapshot: 1, ..ShareStateConfig::default() });
    let redundant = |rig: &Rig| rig.coordinator.redundant_before();
    rig.ask(on(0)).unwrap();
    assert_eq!(redundant(&rig), None);
    rig.ask(on(1)).unwrap();
    rig.ask(on(2)).unwrap();
    assert_eq!(redundant(&rig), None);
    rig.ask(on(0)).unwrap();
    assert_eq!(redundant(&rig), Some(1));
    // An update is needed with its snapshot.
    rig.ask(write(-1, &[])).unwrap();
    rig.ask(delete(1)).unwrap();
    assert_eq!(redundant(&rig), Some(2));
    rig.ask(delete(2)).unwrap();
    assert_eq!(redundant(&rig), Some(3));
    rig.ask(write(-1, &[])).unwrap();
    assert_eq!(redundant(&rig), Some(7));
    rig.ask(delete(0)).unwrap();
    assert_eq!(redundant(&rig), Some(8));
    rig.ask(on(1)).unwrap();
    assert_eq!(redundant(&rig), Some(9));
    rig.pass(COLD_MS);
    assert_eq!(rig.log_start, 9);
    rig.restart(rig.log.len());
    assert_eq!(redundant(&rig), Some(10));
    assert_eq!(rig.ask(summarize(0)), Ok(StateSummary::UNINITIALIZED));
}

#[test]
fn share_state_log_is_pruned_periodically() {
    let mut rig = rig();
    rig.hold_prunes = true;
    rig.ask(on(0)).unwrap();
    rig.ask(on(0)).unwrap();
    rig.pass(COLD_MS);
    assert_eq!(rig.prunes, [1]);
    // The host could not: the next one asks again.
    rig.prunes.clear();
    rig.pass(COLD_MS);
    assert_eq!(rig.prunes, [2]);
    rig.finish_prune();
    rig.pass(3 * COLD_MS);
    assert_eq!((rig.prunes.len(), rig.log_start), (0, 2));
}

#[test]
fn pending_records_prevent_log_pruning() {
    let mut rig = rig();
    rig.ask(on(0)).unwrap();
    rig.hold_appends = true;
    rig.send(vec![on(1)]);
    rig.send(vec![on(0)]);
    // The later append is committed, and so is the earlier one; only its report is late.
    rig.report(1);
    rig.pass(COLD_MS);
    assert_eq!((rig.coordinator.redundant_before(), rig.log_start), (None, 0));
    rig.report(0);
    assert_eq!(rig.coordinator.redundant_before(), Some(1));
}

#[test]
fn an_empty_coordinator_sets_no_timer() {
    let mut rig = rig();
    assert_eq!(rig.coordinator.deadline(), None);
    rig.ask(on(0)).unwrap();
    assert_eq!(rig.coordinator.deadline(), Some(rig.now_ms + COLD_MS));
    rig.ask(delete(0)).unwrap();
    rig.pass(2 * COLD_MS);
    assert_eq!((rig.coordinator.deadline(), rig.log_start), (None, 1));
}
