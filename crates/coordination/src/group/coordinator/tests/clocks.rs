//! A coordinator's own actions, and the clock of each: the steady one, or the one that people
//! set.

use crate::group::config::GroupConfig;
use crate::group::consumer::tests::{beat, catalogue, enter};
use crate::group::coordinator::ListFilter;
use crate::group::event::Event;
use crate::group::request::CommitRequest;
use crate::group::tests::rig::{GROUP, Rig, commit, config};

const HOUR_MS: i64 = 3_600_000;

#[test]
fn clock_set_forward_removes_no_member() {
    let mut rig = Rig::new(config());
    let members = rig.stable(2);
    let generation = rig.rebalance(&members);
    rig.ahead_ms = HOUR_MS;
    for _ in 0..5 {
        rig.pass(1_000);
        for member_id in &members {
            assert_eq!(rig.heartbeat(member_id, generation), Ok(()));
        }
    }
}

#[test]
fn a_clock_set_back_keeps_no_silent_member() {
    let mut rig = Rig::new(config());
    rig.stable(2);
    rig.ahead_ms = -HOUR_MS;
    rig.pass(10_001);
    assert_eq!(rig.state(), "Empty");
}

#[test]
fn clock_set_forward_removes_no_consumer() {
    let mut rig = Rig::new(config());
    rig.step(catalogue(&[("t", 4)]));
    let epoch = rig.ask(enter("a", &["t"])).unwrap().member_epoch;
    let other_epoch = rig.ask(enter("b", &["t"])).unwrap().member_epoch;
    rig.ahead_ms = HOUR_MS;
    rig.pass(1_000);
    assert!(rig.ask(beat("a", epoch)).is_ok());
    assert!(rig.ask(beat("b", other_epoch)).is_ok(), "b is still there after the heartbeat of a");
    rig.ahead_ms = -HOUR_MS;
    rig.pass(45_001);
    assert_eq!(rig.coordinator.describe_consumer(GROUP).unwrap().members, [], "silent by any clock");
}

#[test]
fn offsets_expire_by_wall_clock() {
    let mut rig = Rig::new(config());
    rig.commit(commit("simple", "t", 1)).unwrap();
    let retention_ms = rig.config.offsets_retention_ms;
    let interval_ms = rig.config.offsets_retention_check_interval_ms;
    rig.ahead_ms = retention_ms - interval_ms - 1;
    rig.pass(interval_ms);
    assert_eq!(rig.committed("simple", "t"), 1);
    rig.ahead_ms += 1;
    rig.pass(interval_ms);
    assert_eq!(rig.committed("simple", "t"), -1);
}

#[test]
fn expired_groups_are_removed_in_portions_between_requests() {
    let mut rig = Rig::new(GroupConfig { offsets_retention_check_interval_ms: 600_000, ..config() });
    let groups = 2_500;
    for at in 0..groups {
        let request = CommitRequest { retention_ms: Some(0), ..commit(&format!("g{at}"), "t", 1) };
        rig.commit(request).unwrap();
    }
    let committed = rig.log.len();
    let mut portions = Vec::new();
    while !rig.coordinator.list(&ListFilter::default()).unwrap().is_empty() {
        let before = rig.coordinator.list(&ListFilter::default()).unwrap().len();
        rig.now_ms = rig.coordinator.deadline().unwrap();
        rig.step(Event::Tick);
        portions.push(before - rig.coordinator.list(&ListFilter::default()).unwrap().len());
    }
    assert_eq!(portions, [1_000, 1_000, 500]);
    // A tombstone for the offset of each group, and one for the group.
    assert_eq!(rig.log.len() - committed, 2 * groups);
    assert_eq!(rig.now_ms, 1_000_000 + 600_002);
    assert_eq!(rig.coordinator.deadline(), Some(rig.now_ms + 600_000));
}
