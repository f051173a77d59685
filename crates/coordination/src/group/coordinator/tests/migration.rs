//! Groups that change their kind while their members are restarted with another protocol.

use std::collections::BTreeMap;

use crate::group::config::{ConsumerConfig, GroupConfig};
use crate::group::consumer::tests::{Catalogue, beat, catalogue, enter, id_of};
use crate::group::coordinator::ListFilter;
use crate::group::embedded;
use crate::group::error::GroupError;
use crate::group::event::Event;
use crate::group::records::Partitions;
use crate::group::request::{
    CommitRequest, ConsumerHeartbeatRequest, HeartbeatRequest, JoinOutcome, JoinRequest, SyncRequest,
};
use crate::group::tests::rig::{GROUP, Rig, commit_as, config, heartbeat, leave, protocols, sync};

fn rig() -> Rig {
    let mut rig = Rig::new(config());
    rig.step(catalogue(&[("t", 4)]));
    rig
}

fn kind(rig: &Rig) -> &'static str {
    rig.coordinator.list(&ListFilter::default()).unwrap()[0].group_type
}

fn parts(partitions: &[i32]) -> Partitions {
    [(id_of("t"), partitions.iter().copied().collect())].into()
}

/// Number of partitions assigned to a classic member.
fn synced(rig: &mut Rig, member_id: &str, generation: i32) -> Result<usize, GroupError> {
    let outcome = rig.ask(sync(member_id, generation, &[]));
    let topics = Catalogue(BTreeMap::from([("t".to_owned(), 4)]));
    let assigned = embedded::assigned(&outcome.assignment, &topics).unwrap();
    outcome.error.map_or_else(|| Ok(assigned.values().map(|held| held.len()).sum()), Err)
}

/// A classic group of one member that has all four partitions.
fn classic(rig: &mut Rig) -> (String, i32) {
    let member_id = rig.member_id();
    let ticket = rig.send(rig.join(&member_id));
    let joined = rig.joined(ticket);
    let topics = Catalogue(BTreeMap::from([("t".to_owned(), 4)]));
    let all = embedded::assignment(&parts(&[0, 1, 2, 3]), &topics, &protocols(&["range"])[0].metadata);
    let request = SyncRequest {
        assignments: vec![(member_id.clone(), all)],
        ..sync(&member_id, joined.generation, &[])
    };
    assert_eq!(rig.ask(request).error, None);
    (member_id, joined.generation)
}

fn rejoin(rig: &mut Rig, member_id: &str) -> JoinOutcome {
    let outcome = rig.ask(rig.join(member_id));
    assert_eq!((outcome.error, outcome.members.len(), outcome.leader.as_str()), (None, 0, ""));
    outcome
}

/// A classic member and one that speaks the consumer protocol, two partitions each.
fn mixed(rig: &mut Rig) -> (String, i32) {
    let (old, generation) = classic(rig);
    let new = rig.ask(enter("new", &["t"])).unwrap();
    assert_eq!((kind(rig), new.member_epoch), ("consumer", generation + 1));
    assert_eq!(new.assigned, Some(Partitions::new()), "everything still belongs to the other");
    assert_eq!(rig.heartbeat(&old, generation), Err(GroupError::RebalanceInProgress));
    assert_eq!(synced(rig, &old, generation), Err(GroupError::RebalanceInProgress));
    // Its protocol gives everything up before it joins again.
    let joined = rejoin(rig, &old);
    assert_eq!((joined.generation, joined.protocol_name.as_deref()), (generation + 1, Some("range")));
    assert_eq!(synced(rig, &old, joined.generation), Ok(2));
    let told = rig.ask(beat("new", joined.generation)).unwrap();
    assert_eq!(told.assigned.unwrap()[&id_of("t")].len(), 2);
    assert_eq!(rig.heartbeat(&old, joined.generation), Ok(()));
    assert_eq!(rig.coordinator.describe_consumer(GROUP).unwrap().state, "Stable");
    let is_consumer = |group: &str| rig.coordinator.describe(group).is_consumer;
    assert!(is_consumer(GROUP) && !is_consumer("none"), "DescribeGroups says which of the two it is");
    (old, joined.generation)
}

#[test]
fn classic_group_becomes_mixed_consumer_group() {
    let mut rig = rig();
    let (old, generation) = mixed(&mut rig);
    let before = rig.coordinator.describe_consumer(GROUP).unwrap();
    assert_eq!(before.members.iter().filter(|member| member.is_classic).count(), 1);
    rig.restart();
    rig.step(catalogue(&[("t", 4)]));
    assert_eq!(rig.coordinator.describe_consumer(GROUP).unwrap(), before);
    assert_eq!(rig.heartbeat(&old, generation), Ok(()));
    assert_eq!(rig.heartbeat(&old, generation - 1), Err(GroupError::IllegalGeneration));
    assert_eq!(rig.heartbeat("new", generation), Err(GroupError::UnknownMemberId), "another protocol");
    rig.pass(9_000);
    rig.ask(beat("new", generation)).unwrap();
    rig.pass(1_000);
    let left = rig.coordinator.describe_consumer(GROUP).unwrap().members;
    assert_eq!(left.len(), 1, "the session of a classic member is its own");
}

/// The reason why a classic group stays one when a member of the consumer protocol comes.
fn refusal(rig: &mut Rig) -> String {
    let error = rig.ask(enter("new", &["t"])).unwrap_err();
    assert!(matches!(error, GroupError::NoUpgrade(_)), "{error:?}");
    assert_eq!(kind(rig), "classic");
    error.to_string()
}

#[test]
fn group_with_custom_assignor_data_stays_classic() {
    let mut rig = rig();
    let (member_id, generation) = classic(&mut rig);
    let rejoined = rig.send(rig.join(&member_id));
    assert_eq!(rig.joined(rejoined).generation, generation + 1);
    // Version 0, no topic, one byte of user data.
    let with_data = bytes::Bytes::from_static(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 1, b'x']);
    let request = SyncRequest {
        assignments: vec![(member_id.clone(), with_data)],
        ..sync(&member_id, generation + 1, &[])
    };
    assert_eq!(rig.ask(request).error, None);
    assert!(refusal(&mut rig).contains("custom assignor"));
    assert_eq!(rig.heartbeat(&member_id, generation + 1), Ok(()), "nothing has happened to its group");
}

#[test]
fn an_upgraded_group_is_assigned_immediately() {
    let consumer = ConsumerConfig { assignment_interval_ms: 1_000, ..ConsumerConfig::default() };
    let mut rig = Rig::new(GroupConfig { consumer, ..config() });
    rig.step(catalogue(&[("t", 4)]));
    mixed(&mut rig);
}

#[test]
fn disabled_migration_keeps_group_protocols_apart() {
    let apart = ConsumerConfig { upgrades: false, downgrades: false, ..ConsumerConfig::default() };
    let mut rig = Rig::new(GroupConfig { consumer: apart, ..config() });
    rig.step(catalogue(&[("t", 4)]));
    classic(&mut rig);
    assert!(refusal(&mut rig).contains("online upgrade is disabled"));

    let mut rig = Rig::new(GroupConfig { consumer: rig.coordinator.config.consumer.clone(), ..config() });
    rig.step(catalogue(&[("t", 4)]));
    rig.ask(enter("new", &["t"])).unwrap();
    let outcome = rig.ask(rig.join(""));
    assert_eq!(outcome.error, Some(GroupError::InconsistentGroupProtocol));
    assert_eq!(kind(&rig), "consumer");
}

#[test]
fn dynamic_member_changing_protocol_leaves_group_a_consumer() {
    let mut rig = rig();
    let (old, _) = mixed(&mut rig);
    let changed = rig.ask(rig.join("new"));
    assert_eq!(changed.error, None);
    assert_eq!(kind(&rig), "consumer", "Kafka looks at static members alone here");
    rig.ask(leave(&[(&old, None)])).unwrap();
    assert_eq!(kind(&rig), "classic", "at the next departure it looks at all");
}

#[test]
fn refused_join_of_consumer_group_echoes_no_id() {
    let mut rig = rig();
    rig.ask(enter("new", &["t"])).unwrap();
    let request = JoinRequest { protocol_type: "connect".to_owned(), ..rig.join("who") };
    let outcome = rig.ask(request);
    assert_eq!(
        (outcome.error, outcome.member_id.as_str()),
        (Some(GroupError::InconsistentGroupProtocol), "")
    );
}

#[test]
fn classic_members_waiting_for_rebalance_must_rejoin() {
    let mut rig = rig();
    let (old, _) = classic(&mut rig);
    rig.send(JoinRequest { api_version: 3, ..rig.join("") });
    let waiting = rig.send(rig.join(&old));
    let joined = rig.joined(waiting);
    let second = rig.send(JoinRequest { api_version: 3, ..rig.join("") });
    rig.ask(enter("new", &["t"])).unwrap();
    let told = rig.answer::<JoinRequest>(second).unwrap();
    assert_eq!(told.error, Some(GroupError::RebalanceInProgress));
    assert_eq!(rig.heartbeat(&old, joined.generation), Err(GroupError::RebalanceInProgress));
}

#[test]
fn group_protocols_do_not_mix() {
    let mut rig = rig();
    let connect = JoinRequest { protocol_type: "connect".into(), api_version: 3, ..rig.join("") };
    rig.ask(connect.clone());
    assert!(refusal(&mut rig).contains("does not use the consumer embedded protocol"));
    let mut rig = self::rig();
    mixed(&mut rig);
    let inconsistent = Some(GroupError::InconsistentGroupProtocol);
    assert_eq!(rig.ask(connect).error, inconsistent);
    let other = JoinRequest { protocols: protocols(&["sticky"]), api_version: 3, ..rig.join("") };
    assert_eq!(rig.ask(other).error, inconsistent);
    let first = rig.ask(rig.join(""));
    assert_eq!((first.error, first.member_id.is_empty()), (Some(GroupError::MemberIdRequired), false));
    assert_eq!(rig.ask(rig.join(&first.member_id)).error, None);
}

#[test]
fn consumer_group_becomes_classic_after_last_new_member() {
    for silent in [false, true] {
        let mut rig = rig();
        let (old, generation) = mixed(&mut rig);
        if silent {
            for _ in 0..5 {
                rig.pass(9_000);
                let _ = rig.heartbeat(&old, generation);
            }
        } else {
            assert_eq!(rig.ask(beat("new", -1)).unwrap().member_epoch, -1);
        }
        assert_eq!((kind(&rig), rig.state()), ("classic", "PreparingRebalance"));
        assert_eq!(rig.coordinator.describe_consumer(GROUP), Err(GroupError::GroupIdNotFound));
        let ticket = rig.send(rig.join(&old));
        let joined = rig.joined(ticket);
        assert_eq!((joined.leader.as_str(), joined.members.len()), (old.as_str(), 1));
        assert!(joined.generation > generation);
        rig.send(sync(&old, joined.generation, std::slice::from_ref(&old)));
        rig.restart();
        assert_eq!((kind(&rig), rig.heartbeat(&old, joined.generation)), ("classic", Ok(())));
    }
}

#[test]
fn static_replacement_of_last_new_member_downgrades_group() {
    let mut rig = rig();
    let named = |request| ConsumerHeartbeatRequest { instance_id: Some("i".into()), ..request };
    rig.ask(named(enter("new", &["t"]))).unwrap();
    let joined = rig.ask(rig.join_static("i", ""));
    assert_eq!((joined.error, kind(&rig), rig.state()), (None, "classic", "Stable"));
    let own = |generation| HeartbeatRequest {
        group_instance_id: Some("i".into()),
        ..heartbeat(&joined.member_id, generation)
    };
    assert_eq!(rig.ask(own(joined.generation)), Ok(()));
    let request = SyncRequest {
        group_instance_id: Some("i".into()),
        ..sync(&joined.member_id, joined.generation, &[])
    };
    let topics = Catalogue(BTreeMap::from([("t".to_owned(), 4)]));
    let assignment = rig.ask(request).assignment;
    assert_eq!(embedded::assigned(&assignment, &topics), Ok(parts(&[0, 1, 2, 3])), "its predecessor's");
}

#[test]
fn a_replaced_static_member_cannot_join_again() {
    let mut rig = rig();
    rig.ask(enter("new", &["t"])).unwrap();
    let old = rig.ask(rig.join_static("i", "")).member_id;
    let joined = rig.ask(rig.join_static("i", ""));
    assert_eq!((joined.error, kind(&rig)), (None, "consumer"));
    assert_eq!(rig.ask(rig.join_static("i", &old)).error, Some(GroupError::FencedInstanceId));
}

#[test]
fn classic_members_leave_or_expire_without_rejoining() {
    let mut rig = rig();
    let (old, generation) = mixed(&mut rig);
    let errors = rig.leave(&[("nobody", None), (&old, None)]);
    assert_eq!(errors, [Some(GroupError::UnknownMemberId), None]);
    let all = rig.ask(beat("new", generation)).unwrap();
    assert_eq!(all.assigned, Some(parts(&[0, 1, 2, 3])));
    // A member that has to join again, and only sends heartbeats, is removed.
    let joined = rig.ask(JoinRequest { api_version: 3, rebalance_timeout_ms: 20_000, ..rig.join("") });
    assert_eq!(rig.ask(leave(&[("x", None)])).unwrap().len(), 1);
    let mut alive = Ok(());
    for _ in 0..5 {
        rig.pass(5_000);
        rig.ask(beat("new", generation + 1)).unwrap();
        alive = rig.heartbeat(&joined.member_id, joined.generation);
    }
    assert_eq!(alive, Err(GroupError::UnknownMemberId));
}

#[test]
fn operator_removes_consumer_protocol_members() {
    let mut rig = rig();
    rig.ask(ConsumerHeartbeatRequest { instance_id: Some("seat".into()), ..enter("static", &["t"]) })
        .unwrap();
    let epoch = rig.ask(enter("dynamic", &["t"])).unwrap().member_epoch;
    let left = rig.ask(leave(&[("other", Some("seat")), ("", Some("seat")), ("dynamic", None)])).unwrap();
    let told: Vec<_> = left.iter().map(|left| (left.member_id.as_str(), left.error)).collect();
    assert_eq!(told, [("other", Some(GroupError::FencedInstanceId)), ("", None), ("dynamic", None)]);
    assert_eq!(rig.coordinator.describe_consumer(GROUP).unwrap().state, "Empty");
    assert_eq!(rig.ask(beat("dynamic", epoch)), Err(GroupError::UnknownMemberId));
}

#[test]
fn member_leaving_twice_in_one_request_has_left() {
    let mut rig = rig();
    let (old, _) = mixed(&mut rig);
    rig.ask(ConsumerHeartbeatRequest { instance_id: Some("seat".into()), ..enter("static", &["t"]) })
        .unwrap();
    let twice = [(&*old, None), ("", Some("seat")), ("static", Some("seat")), (&*old, None)];
    assert_eq!(rig.leave(&twice), [None; 4]);
    assert_eq!(rig.leave(&[(&old, None)]), [Some(GroupError::UnknownMemberId)]);
}

#[test]
fn migration_policy_applies_to_each_direction() {
    let consumer = ConsumerConfig { upgrades: false, ..ConsumerConfig::default() };
    let mut rig = Rig::new(GroupConfig { consumer, ..config() });
    rig.step(catalogue(&[("t", 4)]));
    let (old, generation) = classic(&mut rig);
    assert!(refusal(&mut rig).contains("online upgrade is disabled"));
    assert_eq!(rig.heartbeat(&old, generation), Ok(()));

    let consumer = ConsumerConfig { downgrades: false, ..ConsumerConfig::default() };
    let mut rig = Rig::new(GroupConfig { consumer, ..config() });
    rig.step(catalogue(&[("t", 4)]));
    rig.ask(enter("new", &["t"])).unwrap();
    let joined = rig.ask(JoinRequest { api_version: 3, ..rig.join("") });
    rig.ask(beat("new", -1)).unwrap();
    assert_eq!((joined.error, kind(&rig)), (None, "consumer"), "it stays what it is");
}

#[test]
fn group_upgrade_keeps_assignment_being_written() {
    let mut rig = rig();
    let member_id = rig.member_id();
    let ticket = rig.send(rig.join(&member_id));
    let joined = rig.joined(ticket);
    let topics = Catalogue(BTreeMap::from([("t".to_owned(), 4)]));
    let all = embedded::assignment(&parts(&[0, 1, 2, 3]), &topics, &protocols(&["range"])[0].metadata);
    rig.hold_appends = true;
    let synced = rig.send(SyncRequest {
        assignments: vec![(member_id.clone(), all.clone())],
        ..sync(&member_id, joined.generation, &[])
    });
    let entered = rig.send(enter("new", &["t"]));
    assert_eq!(rig.held.len(), 1, "the assignment is written first");
    rig.finish_appends();
    assert_eq!(rig.answer::<SyncRequest>(synced).unwrap().assignment, all);
    let new = rig.answer::<ConsumerHeartbeatRequest>(entered).unwrap().unwrap();
    assert_eq!(new.assigned, Some(Partitions::new()), "everything still belongs to the other");
    let members = rig.coordinator.describe_consumer(GROUP).unwrap().members;
    let old = members.iter().find(|member| member.member_id == member_id).unwrap();
    assert_eq!(old.assigned, parts(&[0, 1, 2, 3]));
}

#[test]
fn heartbeat_waiting_for_assignment_is_refused_on_unload() {
    let mut rig = rig();
    let member_id = rig.member_id();
    let ticket = rig.send(rig.join(&member_id));
    let joined = rig.joined(ticket);
    rig.hold_appends = true;
    rig.send(sync(&member_id, joined.generation, std::slice::from_ref(&member_id)));
    let entered = rig.send(enter("new", &["t"]));
    rig.step(Event::Unload);
    let refused = rig.answer::<ConsumerHeartbeatRequest>(entered).unwrap();
    assert_eq!(refused, Err(GroupError::NotCoordinator));
    assert!(rig.waiting.is_empty());
}

#[test]
fn join_with_unknown_id_keeps_empty_consumer_group() {
    let mut rig = rig();
    let epoch = rig.ask(enter("m", &["t"])).unwrap().member_epoch;
    rig.commit(CommitRequest { api_version: 9, ..commit_as("m", epoch, 5) }).unwrap();
    rig.ask(beat("m", -1)).unwrap();
    let stored = rig.log.len();
    assert_eq!(rig.ask(rig.join("stale")).error, Some(GroupError::UnknownMemberId));
    assert_eq!((rig.log.len(), kind(&rig), rig.committed(GROUP, "t")), (stored, "consumer", 5));
}
