//! Removals of offsets, and lookups, while commits are being written.

use levada_wire::Uuid;

use crate::group::consumer::tests::{beat, catalogue, enter};
use crate::group::coordinator::ListFilter;
use crate::group::error::GroupError;
use crate::group::event::Event;
use crate::group::request::{
    ConsumerHeartbeatRequest, DeleteRequest, FetchRequest, OffsetDeleteRequest, SyncRequest,
};
use crate::group::tests::rig::{GROUP, Rig, assignment, commit, config, fetch, gone, leave, sync};
use crate::machine::PersistId;

use super::transactions::{end, txn_commit};

#[test]
fn commit_in_flight_does_not_expire() {
    for in_transaction in [false, true] {
        let mut rig = Rig::new(config());
        rig.commit(commit("simple", "t", 1)).unwrap();
        rig.now_ms += rig.config.offsets_retention_ms + 1;
        rig.hold_appends = true;
        // The expiry is due in the same step.
        if in_transaction {
            rig.send(txn_commit("simple", 2));
            end(&mut rig, true);
        } else {
            rig.send(commit("simple", "t", 2));
        }
        rig.step(Event::Tick);
        rig.finish_appends();
        rig.hold_appends = false;
        assert_eq!(rig.committed("simple", "t"), 2, "in a transaction: {in_transaction}");
        rig.restart();
        assert_eq!(rig.committed("simple", "t"), 2, "in a transaction: {in_transaction}");
    }
}

/// The offset of a commit that is in flight while `remove` acts.
fn committed_after(remove: impl FnOnce(&mut Rig)) -> (Rig, i64) {
    let mut rig = Rig::new(config());
    rig.hold_appends = true;
    rig.send(commit(GROUP, "t", 1));
    remove(&mut rig);
    rig.finish_appends();
    rig.hold_appends = false;
    let offset = rig.committed(GROUP, "t");
    (rig, offset)
}

#[test]
fn group_deletion_covers_commit_in_flight() {
    let (mut rig, offset) = committed_after(|rig| {
        rig.send(DeleteRequest { group_ids: vec![GROUP.into()] });
    });
    assert_eq!(offset, -1);
    assert_eq!(rig.coordinator.list(&ListFilter::default()), Ok(Vec::new()));
    rig.restart();
    assert_eq!(rig.committed(GROUP, "t"), -1);
    assert_eq!(rig.coordinator.list(&ListFilter::default()), Ok(Vec::new()));
}

#[test]
fn assignment_in_flight_does_not_reach_recreated_group() {
    let mut rig = Rig::new(config());
    let (old, ticket) = rig.enter();
    let generation = rig.joined(ticket).generation;
    rig.hold_appends = true;
    rig.send(sync(&old, generation, std::slice::from_ref(&old)));
    rig.send(leave(&[(&old, None)]));
    rig.send(DeleteRequest { group_ids: vec![GROUP.into()] });
    let (new, ticket) = rig.enter();
    assert_eq!(rig.joined(ticket).generation, generation);
    let ticket = rig.send(sync(&new, generation, std::slice::from_ref(&new)));
    rig.finish_appends();
    let synced = rig.answer::<SyncRequest>(ticket).expect("an answer to the sync");
    assert_eq!(assignment(synced), new);
    rig.restart();
    assert_eq!((rig.state(), rig.heartbeat(&new, generation)), ("Stable", Ok(())));
}

#[test]
fn topic_deletion_covers_commit_in_flight() {
    let (_, offset) = committed_after(|rig| rig.step(Event::TopicsDeleted(vec![gone("t", Uuid::ZERO)])));
    assert_eq!(offset, -1);
}

#[test]
fn offset_deletion_covers_commit_in_flight() {
    let (_, offset) = committed_after(|rig| {
        rig.send(OffsetDeleteRequest { group_id: GROUP.into(), topics: vec![("t".into(), vec![0])] });
    });
    assert_eq!(offset, -1);
}

#[test]
fn stable_offset_fetch_ignores_commits_of_other_groups() {
    let mut rig = Rig::new(config());
    rig.commit(commit("other", "t", 1)).unwrap();
    rig.hold_appends = true;
    rig.send(commit(GROUP, "t", 2));
    let found = rig.ask(fetch("other", "t", true)).unwrap();
    assert_eq!(found[0].partitions[0].offset, 1);
    let own = rig.send(fetch(GROUP, "t", true));
    assert!(rig.waiting.contains(&own));
    rig.send(commit("other", "t", 3));
    assert!(rig.finish_append(None));
    let found = rig.answer::<FetchRequest>(own).unwrap().unwrap();
    assert_eq!(found[0].partitions[0].offset, 2);
}

#[test]
fn waiting_members_are_refused_after_slow_assignment_write() {
    let mut rig = Rig::new(config());
    let (member_id, ticket) = rig.enter();
    let generation = rig.joined(ticket).generation;
    rig.hold_appends = true;
    let request = sync(&member_id, generation, std::slice::from_ref(&member_id));
    let refused = rig.send(request.clone());
    let id = rig.held[0].0;
    let (other, commit) = (PersistId(id.0 + 1), rig.send(commit("other", "t", 1)));
    rig.step(Event::Overdue(other));
    assert!(rig.waiting.contains(&refused) && rig.waiting.contains(&commit), "the host refuses the commit");
    rig.step(Event::Overdue(id));
    assert_eq!(rig.answer::<SyncRequest>(refused).unwrap().error, Some(GroupError::NotCoordinator));
    let again = rig.send(request);
    rig.finish_appends();
    assert_eq!(assignment(rig.answer::<SyncRequest>(again).unwrap()), member_id);
}

#[test]
fn slow_join_write_refuses_the_member_once() {
    let mut rig = Rig::new(config());
    rig.step(catalogue(&[("t", 4)]));
    rig.hold_appends = true;
    let refused = rig.send(enter("a", &["t"]));
    rig.step(Event::Overdue(rig.held[0].0));
    let error = rig.answer::<ConsumerHeartbeatRequest>(refused);
    assert_eq!(error, Some(Err(GroupError::NotCoordinator)));
    rig.finish_appends();
    assert_eq!(rig.coordinator.describe_consumer(GROUP).unwrap().members.len(), 1);
}

#[test]
fn heartbeat_held_before_session_end_keeps_member() {
    let mut rig = Rig::new(config());
    rig.step(catalogue(&[("t", 4)]));
    let epoch = rig.ask(enter("a", &["t"])).unwrap().member_epoch;
    rig.pass(40_000);
    rig.hold_appends = true;
    rig.send(enter("b", &["t"]));
    rig.send(beat("a", epoch));
    rig.pass(6_000);
    rig.finish_appends();
    let members = rig.coordinator.describe_consumer(GROUP).unwrap().members;
    let members: Vec<&str> = members.iter().map(|member| member.member_id.as_str()).collect();
    assert_eq!(members, ["a", "b"]);
    rig.pass(45_000);
    rig.finish_appends();
    assert!(rig.coordinator.describe_consumer(GROUP).unwrap().members.is_empty(), "silent since then");
}
