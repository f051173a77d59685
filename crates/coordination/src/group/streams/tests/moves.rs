//! Tasks that move between members.

use super::{active, beat, enter, group, ok, owning, rig, rig_with, tasks};
use crate::group::error::GroupError;
use crate::group::records::TaskSets;
use crate::group::request::{StreamsHeartbeatRequest, StreamsStatus};

#[test]
fn a_member_gets_all_tasks() {
    let mut rig = rig();
    let joined = ok(&mut rig, enter("a"));
    assert_eq!((joined.member_epoch, joined.assigned), (2, active(&[0, 1, 2, 3])));
    assert_eq!((joined.heartbeat_interval_ms, joined.status), (5_000, Vec::new()));
    let again = ok(&mut rig, owning("a", 2, &[0, 1, 2, 3]));
    assert_eq!((again.member_epoch, again.assigned, group(&rig).state), (2, None, "Stable"));
}

#[test]
fn streams_tasks_move_after_their_revocation() {
    let mut rig = rig();
    ok(&mut rig, enter("a"));
    let second = ok(&mut rig, enter("b"));
    assert_eq!((second.member_epoch, second.assigned), (3, active(&[])), "nothing is free");
    assert_eq!(group(&rig).state, "Reconciling");
    let keeps = ok(&mut rig, owning("a", 2, &[0, 1, 2, 3]));
    assert_eq!((keeps.member_epoch, keeps.assigned), (2, active(&[0, 1])), "in its epoch");
    assert_eq!(ok(&mut rig, beat("b", 3)).assigned, None, "not given up yet");
    let gave = ok(&mut rig, owning("a", 2, &[0, 1]));
    assert_eq!((gave.member_epoch, gave.assigned), (3, None));
    let takes = ok(&mut rig, beat("b", 3));
    assert_eq!((takes.member_epoch, takes.assigned), (3, active(&[2, 3])));
    assert_eq!(group(&rig).state, "Stable");
}

#[test]
fn a_member_that_keeps_tasks_is_removed() {
    let mut rig = rig();
    ok(&mut rig, StreamsHeartbeatRequest { rebalance_timeout_ms: Some(10_000), ..enter("a") });
    ok(&mut rig, enter("b"));
    ok(&mut rig, owning("a", 2, &[0, 1, 2, 3]));
    for _ in 0..4 {
        rig.pass(2_000);
        ok(&mut rig, owning("a", 2, &[0, 1, 2, 3]));
        ok(&mut rig, beat("b", 3));
    }
    rig.pass(2_001);
    assert_eq!(rig.ask(beat("a", 2)), Err(GroupError::UnknownMemberId));
    assert_eq!(ok(&mut rig, beat("b", 3)).assigned, active(&[0, 1, 2, 3]));
}

#[test]
fn a_silent_member_is_removed() {
    let mut rig = rig();
    ok(&mut rig, enter("a"));
    rig.pass(44_999);
    ok(&mut rig, beat("a", 2));
    rig.restart();
    rig.pass(44_999);
    assert_eq!(group(&rig).members.len(), 1);
    rig.pass(1);
    assert_eq!(group(&rig).state, "Empty");
}

#[test]
fn lost_streams_response_is_repeated() {
    let mut rig = rig();
    ok(&mut rig, enter("a"));
    ok(&mut rig, enter("b"));
    ok(&mut rig, owning("a", 2, &[0, 1, 2, 3]));
    ok(&mut rig, owning("a", 2, &[0, 1]));
    let again = ok(&mut rig, owning("a", 2, &[0, 1]));
    assert_eq!((again.member_epoch, again.assigned), (3, active(&[0, 1])), "the answer was lost");
    assert_eq!(ok(&mut rig, owning("a", 3, &[0])).assigned, active(&[0, 1]), "another one was");
    let fenced = |received| Err(GroupError::fenced("streams", received, 3));
    assert_eq!(rig.ask(owning("a", 2, &[0, 1, 2])), fenced(2));
    assert_eq!(rig.ask(beat("a", 2)), fenced(2));
    assert_eq!(rig.ask(beat("a", 4)), fenced(4));
}

#[test]
fn lost_streams_response_is_repeated_in_later_epochs() {
    let mut rig = rig();
    ok(&mut rig, enter("a"));
    ok(&mut rig, enter("b"));
    ok(&mut rig, owning("a", 2, &[0, 1, 2, 3]));
    ok(&mut rig, owning("a", 2, &[0, 1]));
    assert_eq!(ok(&mut rig, beat("b", 3)).assigned, active(&[2, 3]), "which gets lost");
    // The next target assigns the same tasks.
    ok(&mut rig, StreamsHeartbeatRequest { rack_id: Some("r".into()), ..beat("a", 3) });
    let again = ok(&mut rig, owning("b", 3, &[]));
    assert_eq!((again.member_epoch, again.assigned), (4, active(&[2, 3])));
    assert_eq!(ok(&mut rig, owning("b", 4, &[2, 3])).assigned, None);
}

#[test]
fn a_lost_revocation_is_repeated() {
    let mut rig = rig();
    ok(&mut rig, enter("a"));
    ok(&mut rig, enter("b"));
    assert_eq!(ok(&mut rig, owning("a", 2, &[0, 1, 2, 3])).assigned, active(&[0, 1]), "which gets lost");
    let again = ok(&mut rig, owning("a", 2, &[0, 1, 2, 3]));
    assert_eq!((again.member_epoch, again.assigned), (2, active(&[0, 1])));
    assert_eq!(ok(&mut rig, beat("a", 2)).assigned, None);
}

#[test]
fn standby_tasks_are_placed_in_other_processes() {
    let mut rig = rig_with(|config| config.num_standby_replicas = 1);
    ok(&mut rig, enter("a"));
    ok(&mut rig, enter("b"));
    let with_standby = |active, standby| {
        Some(TaskSets { active: tasks(active), standby: tasks(standby), ..TaskSets::default() })
    };
    let demoted = ok(&mut rig, owning("a", 2, &[0, 1, 2, 3]));
    assert_eq!(demoted.assigned, with_standby(&[0, 1], &[2, 3]), "the state stays");
    let sets = with_standby(&[0, 1], &[2, 3]);
    let gave = ok(&mut rig, StreamsHeartbeatRequest { owned: sets, ..beat("a", 2) });
    assert_eq!((gave.member_epoch, gave.assigned), (3, None));
    assert_eq!(ok(&mut rig, beat("b", 3)).assigned, with_standby(&[2, 3], &[0, 1]));
    assert_eq!(group(&rig).state, "Stable");
    // Standby tasks become active without a step between.
    rig.ask(beat("a", -1)).unwrap();
    let owned = TaskSets { active: tasks(&[2, 3]), standby: tasks(&[0, 1]), ..TaskSets::default() };
    let promoted = ok(&mut rig, StreamsHeartbeatRequest { owned: Some(owned), ..beat("b", 3) });
    assert_eq!((promoted.member_epoch, promoted.assigned), (4, active(&[0, 1, 2, 3])));
}

#[test]
fn the_first_assignment_waits_for_members() {
    let mut rig = rig_with(|config| config.initial_rebalance_delay_ms = 3_000);
    let joined = ok(&mut rig, enter("a"));
    assert_eq!(joined.status[0].code, StreamsStatus::ASSIGNMENT_DELAYED);
    assert_eq!((joined.member_epoch, joined.assigned), (1, active(&[])));
    rig.pass(2_000);
    assert_eq!(ok(&mut rig, enter("b")).status[0].code, StreamsStatus::ASSIGNMENT_DELAYED);
    assert_eq!(group(&rig).state, "Assigning");
    rig.pass(1_000);
    let first = ok(&mut rig, beat("a", 1));
    assert_eq!((first.member_epoch, first.status), (3, Vec::new()));
    assert_eq!(first.assigned, active(&[0, 2]));
    assert_eq!(ok(&mut rig, beat("b", 1)).assigned, active(&[1, 3]));
    // A group that has members does not wait.
    assert_eq!(ok(&mut rig, enter("c")).status, Vec::new());
}

#[test]
fn assignments_keep_their_interval() {
    let mut rig = rig_with(|config| config.assignment_interval_ms = 1_000);
    ok(&mut rig, enter("a"));
    let early = ok(&mut rig, enter("b"));
    assert_eq!(early.status[0].detail, "Assignment delayed due to the configured assignment interval.");
    rig.pass(1_000);
    let late = ok(&mut rig, beat("b", early.member_epoch));
    assert_eq!((late.status, late.member_epoch), (Vec::new(), 3));
}
