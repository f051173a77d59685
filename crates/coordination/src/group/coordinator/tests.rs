//! Offsets, administration, loading and failures of a coordinator.

mod clocks;
mod in_flight;
mod listing;
mod migration;
mod newer;
mod transactions;

use bytes::Bytes;
use levada_base::Now;
use levada_wire::Uuid;

use super::{Coordinator, ListFilter, Replayed, Room};
use crate::group::config::GroupConfig;
use crate::group::error::GroupError;
use crate::group::event::{Action, Event, Outcome, Payload, Ticket};
use crate::group::records::tests::golden;
use crate::group::records::{OffsetKey, OffsetValue, Record};
use crate::group::request::{
    CommitPartition, CommitRequest, CommitTopic, DeleteRequest, FetchRequest, FetchTopic, JoinRequest,
    LeaveRequest,
};
use crate::group::tests::rig::{Rig, commit, commit_as, config, fetch, gone, heartbeat, leave, sync};
use crate::machine::{PersistFailure, Request, partition_for};

#[test]
fn groups_hash_to_same_partition_as_kafka() {
    for (partition, record) in golden() {
        let (Record::Offset(OffsetKey { group_id, .. }, _) | Record::Group(group_id, _)) =
            Record::decode(record.key, record.value).unwrap()
        else {
            continue;
        };
        assert_eq!(partition_for(&group_id, 50), partition, "{group_id}");
    }
    assert_eq!(partition_for("", 50), 0);
    // Java's hash of this text is the one integer that has no absolute value.
    assert_eq!(partition_for("polygenelubricants", 50), 0);
    assert_eq!(partition_for("grüße-😀", 50), 27);
}

#[test]
fn group_log_of_kafka_loads() {
    let mut coordinator = Coordinator::new(config());
    for (_, record) in golden() {
        coordinator.replay(record).unwrap();
    }
    coordinator.replay_marker(0, true);
    assert!(coordinator.step(Event::Loaded, Now::default()).is_empty());
    let listed = coordinator.list(&ListFilter::default()).unwrap();
    let listed: Vec<(&str, &str, &str)> = listed
        .iter()
        .map(|group| (group.group_id.as_str(), group.state, group.protocol_type.as_str()))
        .collect();
    let expected = [
        ("duo", "Empty", "consumer"),
        ("dyn", "Empty", "consumer"),
        ("javag", "Empty", "consumer"),
        ("modern", "Empty", "consumer"),
        ("old", "Empty", ""),
        ("pair", "Stable", "consumer"),
        ("stat", "Empty", "consumer"),
        ("txn", "Empty", "consumer"),
    ];
    assert_eq!(listed, expected);
    let pair = coordinator.describe("pair");
    assert_eq!((pair.protocol_data.as_str(), pair.members.len()), ("range", 2));
    let names: Vec<_> =
        pair.members.iter().map(|member| member.group_instance_id.as_deref().unwrap()).collect();
    assert_eq!(names, ["i-0", "i-1"]);
    assert!(pair.members.iter().all(|member| !member.assignment.is_empty() && !member.metadata.is_empty()));
    for (group_id, offset) in [("dyn", 10), ("txn", 2), ("old", -1), ("simple", -1)] {
        let actions = coordinator.step(fetch(group_id, "t", true).event(Ticket(0)), Now::default());
        let [Action::Reply(_, Outcome::Fetch(Ok(topics)))] = &actions[..] else { panic!("{actions:?}") };
        assert_eq!(topics[0].partitions[0].offset, offset, "{group_id}");
    }
}

#[test]
fn offset_commit_needs_valid_member_or_empty_group() {
    let mut rig = Rig::new(config());
    let ok = Ok(None);
    assert_eq!(rig.commit(commit("simple", "t", 5)), ok, "the group comes into being");
    assert_eq!(rig.commit(commit("", "t", 6)), ok, "even the one without a name");
    for (api_version, expected) in [(8, GroupError::IllegalGeneration), (9, GroupError::GroupIdNotFound)] {
        let request = CommitRequest { api_version, generation: 0, ..commit("none", "t", 1) };
        assert_eq!(rig.commit(request), Err(expected), "version {api_version}");
    }
    let members = rig.stable(1);
    let generation = rig.rebalance(&members);
    assert_eq!(rig.commit(commit_as(&members[0], generation, 7)), ok);
    assert_eq!(rig.commit(commit_as(&members[0], generation + 1, 8)), Err(GroupError::IllegalGeneration));
    assert_eq!(rig.commit(commit_as(&members[0], -1, 8)), Err(GroupError::IllegalGeneration));
    assert_eq!(rig.commit(commit_as("nobody", generation, 8)), Err(GroupError::UnknownMemberId));
    assert_eq!(rig.commit(commit_as("", -1, 8)), Err(GroupError::UnknownMemberId));
    let named =
        CommitRequest { group_instance_id: Some("i".into()), ..commit_as(&members[0], generation, 8) };
    assert_eq!(rig.commit(named), Err(GroupError::UnknownMemberId));
    let ticket = rig.send(rig.join(&members[0]));
    let next = rig.joined(ticket).generation;
    assert_eq!(rig.commit(commit_as(&members[0], next, 8)), Err(GroupError::RebalanceInProgress));
    assert_eq!(rig.committed("g", "t"), 7);
    rig.leave(&[(&members[0], None)]);
    assert_eq!(rig.commit(commit_as("", -1, 9)), ok, "the group is empty now");
    let late = commit_as(&members[0], next, 10);
    assert_eq!(rig.commit(late), Err(GroupError::UnknownMemberId));
    assert_eq!([rig.committed("g", "t"), rig.committed("simple", "t"), rig.committed("", "t")], [9, 5, 6]);
}

#[test]
fn commit_during_rebalance_keeps_member_session_alive() {
    let mut rig = Rig::new(config());
    let members = rig.stable(2);
    let generation = rig.rebalance(&members);
    rig.pass(6_000);
    rig.ask(heartbeat(&members[0], generation)).unwrap();
    assert_eq!(rig.commit(commit_as(&members[1], generation, 1)), Ok(None));
    rig.pass(6_000);
    assert_eq!(rig.ask(heartbeat(&members[1], generation)), Ok(()));
    rig.send(rig.join(&members[0]));
    assert_eq!(rig.state(), "PreparingRebalance");
    assert_eq!(rig.commit(commit_as(&members[1], generation, 2)), Ok(None));
}

#[test]
fn offset_metadata_limit_applies_to_each_partition() {
    let mut rig = Rig::new(config());
    let partition = |index, metadata: String| CommitPartition {
        index,
        offset: i64::from(index),
        leader_epoch: 3,
        metadata: Some(metadata),
    };
    let partitions = vec![
        partition(1, "x".repeat(4_096)),
        partition(2, "x".repeat(4_097)),
        partition(3, "ü".repeat(4_096)),
        partition(4, "😀".repeat(2_049)),
    ];
    let topics =
        vec![CommitTopic { name: "t".into(), topic_id: Uuid::from_bytes(1_u128.to_be_bytes()), partitions }];
    let answer = rig.ask(CommitRequest { topics, ..commit("g", "t", 0) }).unwrap();
    let too_large = Some(GroupError::OffsetMetadataTooLarge);
    assert_eq!(answer[0].partitions, [(1, None), (2, too_large), (3, None), (4, too_large)]);
    let all = FetchRequest { topics: None, ..fetch("g", "t", false) };
    let stored = &rig.ask(all).unwrap()[0].partitions;
    let stored: Vec<_> =
        stored.iter().map(|found| (found.index, found.leader_epoch, found.metadata.len())).collect();
    assert_eq!(stored, [(1, 3, 4_096), (3, 3, 8_192)]);
}

#[test]
fn offset_fetch_ignores_offsets_of_former_topic_id() {
    let mut rig = Rig::new(config());
    let mut request = commit("g", "t", 5);
    request.topics[0].topic_id = Uuid::from_bytes(1_u128.to_be_bytes());
    rig.commit(request).unwrap();
    for (asked, expected) in [(0, 5), (1, 5), (2, -1)] {
        let mut request = fetch("g", "t", false);
        let topics = request.topics.as_mut().unwrap();
        topics[0].topic_id = Uuid::from_bytes(u128::to_be_bytes(asked));
        assert_eq!(rig.ask(request).unwrap()[0].partitions[0].offset, expected, "{asked}");
    }
}

#[test]
fn uncommitted_offset_is_minus_one_without_error() {
    let mut rig = Rig::new(config());
    rig.commit(commit("g", "t", 5)).unwrap();
    for (group_id, topic) in [("none", "t"), ("g", "u")] {
        let found = rig.ask(fetch(group_id, topic, true)).unwrap();
        let found = &found[0].partitions[0];
        assert_eq!(
            (found.offset, found.leader_epoch, found.metadata.as_str(), found.error),
            (-1, -1, "", None)
        );
    }
    let all = FetchRequest { topics: None, ..fetch("none", "t", true) };
    assert_eq!(rig.ask(all), Ok(Vec::new()));
}

#[test]
fn offset_commit_is_visible_once_logged() {
    let mut rig = Rig::new(config());
    rig.hold_appends = true;
    let ticket = rig.send(commit("g", "t", 5));
    assert!(rig.waiting.contains(&ticket));
    assert_eq!(rig.committed("g", "t"), -1);
    let stable = rig.send(fetch("g", "t", true));
    assert!(rig.waiting.contains(&stable), "a stable answer waits for what is being written");
    rig.finish_appends();
    assert!(rig.answer::<CommitRequest>(ticket).unwrap().is_ok());
    let found = rig.answer::<FetchRequest>(stable).unwrap().unwrap();
    assert_eq!(found[0].partitions[0].offset, 5);
    let ticket = rig.send(commit("other", "t", 5));
    assert!(rig.finish_append(Some(PersistFailure::Unavailable)));
    assert_eq!(rig.answer::<CommitRequest>(ticket), Some(Err(GroupError::CoordinatorNotAvailable)));
    assert_eq!(rig.committed("other", "t"), -1);
    assert_eq!(rig.coordinator.describe("other").state, "Dead", "the group was only made for the commit");
}

#[test]
fn acknowledged_commits_survive_restart() {
    let mut rig = Rig::new(config());
    let members = rig.stable(2);
    let generation = rig.rebalance(&members);
    rig.commit(commit_as(&members[0], generation, 7)).unwrap();
    rig.commit(commit("simple", "t", 8)).unwrap();
    let before = rig.coordinator.describe("g");
    rig.restart();
    assert_eq!(rig.coordinator.describe("g"), before);
    assert_eq!([rig.committed("g", "t"), rig.committed("simple", "t")], [7, 8]);
    assert_eq!(rig.ask(heartbeat(&members[1], generation)), Ok(()));
    let leader = &before.members.iter().find(|member| member.member_id == members[0]).unwrap().member_id;
    let ticket = rig.send(rig.join(leader));
    assert!(rig.waiting.contains(&ticket), "the leader still leads: its join starts a rebalance");
    rig.pass(10_000);
    assert_eq!(rig.joined(ticket).members.len(), 1, "sessions have counted from the restart on");
}

#[test]
fn loaded_group_over_maximum_size_rebalances() {
    let mut rig = Rig::new(config());
    rig.stable(3);
    rig.config.max_size = 2;
    rig.restart();
    assert_eq!(rig.state(), "PreparingRebalance");
}

#[test]
fn loading_group_coordinator_refuses_requests() {
    let mut coordinator = Coordinator::new(config());
    let rig = Rig::new(config());
    let error = GroupError::CoordinatorLoadInProgress;
    let requests: Vec<(Event, Outcome)> = vec![
        (Event::Join(Ticket(0), rig.join("")), Outcome::Join(rig.join("").refused(error))),
        (Event::Sync(Ticket(0), sync("a", 1, &[])), Outcome::Sync(sync("a", 1, &[]).refused(error))),
        (Event::Heartbeat(Ticket(0), heartbeat("a", 1)), Outcome::Heartbeat(Ok(()))),
        (Event::Leave(Ticket(0), leave(&[("a", None)])), Outcome::Leave(Err(error))),
        (Event::Commit(Ticket(0), commit("g", "t", 1)), Outcome::Commit(Err(error))),
        (Event::Fetch(Ticket(0), fetch("g", "t", true)), Outcome::Fetch(Err(error))),
        (
            Event::Delete(Ticket(0), DeleteRequest { group_ids: vec!["g".into()] }),
            Outcome::Delete(vec![("g".into(), Some(error))]),
        ),
    ];
    for (event, outcome) in requests {
        assert_eq!(coordinator.step(event, Now::default()), [Action::Reply(Ticket(0), outcome)]);
    }
    assert_eq!(coordinator.list(&ListFilter::default()), Err(error));
    assert_eq!(coordinator.describe("g").error, Some(error));
    coordinator.step(Event::Loaded, Now::default());
    assert_eq!(coordinator.list(&ListFilter::default()), Ok(Vec::new()));
}

#[test]
fn unload_completes_all_waiting_requests() {
    let mut rig = Rig::new(config());
    let members = rig.stable(2);
    let joining = rig.send(rig.join(&members[0]));
    rig.hold_appends = true;
    let committing = rig.send(commit("other", "t", 1));
    let fetching = rig.send(fetch("other", "t", true));
    rig.step(Event::Unload);
    let error = GroupError::NotCoordinator;
    assert_eq!(rig.answer::<JoinRequest>(joining).unwrap().error, Some(error));
    assert_eq!(rig.answer::<CommitRequest>(committing), Some(Err(error)));
    assert_eq!(rig.answer::<FetchRequest>(fetching), Some(Err(error)));
    assert!(rig.waiting.is_empty());
    assert_eq!(rig.ask(heartbeat(&members[0], 1)), Err(error));
    rig.finish_appends();
    assert_eq!(rig.coordinator.deadline(), None);
}

#[test]
fn groups_are_listed_by_state_and_type() {
    let mut rig = Rig::new(config());
    rig.stable(1);
    rig.commit(commit("simple", "t", 1)).unwrap();
    let check = |states: &[&str], types: &[&str], expected: &[&str]| {
        let filter = ListFilter::of(states.iter().copied(), types.iter().copied());
        let listed = rig.coordinator.list(&filter).unwrap();
        let listed: Vec<&str> = listed.iter().map(|group| group.group_id.as_str()).collect();
        assert_eq!(listed, expected, "{filter:?}");
    };
    check(&[], &[], &["g", "simple"]);
    check(&["stable"], &[], &["g"]);
    check(&[" EMPTY "], &["Classic"], &["simple"]);
    check(&["Stable", "Empty"], &["consumer"], &[]);
    check(&["Dead"], &[], &[]);
}

#[test]
fn long_group_id_is_left_out_of_metrics() {
    let mut rig = Rig::new(config());
    rig.commit(commit("simple", "t", 1)).unwrap();
    rig.commit(commit(&"g".repeat(257), "t", 1)).unwrap();
    let mut room = Room { groups: 10, offsets: 10, id_bytes: 256 };
    let (groups, left_out) = rig.coordinator.monitored(&mut room);
    let ids: Vec<&str> = groups.iter().map(|group| group.listed.group_id.as_str()).collect();
    assert_eq!((ids, left_out), (vec!["simple"], 1));
    assert_eq!((room.groups, room.offsets), (9, 9));
}

#[test]
fn only_groups_without_members_are_deleted() {
    let mut rig = Rig::new(config());
    rig.stable(1);
    rig.commit(commit("simple", "t", 1)).unwrap();
    let group_ids = ["simple", "g", "none"].map(String::from).to_vec();
    rig.hold_appends = true;
    let ticket = rig.send(DeleteRequest { group_ids });
    assert!(rig.waiting.contains(&ticket));
    rig.finish_appends();
    let outcome = rig.answer::<DeleteRequest>(ticket).unwrap();
    let errors: Vec<_> = outcome.into_iter().map(|(_, error)| error).collect();
    assert_eq!(errors, [None, Some(GroupError::NonEmptyGroup), Some(GroupError::GroupIdNotFound)]);
    assert_eq!((rig.coordinator.describe("simple").state, rig.committed("simple", "t")), ("Dead", -1));
    rig.restart();
    assert_eq!((rig.coordinator.describe("simple").state, rig.committed("simple", "t")), ("Dead", -1));
    assert_eq!(rig.state(), "Stable");
}

#[test]
fn failed_group_deletion_write_has_no_effect() {
    let mut rig = Rig::new(config());
    rig.commit(commit("simple", "t", 1)).unwrap();
    rig.hold_appends = true;
    let ticket = rig.send(DeleteRequest { group_ids: vec!["simple".into()] });
    assert!(rig.finish_append(Some(PersistFailure::Unavailable)));
    let outcome = rig.answer::<DeleteRequest>(ticket).unwrap();
    assert_eq!(outcome, [("simple".into(), Some(GroupError::CoordinatorNotAvailable))]);
    assert_eq!((rig.coordinator.describe("simple").state, rig.committed("simple", "t")), ("Empty", 1));
}

#[test]
fn coordinator_with_lost_log_serves_nothing_from_memory() {
    for is_stored in [false, true] {
        let mut rig = Rig::new(config());
        let members = rig.stable(2);
        rig.commit(commit("simple", "t", 1)).unwrap();
        rig.hold_appends = true;
        let commit_ticket = rig.send(commit("simple", "t", 2));
        let later_ticket = rig.send(commit("other", "t", 3));
        let fetch_ticket = rig.send(fetch("simple", "t", true));
        let join_ticket = rig.send(rig.join(&members[0]));
        assert!(rig.lose_appends(is_stored));
        for ticket in [commit_ticket, later_ticket] {
            assert_eq!(rig.answer::<CommitRequest>(ticket), Some(Err(GroupError::NotCoordinator)));
        }
        assert_eq!(rig.answer::<FetchRequest>(fetch_ticket), Some(Err(GroupError::NotCoordinator)));
        let joined = rig.answer::<JoinRequest>(join_ticket).unwrap();
        assert_eq!(joined.error, Some(GroupError::NotCoordinator));
        assert_eq!(rig.ask(fetch("simple", "t", false)), Err(GroupError::NotCoordinator));
        assert_eq!(rig.heartbeat(&members[1], 1), Err(GroupError::NotCoordinator));
        assert_eq!(rig.coordinator.deadline(), None);
        rig.hold_appends = false;
        rig.restart();
        assert_eq!(rig.committed("simple", "t"), if is_stored { 2 } else { 1 });
        assert_eq!((rig.committed("other", "t"), rig.state()), (-1, "Stable"));
    }
}

#[test]
fn failed_group_write_creates_no_group() {
    let mut rig = Rig::new(GroupConfig { initial_rebalance_delay_ms: 3_000, ..config() });
    rig.hold_appends = true;
    let ticket = rig.send(JoinRequest { api_version: 3, ..rig.join("") });
    assert!(rig.finish_append(Some(PersistFailure::Unavailable)));
    let refused = rig.answer::<JoinRequest>(ticket).unwrap();
    assert_eq!(refused.error, Some(GroupError::CoordinatorNotAvailable));
    assert_eq!(rig.state(), "Dead");
}

#[test]
fn too_long_group_id_is_refused_without_group() {
    let mut rig = Rig::new(config());
    let group_id = "g".repeat(40_000);
    assert_eq!(rig.commit(commit(&group_id, "t", 1)), Err(GroupError::UnknownServerError));
    let join = JoinRequest { group_id: group_id.clone(), api_version: 3, ..rig.join("") };
    assert_eq!(rig.ask(join).error, Some(GroupError::UnknownServerError));
    let join = JoinRequest { group_id, ..rig.join("") };
    assert_eq!(rig.ask(join).error, Some(GroupError::MemberIdRequired));
    assert_eq!(rig.coordinator.list(&ListFilter::default()), Ok(Vec::new()));
    assert!(rig.log.is_empty());
    // Nothing is waited for but the time to look for expired offsets.
    let expiry_ms = rig.now_ms + rig.config.offsets_retention_check_interval_ms;
    assert_eq!(rig.coordinator.deadline(), Some(expiry_ms));
}

#[test]
fn offsets_of_deleted_topics_are_removed() {
    let mut rig = Rig::new(config());
    for (group_id, topic) in [("a", "t"), ("a", "u"), ("b", "t")] {
        rig.commit(commit(group_id, topic, 1)).unwrap();
    }
    rig.step(Event::TopicsDeleted(vec![gone("t", Uuid::from_bytes([1; 16]))]));
    rig.restart();
    let left = [("a", "t"), ("a", "u"), ("b", "t")].map(|(group_id, topic)| rig.committed(group_id, topic));
    assert_eq!(left, [-1, 1, -1]);
}

#[test]
fn offsets_of_recreated_topic_survive_late_deletion() {
    let (old, new) = (Uuid::from_bytes([1; 16]), Uuid::from_bytes([2; 16]));
    let commit_for = |group_id: &str, topic_id| {
        let mut request = commit(group_id, "t", 1);
        request.topics[0].topic_id = topic_id;
        request
    };
    let mut rig = Rig::new(config());
    rig.commit(commit_for("a", old)).unwrap();
    rig.commit(commit_for("b", new)).unwrap();
    rig.hold_appends = true;
    rig.send(commit_for("c", new));
    // The deletion comes late: other brokers have the new topic already.
    rig.step(Event::TopicsDeleted(vec![gone("t", old)]));
    rig.finish_appends();
    rig.hold_appends = false;
    rig.restart();
    assert_eq!(["a", "b", "c"].map(|group_id| rig.committed(group_id, "t")), [-1, 1, 1]);
}

mod expiry {
    use super::*;

    const DAY_MS: i64 = 24 * 60 * 60 * 1_000;

    #[test]
    fn commit_only_group_expires_week_after_last_commit() {
        let mut rig = Rig::new(config());
        rig.commit(commit("simple", "t", 1)).unwrap();
        rig.pass(4 * DAY_MS);
        rig.commit(commit("simple", "u", 2)).unwrap();
        rig.pass(4 * DAY_MS);
        assert_eq!([rig.committed("simple", "t"), rig.committed("simple", "u")], [-1, 2]);
        assert_eq!(rig.coordinator.describe("simple").state, "Empty");
        rig.pass(4 * DAY_MS);
        assert_eq!(rig.coordinator.describe("simple").state, "Dead");
        rig.restart();
        assert_eq!(rig.coordinator.list(&ListFilter::default()), Ok(Vec::new()));
    }

    #[test]
    fn group_expires_a_week_after_last_member_leaves() {
        let mut rig = Rig::new(config());
        let members = rig.stable(1);
        let generation = rig.rebalance(&members);
        rig.commit(commit_as(&members[0], generation, 1)).unwrap();
        for _ in 0..(10 * DAY_MS / 9_000) {
            rig.pass(9_000);
            rig.ask(heartbeat(&members[0], generation)).unwrap();
        }
        assert_eq!(rig.committed("g", "t"), 1, "the topic is subscribed");
        rig.leave(&[(&members[0], None)]);
        rig.pass(7 * DAY_MS - 600_000);
        assert_eq!(rig.committed("g", "t"), 1);
        rig.restart();
        rig.pass(1_200_000);
        assert_eq!(
            (rig.committed("g", "t"), rig.state()),
            (-1, "Dead"),
            "a restart has not begun the week anew"
        );
    }

    #[test]
    fn commit_retention_time_of_client_is_honoured() {
        let mut rig = Rig::new(config());
        rig.commit(CommitRequest { retention_ms: Some(DAY_MS), ..commit("g", "t", 1) }).unwrap();
        rig.restart();
        rig.pass(DAY_MS - 600_000);
        assert_eq!(rig.committed("g", "t"), 1);
        rig.pass(1_200_000);
        assert_eq!(rig.committed("g", "t"), -1);
    }

    #[test]
    fn many_tombstones_are_written_in_several_batches() {
        let mut rig = Rig::new(config());
        let partitions =
            (0..2_500).map(|index| CommitPartition { index, offset: 1, leader_epoch: -1, metadata: None });
        let topics =
            vec![CommitTopic { name: "t".into(), topic_id: Uuid::ZERO, partitions: partitions.collect() }];
        rig.ask(CommitRequest { topics, ..commit("g", "t", 0) }).unwrap();
        rig.hold_appends = true;
        rig.pass(8 * DAY_MS);
        let sizes: Vec<usize> = rig
            .held
            .iter()
            .map(|(_, payload)| match payload {
                Payload::Records(records) => records.len(),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(sizes[..3], [1_000, 1_000, 501]);
        rig.finish_appends();
        rig.restart();
        assert_eq!(rig.coordinator.list(&ListFilter::default()), Ok(Vec::new()));
    }
}

#[test]
fn open_transaction_offsets_are_unstable_until_end() {
    for (committed, expected) in [(true, 9), (false, 5)] {
        let mut coordinator = Coordinator::new(config());
        for (offset, transaction, value) in [(0, None, 5), (1, Some(77), 9)] {
            let key = OffsetKey { group_id: "g".into(), topic: "t".into(), partition: 0 };
            let value = OffsetValue {
                offset: value,
                leader_epoch: -1,
                metadata: String::new(),
                commit_timestamp_ms: 0,
                expire_timestamp_ms: None,
                topic_id: Uuid::ZERO,
            };
            let record = Record::Offset(key, Some(value)).encode().unwrap();
            coordinator
                .replay(Replayed { offset, transaction, key: record.key, value: record.value })
                .unwrap();
        }
        let ask = |coordinator: &mut Coordinator, require_stable| {
            let actions = coordinator.step(fetch("g", "t", require_stable).event(Ticket(0)), Now::default());
            let Some(Action::Reply(_, Outcome::Fetch(Ok(topics)))) = actions.first() else {
                panic!("{actions:?}")
            };
            (topics[0].partitions[0].offset, topics[0].partitions[0].error)
        };
        coordinator.step(Event::Loaded, Now::default());
        assert_eq!(ask(&mut coordinator, true), (-1, Some(GroupError::UnstableOffsetCommit)));
        assert_eq!(ask(&mut coordinator, false), (5, None));
        coordinator.replay_marker(77, committed);
        assert_eq!(ask(&mut coordinator, true), (expected, None));
    }
}

#[test]
fn unreadable_group_record_changes_no_state() {
    let mut coordinator = Coordinator::new(config());
    let record = Replayed { offset: 0, transaction: None, key: Bytes::from_static(&[0, 2, 0]), value: None };
    assert!(coordinator.replay(record).is_err());
    coordinator.step(Event::Loaded, Now::default());
    assert_eq!(coordinator.list(&ListFilter::default()), Ok(Vec::new()));
}

#[test]
fn last_member_leave_reports_failed_log_write() {
    let mut rig = Rig::new(config());
    let members = rig.stable(1);
    rig.hold_appends = true;
    let ticket = rig.send(leave(&[(&members[0], None)]));
    assert!(rig.finish_append(Some(PersistFailure::Unavailable)));
    assert_eq!(rig.answer::<LeaveRequest>(ticket), Some(Err(GroupError::CoordinatorNotAvailable)));
}

#[test]
fn offset_fetch_returns_only_requested_topics() {
    let mut rig = Rig::new(config());
    rig.commit(commit("g", "t", 1)).unwrap();
    let none = FetchRequest { topics: Some(Vec::new()), ..fetch("g", "t", false) };
    assert_eq!(rig.ask(none), Ok(Vec::new()));
    let twice = FetchTopic { name: "t".into(), topic_id: Uuid::ZERO, partitions: vec![0, 5, 0] };
    let request = FetchRequest { topics: Some(vec![twice]), ..fetch("g", "t", false) };
    let found: Vec<i64> = rig.ask(request).unwrap()[0].partitions.iter().map(|found| found.offset).collect();
    assert_eq!(found, [1, -1, 1]);
}
