//! Whole share groups, driven through a coordinator: members and epochs.

mod offsets;
mod state;

use std::sync::Arc;

use super::SHARE_ASSIGNOR;
use crate::group::config::{GroupConfig, OwnSetting, ShareConfig};
use crate::group::consumer::tests::{catalogue, id_of};
use crate::group::coordinator::{DescribedShareGroup, ListFilter};
use crate::group::error::GroupError;
use crate::group::event::Event;
use crate::group::records::Partitions;
use crate::group::request::{
    CommitRequest, ConsumerHeartbeatRequest, DeleteRequest, FetchRequest, HeartbeatRequest, LeaveRequest,
    OffsetDeleteRequest, ShareBeat, ShareHeartbeatRequest, SyncRequest, TxnCommitRequest,
};
use crate::group::tests::rig::{GROUP, Rig, commit, config, fetch, heartbeat, leave, sync};
use crate::group::{Producer, consumer};
use crate::machine::PersistFailure;

/// Settings without a pause between two assignments.
pub(in crate::group) fn share_config() -> GroupConfig {
    GroupConfig { share: ShareConfig { assignment_interval_ms: 0, ..ShareConfig::default() }, ..config() }
}

fn rig() -> Rig {
    let mut rig = Rig::new(share_config());
    rig.step(catalogue(&[("t", 4), ("u", 2)]));
    rig
}

/// A heartbeat that says nothing new.
pub(in crate::group) fn beat(member_id: &str, epoch: i32) -> ShareHeartbeatRequest {
    ShareHeartbeatRequest {
        group_id: GROUP.into(),
        member_id: member_id.into(),
        member_epoch: epoch,
        rack_id: None,
        client_id: "client".into(),
        client_host: "/127.0.0.1".into(),
        topics: None,
    }
}

pub(in crate::group) fn enter(member_id: &str, topics: &[&str]) -> ShareHeartbeatRequest {
    ShareHeartbeatRequest {
        topics: Some(topics.iter().map(|&topic| topic.into()).collect()),
        ..beat(member_id, 0)
    }
}

fn parts(topic: &str, partitions: &[i32]) -> Partitions {
    [(id_of(topic), partitions.iter().copied().collect())].into()
}

fn ok(rig: &mut Rig, request: ShareHeartbeatRequest) -> ShareBeat {
    rig.ask(request).unwrap()
}

fn group(rig: &Rig) -> DescribedShareGroup {
    rig.coordinator.describe_share(GROUP).unwrap()
}

fn count(assigned: Option<&Partitions>) -> usize {
    assigned.into_iter().flat_map(|partitions| partitions.values()).map(|indexes| indexes.len()).sum()
}

/// A member whose partitions of `t` are initialized; returns its epoch.
fn settled(rig: &mut Rig) -> i32 {
    ok(rig, enter("a", &["t"]));
    let beat = ok(rig, beat("a", 2));
    assert_eq!((beat.member_epoch, beat.assigned), (3, Some(parts("t", &[0, 1, 2, 3]))));
    3
}

#[test]
fn a_member_gets_initialized_partitions() {
    let mut rig = rig();
    let first = ok(&mut rig, enter("a", &["t"]));
    let interval_ms = first.heartbeat_interval_ms;
    assert_eq!((first.member_epoch, first.assigned, interval_ms), (2, Some(Partitions::new()), 5_000));
    let second = ok(&mut rig, beat("a", 2));
    assert_eq!((second.member_epoch, second.assigned), (3, Some(parts("t", &[0, 1, 2, 3]))));
    let third = ok(&mut rig, beat("a", 3));
    assert_eq!((third.member_epoch, third.assigned), (3, None));
    let records = rig.log.len();
    ok(&mut rig, beat("a", 3));
    assert_eq!(rig.log.len(), records, "nothing has changed");
    let described = group(&rig);
    let summary = (described.state, described.epoch, described.target_epoch, described.assignor);
    assert_eq!(summary, ("Stable", 3, 3, SHARE_ASSIGNOR));
    let member = &described.members[0];
    assert_eq!((&*member.member_id, member.epoch, &member.topics[..]), ("a", 3, &["t".to_owned()][..]));
    assert_eq!(member.assigned, parts("t", &[0, 1, 2, 3]));
    rig.restart();
    rig.step(catalogue(&[("t", 4), ("u", 2)]));
    assert_eq!(group(&rig), described, "the log says it all");
}

#[test]
fn share_members_share_partitions_immediately() {
    let mut rig = rig();
    settled(&mut rig);
    let b = ok(&mut rig, enter("b", &["t"]));
    assert_eq!((b.member_epoch, count(b.assigned.as_ref())), (4, 2));
    let a = ok(&mut rig, beat("a", 3));
    assert_eq!((a.member_epoch, count(a.assigned.as_ref())), (4, 2));
    for (id, epoch) in [("c", 5), ("d", 6), ("e", 7)] {
        assert_eq!(ok(&mut rig, enter(id, &["t"])).member_epoch, epoch);
    }
    for id in ["a", "b", "c", "d"] {
        let member = ok(&mut rig, ShareHeartbeatRequest { member_epoch: 0, ..beat_all(id) });
        assert_eq!(member.member_epoch, 7, "{id}");
        assert!((1..=2).contains(&count(member.assigned.as_ref())), "{id}");
    }
}

/// A heartbeat of a member that has lost a response.
fn beat_all(member_id: &str) -> ShareHeartbeatRequest {
    ShareHeartbeatRequest { topics: Some(vec!["t".into()]), ..beat(member_id, 0) }
}

#[test]
fn changed_subscription_moves_share_partitions() {
    let mut rig = rig();
    settled(&mut rig);
    let both = ShareHeartbeatRequest { topics: Some(vec!["u".into()]), ..beat("a", 3) };
    let beat_u = ok(&mut rig, both);
    assert_eq!((beat_u.member_epoch, count(beat_u.assigned.as_ref())), (4, 0), "u has no state yet");
    let with_u = ok(&mut rig, beat("a", 4));
    assert_eq!((with_u.member_epoch, with_u.assigned), (5, Some(parts("u", &[0, 1]))));
    let client = ShareHeartbeatRequest { client_id: "other".into(), ..beat("a", 5) };
    assert_eq!(ok(&mut rig, client).member_epoch, 5, "a new client id moves nothing");
    assert_eq!(group(&rig).members[0].client_id, "other");
}

#[test]
fn members_leave_and_expire() {
    let mut rig = rig();
    settled(&mut rig);
    ok(&mut rig, enter("b", &["t"]));
    let left = ok(&mut rig, beat("b", -1));
    assert_eq!((left.member_epoch, left.heartbeat_interval_ms, left.assigned), (-1, 0, None));
    let a = ok(&mut rig, beat("a", 3));
    assert_eq!((a.member_epoch, a.assigned), (5, None), "its partitions are the same");
    assert_eq!(count(Some(&group(&rig).members[0].assigned)), 4);
    assert_eq!(rig.ask(beat("b", -1)), Err(GroupError::UnknownMemberId));
    rig.pass(44_000);
    ok(&mut rig, beat("a", 5));
    rig.pass(44_999);
    assert_eq!(group(&rig).state, "Stable");
    rig.pass(1);
    let described = group(&rig);
    assert_eq!((described.state, described.epoch, described.members.len()), ("Empty", 6, 0));
    assert_eq!(rig.ask(beat("a", 5)), Err(GroupError::UnknownMemberId));
    rig.pass(14 * 24 * 3_600_000);
    assert_eq!(group(&rig).state, "Empty", "share groups stay");
    let back = ok(&mut rig, enter("a", &["t"]));
    assert_eq!((back.member_epoch, count(back.assigned.as_ref())), (7, 4), "the state is still there");
}

#[test]
fn share_sessions_restart_after_coordinator_restart() {
    let mut rig = rig();
    settled(&mut rig);
    rig.pass(40_000);
    rig.restart();
    rig.step(catalogue(&[("t", 4), ("u", 2)]));
    rig.pass(44_999);
    assert_eq!(group(&rig).members.len(), 1);
    rig.pass(1);
    assert_eq!(group(&rig).members.len(), 0);
}

#[test]
fn member_epochs_are_fenced() {
    for (epoch, expected) in [
        (3, Ok(3)),
        (2, Ok(3)),
        (0, Ok(3)),
        (1, Err(GroupError::fenced("share", 1, 3))),
        (4, Err(GroupError::fenced("share", 4, 3))),
    ] {
        let mut rig = rig();
        settled(&mut rig);
        let request = if epoch == 0 { enter("a", &["t"]) } else { beat("a", epoch) };
        let answer = rig.ask(request).map(|beat| beat.member_epoch);
        assert_eq!(answer, expected, "{epoch}");
    }
}

#[test]
fn invalid_heartbeats_are_refused() {
    let mut rig = rig();
    let named = |topics: &[&str]| Some(topics.iter().map(|&topic| topic.into()).collect());
    for (request, message) in [
        (ShareHeartbeatRequest { member_id: " ".into(), ..enter("a", &["t"]) }, "MemberId can't be empty."),
        (ShareHeartbeatRequest { group_id: String::new(), ..enter("a", &["t"]) }, "GroupId can't be empty."),
        (
            ShareHeartbeatRequest { rack_id: Some(String::new()), ..enter("a", &["t"]) },
            "RackId can't be empty.",
        ),
        (beat("a", 0), "SubscribedTopicNames must be set in first request."),
        (
            ShareHeartbeatRequest { topics: named(&[]), ..beat("a", 0) },
            "SubscribedTopicNames must be set in first request.",
        ),
        (beat("a", -2), "MemberEpoch is invalid."),
    ] {
        assert_eq!(rig.ask(request), Err(GroupError::InvalidRequest(message)));
    }
    assert_eq!(rig.ask(beat("a", 1)), Err(GroupError::GroupIdNotFound));
    assert_eq!(rig.ask(beat("a", -1)), Err(GroupError::GroupIdNotFound));
    settled(&mut rig);
    assert_eq!(rig.ask(beat("b", 1)), Err(GroupError::UnknownMemberId));
}

#[test]
fn a_full_group_takes_no_new_member() {
    let mut settings = share_config();
    settings.share.max_size = 2;
    let mut rig = Rig::new(settings);
    rig.step(catalogue(&[("t", 4)]));
    settled(&mut rig);
    ok(&mut rig, enter("b", &["t"]));
    assert_eq!(rig.ask(enter("c", &["t"])), Err(GroupError::GroupMaxSizeReached));
    ok(&mut rig, enter("b", &["t"]));
    ok(&mut rig, beat("a", -1));
    ok(&mut rig, enter("c", &["t"]));
}

#[test]
fn assignments_keep_their_interval() {
    let mut settings = share_config();
    settings.share.assignment_interval_ms = 1_000;
    let mut rig = Rig::new(settings);
    rig.step(catalogue(&[("t", 4)]));
    let first = ok(&mut rig, enter("a", &["t"]));
    assert_eq!(first.member_epoch, 2);
    // The epoch is higher, and its assignment has to wait.
    let early = ok(&mut rig, beat("a", 2));
    assert_eq!((early.member_epoch, early.assigned, group(&rig).epoch), (2, None, 3));
    assert_eq!(ok(&mut rig, beat("a", 2)).member_epoch, 2);
    assert_eq!(group(&rig).epoch, 3, "the epoch rises once");
    let other = ok(&mut rig, enter("b", &["t"]));
    assert_eq!((other.member_epoch, other.assigned), (2, Some(Partitions::new())));
    rig.pass(1_000);
    let late = ok(&mut rig, beat("a", 2));
    assert_eq!((late.member_epoch, count(late.assigned.as_ref())), (4, 2));
    // The clock is set back: nothing waits for it.
    rig.ahead_ms = -3_600_000;
    assert_eq!(ok(&mut rig, beat("b", -1)).member_epoch, -1);
    assert_eq!(ok(&mut rig, beat("a", 4)).member_epoch, 5);
}

#[test]
fn group_specific_settings_override_broker_settings() {
    let mut rig = rig();
    let own = OwnSetting {
        share_session_timeout_ms: Some(50_000),
        share_heartbeat_interval_ms: Some(7_000),
        share_assignment_interval_ms: Some(60_000),
        ..OwnSetting::default()
    };
    rig.step(Event::OwnSettings(Arc::new([(GROUP.to_owned(), own)].into())));
    assert_eq!(ok(&mut rig, enter("a", &["t"])).heartbeat_interval_ms, 7_000);
    assert_eq!(ok(&mut rig, beat("a", 2)).member_epoch, 2, "the next assignment waits");
    rig.pass(49_999);
    assert_eq!(group(&rig).members.len(), 1);
    rig.pass(1);
    assert_eq!(group(&rig).members.len(), 0);
}

#[test]
fn other_protocols_cannot_use_share_group() {
    let mut rig = rig();
    settled(&mut rig);
    assert_eq!(rig.ask(rig.join("")).error, Some(GroupError::InconsistentGroupProtocol));
    assert_eq!(rig.ask::<SyncRequest>(sync("a", 1, &[])).error, Some(GroupError::UnknownMemberId));
    assert_eq!(rig.ask::<HeartbeatRequest>(heartbeat("a", 1)), Err(GroupError::UnknownMemberId));
    let left = rig.ask::<LeaveRequest>(leave(&[("a", None)])).unwrap();
    assert_eq!(left[0].error, Some(GroupError::UnknownMemberId));
    for epoch in [0, 1, -1] {
        let request = ConsumerHeartbeatRequest { member_epoch: epoch, ..consumer::tests::enter("a", &["t"]) };
        let request = if epoch == 0 { request } else { consumer::tests::beat("a", epoch) };
        assert_eq!(rig.ask(request), Err(GroupError::GroupIdNotFound), "{epoch}");
    }
    for generation in [-1, 3] {
        let request = CommitRequest { generation, ..commit(GROUP, "t", 5) };
        assert_eq!(rig.ask(request), Err(GroupError::GroupIdNotFound), "{generation}");
    }
    let CommitRequest { topics, .. } = commit(GROUP, "t", 5);
    let in_transaction = TxnCommitRequest {
        api_version: 5,
        group_id: GROUP.into(),
        member_id: String::new(),
        group_instance_id: None,
        generation: -1,
        producer: Producer { id: 7, epoch: 0 },
        topics,
    };
    assert_eq!(rig.ask(in_transaction), Err(GroupError::GroupIdNotFound));
    let fetched = rig.ask::<FetchRequest>(fetch(GROUP, "t", false)).unwrap();
    assert_eq!((fetched[0].partitions[0].offset, fetched[0].partitions[0].error), (-1, None));
    let removed = OffsetDeleteRequest { group_id: GROUP.into(), topics: vec![("t".into(), vec![0])] };
    assert_eq!(rig.ask(removed), Err(GroupError::GroupIdNotFound));
    let described = rig.coordinator.describe(GROUP);
    assert_eq!((described.error, described.is_consumer), (Some(GroupError::GroupIdNotFound), true));
    assert!(rig.coordinator.describe_consumer(GROUP).is_err());
    assert_eq!(group(&rig).members.len(), 1, "nothing has changed");
}

/// Name of a kind of group, and the way to make such a group.
type Kind = (&'static str, fn(&mut Rig));

#[test]
fn share_members_cannot_use_other_group_types() {
    let kinds: [Kind; 3] = [
        ("classic", |rig| {
            rig.stable(1);
        }),
        ("consumer", |rig| {
            rig.ask(consumer::tests::enter("a", &["t"])).unwrap();
        }),
        ("offsets only", |rig| {
            rig.ask(commit(GROUP, "t", 5)).unwrap();
        }),
    ];
    for (kind, make) in kinds {
        let mut rig = rig();
        make(&mut rig);
        for request in [enter("s", &["t"]), beat("s", 3), beat("s", -1)] {
            assert_eq!(rig.ask(request), Err(GroupError::GroupIdNotFound), "{kind}");
        }
        assert_eq!(rig.coordinator.describe_share(GROUP), Err(GroupError::GroupIdNotFound), "{kind}");
        rig.restart();
        assert!(rig.coordinator.describe_share(GROUP).is_err(), "{kind}");
    }
}

#[test]
fn group_name_is_reusable_after_durable_removal() {
    let mut rig = rig();
    rig.ask(commit(GROUP, "t", 5)).unwrap();
    rig.hold_appends = true;
    let deletion = rig.send(DeleteRequest { group_ids: vec![GROUP.into()] });
    assert_eq!(rig.ask(enter("a", &["t"])), Err(GroupError::CoordinatorNotAvailable));
    rig.hold_appends = false;
    rig.finish_appends();
    assert_eq!(rig.answer::<DeleteRequest>(deletion).unwrap()[0].1, None);
    settled(&mut rig);
    rig.restart();
    assert_eq!(group(&rig).members.len(), 1);
}

#[test]
fn lists_have_share_groups_by_type_and_state() {
    let mut rig = rig();
    settled(&mut rig);
    rig.ask(commit("simple", "t", 5)).unwrap();
    let listed = |rig: &Rig, states: &[&str], types: &[&str]| {
        let filter = ListFilter::of(states.iter().copied(), types.iter().copied());
        let groups = rig.coordinator.list(&filter).unwrap().into_iter();
        groups.map(|group| (group.group_id, group.protocol_type, group.state)).collect::<Vec<_>>()
    };
    let share = |state: &'static str| vec![(GROUP.to_owned(), "share".to_owned(), state)];
    assert_eq!(listed(&rig, &[], &["Share"]), share("Stable"));
    assert_eq!(listed(&rig, &["stable"], &[]), share("Stable"));
    assert_eq!(listed(&rig, &["empty"], &["share"]), []);
    assert_eq!(listed(&rig, &[], &["classic"]).len(), 1);
    ok(&mut rig, beat("a", -1));
    assert_eq!(listed(&rig, &["EMPTY"], &["share"]), share("Empty"));
    assert_eq!((rig.coordinator.group_count(), rig.coordinator.knows(GROUP)), (2, true));
}

#[test]
fn a_failed_append_changes_nothing() {
    let mut rig = rig();
    rig.hold_appends = true;
    let join = rig.send(enter("a", &["t"]));
    let held = rig.send(enter("b", &["t"]));
    assert!(rig.finish_append(Some(PersistFailure::Unavailable)));
    let refused = rig.answer::<ShareHeartbeatRequest>(join);
    assert_eq!(refused, Some(Err(GroupError::CoordinatorNotAvailable)));
    rig.hold_appends = false;
    rig.finish_appends();
    let joined = rig.answer::<ShareHeartbeatRequest>(held).unwrap().unwrap();
    assert_eq!(joined.member_epoch, 2, "the group is new");
    // A member whose removal could not be written is removed later.
    rig.hold_appends = true;
    rig.pass(45_000);
    assert!(rig.finish_append(Some(PersistFailure::Unavailable)));
    assert_eq!(group(&rig).members.len(), 1);
    rig.hold_appends = false;
    rig.pass(45_000);
    assert_eq!(group(&rig).members.len(), 0);
}

#[test]
fn an_unloaded_coordinator_refuses_share_groups() {
    let mut rig = rig();
    settled(&mut rig);
    rig.hold_appends = true;
    let (writing, held) = (rig.send(enter("b", &["t"])), rig.send(beat("a", 3)));
    rig.step(Event::Unload);
    for ticket in [writing, held] {
        assert_eq!(rig.answer::<ShareHeartbeatRequest>(ticket), Some(Err(GroupError::NotCoordinator)));
    }
    assert_eq!(rig.ask(beat("a", 3)), Err(GroupError::NotCoordinator));
    assert_eq!(rig.coordinator.describe_share(GROUP), Err(GroupError::NotCoordinator));
    assert_eq!(rig.coordinator.initialized_share_partitions(GROUP), Err(GroupError::NotCoordinator));
    assert!(rig.waiting.is_empty());
}

#[test]
fn metrics_count_members_and_rebalances() {
    let mut rig = rig();
    let epoch = settled(&mut rig);
    let mut room = crate::group::coordinator::Room { groups: 9, offsets: 9, id_bytes: 99 };
    let (groups, left_out) = rig.coordinator.monitored(&mut room);
    assert_eq!((groups.len(), left_out, groups[0].members, groups[0].rebalances), (1, 0, 1, epoch));
    assert_eq!(groups[0].listed.group_type, "share");
}
