//! Topologies, offsets, and groups that begin, change their kind and end.

use super::{active, beat, codes, enter, group, ok, owning, rig, rig_with, topology};
use crate::group::config::{OwnSetting, OwnSettings, OwnStreamsSetting};
use crate::group::consumer::tests::catalogue;
use crate::group::coordinator::ListFilter;
use crate::group::error::GroupError;
use crate::group::event::Event;
use crate::group::records::{Endpoint, Topology};
use crate::group::request::{
    CommitRequest, DeleteRequest, EndpointPartitions, FetchRequest, OffsetDeleteRequest,
    StreamsHeartbeatRequest, StreamsStatus, TxnCommitRequest,
};
use crate::group::share;
use crate::group::tests::rig::{GROUP, Rig, commit, fetch};
use crate::group::{Producer, consumer};
use crate::machine::PersistFailure;

fn commit_as(member_id: &str, epoch: i32) -> CommitRequest {
    CommitRequest { member_id: member_id.into(), generation: epoch, api_version: 9, ..commit(GROUP, "t", 7) }
}

#[test]
fn missing_topics_are_named_and_then_used() {
    let mut rig = rig();
    rig.step(catalogue(&[("u", 1)]));
    let joined = ok(&mut rig, enter("a"));
    assert_eq!(codes(&joined), [StreamsStatus::MISSING_SOURCE_TOPICS]);
    assert_eq!((joined.member_epoch, group(&rig).state), (2, "NotReady"));
    rig.step(catalogue(&[("t", 3)]));
    let internal = ok(&mut rig, beat("a", 2));
    assert_eq!(codes(&internal), [StreamsStatus::MISSING_INTERNAL_TOPICS]);
    assert_eq!(internal.missing_topics.len(), 1);
    assert_eq!(
        (internal.missing_topics[0].name.as_str(), internal.missing_topics[0].partitions),
        ("store", 3)
    );
    let again = ok(&mut rig, beat("a", internal.member_epoch));
    assert_eq!(again.missing_topics.len(), 1, "until they exist");
    rig.step(catalogue(&[("t", 3), ("store", 2)]));
    let other = ok(&mut rig, beat("a", again.member_epoch));
    assert_eq!(codes(&other), [StreamsStatus::INCORRECTLY_PARTITIONED_TOPICS]);
    rig.step(catalogue(&[("t", 3), ("store", 3)]));
    let ready = ok(&mut rig, beat("a", other.member_epoch));
    assert_eq!((codes(&ready), ready.assigned), (vec![], active(&[0, 1, 2])));
    let described = group(&rig).topology.unwrap();
    assert_eq!(described.subtopologies[0].state_changelog_topics[0].partitions, 3);
}

#[test]
fn topologies_of_a_group_do_not_change() {
    let mut rig = rig();
    ok(&mut rig, enter("a"));
    let with = |topology| StreamsHeartbeatRequest { topology: Some(topology), ..enter("b") };
    let other = Topology { epoch: 1, ..topology() };
    let refused = Err(GroupError::InvalidRequest("Topology updates are not supported yet."));
    assert_eq!(rig.ask(with(other)), refused);
    assert_eq!(rig.ask(with(Topology::default())), refused);
    rig.ask(beat("a", -1)).unwrap();
    rig.ask(DeleteRequest { group_ids: vec![GROUP.into()] });
    ok(&mut rig, with(Topology { epoch: 1, ..topology() }));
    let stale = ok(&mut rig, enter("c"));
    assert_eq!(codes(&stale), [StreamsStatus::STALE_TOPOLOGY]);
}

#[test]
fn tasks_that_do_not_exist_are_refused() {
    let mut rig = rig();
    ok(&mut rig, enter("a"));
    assert!(matches!(rig.ask(owning("a", 2, &[4])), Err(GroupError::InvalidRequest(_))));
    assert!(matches!(rig.ask(owning("a", 2, &[-1])), Err(GroupError::InvalidRequest(_))));
}

#[test]
fn changed_streams_endpoints_are_sent_to_members() {
    let mut rig = rig();
    let endpoint = |port| Endpoint { host: "host".into(), port };
    let with = |member_id, port| StreamsHeartbeatRequest {
        user_endpoint: Some(endpoint(port)),
        endpoint_epoch: -1,
        ..enter(member_id)
    };
    let first = ok(&mut rig, with("a", 1));
    assert_eq!((first.endpoint_epoch, first.endpoints.unwrap().len()), (0, 1), "a new group");
    let second = ok(&mut rig, with("b", 2));
    assert_eq!(second.endpoint_epoch, 1);
    let told = ok(&mut rig, beat("a", 2)).endpoints.unwrap();
    let active = |partitions| vec![("t".to_owned(), partitions)];
    let of = |port, active| EndpointPartitions { endpoint: endpoint(port), active, standby: Vec::new() };
    assert_eq!(told, [of(2, vec![]), of(1, active(vec![0, 1]))]);
    let known = StreamsHeartbeatRequest { endpoint_epoch: 2, ..beat("a", 2) };
    assert_eq!(ok(&mut rig, known).endpoints, None);
}

#[test]
fn member_can_shut_down_its_streams_application() {
    let mut rig = rig();
    ok(&mut rig, enter("a"));
    ok(&mut rig, enter("b"));
    let shutdown = StreamsHeartbeatRequest { shutdown_application: true, ..beat("a", -1) };
    assert!(ok(&mut rig, shutdown).status.is_empty());
    assert_eq!(codes(&ok(&mut rig, beat("b", 3))), [StreamsStatus::SHUTDOWN_APPLICATION]);
    rig.ask(beat("b", -1)).unwrap();
    assert!(ok(&mut rig, enter("b")).status.is_empty(), "the group was empty");
}

#[test]
fn a_commit_needs_the_epoch_of_its_task() {
    let mut rig = rig();
    ok(&mut rig, enter("a"));
    ok(&mut rig, enter("b"));
    ok(&mut rig, owning("a", 2, &[0, 1, 2, 3]));
    ok(&mut rig, owning("a", 2, &[0, 1]));
    assert!(rig.ask(commit_as("a", 3)).unwrap()[0].partitions[0].1.is_none());
    assert!(rig.ask(commit_as("a", 2)).is_ok(), "the task is as old");
    assert_eq!(rig.ask(commit_as("a", 1)), Err(GroupError::StaleMemberEpoch));
    assert_eq!(rig.ask(commit_as("a", 4)), Err(GroupError::StaleMemberEpoch));
    assert_eq!(rig.ask(commit_as("b", 2)), Err(GroupError::StaleMemberEpoch));
    assert_eq!(rig.ask(commit_as("c", 3)), Err(GroupError::UnknownMemberId));
    let old = CommitRequest { api_version: 8, ..commit_as("a", 3) };
    assert_eq!(rig.ask(old), Err(GroupError::UnsupportedVersion));
    let member =
        |epoch| FetchRequest { member_id: Some("a".into()), member_epoch: epoch, ..fetch(GROUP, "t", false) };
    assert!(rig.ask(fetch(GROUP, "t", false)).is_ok());
    assert!(rig.ask(member(3)).is_ok());
    assert_eq!(rig.ask(member(2)), Err(GroupError::StaleMemberEpoch));
}

#[test]
fn transactions_commit_with_and_without_a_member() {
    let mut rig = rig();
    ok(&mut rig, enter("a"));
    let txn = |member_id: &str, epoch| TxnCommitRequest {
        api_version: 5,
        group_id: GROUP.into(),
        member_id: member_id.into(),
        group_instance_id: None,
        generation: epoch,
        producer: Producer { id: 1, epoch: 0 },
        topics: commit(GROUP, "t", 7).topics,
    };
    assert!(rig.ask(txn("", -1)).is_ok());
    assert!(rig.ask(txn("a", 2)).is_ok());
    assert_eq!(rig.ask(txn("a", 1)), Err(GroupError::IllegalGeneration));
    assert_eq!(rig.ask(txn("x", 2)), Err(GroupError::UnknownMemberId));
}

#[test]
fn offsets_of_source_topics_are_in_use() {
    let mut rig = rig();
    ok(&mut rig, enter("a"));
    rig.ask(commit_as("a", 2)).unwrap();
    let delete = || OffsetDeleteRequest { group_id: GROUP.into(), topics: vec![("t".into(), vec![0])] };
    let error = |rig: &mut Rig| rig.ask(delete()).unwrap()[0].partitions[0].1;
    assert_eq!(error(&mut rig), Some(GroupError::GroupSubscribedToTopic));
    rig.ask(beat("a", -1)).unwrap();
    assert_eq!(error(&mut rig), None);
}

#[test]
fn empty_groups_expire_with_their_offsets() {
    let mut rig = rig();
    ok(&mut rig, enter("a"));
    rig.ask(commit_as("a", 2)).unwrap();
    rig.ask(beat("a", -1)).unwrap();
    let retention_ms = rig.config.offsets_retention_ms;
    rig.pass(retention_ms - 700_000);
    assert!(rig.coordinator.knows(GROUP));
    rig.pass(1_400_000);
    assert!(!rig.coordinator.knows(GROUP));
    rig.restart();
    assert!(!rig.coordinator.knows(GROUP));
}

#[test]
fn groups_are_listed_and_deleted() {
    let mut rig = rig();
    ok(&mut rig, enter("a"));
    let listed = rig.coordinator.list(&ListFilter::of(["stable"], ["Streams"])).unwrap();
    assert_eq!((listed[0].protocol_type.as_str(), listed[0].group_type), ("streams", "streams"));
    let delete = || DeleteRequest { group_ids: vec![GROUP.into()] };
    assert_eq!(rig.ask(delete())[0].1, Some(GroupError::NonEmptyGroup));
    rig.ask(beat("a", -1)).unwrap();
    assert_eq!(rig.ask(delete())[0].1, None);
    assert!(!rig.coordinator.knows(GROUP));
    rig.restart();
    assert!(!rig.coordinator.knows(GROUP));
}

#[test]
fn groups_change_their_kind_while_empty() {
    let mut rig = rig();
    rig.ask(commit(GROUP, "t", 7)).unwrap();
    ok(&mut rig, enter("a"));
    assert_eq!(group(&rig).state, "Stable");
    let classic = rig.join("");
    let refused = rig.ask(classic.clone()).error;
    assert_eq!(refused, Some(GroupError::InconsistentGroupProtocol));
    let kinds = |rig: &mut Rig| {
        let consumer = rig.ask(consumer::tests::enter("c", &["t"])).err();
        (consumer, rig.ask(share::tests::enter("s", &["t"])).err())
    };
    let not_found = Some(GroupError::GroupIdNotFound);
    assert_eq!(kinds(&mut rig), (not_found, not_found));
    rig.ask(beat("a", -1)).unwrap();
    assert_eq!(kinds(&mut rig), (not_found, not_found), "also while it is empty");
    assert_eq!(rig.ask(classic).error, Some(GroupError::MemberIdRequired));
    assert_eq!(rig.coordinator.describe_streams(GROUP), Err(GroupError::GroupIdNotFound));
    assert_eq!(rig.ask(fetch(GROUP, "t", false)).unwrap()[0].partitions[0].offset, 7, "offsets stay");
}

#[test]
fn full_groups_take_no_more_members() {
    let mut rig = rig_with(|config| config.max_size = 1);
    ok(&mut rig, enter("a"));
    assert_eq!(rig.ask(enter("b")), Err(GroupError::GroupMaxSizeReached));
    assert_eq!(ok(&mut rig, enter("a")).member_epoch, 2, "a member of the group joins again");
}

#[test]
fn streams_group_settings_apply_immediately() {
    let mut rig = rig();
    ok(&mut rig, enter("a"));
    ok(&mut rig, enter("b"));
    let streams = OwnStreamsSetting {
        heartbeat_interval_ms: Some(7_000),
        num_standby_replicas: Some(1),
        task_offset_interval_ms: Some(20_000),
        acceptable_recovery_lag: Some(5),
        ..OwnStreamsSetting::default()
    };
    let own = OwnSetting { streams, ..OwnSetting::default() };
    rig.step(Event::OwnSettings(OwnSettings::from([(GROUP.to_owned(), own)]).into()));
    let before = group(&rig).epoch;
    let beat = ok(&mut rig, beat("b", 3));
    assert_eq!((beat.heartbeat_interval_ms, group(&rig).epoch), (7_000, before + 1));
    assert_eq!((beat.task_offset_interval_ms, beat.acceptable_recovery_lag), (20_000, 5));
}

#[test]
fn a_failed_write_changes_nothing() {
    let mut rig = rig();
    rig.hold_appends = true;
    let ticket = rig.send(enter("a"));
    rig.finish_append(Some(PersistFailure::Unavailable));
    rig.hold_appends = false;
    assert_eq!(rig.answer::<StreamsHeartbeatRequest>(ticket), Some(Err(GroupError::CoordinatorNotAvailable)));
    assert!(!rig.coordinator.knows(GROUP));
    assert_eq!(rig.ask(beat("a", 1)), Err(GroupError::GroupIdNotFound));
}
