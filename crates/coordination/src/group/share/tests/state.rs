//! Initialization of state at the share coordinator, growth and deletion of topics, deletion of
//! groups.

use std::collections::BTreeMap;

use levada_wire::ErrorCode;

use super::{beat, count, enter, group, ok, parts, rig, settled};
use crate::group::consumer::tests::{catalogue, id_of};
use crate::group::coordinator::{RefusedPartitions, ShareStateChange, ShareStateEnd};
use crate::group::error::GroupError;
use crate::group::event::Event;
use crate::group::records::{NamedTopic, Record, ShareRecord, StatePartitions};
use crate::group::request::{DeleteRequest, ShareHeartbeatRequest, StartOffsets};
use crate::group::tests::rig::{GROUP, Logged, Rig, commit, gone};
use crate::machine::PersistFailure;

/// The last record of the group's state in the log.
pub(super) fn state(rig: &Rig) -> Option<StatePartitions> {
    let records = rig.log.iter().rev().filter_map(|logged| match logged {
        Logged::Record(record, _) => Record::decode(record.key.clone(), record.value.clone()).ok(),
        Logged::Marker(..) => None,
    });
    let mut states = records.filter_map(|record| match record {
        Record::Share(_, ShareRecord::State(state)) => Some(state),
        _ => None,
    });
    states.next().flatten()
}

fn unset(topic: &str, partitions: &[i32]) -> StartOffsets {
    [(id_of(topic), partitions.iter().map(|index| (*index, -1)).collect())].into()
}

pub(super) fn named(topic: &str, partitions: &[i32]) -> BTreeMap<levada_wire::Uuid, NamedTopic> {
    let named = NamedTopic { name: topic.into(), partitions: partitions.iter().copied().collect() };
    [(id_of(topic), named)].into()
}

pub(super) fn refused(topic: &str, index: i32, error: ErrorCode) -> Result<RefusedPartitions, ErrorCode> {
    Ok([((id_of(topic), index), error)].into())
}

fn done() -> Result<RefusedPartitions, ErrorCode> {
    Ok(RefusedPartitions::new())
}

fn initialize(state_epoch: i32, offsets: StartOffsets) -> ShareStateChange {
    ShareStateChange::Initialize { state_epoch, offsets }
}

fn delete(group_ids: &[&str]) -> DeleteRequest {
    DeleteRequest { group_ids: group_ids.iter().map(|&id| id.into()).collect() }
}

#[test]
fn partitions_are_assigned_after_their_initialization() {
    let mut rig = rig();
    rig.hold_share_works = true;
    ok(&mut rig, enter("a", &["t", "gone"]));
    assert_eq!(rig.share_works.len(), 1);
    assert_eq!(rig.share_works[0].change, initialize(2, unset("t", &[0, 1, 2, 3])));
    let begun = StatePartitions { initializing: named("t", &[0, 1, 2, 3]), ..StatePartitions::default() };
    assert_eq!(state(&rig), Some(begun));
    assert!(rig.coordinator.initialized_share_partitions(GROUP).unwrap().is_empty());
    let waiting = ok(&mut rig, beat("a", 2));
    assert_eq!((waiting.member_epoch, waiting.assigned, rig.share_works.len()), (2, None, 1));
    assert!(rig.finish_share_work(done()));
    let there = StatePartitions { initialized: named("t", &[0, 1, 2, 3]), ..StatePartitions::default() };
    assert_eq!(state(&rig), Some(there));
    assert_eq!(rig.coordinator.initialized_share_partitions(GROUP), Ok(parts("t", &[0, 1, 2, 3])));
    assert_eq!(group(&rig).epoch, 2, "a heartbeat raises the epoch");
    assert_eq!(count(ok(&mut rig, beat("a", 2)).assigned.as_ref()), 4);
}

#[test]
fn refused_share_initialization_is_retried() {
    let ends = [Err(ErrorCode::CoordinatorNotAvailable), refused("t", 2, ErrorCode::FencedLeaderEpoch)];
    for end in ends {
        let mut rig = rig();
        rig.hold_share_works = true;
        ok(&mut rig, enter("a", &["t"]));
        assert!(rig.finish_share_work(end));
        assert_eq!(state(&rig), Some(StatePartitions::default()));
        assert!(rig.share_works.is_empty(), "a heartbeat begins it");
        ok(&mut rig, beat("a", 2));
        assert_eq!(rig.share_works[0].change, initialize(2, unset("t", &[0, 1, 2, 3])));
        assert!(rig.finish_share_work(done()));
        assert_eq!(count(ok(&mut rig, beat("a", 2)).assigned.as_ref()), 4);
    }
}

#[test]
fn a_lost_initialization_is_repeated_after_the_interval() {
    let mut rig = rig();
    rig.hold_share_works = true;
    ok(&mut rig, enter("a", &["t"]));
    let first = rig.share_works.pop_front().unwrap();
    rig.pass(29_999);
    ok(&mut rig, beat("a", 2));
    assert!(rig.share_works.is_empty());
    rig.pass(1);
    // The wall clock does not matter.
    rig.ahead_ms = -3_600_000;
    ok(&mut rig, beat("a", 2));
    assert_eq!(rig.share_works[0].change, first.change);
    ok(&mut rig, beat("a", 2));
    assert_eq!(rig.share_works.len(), 1);
    // Both may still end.
    rig.step(Event::ShareStateDone(ShareStateEnd { id: first.id, group_id: GROUP.into(), result: done() }));
    assert!(rig.finish_share_work(done()));
    let records = rig.log.len();
    rig.step(Event::ShareStateDone(ShareStateEnd { id: first.id, group_id: GROUP.into(), result: done() }));
    assert_eq!(rig.log.len(), records, "a work ends once");
    assert_eq!(count(ok(&mut rig, beat("a", 2)).assigned.as_ref()), 4);
}

#[test]
fn an_initialization_survives_a_restart() {
    let mut rig = rig();
    rig.hold_share_works = true;
    ok(&mut rig, enter("a", &["t"]));
    let old = rig.share_works[0].clone();
    rig.pass(20_000);
    rig.restart();
    rig.step(catalogue(&[("t", 4)]));
    rig.step(Event::ShareStateDone(ShareStateEnd { id: old.id, group_id: GROUP.into(), result: done() }));
    assert!(rig.coordinator.initialized_share_partitions(GROUP).unwrap().is_empty(), "of another term");
    rig.pass(29_999);
    ok(&mut rig, beat("a", 2));
    assert!(rig.share_works.is_empty());
    rig.pass(1);
    ok(&mut rig, beat("a", 2));
    assert_eq!(rig.share_works[0].change, old.change);
    assert_ne!(rig.share_works[0].id, old.id);
    assert!(rig.finish_share_work(done()));
    assert_eq!(count(ok(&mut rig, beat("a", 2)).assigned.as_ref()), 4);
}

#[test]
fn unlogged_initialization_end_changes_nothing() {
    let mut rig = rig();
    rig.hold_share_works = true;
    ok(&mut rig, enter("a", &["t"]));
    rig.hold_appends = true;
    assert!(rig.finish_share_work(done()));
    let held = rig.send(beat("a", 2));
    assert!(rig.finish_append(Some(PersistFailure::Unavailable)));
    rig.hold_appends = false;
    rig.finish_appends();
    assert_eq!(rig.answer::<ShareHeartbeatRequest>(held).unwrap().unwrap().assigned, None);
    rig.pass(30_000);
    ok(&mut rig, beat("a", 2));
    assert!(rig.finish_share_work(done()));
    assert_eq!(count(ok(&mut rig, beat("a", 2)).assigned.as_ref()), 4);
}

#[test]
fn new_partitions_are_initialized_and_assigned() {
    let mut rig = rig();
    let epoch = settled(&mut rig);
    rig.hold_share_works = true;
    rig.step(catalogue(&[("t", 6), ("u", 2)]));
    let grown = ok(&mut rig, beat("a", epoch));
    assert_eq!((grown.member_epoch, grown.assigned), (4, None), "the topics have another hash");
    assert_eq!(rig.share_works[0].change, initialize(4, unset("t", &[4, 5])));
    assert!(rig.finish_share_work(done()));
    let all = ok(&mut rig, beat("a", 4));
    assert_eq!((all.member_epoch, all.assigned), (5, Some(parts("t", &[0, 1, 2, 3, 4, 5]))));
}

#[test]
fn deleted_topic_loses_its_share_state() {
    let mut rig = rig();
    let epoch = settled(&mut rig);
    rig.step(catalogue(&[("u", 2)]));
    rig.step(Event::TopicsDeleted(vec![gone("t", id_of("t"))]));
    assert_eq!(state(&rig), Some(StatePartitions::default()));
    let after = ok(&mut rig, beat("a", epoch));
    assert_eq!((after.member_epoch, count(after.assigned.as_ref())), (4, 0));
    let records = rig.log.len();
    ok(&mut rig, beat("a", 4));
    assert_eq!(rig.log.len(), records, "the epoch does not rise again");
    // A topic that no group has state of.
    rig.step(Event::TopicsDeleted(vec![gone("u", id_of("u"))]));
    assert_eq!(rig.log.len(), records);
}

#[test]
fn topic_deletion_waits_for_share_group_write() {
    let mut rig = rig();
    settled(&mut rig);
    rig.hold_appends = true;
    let join = rig.send(enter("b", &["t"]));
    rig.step(catalogue(&[("u", 2)]));
    rig.step(Event::TopicsDeleted(vec![gone("t", id_of("t"))]));
    rig.hold_appends = false;
    rig.finish_appends();
    assert!(rig.answer::<ShareHeartbeatRequest>(join).unwrap().is_ok());
    assert_eq!(state(&rig), Some(StatePartitions::default()));
}

#[test]
fn topic_deletion_during_share_initialization_is_safe() {
    for is_announced in [true, false] {
        let mut rig = rig();
        rig.hold_share_works = true;
        ok(&mut rig, enter("a", &["t"]));
        rig.step(catalogue(&[("u", 2)]));
        if is_announced {
            rig.step(Event::TopicsDeleted(vec![gone("t", id_of("t"))]));
        }
        assert!(rig.finish_share_work(done()));
        assert_eq!(state(&rig), Some(StatePartitions::default()), "announced: {is_announced}");
    }
}

#[test]
fn a_group_is_deleted_after_its_state() {
    let mut rig = rig();
    settled(&mut rig);
    assert_eq!(rig.ask(delete(&[GROUP])), [(GROUP.to_owned(), Some(GroupError::NonEmptyGroup))]);
    ok(&mut rig, beat("a", -1));
    rig.hold_share_works = true;
    let ticket = rig.send(delete(&[GROUP]));
    assert_eq!(rig.answer::<DeleteRequest>(ticket), None);
    let deleting = StatePartitions { deleting: [(id_of("t"), "t".to_owned())].into(), ..Default::default() };
    assert_eq!(state(&rig), Some(deleting));
    let change = ShareStateChange::Delete { partitions: parts("t", &[0, 1, 2, 3]) };
    assert_eq!(rig.share_works[0].change, change);
    assert_eq!(group(&rig).state, "Empty");
    assert!(rig.finish_share_work(done()));
    assert_eq!(rig.answer::<DeleteRequest>(ticket).unwrap(), [(GROUP.to_owned(), None)]);
    assert!(!rig.coordinator.knows(GROUP));
    rig.restart();
    assert!(!rig.coordinator.knows(GROUP), "the log says it all");
    assert_eq!(rig.ask(delete(&[GROUP])), [(GROUP.to_owned(), Some(GroupError::GroupIdNotFound))]);
}

#[test]
fn share_groups_stay_if_state_deletion_fails() {
    let code = ErrorCode::CoordinatorNotAvailable;
    for end in [Err(code), refused("t", 1, code)] {
        let mut rig = rig();
        settled(&mut rig);
        ok(&mut rig, beat("a", -1));
        rig.hold_share_works = true;
        let ticket = rig.send(delete(&[GROUP, "other", GROUP]));
        assert!(rig.finish_share_work(end));
        let error = Some(GroupError::ShareState(code.code()));
        let answer = rig.answer::<DeleteRequest>(ticket).unwrap();
        assert_eq!(answer[0], (GROUP.to_owned(), error));
        assert_eq!(answer[1], ("other".to_owned(), Some(GroupError::GroupIdNotFound)));
        assert_eq!(ErrorCode::from(answer[0].1.unwrap()), code);
        // The next attempt deletes the same state.
        let ticket = rig.send(delete(&[GROUP]));
        let change = ShareStateChange::Delete { partitions: parts("t", &[0, 1, 2, 3]) };
        assert_eq!(rig.share_works[0].change, change);
        assert!(rig.finish_share_work(done()));
        assert_eq!(rig.answer::<DeleteRequest>(ticket).unwrap()[0].1, None);
    }
}

#[test]
fn initialization_result_after_deletion_is_ignored() {
    let mut rig = rig();
    rig.hold_share_works = true;
    ok(&mut rig, enter("a", &["t"]));
    ok(&mut rig, beat("a", -1));
    let ticket = rig.send(delete(&[GROUP]));
    let joined = ok(&mut rig, enter("a", &["t"]));
    assert_eq!(rig.share_works.len(), 3);
    assert!(rig.finish_share_work(done()));
    assert_eq!(count(ok(&mut rig, beat("a", joined.member_epoch)).assigned.as_ref()), 0);
    assert!(rig.coordinator.initialized_share_partitions(GROUP).unwrap().is_empty());
    assert!(rig.finish_share_work(done()));
    assert_eq!(rig.answer::<DeleteRequest>(ticket).unwrap()[0].1, Some(GroupError::NonEmptyGroup));
    assert!(rig.finish_share_work(done()));
    assert_eq!(count(ok(&mut rig, beat("a", joined.member_epoch)).assigned.as_ref()), 4);
}

#[test]
fn a_member_may_join_while_state_is_deleted() {
    let mut rig = rig();
    settled(&mut rig);
    ok(&mut rig, beat("a", -1));
    rig.hold_share_works = true;
    let ticket = rig.send(delete(&[GROUP]));
    let joined = ok(&mut rig, enter("b", &["t"]));
    assert_eq!(count(joined.assigned.as_ref()), 0, "no partition has state any more");
    assert!(rig.finish_share_work(done()));
    assert_eq!(rig.answer::<DeleteRequest>(ticket).unwrap()[0].1, Some(GroupError::NonEmptyGroup));
    assert_eq!(rig.share_works.len(), 1, "the state begins again");
    assert!(rig.finish_share_work(done()));
    let epoch = joined.member_epoch;
    assert_eq!(count(ok(&mut rig, beat("b", epoch)).assigned.as_ref()), 4);
}

#[test]
fn groups_of_all_kinds_are_deleted_together() {
    let mut rig = rig();
    settled(&mut rig);
    ok(&mut rig, beat("a", -1));
    rig.ask(commit("simple", "t", 5)).unwrap();
    let stateless = ShareHeartbeatRequest { group_id: "stateless".into(), ..enter("a", &["gone"]) };
    rig.ask(stateless.clone()).unwrap();
    rig.ask(ShareHeartbeatRequest { member_epoch: -1, ..stateless }).unwrap();
    let answer = rig.ask(delete(&["simple", GROUP, "none", "stateless"]));
    let errors: Vec<_> = answer.into_iter().map(|(_, error)| error).collect();
    assert_eq!(errors, [None, None, Some(GroupError::GroupIdNotFound), None]);
    assert_eq!(rig.coordinator.group_count(), 0);
    rig.restart();
    assert_eq!(rig.coordinator.group_count(), 0);
}

#[test]
fn deletions_wait_for_writes_of_their_groups() {
    let mut rig = rig();
    let of = |group_id: &str, request| ShareHeartbeatRequest { group_id: group_id.into(), ..request };
    for group_id in ["one", "two"] {
        rig.ask(of(group_id, enter("a", &["t"]))).unwrap();
    }
    rig.ask(of("one", beat("a", -1))).unwrap();
    rig.hold_appends = true;
    let leave = rig.send(of("two", beat("a", -1)));
    // The second group is being written: the deletion of both waits, and then finds it empty.
    let first = rig.send(delete(&["one", "two"]));
    assert!(rig.finish_append(None));
    assert!(rig.answer::<ShareHeartbeatRequest>(leave).unwrap().is_ok());
    rig.hold_share_works = true;
    assert!(rig.finish_append(None) && rig.finish_append(None));
    assert_eq!(rig.share_works.len(), 2);
    // While the state is deleted, a member joins the second group, and is being written at the end.
    assert!(rig.finish_share_work(done()));
    let join = rig.send(of("two", enter("b", &["t"])));
    let held = rig.send(of("two", beat("b", -1)));
    assert!(rig.finish_share_work(done()));
    rig.hold_appends = false;
    rig.finish_appends();
    assert!(rig.answer::<ShareHeartbeatRequest>(join).unwrap().is_ok());
    assert!(rig.answer::<ShareHeartbeatRequest>(held).unwrap().is_ok());
    let answer = rig.answer::<DeleteRequest>(first).unwrap();
    assert_eq!(answer, [("one".to_owned(), None), ("two".to_owned(), None)]);
    assert_eq!(rig.coordinator.group_count(), 0);
}

#[test]
fn deletions_that_fail_to_write_restore_groups() {
    let mut rig = rig();
    settled(&mut rig);
    ok(&mut rig, beat("a", -1));
    rig.hold_appends = true;
    let first = rig.send(delete(&[GROUP]));
    assert!(rig.finish_append(Some(PersistFailure::Unavailable)));
    let unavailable = Some(GroupError::CoordinatorNotAvailable);
    assert_eq!(rig.answer::<DeleteRequest>(first).unwrap()[0].1, unavailable, "nothing has begun");
    let second = rig.send(delete(&[GROUP]));
    assert!(rig.finish_append(None), "the state is gone");
    let join = rig.send(enter("b", &["t"]));
    assert!(rig.finish_append(Some(PersistFailure::Unavailable)), "and the group is not");
    assert_eq!(rig.answer::<DeleteRequest>(second).unwrap()[0].1, unavailable);
    rig.hold_appends = false;
    rig.finish_appends();
    assert_eq!(rig.answer::<ShareHeartbeatRequest>(join).unwrap().unwrap().member_epoch, 5);
}

#[test]
fn joins_wait_for_the_end_of_a_deletion() {
    let mut rig = rig();
    settled(&mut rig);
    ok(&mut rig, beat("a", -1));
    rig.hold_appends = true;
    let deletion = rig.send(delete(&[GROUP]));
    assert!(rig.finish_append(None));
    let join = rig.send(enter("b", &["t"]));
    assert_eq!(rig.answer::<ShareHeartbeatRequest>(join), None);
    rig.hold_appends = false;
    rig.finish_appends();
    assert_eq!(rig.answer::<DeleteRequest>(deletion).unwrap()[0].1, None);
    let joined = rig.answer::<ShareHeartbeatRequest>(join).unwrap().unwrap();
    assert_eq!(joined.member_epoch, 2, "the group is new");
}

#[test]
fn an_unloaded_coordinator_refuses_deletions() {
    let mut rig = rig();
    settled(&mut rig);
    ok(&mut rig, beat("a", -1));
    rig.hold_share_works = true;
    let ticket = rig.send(delete(&[GROUP]));
    rig.step(Event::Unload);
    assert_eq!(rig.answer::<DeleteRequest>(ticket).unwrap()[0].1, Some(GroupError::NotCoordinator));
    assert!(rig.finish_share_work(done()));
    rig.restart();
    rig.step(catalogue(&[("t", 4)]));
    // The log says what to delete.
    let ticket = rig.send(delete(&[GROUP]));
    let change = ShareStateChange::Delete { partitions: parts("t", &[0, 1, 2, 3]) };
    assert_eq!(rig.share_works[0].change, change);
    assert!(rig.finish_share_work(done()));
    assert_eq!(rig.answer::<DeleteRequest>(ticket).unwrap()[0].1, None);
}
