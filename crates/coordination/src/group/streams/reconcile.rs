//! Reconciliation of a member's tasks with its target: the member first gives tasks up, then takes
//! those that no other process holds.

use std::collections::BTreeSet;

use super::{StreamsGroup, StreamsMember};
use crate::group::error::GroupError;
use crate::group::records::{EpochTasks, HeldTasks, StreamsCurrentValue, TaskSets, Tasks};

/// The member has its whole target assignment.
pub(super) const STABLE: i8 = 1;
/// The member has yet to give tasks up.
pub(super) const UNREVOKED: i8 = 2;
/// Other processes have not yet given up tasks of the member's target assignment.
pub(super) const UNRELEASED: i8 = 3;

/// Target of a member.
pub(super) struct Goal<'a> {
    /// The epoch of the target assignment.
    pub(super) epoch: i32,
    /// The member's target.
    pub(super) target: &'a TaskSets,
    /// Tasks that the member reports, if it does.
    pub(super) owned: Option<&'a TaskSets>,
}

/// Processes that hold the tasks of a target, also while they give them up.
struct Holders<'a> {
    process: &'a str,
    /// Tasks that any process has as active ones.
    active: BTreeSet<(&'a str, i32)>,
    /// Tasks that the member's own process has as active ones.
    own_active: BTreeSet<(&'a str, i32)>,
    /// Tasks that the member's own process has as standby or warm-up tasks.
    own_copies: BTreeSet<(&'a str, i32)>,
}

impl<'a> Holders<'a> {
    fn of(group: &'a StreamsGroup, process: &'a str, target: &TaskSets) -> Self {
        let (active, own_active, own_copies) = Default::default();
        let mut holders = Self { process, active, own_active, own_copies };
        let is_wanted = |id: &str, partition: i32| {
            let mut kinds = [&target.active, &target.standby, &target.warmup].into_iter();
            kinds.any(|tasks| tasks.get(id).is_some_and(|tasks| tasks.contains(&partition)))
        };
        for member in group.members.values() {
            holders.add(member, is_wanted);
        }
        holders
    }

    fn add(&mut self, member: &'a StreamsMember, is_wanted: impl Fn(&str, i32) -> bool) {
        let is_own = member.metadata.process_id == self.process;
        for held in [&member.current.assigned, &member.current.revoking] {
            for (id, tasks) in &held.active {
                let tasks = tasks.keys().filter(|partition| is_wanted(id, **partition));
                for partition in tasks {
                    self.active.insert((id, *partition));
                    if is_own {
                        self.own_active.insert((id, *partition));
                    }
                }
            }
            for (id, tasks) in held.standby.iter().chain(&held.warmup).filter(|_| is_own) {
                let tasks = tasks.iter().filter(|partition| is_wanted(id, **partition));
                self.own_copies.extend(tasks.map(|partition| (id.as_str(), *partition)));
            }
        }
    }

    fn block_active(&self, id: &str, partition: i32) -> bool {
        self.active.contains(&(id, partition)) || self.own_copies.contains(&(id, partition))
    }

    fn block_copy(&self, id: &str, partition: i32) -> bool {
        self.own_active.contains(&(id, partition)) || self.own_copies.contains(&(id, partition))
    }
}

impl StreamsGroup {
    /// The member's next state on the way to its goal.
    ///
    /// # Errors
    /// If the member's state is unknown and it has not given everything up: it must rejoin.
    pub(super) fn next(
        &self,
        member: &StreamsMember,
        goal: &Goal<'_>,
    ) -> Result<StreamsCurrentValue, GroupError> {
        let now = &member.current;
        let holders = || Holders::of(self, &member.metadata.process_id, goal.target);
        Ok(match now.state {
            STABLE if now.epoch == goal.epoch => now.clone(),
            UNREVOKED if owns_any(goal.owned, &now.revoking) => now.clone(),
            // The member has given up what it had to in its epoch.
            UNREVOKED => advance(now, now.epoch.wrapping_add(1), goal, &holders()),
            STABLE | UNRELEASED => advance(now, now.epoch, goal, &holders()),
            _ if goal.owned.is_some_and(|owned| *owned == TaskSets::default()) => {
                advance(now, goal.epoch, goal, &holders())
            }
            _ => return Err(GroupError::fenced("streams", now.epoch, now.epoch)),
        })
    }
}

/// A member that does not report its tasks may have any.
fn owns_any(owned: Option<&TaskSets>, tasks: &HeldTasks) -> bool {
    let Some(owned) = owned else { return true };
    let shares = |one: &Tasks, other: &Tasks| {
        one.iter().any(|(id, tasks)| other.get(id).is_some_and(|other| !tasks.is_disjoint(other)))
    };
    let active = owned.active.iter().any(|(id, owned)| {
        tasks.active.get(id).is_some_and(|tasks| owned.iter().any(|partition| tasks.contains_key(partition)))
    });
    active || shares(&owned.standby, &tasks.standby) || shares(&owned.warmup, &tasks.warmup)
}

/// Tasks of one kind: those that the member may run from now on, and those to give up.
struct Change {
    kept: EpochTasks,
    revoking: EpochTasks,
    /// Tasks that it may take once it has nothing to give up.
    pending: EpochTasks,
    /// Some tasks of the target are not free.
    is_blocked: bool,
}

impl Change {
    fn new(held: &EpochTasks, target: &Tasks, epoch: i32, is_taken: impl Fn(&str, i32) -> bool) -> Self {
        let (kept, revoking, pending) = Default::default();
        let mut change = Self { kept, revoking, pending, is_blocked: false };
        for (id, tasks) in held {
            for (partition, since) in tasks {
                let stays = target.get(id).is_some_and(|target| target.contains(partition));
                let side = if stays { &mut change.kept } else { &mut change.revoking };
                side.entry(id.clone()).or_default().insert(*partition, *since);
            }
        }
        for (id, tasks) in target {
            for partition in tasks {
                if held.get(id).is_some_and(|held| held.contains_key(partition)) {
                    continue;
                }
                if is_taken(id, *partition) {
                    change.is_blocked = true;
                } else {
                    change.pending.entry(id.clone()).or_default().insert(*partition, epoch);
                }
            }
        }
        change
    }

    /// The tasks with those that it takes.
    fn taken(mut self) -> EpochTasks {
        for (id, tasks) in self.pending {
            self.kept.entry(id).or_default().extend(tasks);
        }
        self.kept
    }
}

fn advance(
    now: &StreamsCurrentValue,
    epoch: i32,
    goal: &Goal<'_>,
    holders: &Holders<'_>,
) -> StreamsCurrentValue {
    let (target, held) = (goal.target, &now.assigned);
    let is_copied = |id: &str, partition| holders.block_copy(id, partition);
    let copies = |held: &Tasks, target: &Tasks| Change::new(&with_epochs(held), target, 0, is_copied);
    let active = Change::new(&held.active, &target.active, goal.epoch, |id, partition| {
        holders.block_active(id, partition)
    });
    let (standby, warmup) = (copies(&held.standby, &target.standby), copies(&held.warmup, &target.warmup));
    let revoking = HeldTasks {
        active: active.revoking.clone(),
        standby: without_epochs(standby.revoking.clone()),
        warmup: without_epochs(warmup.revoking.clone()),
    };
    let previous_epoch = now.epoch;
    if !revoking.is_empty() && owns_any(goal.owned, &revoking) {
        let assigned = HeldTasks {
            active: active.kept,
            standby: without_epochs(standby.kept),
            warmup: without_epochs(warmup.kept),
        };
        return StreamsCurrentValue { epoch, previous_epoch, state: UNREVOKED, assigned, revoking };
    }
    let is_blocked = active.is_blocked || standby.is_blocked || warmup.is_blocked;
    StreamsCurrentValue {
        epoch: goal.epoch,
        previous_epoch,
        state: if is_blocked { UNRELEASED } else { STABLE },
        assigned: HeldTasks {
            active: active.taken(),
            standby: without_epochs(standby.taken()),
            warmup: without_epochs(warmup.taken()),
        },
        revoking: HeldTasks::default(),
    }
}

fn with_epochs(tasks: &Tasks) -> EpochTasks {
    tasks.iter().map(|(id, tasks)| (id.clone(), tasks.iter().map(|index| (*index, 0)).collect())).collect()
}

fn without_epochs(tasks: EpochTasks) -> Tasks {
    tasks.into_iter().map(|(id, tasks)| (id, tasks.into_keys().collect())).collect()
}
