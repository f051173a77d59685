//! Single steps of a member towards its target.

use super::*;

const T: Uuid = Uuid::from_bytes(1_u128.to_be_bytes());

fn held(partitions: &[i32]) -> EpochPartitions {
    if partitions.is_empty() {
        return EpochPartitions::new();
    }
    [(T, partitions.iter().map(|&index| (index, 1)).collect())].into()
}

fn plain(partitions: &[i32]) -> Partitions {
    if partitions.is_empty() { Partitions::new() } else { [(T, partitions.iter().copied().collect())].into() }
}

struct Case {
    state: i8,
    assigned: &'static [i32],
    revoking: &'static [i32],
    target: &'static [i32],
    /// Partitions with an owner: the member itself or another one.
    taken: &'static [i32],
    owned: Option<&'static [i32]>,
}

/// State, epoch, assigned and revoking partitions after one step from epoch 1 to 2.
fn check(case: &Case, expected: Option<(i8, i32, &[i32], &[i32])>) {
    let now = CurrentValue {
        epoch: 1,
        previous_epoch: 0,
        state: case.state,
        assigned: held(case.assigned),
        revoking: held(case.revoking),
    };
    let (target, owned) = (plain(case.target), case.owned.map(plain));
    let subscribed = [T].into();
    let goal = Goal {
        epoch: 2,
        target: &target,
        subscribed: &subscribed,
        resubscribed: false,
        owned: owned.as_ref(),
    };
    let next = next(&now, &goal, |_, index| case.taken.contains(&index));
    let seen = next.as_ref().map(|next| {
        let of = |side: &EpochPartitions| -> Vec<i32> {
            side.get(&T).into_iter().flat_map(|partitions| partitions.keys().copied()).collect()
        };
        (next.state, next.epoch, of(&next.assigned), of(&next.revoking))
    });
    assert_eq!(seen, expected.map(|(state, epoch, a, r)| (state, epoch, a.to_vec(), r.to_vec())));
}

#[test]
fn member_revokes_partitions_before_taking_free_ones() {
    let case = |state, assigned, revoking, target, taken, owned| Case {
        state,
        assigned,
        revoking,
        target,
        taken,
        owned,
    };
    check(&case(STABLE, &[0], &[], &[0], &[0], None), Some((STABLE, 2, &[0], &[])));
    check(&case(STABLE, &[0], &[], &[0, 1], &[0], None), Some((STABLE, 2, &[0, 1], &[])));
    check(&case(STABLE, &[0], &[], &[0, 1], &[0, 1], None), Some((UNRELEASED, 2, &[0], &[])));
    check(&case(STABLE, &[0, 1], &[], &[0, 2], &[0, 1], None), Some((UNREVOKED, 1, &[0], &[1])));
    check(&case(STABLE, &[0, 1], &[], &[0, 2], &[0, 1], Some(&[0])), Some((STABLE, 2, &[0, 2], &[])));
    check(&case(UNREVOKED, &[0], &[1], &[0], &[0, 1], None), Some((UNREVOKED, 1, &[0], &[1])));
    check(&case(UNREVOKED, &[0], &[1], &[0], &[0, 1], Some(&[0, 1])), Some((UNREVOKED, 1, &[0], &[1])));
    check(&case(UNREVOKED, &[0], &[1], &[0], &[0, 1], Some(&[0])), Some((STABLE, 2, &[0], &[])));
    check(&case(UNREVOKED, &[0], &[1], &[0, 1], &[0, 1], Some(&[0])), Some((STABLE, 2, &[0, 1], &[])));
    check(&case(UNRELEASED, &[0], &[], &[0, 1], &[0], None), Some((STABLE, 2, &[0, 1], &[])));
    check(&case(UNRELEASED, &[0], &[], &[0, 1], &[0, 1], None), Some((UNRELEASED, 2, &[0], &[])));
    // A state from a later version: start over, with nothing.
    check(&case(9, &[0], &[], &[0], &[0], None), None);
    check(&case(9, &[0], &[], &[0], &[0], Some(&[0])), None);
    check(&case(9, &[0], &[], &[0], &[0], Some(&[])), Some((STABLE, 2, &[0], &[])));
}

#[test]
fn unsubscribed_partitions_are_revoked_immediately() {
    let now = CurrentValue {
        epoch: 2,
        previous_epoch: 1,
        state: STABLE,
        assigned: held(&[0]),
        revoking: held(&[]),
    };
    let (target, nothing, none) = (plain(&[0]), BTreeSet::new(), plain(&[]));
    let mut goal = Goal { epoch: 2, target: &target, subscribed: &nothing, resubscribed: true, owned: None };
    let told = next(&now, &goal, |_, _| true).unwrap();
    assert_eq!((told.state, told.epoch, told.assigned.len(), &told.revoking), (UNREVOKED, 2, 0, &held(&[0])));
    goal.owned = Some(&none);
    let done = next(&now, &goal, |_, _| true).unwrap();
    assert_eq!((done.state, done.epoch, done.assigned.len(), done.revoking.len()), (STABLE, 2, 0, 0));
}
