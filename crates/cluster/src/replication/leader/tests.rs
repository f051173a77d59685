//! Tables of the leader's rules. `model` plays the whole of a partition with a controller.

use super::*;

mod model;

const LIMITS: LeaderLimits = LeaderLimits { min_insync_replicas: 1, lag_ms_max: 30_000 };
const EPOCH: i64 = 100;
const LOG: LedLog = LedLog { log_end: 10, high_watermark: 4 };

fn alive(_: i32) -> Option<BrokerStanding> {
    Some(BrokerStanding { epoch: EPOCH, is_fenced: false, is_stopping: false })
}

fn registration(partition_epoch: i32, isr: &[i32]) -> LedRegistration {
    LedRegistration { leader_epoch: 5, partition_epoch, replicas: vec![1, 2, 3], isr: isr.to_vec() }
}

/// Broker 1 leads a partition of brokers 1 to 3 whose log ends at 10, with the high watermark at 4.
fn leader(isr: &[i32]) -> Leader {
    leader_with(LIMITS, isr)
}

fn leader_with(limits: LeaderLimits, isr: &[i32]) -> Leader {
    Leader::new(1, limits, &registration(7, isr), LOG, 0)
}

fn fetch(replica: i32, offset: i64, leader_end: i64) -> FollowerFetch {
    FollowerFetch { replica, broker_epoch: EPOCH, leader_epoch: 5, offset, log_start: 0, leader_end }
}

/// A fetch at a moment at which the log ends at `log_end`.
fn fetched(leader: &mut Leader, (replica, offset): (i32, i64), log_end: i64, now_ms: i64) -> Effects {
    let fetch = FollowerFetch { leader_epoch: leader.leader_epoch(), ..fetch(replica, offset, log_end) };
    leader.fetched(fetch, log_end, &alive, now_ms).expect("the fetch is taken")
}

#[test]
fn fetch_read_in_another_leader_epoch_is_refused() {
    let mut leader = leader(&[1, 2]);
    for read in [4, 6] {
        let fetch = FollowerFetch { leader_epoch: read, ..fetch(2, 10, 10) };
        let refused = FetchRefusal::OtherLeaderEpoch { replica: 2, read, present: 5 };
        assert_eq!(leader.fetched(fetch, 10, &alive, 1), Err(refused));
        assert_eq!(leader.high_watermark(), 4);
    }
    let _ = fetched(&mut leader, (2, 10), 10, 1);
    assert_eq!(leader.high_watermark(), 10);
}

fn members(change: Option<IsrChange>) -> Vec<(i32, i64)> {
    change.expect("there is a change").isr
}

fn committed(partition_epoch: i32, isr: &[i32]) -> CommittedIsr {
    CommittedIsr { leader_epoch: 5, partition_epoch, isr: isr.to_vec() }
}

#[test]
fn high_watermark_is_lowest_in_sync_log_end() {
    let mut leader = leader(&[1, 2, 3]);
    assert_eq!(fetched(&mut leader, (2, 10), 10, 1).high_watermark, None, "replica 3 has not fetched");
    assert_eq!(fetched(&mut leader, (3, 6), 10, 2).high_watermark, Some(6));
    assert_eq!(leader.appended(20, &alive, 3).high_watermark, None);
    assert_eq!(fetched(&mut leader, (3, 20), 20, 4).high_watermark, Some(10));
    assert_eq!(fetched(&mut leader, (2, 12), 20, 5).high_watermark, Some(12));
}

#[test]
fn the_high_watermark_never_falls() {
    let mut leader = leader(&[1, 2, 3]);
    let _ = fetched(&mut leader, (2, 10), 10, 1);
    assert_eq!(fetched(&mut leader, (3, 10), 10, 2).high_watermark, Some(10));
    // A restarted follower begins at its own high watermark.
    assert_eq!(fetched(&mut leader, (3, 3), 10, 3), Effects::default());
    assert_eq!(leader.high_watermark(), 10);
}

#[test]
fn sole_in_sync_leader_advances_high_watermark() {
    let mut leader = leader(&[1]);
    assert_eq!(leader.lead(&registration(7, &[1]), 10, &alive, 0).high_watermark, Some(10));
    assert_eq!(leader.appended(11, &alive, 1).high_watermark, Some(11));
}

#[test]
fn high_watermark_stalls_below_min_insync_replicas() {
    let limits = LeaderLimits { min_insync_replicas: 2, ..LIMITS };
    let mut leader = leader_with(limits, &[1]);
    assert!(leader.is_under_min_insync());
    assert_eq!(leader.appended(11, &alive, 1).high_watermark, None);
    let change = fetched(&mut leader, (2, 11), 11, 2).change.expect("2 joins");
    assert!(leader.is_under_min_insync(), "the controller has not committed the change");
    assert!(!leader.has_fallen_short());
    let (_, effects) = leader.answered(change.number, Ok(&committed(8, &[1, 2])), &alive, 3);
    assert_eq!(effects.high_watermark, Some(11));
}

#[test]
fn min_insync_replicas_is_capped_at_replica_count() {
    let limits = LeaderLimits { min_insync_replicas: 3, ..LIMITS };
    let registered = LedRegistration { replicas: vec![1, 2], ..registration(7, &[1, 2]) };
    let mut leader = Leader::new(1, limits, &registered, LOG, 0);
    assert_eq!(leader.effective_min_insync(), 2);
    assert_eq!(fetched(&mut leader, (2, 10), 10, 1).high_watermark, Some(10));
}

#[test]
fn isr_join_requires_high_watermark_and_epoch_start() {
    // Log end of the follower, and true if it joins. The epoch begins at 10.
    for (offset, joins) in [(3, false), (4, false), (9, false), (10, true), (12, true)] {
        let mut leader = leader(&[1, 2]);
        let _ = leader.appended(12, &alive, 0);
        let effects = fetched(&mut leader, (3, offset), 12, 1);
        assert_eq!(effects.change.is_some(), joins, "at {offset}");
    }
    let mut leader = leader(&[1]);
    assert_eq!(leader.appended(20, &alive, 0).high_watermark, Some(20));
    assert_eq!(fetched(&mut leader, (3, 15), 20, 1).change, None, "below the high watermark");
}

#[test]
fn isr_change_carries_broker_epochs_of_its_members() {
    let mut leader = leader(&[1, 2]);
    let change = fetched(&mut leader, (3, 10), 10, 1).change.expect("3 joins");
    assert_eq!(change.isr, [(1, NO_BROKER_EPOCH), (2, NO_BROKER_EPOCH), (3, EPOCH)]);
    assert_eq!((change.leader_epoch, change.partition_epoch), (5, 7));
    assert_eq!(fetched(&mut leader, (2, 10), 10, 2).change, None, "one change at a time");
}

#[test]
fn only_an_eligible_broker_joins() {
    let with = |epoch, is_fenced, is_stopping| Some(BrokerStanding { epoch, is_fenced, is_stopping });
    // Standing in the metadata, broker epoch of the fetch, and true if the replica joins.
    for (standing, fetch_epoch, joins) in [
        (with(EPOCH, false, false), EPOCH, true),
        (with(EPOCH, false, false), NO_BROKER_EPOCH, true),
        (with(EPOCH, true, false), EPOCH, false),
        (with(EPOCH, false, true), EPOCH, false),
        (with(EPOCH - 1, false, false), EPOCH, false),
        (with(EPOCH + 1, true, false), EPOCH, false),
        (None, EPOCH, false),
    ] {
        let mut leader = leader(&[1, 2]);
        let fetch = FollowerFetch { broker_epoch: fetch_epoch, ..fetch(3, 10, 10) };
        let effects = leader.fetched(fetch, 10, &|_| standing, 1).expect("the fetch is taken");
        assert_eq!(effects.change.is_some(), joins, "{standing:?}, fetch with {fetch_epoch}");
    }
}

#[test]
fn fetch_with_stale_broker_epoch_is_refused() {
    let mut leader = leader(&[1, 2]);
    let standing = |_| Some(BrokerStanding { epoch: EPOCH + 1, is_fenced: false, is_stopping: false });
    let refused = leader.fetched(fetch(2, 10, 10), 10, &standing, 1);
    let stale = FetchRefusal::StaleBrokerEpoch { replica: 2, fetched: EPOCH, registered: EPOCH + 1 };
    assert_eq!(refused, Err(stale));
    assert_eq!(leader.follower_end(2), Some(-1));
    let unnamed = FollowerFetch { broker_epoch: NO_BROKER_EPOCH, ..fetch(2, 10, 10) };
    assert!(leader.fetched(unnamed, 10, &standing, 1).is_ok());
}

#[test]
fn a_broker_without_a_replica_is_refused() {
    let mut leader = leader(&[1, 2]);
    assert_eq!(leader.check_assigned(4), Err(FetchRefusal::NotAssigned(4)));
    assert_eq!(leader.check_assigned(3), Ok(()));
    assert_eq!(leader.fetched(fetch(4, 10, 10), 10, &alive, 1), Err(FetchRefusal::NotAssigned(4)));
}

#[test]
fn joining_replica_limits_high_watermark() {
    let mut leader = leader(&[1]);
    assert_eq!(leader.appended(10, &alive, 0).high_watermark, Some(10));
    let change = fetched(&mut leader, (2, 10), 10, 1).change.expect("2 joins");
    // Much later, so that it counts as a member and not as caught up.
    assert_eq!(leader.appended(20, &alive, 90_000).high_watermark, None);
    let (outcome, effects) =
        leader.answered(change.number, Err(ErrorCode::IneligibleReplica.code()), &alive, 90_001);
    assert_eq!((outcome, effects.high_watermark), (ChangeOutcome::Reset, Some(20)));
}

#[test]
fn leaving_replica_limits_high_watermark() {
    let mut leader = leader(&[1, 2]);
    assert_eq!(fetched(&mut leader, (2, 10), 10, 1).high_watermark, Some(10));
    let _ = leader.appended(20, &alive, 2);
    let change = leader.check_lag(20, 40_000).change.expect("2 leaves");
    assert_eq!(change.isr, [(1, NO_BROKER_EPOCH)]);
    assert_eq!(leader.appended(21, &alive, 40_001).high_watermark, None);
    let (outcome, effects) = leader.answered(change.number, Ok(&committed(8, &[1])), &alive, 40_002);
    assert_eq!(outcome, ChangeOutcome::Committed { joined: 0, left: 1 });
    assert_eq!(effects.high_watermark, Some(21));
}

#[test]
fn eligible_caught_up_replica_limits_high_watermark() {
    let stopping = |_| Some(BrokerStanding { epoch: EPOCH, is_fenced: false, is_stopping: true });
    for (standings, high) in [(&alive as Standings<'_>, None), (&stopping, Some(20))] {
        let mut leader = leader(&[1]);
        let _ = leader.appended(10, standings, 0);
        // Below the start of the epoch at first, so that it does not join.
        let _ = leader.fetched(fetch(2, 9, 9), 10, standings, 1).expect("the fetch is taken");
        assert_eq!(leader.appended(20, standings, 2).high_watermark, high);
    }
    let mut leader = leader(&[1]);
    let _ = leader.appended(10, &alive, 0);
    let _ = leader.fetched(fetch(2, 9, 9), 10, &alive, 1).expect("the fetch is taken");
    assert_eq!(leader.appended(20, &alive, 30_002).high_watermark, Some(20), "it has caught up too long ago");
}

#[test]
fn a_replica_leaves_after_the_greatest_lag() {
    // Times of two fetches (the log grows from 10 to 20 between them), their offsets, the time of
    // the check, and true if the replica leaves.
    for (fetches, check_ms, leaves) in [
        // The follower has everything.
        ([(1, 10), (2, 20)], 90_000, false),
        // The second fetch has all that was there at the first one.
        ([(1, 10), (20_000, 15)], 30_001, false),
        ([(1, 5), (20_000, 10)], 30_001, false),
        ([(1, 5), (20_000, 10)], 30_002, true),
        // The follower has never had everything.
        ([(1, 5), (20_000, 9)], 30_001, true),
    ] {
        let mut leader = leader(&[1, 2]);
        let [(first_ms, first), (second_ms, second)] = fetches;
        let _ = fetched(&mut leader, (2, first), 10, first_ms);
        let _ = leader.appended(20, &alive, first_ms);
        let _ = fetched(&mut leader, (2, second), 20, second_ms);
        let change = leader.check_lag(20, check_ms).change;
        assert_eq!(change.is_some(), leaves, "fetches {fetches:?}, checked at {check_ms}");
    }
}

#[test]
fn isr_member_without_fetches_leaves_after_max_lag() {
    let mut leader = leader(&[1, 2, 3]);
    assert_eq!(leader.check_lag(10, 30_000).change, None);
    let _ = fetched(&mut leader, (3, 10), 10, 30_000);
    assert_eq!(members(leader.check_lag(10, 30_001).change), [(1, NO_BROKER_EPOCH), (3, EPOCH)]);
    assert_eq!(leader.check_lag(10, 90_000).change, None, "one change at a time");
}

#[test]
fn new_leader_epoch_resets_lag_and_keeps_positions() {
    let mut leader = leader(&[1, 2, 3]);
    let _ = fetched(&mut leader, (2, 10), 10, 1);
    let _ = fetched(&mut leader, (3, 10), 10, 1);
    let next = LedRegistration { leader_epoch: 6, ..registration(8, &[1, 2]) };
    assert_eq!(leader.lead(&next, 12, &alive, 50_000).high_watermark, None);
    assert_eq!((leader.leader_epoch(), leader.epoch_start()), (6, 12));
    assert_eq!(leader.check_lag(12, 80_000).change, None);
    assert_eq!(members(leader.check_lag(12, 80_001).change), [(1, NO_BROKER_EPOCH)]);
    assert_eq!(leader.follower_end(3), Some(10));
}

#[test]
fn follower_positions_are_dropped_after_skipped_leader_epoch() {
    let mut leader = leader(&[1, 2, 3]);
    let _ = fetched(&mut leader, (2, 6), 10, 1);
    let _ = fetched(&mut leader, (3, 10), 10, 1);
    let later = LedRegistration { leader_epoch: 7, ..registration(9, &[1, 2, 3]) };
    let _ = leader.lead(&later, 10, &alive, 2);
    assert_eq!(leader.follower_end(3), Some(-1), "epoch 6 may have had another leader");
    assert_eq!(fetched(&mut leader, (2, 10), 10, 3).high_watermark, None, "replica 3 has not fetched");
    assert_eq!(fetched(&mut leader, (3, 10), 10, 4).high_watermark, Some(10));
}

#[test]
fn only_newer_registration_ends_pending_isr_change() {
    let mut leader = leader(&[1, 2]);
    let change = fetched(&mut leader, (3, 10), 10, 1).change.expect("3 joins");
    let _ = leader.lead(&registration(6, &[1]), 10, &alive, 2);
    let _ = leader.lead(&registration(7, &[1, 2]), 10, &alive, 2);
    assert!(leader.is_change_pending(), "these are not later than what the change follows");
    let _ = leader.lead(&registration(8, &[1, 2, 3]), 10, &alive, 3);
    assert!(!leader.is_change_pending());
    assert_eq!(leader.isr(), [1, 2, 3]);
    let (outcome, _) = leader.answered(change.number, Err(ErrorCode::InvalidUpdateVersion.code()), &alive, 4);
    assert_eq!(outcome, ChangeOutcome::Stale);
}

#[test]
fn metadata_of_settled_change_keeps_next_one_pending() {
    let mut leader = leader(&[1, 2]);
    let first = fetched(&mut leader, (3, 10), 10, 1).change.expect("3 joins");
    let (outcome, _) = leader.answered(first.number, Ok(&committed(8, &[1, 2, 3])), &alive, 2);
    assert_eq!(outcome, ChangeOutcome::Committed { joined: 1, left: 0 });
    let second = leader.check_lag(20, 40_000).change.expect("2 and 3 leave");
    let _ = leader.lead(&registration(8, &[1, 2, 3]), 20, &alive, 40_001);
    assert!(leader.is_change_pending());
    let (outcome, _) = leader.answered(second.number, Ok(&committed(9, &[1])), &alive, 40_002);
    assert_eq!(outcome, ChangeOutcome::Committed { joined: 0, left: 2 });
}

#[test]
fn isr_response_codes_determine_the_outcome() {
    let retry = |change: &IsrChange| ChangeOutcome::Retry(change.clone());
    let unsettled = |_: &IsrChange| ChangeOutcome::Unsettled;
    let reset = |_: &IsrChange| ChangeOutcome::Reset;
    type Expected<'a> = &'a dyn Fn(&IsrChange) -> ChangeOutcome;
    let table: [(i16, Expected<'_>); 10] = [
        (ErrorCode::UnknownTopicOrPartition.code(), &unsettled),
        (ErrorCode::UnknownTopicId.code(), &unsettled),
        (ErrorCode::FencedLeaderEpoch.code(), &unsettled),
        (ErrorCode::InvalidUpdateVersion.code(), &unsettled),
        (ErrorCode::InvalidRequest.code(), &unsettled),
        (ErrorCode::NewLeaderElected.code(), &unsettled),
        (ErrorCode::OperationNotAttempted.code(), &reset),
        (ErrorCode::IneligibleReplica.code(), &reset),
        (ErrorCode::NotController.code(), &retry),
        (-1, &retry),
    ];
    for (code, expected) in table {
        let mut leader = leader(&[1, 2]);
        let change = fetched(&mut leader, (3, 10), 10, 1).change.expect("3 joins");
        let (outcome, _) = leader.answered(change.number, Err(code), &alive, 2);
        assert_eq!(outcome, expected(&change), "error {code}");
        assert_eq!(leader.is_change_pending(), outcome != ChangeOutcome::Reset, "error {code}");
        assert_eq!(leader.isr(), [1, 2], "error {code}");
    }
}

#[test]
fn isr_response_of_another_epoch_is_ignored() {
    for answer in [
        CommittedIsr { leader_epoch: 4, ..committed(8, &[1, 2, 3]) },
        CommittedIsr { leader_epoch: 6, ..committed(8, &[1, 2, 3]) },
        committed(6, &[1, 2, 3]),
    ] {
        let mut leader = leader(&[1, 2]);
        let change = fetched(&mut leader, (3, 10), 10, 1).change.expect("3 joins");
        let (outcome, _) = leader.answered(change.number, Ok(&answer), &alive, 2);
        assert_eq!((outcome, leader.isr()), (ChangeOutcome::Stale, &[1, 2][..]), "{answer:?}");
        assert!(leader.is_change_pending());
    }
}

#[test]
fn response_with_same_partition_epoch_settles_isr_change() {
    let mut leader = leader(&[1, 2]);
    let change = fetched(&mut leader, (3, 10), 10, 1).change.expect("3 joins");
    let (outcome, _) = leader.answered(change.number, Ok(&committed(7, &[1, 2, 3])), &alive, 2);
    assert_eq!(outcome, ChangeOutcome::Committed { joined: 1, left: 0 });
    assert!(!leader.is_change_pending());
}

#[test]
fn low_watermark_covers_only_living_replicas() {
    let mut leader = leader(&[1, 2, 3]);
    for (replica, log_start) in [(2, 5), (3, 3)] {
        let fetch = FollowerFetch { log_start, ..fetch(replica, 10, 10) };
        let _ = leader.fetched(fetch, 10, &alive, 1).expect("the fetch is taken");
    }
    assert_eq!(leader.low_watermark(8, &alive), 3);
    let without_3 = |id| alive(id).map(|standing| BrokerStanding { is_fenced: id == 3, ..standing });
    assert_eq!(leader.low_watermark(8, &without_3), 5);
    assert_eq!(leader.low_watermark(2, &alive), 2);
}

#[test]
fn consumers_fetch_from_isr_members_with_the_offset() {
    let mut leader = leader(&[1, 2]);
    let _ = fetched(&mut leader, (2, 6), 10, 1);
    let _ = fetched(&mut leader, (3, 10), 10, 1);
    assert_eq!(leader.holders(6), [(2, 6)]);
    assert_eq!(leader.holders(7), []);
}

#[test]
fn removed_replica_does_not_limit_high_watermark() {
    let mut leader = leader(&[1, 2]);
    let _ = fetched(&mut leader, (2, 6), 10, 1);
    let alone = LedRegistration { replicas: vec![1], ..registration(8, &[1]) };
    assert_eq!(leader.lead(&alone, 10, &alive, 2).high_watermark, Some(10));
    assert!(!leader.is_under_replicated());
}
