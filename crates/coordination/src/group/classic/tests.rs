//! Members of a classic group, scenario by scenario.

use crate::group::config::GroupConfig;
use crate::group::error::GroupError;
use crate::group::event::Ticket;
use crate::group::request::{HeartbeatRequest, JoinRequest, LeaveRequest, SyncRequest};
use crate::group::tests::rig::{Rig, assignment, config, heartbeat, leave, protocols, sync};
use crate::machine::PersistFailure;

/// True if the member waits and has no response.
fn waits(rig: &Rig, ticket: Ticket) -> bool {
    rig.waiting.contains(&ticket)
}

#[test]
fn join_group_v4_requires_a_member_id() {
    for (api_version, expected) in [
        (2, None),
        (3, None),
        (4, Some(GroupError::MemberIdRequired)),
        (9, Some(GroupError::MemberIdRequired)),
    ] {
        let mut rig = Rig::new(config());
        let outcome = rig.ask(JoinRequest { api_version, ..rig.join("") });
        assert_eq!(outcome.error, expected, "version {api_version}");
        assert!(outcome.member_id.starts_with("client-"), "{}", outcome.member_id);
        assert_eq!(outcome.generation, if expected.is_none() { 1 } else { -1 });
    }
}

#[test]
fn invalid_join_group_requests_are_refused() {
    fn check(change: impl FnOnce(&mut JoinRequest), expected: GroupError) {
        let mut rig = Rig::new(config());
        rig.stable(1);
        let mut request = rig.join("");
        change(&mut request);
        let outcome = rig.ask(request);
        assert_eq!(outcome.error, Some(expected));
        assert_eq!((outcome.generation, outcome.leader.as_str()), (-1, ""));
    }
    check(|join| join.group_id.clear(), GroupError::InvalidGroupId);
    check(|join| join.session_timeout_ms = 999, GroupError::InvalidSessionTimeout);
    check(|join| join.session_timeout_ms = 1_800_001, GroupError::InvalidSessionTimeout);
    check(|join| join.member_id = "never-seen".into(), GroupError::UnknownMemberId);
    check(|join| (join.group_id, join.member_id) = ("none".into(), "a".into()), GroupError::UnknownMemberId);
    check(|join| join.protocol_type = "connect".into(), GroupError::InconsistentGroupProtocol);
    check(|join| join.protocols = protocols(&["sticky"]), GroupError::InconsistentGroupProtocol);
    check(|join| join.protocols.clear(), GroupError::InconsistentGroupProtocol);
    check(
        |join| (join.member_id, join.group_instance_id) = ("a".into(), Some("nobody".into())),
        GroupError::UnknownMemberId,
    );
}

#[test]
fn members_with_oversized_protocols_are_refused() {
    let mut rig = Rig::new(config());
    let mut join = |bytes: usize, member_id: &str| {
        let mut request = JoinRequest { api_version: 3, ..rig.join(member_id) };
        request.protocols.truncate(1);
        request.protocols[0].metadata = vec![7; bytes].into();
        let ticket = rig.send(request);
        rig.answer::<JoinRequest>(ticket).map(|outcome| (outcome.error, outcome.member_id))
    };
    let refused = Some((Some(GroupError::UnknownServerError), String::new()));
    assert_eq!(join(1 << 20, ""), refused, "more than one record");
    let (error, first) = join(900 << 10, "").expect("a generation");
    assert_eq!(error, None);
    for _ in 0..3 {
        assert_eq!(join(900 << 10, ""), None, "it waits for the first member");
    }
    assert_eq!(join(900 << 10, ""), refused, "more than the group can have");
    assert_eq!(
        join(500 << 10, &first).map(|(error, _)| error),
        Some(None),
        "it takes the place of its former one"
    );
}

#[test]
fn empty_group_accepts_any_but_missing_protocol_type() {
    for (kind, names, expected) in [
        ("connect", vec!["sessioned"], None),
        ("sr", vec!["v0"], None),
        ("", vec!["range"], Some(GroupError::InconsistentGroupProtocol)),
        ("consumer", vec![], Some(GroupError::InconsistentGroupProtocol)),
    ] {
        let mut rig = Rig::new(config());
        let request = JoinRequest {
            api_version: 3,
            protocol_type: kind.into(),
            protocols: protocols(&names),
            ..rig.join("")
        };
        let outcome = rig.ask(request);
        assert_eq!(outcome.error, expected, "{kind} {names:?}");
        if expected.is_none() {
            assert_eq!(
                (outcome.protocol_type.as_deref(), outcome.protocol_name.as_deref()),
                (Some(kind), Some(names[0]))
            );
        }
    }
}

#[test]
fn only_group_leader_receives_the_member_list() {
    let mut rig = Rig::new(config());
    let (first, ticket) = rig.enter();
    let alone = rig.joined(ticket);
    assert_eq!((alone.generation, alone.leader.as_str(), alone.members.len()), (1, first.as_str(), 1));
    let (second, follower) = rig.enter();
    assert!(waits(&rig, follower), "the leader has to come back first");
    assert_eq!(rig.heartbeat(&first, 1), Err(GroupError::RebalanceInProgress));
    let leader = rig.send(rig.join(&first));
    let (leader, follower) = (rig.joined(leader), rig.joined(follower));
    assert_eq!((leader.generation, follower.generation), (2, 2));
    assert_eq!((leader.leader.as_str(), follower.leader.as_str()), (first.as_str(), first.as_str()));
    assert!(follower.members.is_empty());
    let mut ids: Vec<String> = leader.members.into_iter().map(|member| member.member_id).collect();
    ids.sort();
    let mut expected = vec![first, second];
    expected.sort();
    assert_eq!(ids, expected);
}

#[test]
fn most_preferred_protocol_supported_by_all_wins() {
    fn check(offers: &[&[&str]], expected: &str) {
        let mut rig = Rig::new(GroupConfig { initial_rebalance_delay_ms: 1_000, ..config() });
        let tickets: Vec<Ticket> = offers
            .iter()
            .map(|names| {
                let request = JoinRequest { api_version: 3, protocols: protocols(names), ..rig.join("") };
                rig.send(request)
            })
            .collect();
        rig.pass(60_000);
        for ticket in tickets {
            assert_eq!(rig.joined(ticket).protocol_name.as_deref(), Some(expected), "{offers:?}");
        }
    }
    check(&[&["a", "b"], &["b", "a"], &["b", "a"]], "b");
    check(&[&["a", "b"], &["a", "c", "b"]], "a");
    check(&[&["a", "b", "c"], &["c", "b"], &["c", "b"]], "c");
    check(&[&["a", "b"], &["b"]], "b");
    check(&[&["a", "b"], &["b", "a"]], "a"); // A draw: the leader, who came first or not, decides.
}

#[test]
fn initial_rebalance_delay_extends_up_to_rebalance_timeout() {
    let mut rig = Rig::new(GroupConfig { initial_rebalance_delay_ms: 3_000, ..config() });
    let join = |rig: &mut Rig| {
        let request = JoinRequest { api_version: 3, rebalance_timeout_ms: 7_000, ..rig.join("") };
        rig.send(request)
    };
    let first = join(&mut rig);
    rig.pass(2_999);
    assert!(waits(&rig, first));
    let second = join(&mut rig);
    rig.pass(1);
    assert!(waits(&rig, first), "the second member has prolonged the wait");
    let third = join(&mut rig);
    rig.pass(3_000);
    assert!(waits(&rig, first), "so has the third");
    join(&mut rig);
    rig.pass(1_000);
    assert_eq!(rig.state(), "CompletingRebalance", "but the rebalance timeout is the limit");
    for ticket in [first, second, third] {
        assert_eq!(rig.joined(ticket).generation, 1);
    }
}

#[test]
fn followers_sync_after_leader_assignment_is_logged() {
    let mut rig = Rig::new(config());
    let members = rig.stable(2);
    rig.hold_appends = true;
    let generation = {
        let tickets: Vec<Ticket> = members.iter().map(|id| rig.send(rig.join(id))).collect();
        tickets.into_iter().map(|ticket| rig.joined(ticket).generation).max().unwrap()
    };
    let leader = rig.coordinator.describe("g");
    assert_eq!(leader.state, "CompletingRebalance");
    let follower_ticket = rig.send(sync(&members[1], generation, &[]));
    let leader_ticket = rig.send(sync(&members[0], generation, &members));
    assert!(waits(&rig, follower_ticket) && waits(&rig, leader_ticket));
    assert_eq!(rig.heartbeat(&members[1], generation), Ok(()));
    rig.finish_appends();
    let answer = rig.answer::<SyncRequest>(follower_ticket).unwrap();
    assert_eq!(
        (answer.protocol_type.as_deref(), answer.protocol_name.as_deref()),
        (Some("consumer"), Some("range"))
    );
    assert_eq!(assignment(answer), members[1]);
    assert_eq!(assignment(rig.answer::<SyncRequest>(leader_ticket).unwrap()), members[0]);
    assert_eq!(rig.state(), "Stable");
    // A repeated request gets the same response.
    assert_eq!(assignment(rig.ask(sync(&members[1], generation, &[]))), members[1]);
}

#[test]
fn failed_assignment_write_starts_a_rebalance() {
    for (failure, expected) in [
        (PersistFailure::Unavailable, GroupError::CoordinatorNotAvailable),
        (PersistFailure::TooLarge, GroupError::UnknownServerError),
    ] {
        let mut rig = Rig::new(config());
        let (first, ticket) = rig.enter();
        let generation = rig.joined(ticket).generation;
        rig.hold_appends = true;
        let ticket = rig.send(sync(&first, generation, std::slice::from_ref(&first)));
        assert!(rig.finish_append(Some(failure)));
        assert_eq!(rig.answer::<SyncRequest>(ticket).unwrap().error, Some(expected));
        assert_eq!(rig.state(), "PreparingRebalance");
    }
}

#[test]
fn late_assignment_write_is_discarded() {
    let mut rig = Rig::new(config());
    let (first, ticket) = rig.enter();
    let generation = rig.joined(ticket).generation;
    rig.hold_appends = true;
    let ticket = rig.send(sync(&first, generation, std::slice::from_ref(&first)));
    let newcomer = rig.send(JoinRequest { api_version: 3, ..rig.join("") });
    let cancelled = rig.answer::<SyncRequest>(ticket).unwrap();
    assert_eq!(cancelled.error, Some(GroupError::RebalanceInProgress));
    rig.finish_appends();
    assert_eq!(rig.state(), "PreparingRebalance");
    assert!(waits(&rig, newcomer));
}

#[test]
fn sessions_pause_during_assignment_and_resume_afterwards() {
    let mut rig = Rig::new(config());
    let (first, ticket) = rig.enter();
    let generation = rig.joined(ticket).generation;
    rig.hold_appends = true;
    rig.send(sync(&first, generation, std::slice::from_ref(&first)));
    rig.pass(20_000);
    rig.finish_appends();
    assert_eq!(rig.state(), "Stable");
    rig.pass(9_999);
    assert_eq!(rig.state(), "Stable");
    rig.pass(1);
    assert_eq!(rig.state(), "Empty");
}

#[test]
fn invalid_sync_group_requests_are_refused() {
    fn check(change: impl FnOnce(&mut SyncRequest), expected: GroupError) {
        let mut rig = Rig::new(config());
        let members = rig.stable(1);
        let generation = rig.rebalance(&members);
        let mut request = sync(&members[0], generation, &[]);
        change(&mut request);
        assert_eq!(rig.sync_error(request), Some(expected));
    }
    check(|sync| sync.group_id = "none".into(), GroupError::UnknownMemberId);
    check(|sync| sync.group_id.clear(), GroupError::InvalidGroupId);
    check(|sync| sync.member_id = "nobody".into(), GroupError::UnknownMemberId);
    check(|sync| sync.group_instance_id = Some("nobody".into()), GroupError::UnknownMemberId);
    check(|sync| sync.generation += 1, GroupError::IllegalGeneration);
    check(|sync| sync.generation = -1, GroupError::IllegalGeneration);
    check(|sync| sync.protocol_type = Some("connect".into()), GroupError::InconsistentGroupProtocol);
    check(|sync| sync.protocol_name = Some("roundrobin".into()), GroupError::InconsistentGroupProtocol);
}

#[test]
fn classic_heartbeat_returns_the_group_state() {
    let mut rig = Rig::new(config());
    assert_eq!(rig.heartbeat("a", 1), Err(GroupError::UnknownMemberId), "no such group");
    let members = rig.stable(2);
    let generation = rig.rebalance(&members);
    assert_eq!(rig.heartbeat(&members[0], generation), Ok(()));
    assert_eq!(rig.heartbeat(&members[0], generation - 1), Err(GroupError::IllegalGeneration));
    assert_eq!(rig.heartbeat("nobody", generation), Err(GroupError::UnknownMemberId));
    let promised = rig.member_id();
    assert_eq!(rig.heartbeat(&promised, generation), Err(GroupError::UnknownMemberId), "it has only an id");
    rig.send(rig.join(&promised));
    assert_eq!(rig.heartbeat(&members[0], generation), Err(GroupError::RebalanceInProgress));
    let named =
        HeartbeatRequest { group_instance_id: Some("x".into()), ..heartbeat(&members[0], generation) };
    assert_eq!(rig.ask(named), Err(GroupError::UnknownMemberId));
}

#[test]
fn silent_member_is_removed_and_others_rebalance() {
    let mut rig = Rig::new(config());
    let members = rig.stable(2);
    let generation = rig.rebalance(&members);
    for _ in 0..3 {
        rig.pass(4_000);
        let outcome = rig.heartbeat(&members[0], generation);
        let silent = rig.coordinator.describe("g").members.len() == 1;
        assert_eq!(outcome, if silent { Err(GroupError::RebalanceInProgress) } else { Ok(()) });
    }
    assert_eq!(rig.coordinator.describe("g").members.len(), 1);
    assert_eq!(rig.heartbeat(&members[1], generation), Err(GroupError::UnknownMemberId));
    let ticket = rig.send(rig.join(&members[0]));
    assert_eq!(rig.joined(ticket).generation, generation + 1);
}

#[test]
fn members_not_rejoining_in_time_are_removed() {
    let mut rig = Rig::new(config());
    let members = rig.stable(3);
    let generation = rig.rebalance(&members);
    // The leader starts a rebalance; one follower joins, the other only heartbeats.
    let leader = rig.send(rig.join(&members[0]));
    let follower = rig.send(rig.join(&members[1]));
    for _ in 0..11 {
        rig.pass(5_000);
        assert_eq!(rig.heartbeat(&members[2], generation), Err(GroupError::RebalanceInProgress));
    }
    assert!(waits(&rig, leader));
    rig.pass(5_000);
    assert_eq!(rig.joined(leader).members.len(), 2);
    assert_eq!(rig.joined(follower).generation, generation + 1);
    assert_eq!(rig.heartbeat(&members[2], generation), Err(GroupError::UnknownMemberId));
}

#[test]
fn members_not_syncing_in_time_are_removed() {
    let mut rig = Rig::new(config());
    let members = rig.stable(2);
    let tickets: Vec<Ticket> = members.iter().map(|id| rig.send(rig.join(id))).collect();
    let generation = rig.joined(tickets[0]).generation;
    let follower = rig.send(sync(&members[1], generation, &[]));
    // The leader is alive but never assigns.
    for _ in 0..11 {
        rig.pass(5_000);
        assert_eq!(rig.heartbeat(&members[0], generation), Ok(()));
    }
    assert!(waits(&rig, follower));
    rig.pass(5_000);
    assert_eq!(rig.answer::<SyncRequest>(follower).unwrap().error, Some(GroupError::RebalanceInProgress));
    assert_eq!(rig.heartbeat(&members[0], generation), Err(GroupError::UnknownMemberId));
    let ticket = rig.send(rig.join(&members[1]));
    assert_eq!(rig.joined(ticket).leader, members[1], "somebody else leads now");
}

#[test]
fn unused_member_id_expires() {
    let mut rig = Rig::new(config());
    let member_id = rig.member_id();
    rig.pass(10_000);
    assert_eq!(rig.ask(rig.join(&member_id)).error, Some(GroupError::UnknownMemberId));
}

#[test]
fn rebalance_waits_for_issued_member_ids() {
    let mut rig = Rig::new(config());
    let members = rig.stable(1);
    let promised = rig.member_id();
    let leader = rig.send(rig.join(&members[0]));
    assert!(waits(&rig, leader));
    let newcomer = rig.send(rig.join(&promised));
    assert_eq!(rig.joined(leader).generation, rig.joined(newcomer).generation);
}

#[test]
fn repeated_join_does_not_rebalance() {
    let mut rig = Rig::new(config());
    let members = rig.stable(2);
    let generation = rig.rebalance(&members);
    let again = rig.ask(rig.join(&members[1]));
    assert_eq!((again.error, again.generation, again.members.len()), (None, generation, 0));
    assert_eq!(rig.state(), "Stable");
    let changed = JoinRequest { protocols: protocols(&["range"]), ..rig.join(&members[1]) };
    let changed = rig.send(changed);
    assert!(waits(&rig, changed), "new metadata is worth a rebalance");
    let leader = rig.send(rig.join(&members[0]));
    // Both have their answer, but no member has synced: another join returns the same generation.
    let joined = rig.joined(leader);
    let again = rig.ask(rig.join(&members[0]));
    assert_eq!((again.generation, again.members.len()), (joined.generation, 2));
    rig.joined(changed);
}

#[test]
fn superseded_join_gets_rebalance_in_progress() {
    let mut rig = Rig::new(config());
    let members = rig.stable(2);
    let overtaken = rig.send(rig.join(&members[0]));
    let latest = rig.send(rig.join(&members[0]));
    let outcome = rig.answer::<JoinRequest>(overtaken).unwrap();
    assert_eq!(outcome.error, Some(GroupError::RebalanceInProgress));
    assert!(waits(&rig, latest));
}

#[test]
fn leave_group_rebalances_others_or_empties_the_group() {
    let mut rig = Rig::new(config());
    let members = rig.stable(2);
    let generation = rig.rebalance(&members);
    let promised = rig.member_id();
    let errors = rig.leave(&[(&members[1], None), ("nobody", None), (&promised, None), ("", Some("nobody"))]);
    assert_eq!(errors, [None, Some(GroupError::UnknownMemberId), None, Some(GroupError::UnknownMemberId)]);
    assert_eq!(rig.heartbeat(&members[0], generation), Err(GroupError::RebalanceInProgress));
    rig.hold_appends = true;
    let ticket = rig.send(leave(&[(&members[0], None)]));
    assert!(waits(&rig, ticket), "that the group is empty has to be written first");
    rig.finish_appends();
    assert_eq!(rig.answer::<LeaveRequest>(ticket).unwrap().unwrap()[0].error, None);
    let group = rig.coordinator.describe("g");
    assert_eq!((group.state, group.protocol_type.as_str(), group.members.len()), ("Empty", "consumer", 0));
    let other = LeaveRequest { group_id: "none".into(), ..leave(&[("a", None)]) };
    assert_eq!(rig.ask(other).unwrap()[0].error, Some(GroupError::UnknownMemberId));
}

#[test]
fn full_group_refuses_new_members() {
    let mut rig = Rig::new(GroupConfig { max_size: 2, ..config() });
    let members = rig.stable(2);
    let full = rig.ask(rig.join(""));
    assert_eq!((full.error, full.member_id.as_str()), (Some(GroupError::GroupMaxSizeReached), ""));
    assert_eq!(rig.state(), "Stable");
    // While members gather, the ones that come back first have the places.
    let first = rig.send(rig.join(&members[0]));
    let newcomer = rig.send(JoinRequest { api_version: 3, ..rig.join("") });
    let late = rig.ask(rig.join(&members[1]));
    assert_eq!(late.error, Some(GroupError::GroupMaxSizeReached));
    assert_eq!((rig.waiting.contains(&first), rig.waiting.contains(&newcomer)), (true, true));
}

mod static_members {
    use super::*;

    /// A stable group of one static and one dynamic member, the dynamic one leading or not.
    fn group(rig: &mut Rig, static_leads: bool) -> (String, String, i32) {
        let mut dynamic = String::new();
        if !static_leads {
            dynamic = rig.enter().0;
        }
        let first = rig.send(rig.join_static("i", ""));
        if static_leads {
            rig.answer::<JoinRequest>(first).unwrap();
            dynamic = rig.enter().0;
        } else {
            rig.send(rig.join(&dynamic));
            rig.answer::<JoinRequest>(first).unwrap();
        }
        let members = rig.coordinator.describe("g").members;
        let fixed = members.into_iter().find(|member| member.group_instance_id.is_some()).unwrap().member_id;
        let tickets = [rig.send(rig.join_static("i", &fixed)), rig.send(rig.join(&dynamic))];
        let answers: Vec<_> =
            tickets.into_iter().filter_map(|ticket| rig.answer::<JoinRequest>(ticket)).collect();
        let joined = answers.iter().rfind(|answer| answer.error.is_none()).unwrap();
        let members = [fixed.clone(), dynamic.clone()];
        let follower = members.iter().find(|id| **id != joined.leader).unwrap();
        rig.send(sync(follower, joined.generation, &[]));
        rig.send(sync(&joined.leader, joined.generation, &members));
        assert_eq!((rig.state(), joined.leader == fixed), ("Stable", static_leads));
        (fixed, dynamic, joined.generation)
    }

    #[test]
    fn returning_static_member_resumes_without_rebalance() {
        let mut rig = Rig::new(config());
        let (old, dynamic, generation) = group(&mut rig, false);
        let back = rig.ask(rig.join_static("i", ""));
        assert_eq!((back.error, back.generation, back.leader.as_str()), (None, generation, dynamic.as_str()));
        assert!(back.member_id.starts_with("i-") && back.member_id != old);
        assert!(!back.skip_assignment && back.members.is_empty());
        assert_eq!(rig.state(), "Stable");
        assert_eq!(assignment(rig.ask(sync(&back.member_id, generation, &[]))), old, "its predecessor's");
        let fenced = HeartbeatRequest { group_instance_id: Some("i".into()), ..heartbeat(&old, generation) };
        assert_eq!(rig.ask(fenced), Err(GroupError::FencedInstanceId));
        assert_eq!(rig.heartbeat(&old, generation), Err(GroupError::UnknownMemberId));
        assert_eq!(rig.ask(rig.join_static("i", &old)).error, Some(GroupError::FencedInstanceId));
        let fenced = SyncRequest { group_instance_id: Some("i".into()), ..sync(&old, generation, &[]) };
        assert_eq!(rig.sync_error(fenced), Some(GroupError::FencedInstanceId));
        assert_eq!(rig.leave(&[(&old, Some("i"))]), [Some(GroupError::FencedInstanceId)]);
        rig.restart();
        assert_eq!(rig.heartbeat(&back.member_id, generation), Ok(()), "the new id survives");
    }

    #[test]
    fn returning_static_leader_must_not_assign_again() {
        for (api_version, skip) in [(8, false), (9, true)] {
            let mut rig = Rig::new(config());
            let (old, _, generation) = group(&mut rig, true);
            let back = rig.ask(JoinRequest { api_version, ..rig.join_static("i", "") });
            assert_eq!((back.generation, back.skip_assignment), (generation, skip));
            // Below version 9 it is told of its own old id as the leader, and takes itself for a
            // follower.
            assert_eq!(back.leader, if skip { back.member_id.clone() } else { old });
            assert_eq!(back.members.len(), if skip { 2 } else { 0 });
            assert_eq!(rig.state(), "Stable");
        }
    }

    #[test]
    fn static_return_rebalances_only_if_protocol_choice_changes() {
        for (names, expected) in
            [(["range", "roundrobin"], "Stable"), (["roundrobin", "other"], "PreparingRebalance")]
        {
            let mut rig = Rig::new(config());
            group(&mut rig, false);
            rig.send(JoinRequest { protocols: protocols(&names), ..rig.join_static("i", "") });
            assert_eq!(rig.state(), expected, "{names:?}");
        }
    }

    #[test]
    fn static_return_during_assignment_restarts_rebalance() {
        let mut rig = Rig::new(config());
        let (old, dynamic, _) = group(&mut rig, false);
        let tickets = [rig.send(rig.join(&dynamic)), rig.send(rig.join_static("i", &old))];
        let generation = tickets.map(|ticket| rig.joined(ticket).generation)[0];
        let follower = rig.send(sync(&old, generation, &[]));
        let back = rig.send(rig.join_static("i", ""));
        assert_eq!(rig.answer::<SyncRequest>(follower).unwrap().error, Some(GroupError::FencedInstanceId));
        assert_eq!(rig.state(), "PreparingRebalance");
        assert!(waits(&rig, back));
        let leader = rig.send(rig.join(&dynamic));
        assert_eq!(rig.joined(leader).generation, rig.joined(back).generation);
    }

    #[test]
    fn a_waiting_join_is_fenced_by_a_successor() {
        let mut rig = Rig::new(config());
        let (old, dynamic, _) = group(&mut rig, false);
        rig.send(JoinRequest { api_version: 3, ..rig.join("") });
        let waiting = rig.send(rig.join_static("i", &old));
        let back = rig.send(rig.join_static("i", ""));
        let fenced = rig.answer::<JoinRequest>(waiting).unwrap();
        assert_eq!((fenced.error, fenced.member_id), (Some(GroupError::FencedInstanceId), old));
        let leader = rig.send(rig.join(&dynamic));
        assert_eq!(rig.joined(leader).members.len(), 3);
        rig.joined(back);
    }

    #[test]
    fn returning_static_member_joins_rebalance_in_progress() {
        let mut rig = Rig::new(config());
        let (_, dynamic, generation) = group(&mut rig, false);
        rig.hold_appends = true;
        let back = rig.send(rig.join_static("i", ""));
        let newcomer = rig.send(JoinRequest { api_version: 3, ..rig.join("") });
        rig.finish_appends();
        assert!(waits(&rig, back), "the old generation is no answer any more");
        let leader = rig.send(rig.join(&dynamic));
        for ticket in [back, newcomer, leader] {
            assert_eq!(rig.joined(ticket).generation, generation + 1);
        }
    }

    #[test]
    fn failed_static_id_write_keeps_old_member() {
        let mut rig = Rig::new(config());
        let (old, dynamic, generation) = group(&mut rig, true);
        rig.hold_appends = true;
        let ticket = rig.send(rig.join_static("i", ""));
        assert!(waits(&rig, ticket));
        assert!(rig.finish_append(Some(PersistFailure::Unavailable)));
        let refused = rig.answer::<JoinRequest>(ticket).unwrap();
        assert_eq!(refused.error, Some(GroupError::CoordinatorNotAvailable));
        assert_eq!((refused.member_id.as_str(), refused.generation), ("", generation));
        assert_eq!(rig.heartbeat(&old, generation), Ok(()));
        assert_eq!(rig.heartbeat(&dynamic, generation), Ok(()));
    }

    #[test]
    fn absent_static_member_stays_until_session_ends() {
        let mut rig = Rig::new(config());
        let (old, dynamic, generation) = group(&mut rig, false);
        rig.pass(6_000);
        assert_eq!(rig.heartbeat(&dynamic, generation), Ok(()));
        rig.pass(4_000);
        assert_eq!(rig.heartbeat(&dynamic, generation), Err(GroupError::RebalanceInProgress));
        assert_eq!(rig.heartbeat(&old, generation), Err(GroupError::UnknownMemberId));
    }

    #[test]
    fn static_member_keeps_place_when_rebalance_times_out() {
        let mut rig = Rig::new(config());
        let first = rig.send(JoinRequest { session_timeout_ms: 100_000, ..rig.join_static("i", "") });
        let old = rig.joined(first).member_id;
        let (dynamic, ticket) = rig.enter();
        rig.pass(60_000);
        let joined = rig.joined(ticket);
        assert_eq!((joined.leader.as_str(), joined.members.len()), (dynamic.as_str(), 2));
        assert!(joined.members.iter().any(|member| member.member_id == old));
    }

    #[test]
    fn administrator_removes_static_member_by_name() {
        let mut rig = Rig::new(config());
        let (old, ..) = group(&mut rig, false);
        assert_eq!(rig.leave(&[("", Some("i"))]), [None]);
        assert!(rig.coordinator.describe("g").members.iter().all(|member| member.member_id != old));
        assert_eq!(rig.leave(&[("", Some("i"))]), [Some(GroupError::UnknownMemberId)]);
    }
}
