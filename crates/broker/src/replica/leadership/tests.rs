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
fn epochs_are_compared_before_the_leader_is() {
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
fn a_leader_is_alone_while_no_other_replica_is_in_sync() {
    let alone = [(1, &[1][..]), (1, &[]), (1, &[1, 2]), (2, &[1]), (-1, &[])]
        .map(|(leader, isr)| leadership(leader, isr).is_alone());
    assert_eq!(alone, [true, true, false, false, false]);
}

#[test]
fn only_a_later_partition_epoch_follows() {
    let held = leadership(1, &[1]);
    let with = |partition_epoch| Leadership { partition_epoch, ..held.clone() };
    assert_eq!([7, 8, 9].map(|epoch| with(epoch).follows(&held)), [false, false, true]);
}
