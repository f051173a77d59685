//! Case by case: each request, its refusals in their order, and its records.

use std::sync::Arc;

use levada_base::Now;
use levada_base::batch::{BatchView, Builder};
use levada_wire::Uuid;

use crate::machine::{Machine, ReplayFault, Request, Ticket};
use crate::share_state::config::ShareStateConfig;
use crate::share_state::coordinator::Coordinator;
use crate::share_state::error::ShareStateError;
use crate::share_state::event::{Action, Event};
use crate::share_state::records::{Record, Snapshot, Update};
use crate::share_state::request::{
    DeletePart, InitializePart, ReadPart, StateRequest, StateSummary, StoredState, SummaryPart, WritePart,
};
use crate::share_state::tests::rig::{
    PARTITIONS, Rig, Sizes, TOPIC, batch, delete, initialize, key, read, summarize, write,
};

fn rig() -> Rig {
    Rig::new(ShareStateConfig::default())
}

fn rig_with(updates_per_snapshot: u32) -> Rig {
    Rig::new(ShareStateConfig { updates_per_snapshot, ..ShareStateConfig::default() })
}

#[test]
fn initialization_is_logged_as_snapshot() {
    let mut rig = rig();
    rig.ask(initialize(3, -1)).unwrap();
    let snapshot = Snapshot {
        snapshot_epoch: 0,
        state_epoch: 3,
        leader_epoch: 0,
        start_offset: -1,
        delivery_complete_count: -1,
        create_ms: rig.now_ms,
        write_ms: rig.now_ms,
        batches: Vec::new(),
    };
    assert_eq!(rig.records(0), [Record::Snapshot(key(0), Some(snapshot.clone()))]);
    // A known start: the number of complete deliveries is known too.
    rig.pass(5);
    rig.ask(initialize(4, 100)).unwrap();
    let next = Snapshot {
        snapshot_epoch: 1,
        state_epoch: 4,
        start_offset: 100,
        delivery_complete_count: 0,
        create_ms: rig.now_ms,
        write_ms: rig.now_ms,
        ..snapshot
    };
    assert_eq!(rig.records(1), [Record::Snapshot(key(0), Some(next))]);
    let expected =
        StateSummary { state_epoch: 4, leader_epoch: 0, start_offset: 100, delivery_complete_count: 0 };
    assert_eq!(rig.summary(), expected);
}

#[test]
fn outdated_write_does_not_lower_start_offset() {
    for updates_per_snapshot in [0, 500] {
        let mut rig = rig_with(updates_per_snapshot);
        rig.ask(initialize(0, 100)).unwrap();
        let counted =
            |part: WritePart, delivery_complete_count| WritePart { delivery_complete_count, ..part };
        rig.ask(counted(write(100, &[batch(100, 104, 2, 1)]), 5)).unwrap();
        rig.ask(counted(write(105, &[batch(110, 110, 2, 1)]), 1)).unwrap();
        // A write that was begun before the start offset has moved comes again.
        rig.ask(counted(write(100, &[batch(100, 106, 0, 1), batch(107, 109, 4, 1)]), 8)).unwrap();
        let batches = vec![batch(105, 106, 0, 1), batch(107, 109, 4, 1), batch(110, 110, 2, 1)];
        assert_eq!(rig.state(), StoredState { state_epoch: 0, start_offset: 105, batches });
        assert_eq!(rig.summary().delivery_complete_count, 4);
        let before = rig.state();
        rig.restart(rig.log.len());
        assert_eq!(rig.state(), before);
        // An earlier version of the request has no count.
        rig.ask(counted(write(100, &[]), -1)).unwrap();
        assert_eq!((rig.summary().start_offset, rig.summary().delivery_complete_count), (105, -1));
        // Another state begins anywhere.
        rig.ask(initialize(1, 50)).unwrap();
        assert_eq!(rig.state().start_offset, 50);
    }
}

#[test]
fn share_state_write_is_logged_as_update() {
    let mut rig = rig();
    rig.ask(initialize(0, 100)).unwrap();
    let changed = [batch(110, 119, 0, 1), batch(100, 109, 2, 1), batch(105, 105, 4, 2)];
    let part = WritePart { delivery_complete_count: 10, ..write(-1, &changed) };
    rig.ask(part).unwrap();
    // The batches of a write are in order and apart in the log too.
    let update = Update {
        snapshot_epoch: 0,
        leader_epoch: 0,
        start_offset: -1,
        delivery_complete_count: 10,
        batches: vec![
            batch(100, 104, 2, 1),
            batch(105, 105, 4, 2),
            batch(106, 109, 2, 1),
            batch(110, 119, 0, 1),
        ],
    };
    assert_eq!(rig.records(1), [Record::Update(key(0), Some(update.clone()))]);
    assert_eq!(rig.state(), StoredState { state_epoch: 0, start_offset: 100, batches: update.batches });
    rig.ask(write(106, &[batch(115, 119, 2, 1)])).unwrap();
    let batches = vec![batch(106, 109, 2, 1), batch(110, 114, 0, 1), batch(115, 119, 2, 1)];
    assert_eq!(rig.state(), StoredState { state_epoch: 0, start_offset: 106, batches });
    assert_eq!(rig.summary().delivery_complete_count, 0);
}

#[test]
fn snapshot_is_logged_after_configured_updates() {
    let mut rig = rig_with(2);
    rig.ask(initialize(5, 10)).unwrap();
    for offset in 10..14 {
        rig.pass(1);
        let part = WritePart {
            state_epoch: 5,
            delivery_complete_count: 1,
            ..write(-1, &[batch(2 * offset, 2 * offset, 2, 1)])
        };
        rig.ask(part).unwrap();
    }
    let kinds: Vec<bool> =
        rig.records(0).iter().map(|record| matches!(record, Record::Snapshot(..))).collect();
    assert_eq!(kinds, [true, false, false, true, false]);
    let snapshot = Snapshot {
        snapshot_epoch: 1,
        state_epoch: 5,
        leader_epoch: 0,
        start_offset: 10,
        delivery_complete_count: 1,
        create_ms: rig.now_ms - 1,
        write_ms: rig.now_ms - 1,
        batches: vec![batch(20, 20, 2, 1), batch(22, 22, 2, 1), batch(24, 24, 2, 1)],
    };
    assert_eq!(rig.records(3)[0], Record::Snapshot(key(0), Some(snapshot)));
    let Record::Update(_, Some(update)) = &rig.records(4)[0] else { panic!("{:?}", rig.records(4)) };
    assert_eq!(update.snapshot_epoch, 1);
    assert_eq!(rig.state().batches.len(), 4);
}

#[test]
fn without_updates_each_write_is_a_snapshot() {
    let mut rig = rig_with(0);
    rig.ask(initialize(0, 0)).unwrap();
    rig.ask(write(5, &[batch(0, 9, 0, 1)])).unwrap();
    rig.ask(read(3)).unwrap();
    for (record, epoch) in rig.records(0).into_iter().zip(0..) {
        let Record::Snapshot(_, Some(snapshot)) = record else { panic!("{record:?}") };
        assert_eq!(snapshot.snapshot_epoch, epoch);
    }
    assert_eq!(rig.log.len(), 3);
    assert_eq!(
        rig.state(),
        StoredState { state_epoch: 0, start_offset: 5, batches: vec![batch(5, 9, 0, 1)] }
    );
}

#[test]
fn read_with_newer_leader_epoch_is_logged() {
    for updates_per_snapshot in [0, 500] {
        let mut rig = rig_with(updates_per_snapshot);
        rig.ask(initialize(0, 7)).unwrap();
        rig.ask(WritePart { delivery_complete_count: 1, ..write(-1, &[batch(8, 8, 2, 1)]) }).unwrap();
        let state = StoredState { state_epoch: 0, start_offset: 7, batches: vec![batch(8, 8, 2, 1)] };
        assert_eq!(rig.ask(read(4)), Ok(state.clone()));
        assert_eq!((rig.log.len(), rig.summary().leader_epoch), (3, 4));
        // The same leader again, and a reader without an epoch.
        assert_eq!((rig.ask(read(4)), rig.ask(read(-1))), (Ok(state.clone()), Ok(state.clone())));
        assert_eq!(rig.log.len(), 3);
        let summary =
            StateSummary { state_epoch: 0, leader_epoch: 4, start_offset: 7, delivery_complete_count: 1 };
        assert_eq!(rig.summary(), summary);
        rig.restart(3);
        assert_eq!((rig.summary(), rig.state()), (summary, state));
    }
}

#[test]
fn new_leader_epoch_update_repeats_start_offset() {
    let mut rig = rig();
    rig.ask(initialize(0, 7)).unwrap();
    rig.ask(read(4)).unwrap();
    let update = Update {
        snapshot_epoch: 0,
        leader_epoch: 4,
        start_offset: 7,
        delivery_complete_count: 0,
        batches: Vec::new(),
    };
    assert_eq!(rig.records(1), [Record::Update(key(0), Some(update))]);
}

#[test]
fn writes_of_earlier_leader_epochs_are_fenced() {
    let mut rig = rig();
    rig.ask(initialize(0, 0)).unwrap();
    rig.ask(read(4)).unwrap();
    let by = |leader_epoch| WritePart { leader_epoch, ..write(-1, &[batch(0, 0, 2, 1)]) };
    assert_eq!(rig.ask(read(3)), Err(ShareStateError::FencedLeaderEpoch));
    assert_eq!(rig.ask(by(3)), Err(ShareStateError::FencedLeaderEpoch));
    assert_eq!(rig.log.len(), 2);
    for leader_epoch in [-1, 4, 5] {
        assert_eq!(rig.ask(by(leader_epoch)), Ok(()));
        // A write does not raise the epoch.
        assert_eq!(rig.summary().leader_epoch, 4);
    }
    // The fence survives an initialization, which does not have the epoch.
    rig.ask(initialize(1, 0)).unwrap();
    assert_eq!(rig.summary().leader_epoch, 0);
    assert_eq!(rig.ask(read(3)), Err(ShareStateError::FencedLeaderEpoch));
    rig.restart(rig.log.len());
    assert_eq!(rig.ask(read(3)), Err(ShareStateError::FencedLeaderEpoch));
    // The key's end takes the fences with it.
    rig.ask(delete(0)).unwrap();
    rig.ask(initialize(0, 0)).unwrap();
    assert!(rig.ask(read(3)).is_ok());
}

#[test]
fn writes_of_earlier_state_epochs_are_fenced() {
    let mut rig = rig();
    rig.ask(initialize(5, 0)).unwrap();
    let of = |state_epoch| WritePart { state_epoch, ..write(-1, &[]) };
    assert_eq!(rig.ask(of(4)), Err(ShareStateError::FencedStateEpoch));
    assert_eq!(rig.ask(initialize(4, 0)), Err(ShareStateError::FencedStateEpoch));
    for state_epoch in [-1, 5, 6] {
        assert_eq!(rig.ask(of(state_epoch)), Ok(()));
    }
    assert_eq!(rig.ask(initialize(5, 9)), Ok(()));
    // An initialization without an epoch is never fenced, and does not lower the fence.
    assert_eq!(rig.ask(initialize(-1, 0)), Ok(()));
    assert_eq!(rig.summary().state_epoch, -1);
    assert_eq!(rig.ask(of(4)), Err(ShareStateError::FencedStateEpoch));
}

#[test]
fn share_keys_without_state_are_refused_or_empty() {
    let mut rig = rig();
    assert_eq!(rig.ask(read(-1)), Err(ShareStateError::UNINITIALIZED));
    assert_eq!(rig.ask(write(0, &[])), Err(ShareStateError::UNINITIALIZED));
    assert_eq!(rig.summary(), StateSummary::UNINITIALIZED);
    assert_eq!(rig.ask(delete(0)), Ok(()));
    assert_eq!(rig.log, []);
}

#[test]
fn share_state_deletion_is_a_tombstone() {
    let mut rig = rig();
    rig.ask(initialize(5, 0)).unwrap();
    rig.ask(delete(0)).unwrap();
    assert_eq!(rig.records(1), [Record::Snapshot(key(0), None)]);
    assert_eq!(rig.summary(), StateSummary::UNINITIALIZED);
    assert_eq!(rig.coordinator.summaries().count(), 0);
    rig.restart(2);
    assert_eq!(rig.ask(read(-1)), Err(ShareStateError::UNINITIALIZED));
    rig.ask(initialize(0, 0)).unwrap();
    assert_eq!(rig.summary().state_epoch, 0);
}

#[test]
fn refusals_are_checked_in_kafkas_order() {
    use ShareStateError::{FencedLeaderEpoch, FencedStateEpoch, UnknownTopicOrPartition as Unknown};
    let (negative, uninitialized) = (ShareStateError::NEGATIVE_PARTITION, ShareStateError::UNINITIALIZED);
    let gone = Uuid::from_bytes([9; 16]);
    let mut rig = rig();
    rig.topics.0.insert(gone, 1);
    rig.announce();
    rig.ask(InitializePart { topic_id: gone, ..initialize(5, 0) }).unwrap();
    rig.ask(ReadPart { topic_id: gone, ..read(5) }).unwrap();
    rig.topics.0.remove(&gone);
    rig.announce();
    let records = rig.log.len();
    // The fences of a key come before its topic, if the operation has them.
    for (topic_id, partition, epoch, init, reading, writing, other) in [
        (gone, -1, 4, negative, negative, negative, negative),
        (gone, 0, 4, FencedStateEpoch, FencedLeaderEpoch, FencedLeaderEpoch, Unknown),
        (gone, 0, 5, Unknown, Unknown, Unknown, Unknown),
        (gone, 1, 5, Unknown, uninitialized, uninitialized, Unknown),
        (TOPIC, PARTITIONS, 5, Unknown, uninitialized, uninitialized, Unknown),
    ] {
        let case = format!("{topic_id:?} {partition} {epoch}");
        let part = InitializePart { topic_id, partition, ..initialize(epoch, 0) };
        assert_eq!(rig.ask(part), Err(init), "{case}");
        let part = ReadPart { topic_id, partition, leader_epoch: epoch };
        assert_eq!(rig.ask(part), Err(reading), "{case}");
        let part =
            WritePart { topic_id, partition, leader_epoch: epoch, state_epoch: epoch, ..write(-1, &[]) };
        assert_eq!(rig.ask(part.clone()), Err(writing), "{case}");
        assert_eq!(rig.ask(DeletePart { topic_id, partition }), Err(other), "{case}");
        assert_eq!(rig.ask(SummaryPart { topic_id, partition }), Err(other), "{case}");
    }
    let part = WritePart { topic_id: gone, leader_epoch: 5, state_epoch: 4, ..write(-1, &[]) };
    assert_eq!(rig.ask(part), Err(FencedStateEpoch));
    assert_eq!(rig.log.len(), records);
}

#[test]
fn a_request_needs_a_group() {
    let mut rig = rig();
    let ticket =
        rig.send_for("", vec![initialize(0, 0), InitializePart { partition: 1, ..initialize(0, 0) }]);
    let refused = Err(ShareStateError::NO_GROUP);
    assert_eq!(rig.answer::<InitializePart>(ticket), Some(vec![refused, refused]));
    let ticket = rig.send::<ReadPart>(Vec::new());
    assert_eq!(rig.answer::<ReadPart>(ticket), Some(Vec::new()));
}

#[test]
fn request_parts_get_results_in_order() {
    let mut rig = rig();
    let at = |partition| InitializePart { partition, ..initialize(0, i64::from(partition)) };
    let ticket = rig.send(vec![at(2), at(0), at(-1), at(1)]);
    let answers = rig.answer::<InitializePart>(ticket).unwrap();
    assert_eq!(answers, [Ok(()), Ok(()), Err(ShareStateError::NEGATIVE_PARTITION), Ok(())]);
    assert_eq!(rig.log.len(), 3);
    let ticket = rig.send(vec![summarize(1), summarize(2)]);
    let answers = rig.answer::<SummaryPart>(ticket).unwrap();
    let starts: Vec<i64> = answers.into_iter().map(|answer| answer.unwrap().start_offset).collect();
    assert_eq!(starts, [1, 2]);
    // Two operations on one key: the second one is decided on the state after the first.
    let part = |offset| write(-1, &[batch(offset, offset, 2, 1)]);
    let ticket = rig.send(vec![part(4), part(5)]);
    assert_eq!(rig.answer::<WritePart>(ticket), Some(vec![Ok(()), Ok(())]));
    assert_eq!(rig.state().batches, [batch(4, 5, 2, 1)]);
}

#[test]
fn groups_do_not_share_state() {
    let mut rig = rig();
    for group_id in ["a", "b"] {
        let ticket = rig.send_for(group_id, vec![initialize(0, 0)]);
        assert_eq!(rig.answer::<InitializePart>(ticket), Some(vec![Ok(())]));
    }
    let ticket = rig.send_for("a", vec![write(9, &[])]);
    assert_eq!(rig.answer::<WritePart>(ticket), Some(vec![Ok(())]));
    let starts: Vec<i64> = rig.coordinator.summaries().map(|(_, summary)| summary.start_offset).collect();
    assert_eq!(starts, [9, 0]);
}

#[test]
fn requests_before_and_after_the_term_are_refused() {
    let mut coordinator = Coordinator::new(ShareStateConfig::default());
    let now = Now { wall_ms: 0, steady_ms: 0 };
    let mut refusal = |event: Option<Event>| {
        event.into_iter().for_each(|event| drop(coordinator.step(event, now)));
        let request = StateRequest::new("g", vec![read(0), read(0)]);
        let actions = coordinator.step(request.event(Ticket(1)), now);
        let [Action::Reply(Ticket(1), outcome)] = &actions[..] else { panic!("{actions:?}") };
        outcome.clone()
    };
    let refused = |error| vec![Err(error), Err(error)];
    assert_eq!(refusal(None), refused(ShareStateError::CoordinatorLoadInProgress));
    assert_eq!(refusal(Some(Event::Loaded)), refused(ShareStateError::UNINITIALIZED));
    assert_eq!(refusal(Some(Event::Unload)), refused(ShareStateError::NotCoordinator));
    assert!(coordinator.is_unloaded() && coordinator.deadline().is_none());
}

/// A key or a value, or none.
type Bytes<'a> = Option<&'a [u8]>;

/// The batches of a log through the host's interface.
fn replayed(records: &[(Bytes<'_>, Bytes<'_>)]) -> (Coordinator, Result<(), ReplayFault>) {
    let mut coordinator = <Coordinator as Machine>::new(&ShareStateConfig::default());
    let topics = Arc::new(Sizes([(TOPIC, PARTITIONS)].into()));
    coordinator.step(Event::Topics(topics), Now { wall_ms: 0, steady_ms: 0 });
    coordinator.begin(3);
    let mut batch = Builder::new().base_offset(40);
    for (key, value) in records {
        batch.push(0, *key, *value);
    }
    let bytes = batch.build().unwrap();
    let result = Machine::replay(&mut coordinator, &BatchView::parse(&bytes).unwrap());
    (coordinator, result)
}

#[test]
fn logged_batches_replay_to_the_same_state() {
    let mut rig = rig();
    rig.ask(initialize(2, 5)).unwrap();
    rig.ask(write_of_2(&[5, 7])).unwrap();
    let append = Coordinator::batch(&rig.log, 1 << 20, 77).unwrap();
    let view = BatchView::parse(&append.records).unwrap();
    assert_eq!((view.record_count(), view.max_timestamp()), (2, 77));
    let records: Vec<_> =
        rig.log.iter().map(|record| (Some(&record.key[..]), record.value.as_deref())).collect();
    let (coordinator, result) = replayed(&records);
    result.unwrap();
    assert_eq!(coordinator.stored(&key(0)), Some(rig.state()));
    assert_eq!(coordinator.redundant_before(), Some(40));
    let largest = rig.log.iter().map(|record| record.key.len() + record.value.as_ref().unwrap().len()).max();
    assert!(Coordinator::batch(&rig.log, largest.unwrap(), 0).is_ok());
    assert!(Coordinator::batch(&rig.log, largest.unwrap() - 1, 0).is_err());
}

fn write_of_2(offsets: &[i64]) -> WritePart {
    let batches: Vec<_> = offsets.iter().map(|offset| batch(*offset, *offset, 2, 1)).collect();
    WritePart { state_epoch: 2, ..write(-1, &batches) }
}

#[test]
fn only_newer_records_end_the_load() {
    let mut rig = rig();
    rig.ask(initialize(0, 5)).unwrap();
    let (good, value) = (&rig.log[0].key[..], rig.log[0].value.as_deref());
    let (_, result) = replayed(&[(None, None), (Some(&[0, 0, 1]), value), (Some(&[0, 9]), value)]);
    result.unwrap();
    let (coordinator, result) = replayed(&[(Some(good), value), (Some(good), Some(&[0, 0, 0]))]);
    result.unwrap();
    assert_eq!(coordinator.summaries().count(), 1);
    let (_, result) = replayed(&[(Some(good), value), (Some(good), Some(&[0, 1]))]);
    let Err(ReplayFault::Newer { offset, .. }) = result else { panic!("{result:?}") };
    assert_eq!(offset, 41);
}

#[test]
fn state_is_loaded_from_updates_without_snapshot() {
    let update = Update {
        snapshot_epoch: 4,
        leader_epoch: 2,
        start_offset: 10,
        delivery_complete_count: 1,
        batches: vec![batch(11, 11, 2, 1)],
    };
    let mut coordinator = Coordinator::new(ShareStateConfig::default());
    for (offset, start_offset) in [(7, 10), (8, -1)] {
        let record = Record::Update(key(0), Some(Update { start_offset, ..update.clone() }));
        let encoded = record.encode().unwrap();
        coordinator.replay(offset, encoded.key, encoded.value).unwrap();
    }
    let (_, summary) = coordinator.summaries().next().unwrap();
    let expected =
        StateSummary { state_epoch: 0, leader_epoch: 2, start_offset: 10, delivery_complete_count: 1 };
    assert_eq!((summary, coordinator.redundant_before()), (expected, Some(7)));
}
