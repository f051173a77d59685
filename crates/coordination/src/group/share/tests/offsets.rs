//! Start offsets that administrators set and delete.

use levada_wire::{ErrorCode, Uuid};

use super::state::{named, refused, state};
use super::{beat, count, enter, group, ok, parts, rig, settled};
use crate::group::consumer::tests::id_of;
use crate::group::coordinator::{RefusedPartitions, ShareStateChange};
use crate::group::error::GroupError;
use crate::group::event::Event;
use crate::group::records::StatePartitions;
use crate::group::request::{
    AlterShareOffsetsRequest, AlteredTopic, DeleteShareOffsetsRequest, DeletedTopic, StartOffsetTopic,
};
use crate::group::tests::rig::{GROUP, Rig, commit};
use crate::machine::{PersistFailure, Ticket};

fn alter(topics: &[(&str, &[(i32, i64)])]) -> AlterShareOffsetsRequest {
    let topics = topics
        .iter()
        .map(|(name, partitions)| StartOffsetTopic { name: (*name).into(), partitions: partitions.to_vec() });
    AlterShareOffsetsRequest { group_id: GROUP.into(), topics: topics.collect() }
}

fn altered(name: &str, topic_id: Uuid, partitions: &[(i32, Option<GroupError>)]) -> AlteredTopic {
    AlteredTopic { name: name.into(), topic_id, partitions: partitions.to_vec() }
}

fn delete(topics: &[&str]) -> DeleteShareOffsetsRequest {
    DeleteShareOffsetsRequest {
        group_id: GROUP.into(),
        topics: topics.iter().map(|&topic| topic.into()).collect(),
    }
}

fn deleted(name: &str, topic_id: Uuid, error: Option<GroupError>) -> DeletedTopic {
    DeletedTopic { name: name.into(), topic_id, error }
}

fn done() -> Result<RefusedPartitions, ErrorCode> {
    Ok(RefusedPartitions::new())
}

const UNKNOWN: Option<GroupError> = Some(GroupError::UnknownTopicOrPartition);

#[test]
fn share_start_offsets_create_a_group() {
    let mut rig = rig();
    rig.hold_share_works = true;
    let request = alter(&[("t", &[(1, 42), (4, 7), (-1, 7)]), ("gone", &[(0, 1)])]);
    let ticket = rig.send(request);
    let begun = StatePartitions { initializing: named("t", &[1]), ..StatePartitions::default() };
    assert_eq!(state(&rig), Some(begun));
    let offsets = [(id_of("t"), [(1, 42)].into())].into();
    assert_eq!(rig.share_works[0].change, ShareStateChange::Initialize { state_epoch: 1, offsets });
    assert_eq!(rig.answer::<AlterShareOffsetsRequest>(ticket), None);
    assert!(rig.finish_share_work(done()));
    let answer = rig.answer::<AlterShareOffsetsRequest>(ticket).unwrap().unwrap();
    let t = altered("t", id_of("t"), &[(1, None), (4, UNKNOWN), (-1, UNKNOWN)]);
    assert_eq!(answer, [t, altered("gone", Uuid::ZERO, &[(0, UNKNOWN)])]);
    assert_eq!(rig.coordinator.initialized_share_partitions(GROUP), Ok(parts("t", &[1])));
    assert_eq!((group(&rig).state, group(&rig).epoch), ("Empty", 1));
    rig.restart();
    rig.step(crate::group::consumer::tests::catalogue(&[("t", 4)]));
    // A member gets that partition immediately; the other ones begin with the group's own rule.
    let joined = ok(&mut rig, enter("a", &["t"]));
    assert_eq!((joined.member_epoch, joined.assigned), (2, Some(parts("t", &[1]))));
    let offsets = [(id_of("t"), [(0, -1), (2, -1), (3, -1)].into())].into();
    assert_eq!(rig.share_works[0].change, ShareStateChange::Initialize { state_epoch: 2, offsets });
}

#[test]
fn start_offsets_need_an_empty_share_group() {
    let mut rig = rig();
    settled(&mut rig);
    assert_eq!(rig.ask(alter(&[("t", &[(0, 1)])])), Err(GroupError::NonEmptyGroup));
    assert_eq!(rig.ask(delete(&["t"])), Err(GroupError::NonEmptyGroup));
    rig.ask(commit("simple", "t", 5)).unwrap();
    let simple = || "simple".to_owned();
    let other = AlterShareOffsetsRequest { group_id: simple(), ..alter(&[("t", &[(0, 1)])]) };
    assert_eq!(rig.ask(other), Err(GroupError::GroupIdNotFound));
    let other = DeleteShareOffsetsRequest { group_id: simple(), ..delete(&["t"]) };
    assert_eq!(rig.ask(other), Err(GroupError::GroupIdNotFound));
    let nameless = AlterShareOffsetsRequest { group_id: String::new(), ..alter(&[]) };
    assert_eq!(rig.ask(nameless), Err(GroupError::InvalidGroupId));
    let nameless = DeleteShareOffsetsRequest { group_id: String::new(), ..delete(&[]) };
    assert_eq!(rig.ask(nameless), Err(GroupError::InvalidGroupId));
}

#[test]
fn empty_share_start_offsets_create_no_group() {
    let mut rig = rig();
    let answer = rig.ask(alter(&[("gone", &[(0, 1)]), ("t", &[])])).unwrap();
    assert_eq!(answer, [altered("gone", Uuid::ZERO, &[(0, UNKNOWN)]), altered("t", id_of("t"), &[])]);
    assert!(!rig.coordinator.knows(GROUP) && rig.log.is_empty());
}

#[test]
fn refused_start_offsets_are_reported() {
    let code = ErrorCode::FencedLeaderEpoch;
    let error = GroupError::ShareState(code.code());
    let partial = [altered("t", id_of("t"), &[(0, None), (1, Some(error))])];
    for (end, expected) in [(Err(code), Err(error)), (refused("t", 1, code), Ok(partial.to_vec()))] {
        let mut rig = rig();
        rig.hold_share_works = true;
        let ticket = rig.send(alter(&[("t", &[(0, 5), (1, 6)])]));
        assert!(rig.finish_share_work(end));
        assert_eq!(rig.answer::<AlterShareOffsetsRequest>(ticket), Some(expected));
        assert!(rig.coordinator.initialized_share_partitions(GROUP).unwrap().is_empty());
    }
}

#[test]
fn offsets_are_deleted_with_their_state() {
    let mut rig = rig();
    settled(&mut rig);
    ok(&mut rig, beat("a", -1));
    rig.hold_share_works = true;
    let ticket = rig.send(delete(&["gone", "t", "u", "t"]));
    assert_eq!(rig.share_works[0].change, ShareStateChange::Delete { partitions: parts("t", &[0, 1, 2, 3]) });
    let deleting = StatePartitions { deleting: [(id_of("t"), "t".to_owned())].into(), ..Default::default() };
    assert_eq!(state(&rig), Some(deleting));
    assert!(rig.finish_share_work(done()));
    let answer = rig.answer::<DeleteShareOffsetsRequest>(ticket).unwrap().unwrap();
    let expected = [
        deleted("t", id_of("t"), None),
        deleted("gone", Uuid::ZERO, UNKNOWN),
        deleted("u", Uuid::ZERO, Some(GroupError::NoShareOffsets)),
    ];
    assert_eq!(answer, expected);
    assert_eq!(state(&rig), Some(StatePartitions::default()));
    // The next member begins again.
    rig.hold_share_works = false;
    let joined = ok(&mut rig, enter("a", &["t"]));
    assert_eq!(count(joined.assigned.as_ref()), 0);
    assert_eq!(count(ok(&mut rig, beat("a", joined.member_epoch)).assigned.as_ref()), 4);
}

#[test]
fn refused_deletions_of_offsets_are_reported_and_repeated() {
    let code = ErrorCode::NotCoordinator;
    let error = GroupError::ShareState(code.code());
    let partial = vec![deleted("t", id_of("t"), Some(error))];
    for (end, expected) in [(Err(code), Err(error)), (refused("t", 1, code), Ok(partial))] {
        let mut rig = rig();
        settled(&mut rig);
        ok(&mut rig, beat("a", -1));
        rig.hold_share_works = true;
        let ticket = rig.send(delete(&["t"]));
        assert!(rig.finish_share_work(end));
        assert_eq!(rig.answer::<DeleteShareOffsetsRequest>(ticket), Some(expected));
        assert!(rig.coordinator.initialized_share_partitions(GROUP).unwrap().is_empty());
        let ticket = rig.send(delete(&["t"]));
        assert!(rig.finish_share_work(done()));
        let answer = rig.answer::<DeleteShareOffsetsRequest>(ticket).unwrap();
        assert_eq!(answer, Ok(vec![deleted("t", id_of("t"), None)]));
    }
}

#[test]
fn groups_without_state_have_no_offsets_to_delete() {
    let mut rig = rig();
    ok(&mut rig, enter("a", &["gone"]));
    ok(&mut rig, beat("a", -1));
    assert_eq!(rig.ask(delete(&["t"])), Ok(Vec::new()));
    assert_eq!(
        rig.ask(DeleteShareOffsetsRequest { group_id: "none".into(), ..delete(&["t"]) }),
        Err(GroupError::GroupIdNotFound)
    );
}

fn begin(rig: &mut Rig) -> (Ticket, Ticket) {
    settled(rig);
    ok(rig, beat("a", -1));
    rig.hold_share_works = true;
    let other = AlterShareOffsetsRequest { group_id: "other".into(), ..alter(&[("t", &[(0, 1)])]) };
    (rig.send(delete(&["t"])), rig.send(other))
}

#[test]
fn requests_about_offsets_are_refused_without_a_log() {
    // The coordinator is unloaded while the share coordinator works, or the records announce it.
    let mut works = rig();
    let (first, second) = begin(&mut works);
    works.step(Event::Unload);
    assert_eq!(works.answer::<DeleteShareOffsetsRequest>(first), Some(Err(GroupError::NotCoordinator)));
    assert_eq!(works.answer::<AlterShareOffsetsRequest>(second), Some(Err(GroupError::NotCoordinator)));
    let mut writes = rig();
    settled(&mut writes);
    ok(&mut writes, beat("a", -1));
    writes.hold_appends = true;
    let first = writes.send(delete(&["t"]));
    let held = writes.send(alter(&[("t", &[(0, 1)])]));
    writes.step(Event::Unload);
    assert_eq!(writes.answer::<DeleteShareOffsetsRequest>(first), Some(Err(GroupError::NotCoordinator)));
    assert_eq!(writes.answer::<AlterShareOffsetsRequest>(held), Some(Err(GroupError::NotCoordinator)));
}

#[test]
fn full_disks_refuse_requests_about_offsets() {
    let mut rig = rig();
    let unavailable = GroupError::CoordinatorNotAvailable;
    // Neither the announcement nor the end of the work can be written.
    for failed in [0, 1] {
        rig.hold_appends = true;
        let ticket = rig.send(alter(&[("t", &[(0, 1)])]));
        for _ in 0..failed {
            assert!(rig.finish_append(None));
        }
        assert!(rig.finish_append(Some(PersistFailure::Unavailable)));
        assert_eq!(rig.answer::<AlterShareOffsetsRequest>(ticket), Some(Err(unavailable)));
    }
    rig.hold_appends = false;
    assert!(rig.ask(alter(&[("t", &[(0, 1)])])).is_ok());
    rig.hold_appends = true;
    let ticket = rig.send(delete(&["t"]));
    assert!(rig.finish_append(None) && rig.finish_append(Some(PersistFailure::Unavailable)));
    assert_eq!(rig.answer::<DeleteShareOffsetsRequest>(ticket), Some(Err(unavailable)));
}
