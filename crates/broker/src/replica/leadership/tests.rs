//! Leaders, epochs and replicas in sync.

use super::*;

fn leadership(leader: i32, isr: &[i32]) -> Leadership {
    let partition = PartitionRegistration {
        leader,
        leader_epoch: 5,
        partition_epoch: 8,
        isr: isr.to_vec(),
        ..PartitionRegistration::default()
    };
    Leadership::of(&partition, 1)
}

#[test]
fn leader_epoch_is_checked_before_leader_id() {
    let (leads, follows) = (leadership(1, &[1]), leadership(2, &[1, 2]));
    for (known, leader, follower) in [
        (-1, Ok(()), Err(ErrorCode::NotLeaderOrFollower)),
        (5, Ok(()), Err(ErrorCode::NotLeaderOrFollower)),
        (4, Err(ErrorCode::FencedLeaderEpoch), Err(ErrorCode::FencedLeaderEpoch)),
        (6, Err(ErrorCode::UnknownLeaderEpoch), Err(ErrorCode::UnknownLeaderEpoch)),
    ] {
        assert_eq!((leads.check(known), follows.check(known)), (leader, follower), "{known}");
    }
}

#[test]
fn leader_is_alone_without_other_isr_member() {
    let alone = [(1, &[1][..]), (1, &[]), (1, &[1, 2]), (2, &[1]), (-1, &[])]
        .map(|(leader, isr)| leadership(leader, isr).is_alone());
    assert_eq!(alone, [true, true, false, false, false]);
}

#[test]
fn in_sync_or_eligible_replica_is_complete() {
    for (isr, elr, last_known, expected) in [
        (&[2, 1][..], &[][..], &[][..], true),
        (&[2], &[3, 1], &[], true),
        (&[2], &[3], &[1], false),
        (&[2], &[], &[], false),
    ] {
        let partition = PartitionRegistration {
            leader: 2,
            isr: isr.to_vec(),
            eligible_leader_replicas: elr.to_vec(),
            last_known_elr: last_known.to_vec(),
            ..PartitionRegistration::default()
        };
        assert_eq!(Leadership::of(&partition, 1).is_complete(), expected, "{isr:?} {elr:?} {last_known:?}");
    }
}

#[test]
fn only_later_partition_epochs_are_accepted() {
    let held = leadership(1, &[1]);
    let with = |partition_epoch| Leadership { partition_epoch, ..held.clone() };
    assert_eq!([7, 8, 9].map(|epoch| with(epoch).follows(&held)), [false, false, true]);
}

#[test]
fn last_isr_member_keeps_compacted_log_past_gap() {
    let replica = |leader, isr: &[i32]| {
        let (isr, replicas) = (isr.to_vec(), vec![1, 2]);
        let partition = PartitionRegistration { leader, isr, replicas, ..PartitionRegistration::default() };
        Leadership::of(&partition, 1)
    };
    for (leader, isr, compacted, ends) in [
        (1, &[1, 2][..], false, false),
        (2, &[1, 2], false, true),
        (2, &[1, 2], true, true),
        (2, &[2], true, true),
        (-1, &[1], false, true),
        (-1, &[1], true, false),
    ] {
        assert_eq!(replica(leader, isr).ends_at_holes(compacted), ends, "{leader} {isr:?} {compacted}");
    }
}

#[test]
fn last_eligible_leader_keeps_compacted_log_past_gap() {
    for (isr, elr, last_known, ends) in [
        (&[][..], &[1][..], &[][..], false),
        (&[], &[], &[1], false),
        (&[], &[1], &[2], false),
        (&[], &[1, 2], &[], true),
        (&[], &[2], &[1], true),
        (&[], &[], &[2], true),
        (&[2], &[1], &[1], true),
        (&[], &[], &[], true),
    ] {
        let partition = PartitionRegistration {
            leader: -1,
            replicas: vec![1, 2],
            isr: isr.to_vec(),
            eligible_leader_replicas: elr.to_vec(),
            last_known_elr: last_known.to_vec(),
            ..PartitionRegistration::default()
        };
        let replica = Leadership::of(&partition, 1);
        assert_eq!(replica.ends_at_holes(true), ends, "{isr:?} {elr:?} {last_known:?}");
        assert!(replica.ends_at_holes(false), "not compacted: {isr:?} {elr:?} {last_known:?}");
    }
}
