//! The ends of three replicas, of which the first has lost records.

use super::*;
use crate::replication::leader::BrokerStanding;

const OWN: LogEnd = LogEnd { offset: 1_157, epoch: 4 };

fn registered() -> LedRegistration {
    LedRegistration { leader_epoch: 6, partition_epoch: 20, replicas: vec![1, 2, 3], isr: vec![1] }
}

fn standing(id: i32) -> BrokerStanding {
    BrokerStanding { epoch: 100 + i64::from(id), is_fenced: false, is_stopping: false }
}

fn end_of(replica: i32, offset: i64, epoch: i32) -> ReplicaEnd {
    let end = LogEnd { offset, epoch };
    ReplicaEnd { replica, broker_epoch: standing(replica).epoch, leader_epoch: 6, end }
}

fn recount(heard: &[ReplicaEnd]) -> Recount {
    let mut recount = Recount::default();
    heard.iter().for_each(|found| recount.heard(*found));
    recount
}

fn verdict(heard: &[ReplicaEnd]) -> Verdict {
    recount(heard).verdict((1, OWN), &registered(), &|id| Some(standing(id)))
}

#[test]
fn recount_verdict_needs_every_registered_replica() {
    assert_eq!(verdict(&[]), Verdict::Wait(vec![2, 3]));
    assert_eq!(verdict(&[end_of(3, 3_700, 5)]), Verdict::Wait(vec![2]));
    let without_2 = |id| (id != 2).then(|| standing(id));
    let unregistered = recount(&[end_of(3, 9, 4)]).verdict((1, OWN), &registered(), &without_2);
    assert_eq!(unregistered, Verdict::Lead);
}

#[test]
fn stale_broker_or_leader_epoch_positions_are_ignored() {
    let former = ReplicaEnd { broker_epoch: 7, ..end_of(2, 3_700, 5) };
    let earlier = ReplicaEnd { leader_epoch: 5, ..end_of(2, 3_700, 5) };
    for found in [former, earlier] {
        assert_eq!(verdict(&[found, end_of(3, 0, -1)]), Verdict::Wait(vec![2]));
    }
    let old_fetch = ReplicaEnd { broker_epoch: NO_BROKER_EPOCH, ..end_of(2, 0, -1) };
    assert_eq!(verdict(&[old_fetch, end_of(3, 0, -1)]), Verdict::Lead);
}

#[test]
fn replica_with_latest_epoch_and_largest_end_leads() {
    let to = |heard: &[ReplicaEnd]| match verdict(heard) {
        Verdict::Yield(replica, change) => {
            assert_eq!(change.isr, [(1, NO_BROKER_EPOCH), (replica, standing(replica).epoch)]);
            assert_eq!((change.leader_epoch, change.partition_epoch), (6, 20));
            replica
        }
        other => panic!("{other:?}"),
    };
    assert_eq!(to(&[end_of(2, 3_500, 4), end_of(3, 3_700, 4)]), 3);
    assert_eq!(to(&[end_of(2, 1_200, 5), end_of(3, 3_700, 4)]), 2);
    assert_eq!(verdict(&[end_of(2, 1_157, 4), end_of(3, 5_000, 3)]), Verdict::Lead);
}

#[test]
fn recount_waits_for_fenced_replicas() {
    let fenced = |id| Some(BrokerStanding { is_fenced: id == 2, ..standing(id) });
    let heard = recount(&[end_of(2, 3_700, 4), end_of(3, 10, 4)]);
    assert_eq!(heard.verdict((1, OWN), &registered(), &fenced), Verdict::Wait(vec![2]));
}
