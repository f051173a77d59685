//! Commits inside transactions, their ends, and the removal of offsets.

use levada_wire::Uuid;

use crate::group::consumer::tests::{catalogue, enter};
use crate::group::error::GroupError;
use crate::group::event::{Event, Payload, Producer, Ticket};
use crate::group::request::{
    CommitPartition, CommitTopic, ConsumerHeartbeatRequest, EndTxnRequest, OffsetDeleteRequest,
    TxnCommitRequest,
};
use crate::group::tests::rig::{GROUP, Rig, commit, config, fetch};
use crate::machine::PersistFailure;

const PRODUCER: Producer = Producer { id: 7, epoch: 3 };

pub(super) fn txn_commit(group_id: &str, offset: i64) -> TxnCommitRequest {
    TxnCommitRequest {
        api_version: 5,
        group_id: group_id.into(),
        member_id: String::new(),
        group_instance_id: None,
        generation: -1,
        producer: PRODUCER,
        topics: vec![CommitTopic {
            name: "t".into(),
            topic_id: Uuid::ZERO,
            partitions: vec![CommitPartition { index: 0, offset, leader_epoch: -1, metadata: None }],
        }],
    }
}

pub(super) fn end(rig: &mut Rig, commit: bool) -> Ticket {
    let end = EndTxnRequest { producer: PRODUCER, coordinator_epoch: 0, commit, transaction_version: 2 };
    rig.send_event(|ticket| Event::EndTxn(ticket, end))
}

fn delete(topic: &str) -> OffsetDeleteRequest {
    OffsetDeleteRequest { group_id: GROUP.into(), topics: vec![(topic.into(), vec![0, 9])] }
}

fn stable_offset(rig: &mut Rig, group_id: &str) -> Result<i64, GroupError> {
    let partition = rig.ask(fetch(group_id, "t", true)).unwrap()[0].partitions[0].clone();
    partition.error.map_or(Ok(partition.offset), Err)
}

#[test]
fn transaction_without_member_commits_into_consumer_group() {
    let mut rig = Rig::new(config());
    rig.step(catalogue(&[("t", 1)]));
    rig.ask(enter("m", &["t"])).unwrap();
    assert!(rig.ask(txn_commit(GROUP, 9)).is_ok());
    let named = TxnCommitRequest { member_id: "m".into(), ..txn_commit(GROUP, 9) };
    assert_eq!(rig.ask(named), Err(GroupError::IllegalGeneration), "whoever is named must be in the epoch");
    let unknown = TxnCommitRequest { group_instance_id: Some("i".into()), ..txn_commit(GROUP, 9) };
    assert_eq!(rig.ask(unknown), Err(GroupError::UnknownMemberId));
    let ended = end(&mut rig, true);
    assert_eq!(rig.end_txn(ended), Some(Ok(())));
    assert_eq!(rig.committed(GROUP, "t"), 9);
}

#[test]
fn transactional_offset_takes_effect_on_transaction_commit() {
    for (commits, expected) in [(true, 9), (false, 5)] {
        for restarts in [false, true] {
            let mut rig = Rig::new(config());
            rig.commit(commit("s", "t", 5)).unwrap();
            rig.ask(txn_commit("s", 9)).unwrap();
            if restarts {
                rig.restart();
            }
            assert_eq!(rig.committed("s", "t"), 5);
            assert_eq!(stable_offset(&mut rig, "s"), Err(GroupError::UnstableOffsetCommit));
            let ended = end(&mut rig, commits);
            assert_eq!(rig.end_txn(ended), Some(Ok(())));
            assert_eq!(stable_offset(&mut rig, "s"), Ok(expected));
            rig.restart();
            assert_eq!(stable_offset(&mut rig, "s"), Ok(expected), "after a restart");
        }
    }
}

#[test]
fn transaction_end_applies_after_its_earlier_commits() {
    let mut rig = Rig::new(config());
    rig.hold_appends = true;
    let committed = rig.send(txn_commit("s", 9));
    let ended = end(&mut rig, true);
    let (commit_id, payload) = rig.held.pop_front().unwrap();
    assert!(matches!(&payload, Payload::Transactional(PRODUCER, records) if records.len() == 1));
    let (end_id, _) = rig.held.pop_front().unwrap();
    rig.step(Event::Persisted(end_id, Ok(1)));
    assert_eq!(rig.end_txn(ended), None, "its turn has not come");
    rig.step(Event::Persisted(commit_id, Ok(0)));
    assert_eq!(rig.end_txn(ended), Some(Ok(())));
    assert_eq!(rig.answer::<TxnCommitRequest>(committed).unwrap().unwrap()[0].partitions, [(0, None)]);
    assert_eq!(stable_offset(&mut rig, "s"), Ok(9));
}

#[test]
fn refused_transactional_write_returns_its_error() {
    for (failure, expected) in [
        (PersistFailure::ProducerFenced, GroupError::InvalidProducerEpoch),
        (PersistFailure::TransactionState, GroupError::InvalidTxnState),
        (PersistFailure::CoordinatorFenced, GroupError::TransactionCoordinatorFenced),
    ] {
        let mut rig = Rig::new(config());
        rig.hold_appends = true;
        let committed = rig.send(txn_commit("s", 9));
        rig.finish_append(Some(failure));
        assert_eq!(rig.answer::<TxnCommitRequest>(committed).unwrap(), Err(expected));
        let ended = end(&mut rig, true);
        rig.finish_append(Some(failure));
        assert_eq!(rig.end_txn(ended), Some(Err(expected)));
        assert_eq!(stable_offset(&mut rig, "s"), Ok(-1));
    }
}

#[test]
fn transactional_commit_checks_named_members() {
    let mut rig = Rig::new(config());
    let unknown = TxnCommitRequest { generation: 0, ..txn_commit("none", 1) };
    assert_eq!(rig.ask(unknown.clone()), Err(GroupError::IllegalGeneration));
    let by_id = TxnCommitRequest { api_version: 6, ..unknown };
    assert_eq!(rig.ask(by_id), Err(GroupError::GroupIdNotFound));
    assert_eq!(rig.ask(txn_commit("", 1)), Err(GroupError::InvalidGroupId));
    let members = rig.stable(1);
    let generation = rig.rebalance(&members);
    let named = |member_id: &str, generation, instance: Option<&str>| TxnCommitRequest {
        member_id: member_id.into(),
        generation,
        group_instance_id: instance.map(Into::into),
        ..txn_commit(GROUP, 1)
    };
    for (request, expected) in [
        (named("", -1, None), None),
        (named(&members[0], generation, None), None),
        (named(&members[0], generation + 1, None), Some(GroupError::IllegalGeneration)),
        (named("nobody", generation, None), Some(GroupError::UnknownMemberId)),
        (named(&members[0], generation, Some("i")), Some(GroupError::UnknownMemberId)),
    ] {
        assert_eq!(rig.ask(request.clone()).err(), expected, "{request:?}");
    }
    // Even while the leader assigns, when plain commits have to wait.
    let ticket = rig.send(rig.join(&members[0]));
    let generation = rig.joined(ticket).generation;
    assert_eq!(rig.ask(named(&members[0], generation, None)).err(), None);
}

#[test]
fn offset_delete_spares_topics_a_member_uses() {
    let mut rig = Rig::new(config());
    assert_eq!(rig.ask(delete("t")), Err(GroupError::GroupIdNotFound));
    rig.commit(commit(GROUP, "t", 5)).unwrap();
    rig.commit(commit(GROUP, "u", 6)).unwrap();
    rig.stable(1);
    let used = Some(GroupError::GroupSubscribedToTopic);
    assert_eq!(rig.ask(delete("t")).unwrap()[0].partitions, [(0, used), (9, used)]);
    assert_eq!(rig.ask(delete("u")).unwrap()[0].partitions, [(0, None), (9, None)]);
    assert_eq!((rig.committed(GROUP, "t"), rig.committed(GROUP, "u")), (5, -1));
    rig.restart();
    assert_eq!((rig.committed(GROUP, "t"), rig.committed(GROUP, "u")), (5, -1));
}

#[test]
fn offset_delete_drops_pending_transactional_offset() {
    let mut rig = Rig::new(config());
    rig.ask(txn_commit(GROUP, 9)).unwrap();
    rig.ask(delete("t")).unwrap();
    end(&mut rig, true);
    assert_eq!(stable_offset(&mut rig, GROUP), Ok(-1));
}

#[test]
fn offset_delete_is_refused_for_other_protocol_types() {
    let mut rig = Rig::new(config());
    rig.commit(commit(GROUP, "t", 5)).unwrap();
    let mut join = rig.join("");
    (join.protocol_type, join.api_version) = ("connect".into(), 3);
    rig.send(join);
    assert_eq!(rig.ask(delete("t")), Err(GroupError::NonEmptyGroup));
    assert_eq!(rig.committed(GROUP, "t"), 5);
}

#[test]
fn transactional_commit_is_logged_before_its_end_marker() {
    let mut rig = Rig::new(config());
    rig.step(catalogue(&[("t", 1)]));
    rig.hold_appends = true;
    let entered = rig.send(enter("m", &["t"]));
    // The partition's guard ends when the request is dismissed, and then the marker may come.
    let committed = rig.send(txn_commit(GROUP, 9));
    let ended = end(&mut rig, true);
    let is_commit = |payload: &Payload| matches!(payload, Payload::Transactional(..));
    let order: Vec<bool> = rig.held.iter().map(|(_, payload)| is_commit(payload)).collect();
    assert_eq!(order, [false, true, false], "the group, the commit, the marker");
    rig.finish_appends();
    assert!(rig.answer::<ConsumerHeartbeatRequest>(entered).unwrap().is_ok());
    assert!(rig.answer::<TxnCommitRequest>(committed).unwrap().is_ok());
    assert_eq!(rig.end_txn(ended), Some(Ok(())));
    rig.hold_appends = false;
    assert_eq!(stable_offset(&mut rig, GROUP), Ok(9));
    assert_eq!(rig.coordinator.describe_consumer(GROUP).unwrap().members.len(), 1);
}
