//! Reconciliation of a member's current assignment with its target: the member first revokes
//! partitions, then takes free ones.

use std::collections::{BTreeMap, BTreeSet};

use levada_wire::Uuid;

use crate::group::records::{CurrentValue, EpochPartitions, Partitions};

/// The member has its whole target assignment.
pub(super) const STABLE: i8 = 0;
/// The member has yet to give partitions up.
pub(super) const UNREVOKED: i8 = 1;
/// Other members have not yet revoked partitions of the member's target assignment.
pub(super) const UNRELEASED: i8 = 2;

/// Target of a member.
pub(super) struct Goal<'a> {
    /// The epoch of the target assignment.
    pub(super) epoch: i32,
    /// Target assignment of the member.
    pub(super) target: &'a Partitions,
    /// Subscription of the member; the target may be older.
    pub(super) subscribed: &'a BTreeSet<Uuid>,
    /// True if this heartbeat has changed the subscription.
    pub(super) resubscribed: bool,
    /// Partitions that the member reports, if it does.
    pub(super) owned: Option<&'a Partitions>,
}

/// The member's next state on the way to the target. `taken` returns true if a partition has an
/// owner. None if the member's state is unknown and it has not revoked all partitions: it must
/// rejoin.
pub(super) fn next(
    now: &CurrentValue,
    goal: &Goal<'_>,
    taken: impl Fn(Uuid, i32) -> bool,
) -> Option<CurrentValue> {
    Some(match now.state {
        STABLE if now.epoch != goal.epoch => advance(now, now.epoch, goal, taken),
        STABLE if goal.resubscribed => drop_unsubscribed(now, goal),
        STABLE => now.clone(),
        UNREVOKED if owns_any(goal.owned, &now.revoking) => {
            if goal.resubscribed {
                drop_unsubscribed(now, goal)
            } else {
                now.clone()
            }
        }
        UNREVOKED | UNRELEASED => advance(now, now.epoch, goal, taken),
        _ if goal.owned.is_some_and(BTreeMap::is_empty) => advance(now, goal.epoch, goal, taken),
        _ => return None,
    })
}

/// A member that does not report its partitions may have any.
fn owns_any(owned: Option<&Partitions>, partitions: &EpochPartitions) -> bool {
    let Some(owned) = owned else { return true };
    partitions.iter().any(|(topic, partitions)| {
        owned.get(topic).is_some_and(|owned| owned.iter().any(|index| partitions.contains_key(index)))
    })
}

/// Revokes the partitions of removed topics immediately after the subscription has shrunk.
fn drop_unsubscribed(now: &CurrentValue, goal: &Goal<'_>) -> CurrentValue {
    let mut next = now.clone();
    next.assigned.retain(|topic, _| goal.subscribed.contains(topic));
    if next.assigned.len() == now.assigned.len() {
        return next;
    }
    let mut revoking = now.revoking.clone();
    for (topic, partitions) in &now.assigned {
        if !goal.subscribed.contains(topic) {
            revoking.entry(*topic).or_default().extend(partitions);
        }
    }
    next.previous_epoch = now.epoch;
    if owns_any(goal.owned, &revoking) {
        next.state = UNREVOKED;
        next.revoking = revoking;
    }
    next
}

fn advance(
    now: &CurrentValue,
    epoch: i32,
    goal: &Goal<'_>,
    taken: impl Fn(Uuid, i32) -> bool,
) -> CurrentValue {
    let target = |topic: &Uuid, index: &i32| {
        goal.subscribed.contains(topic)
            && goal.target.get(topic).is_some_and(|partitions| partitions.contains(index))
    };
    let (mut kept, mut revoking) = (EpochPartitions::new(), EpochPartitions::new());
    for (topic, partitions) in &now.assigned {
        for (index, since) in partitions {
            let side = if target(topic, index) { &mut kept } else { &mut revoking };
            side.entry(*topic).or_default().insert(*index, *since);
        }
    }
    if !revoking.is_empty() && owns_any(goal.owned, &revoking) {
        return CurrentValue { epoch, previous_epoch: now.epoch, state: UNREVOKED, assigned: kept, revoking };
    }
    let mut unreleased = false;
    for (topic, partitions) in goal.target.iter().filter(|(topic, _)| goal.subscribed.contains(topic)) {
        for index in partitions {
            let has = |partitions: &EpochPartitions| {
                partitions.get(topic).is_some_and(|partitions| partitions.contains_key(index))
            };
            if has(&kept) {
                continue;
            }
            // Partitions that the member itself has just revoked are free.
            if taken(*topic, *index) && !has(&now.revoking) {
                unreleased = true;
            } else {
                kept.entry(*topic).or_default().insert(*index, goal.epoch);
            }
        }
    }
    let state = if unreleased { UNRELEASED } else { STABLE };
    CurrentValue {
        epoch: goal.epoch,
        previous_epoch: now.epoch,
        state,
        assigned: kept,
        revoking: EpochPartitions::new(),
    }
}

#[cfg(test)]
mod tests;
