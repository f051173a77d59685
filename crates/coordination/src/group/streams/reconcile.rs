//! Reconciliation of a member's tasks with its target: the member first revokes tasks, then takes
//! those that no other process holds. A task that only changes its type is not revoked: it keeps
//! its state.

use std::collections::BTreeSet;

use super::{StreamsGroup, StreamsMember};
use crate::group::error::GroupError;
use crate::group::records::{EpochTasks, HeldTasks, StreamsCurrentValue, TaskSets, Tasks};

/// The member has its whole target assignment.
pub(super) const STABLE: i8 = 1;
/// The member has yet to give tasks up.
pub(super) const UNREVOKED: i8 = 2;
/// Other processes have not yet revoked tasks of the member's target assignment.
pub(super) const UNRELEASED: i8 = 3;

/// Target of a member.
pub(super) struct Goal<'a> {
    /// The epoch of the target assignment.
    pub(super) epoch: i32,
    /// Target assignment of the member.
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
    /// Tasks that the member's own process has as standby tasks.
    own_standby: BTreeSet<(&'a str, i32)>,
    /// Tasks that the member's own process has as warm-up tasks.
    own_warmup: BTreeSet<(&'a str, i32)>,
}

impl<'a> Holders<'a> {
    fn of(group: &'a StreamsGroup, process: &'a str, target: &TaskSets) -> Self {
        let (active, own_active, own_standby, own_warmup) = Default::default();
        let mut holders = Self { process, active, own_active, own_standby, own_warmup };
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
            let kinds = [(&held.standby, &mut self.own_standby), (&held.warmup, &mut self.own_warmup)];
            for (copies, own) in kinds.into_iter().filter(|_| is_own) {
                for (id, tasks) in copies {
                    let tasks = tasks.iter().filter(|partition| is_wanted(id, **partition));
                    own.extend(tasks.map(|partition| (id.as_str(), *partition)));
                }
            }
        }
    }

    /// True if the task is an active one somewhere, or a copy of another member of the process.
    fn block_active(&self, held: &HeldTasks, task: (&str, i32)) -> bool {
        self.active.contains(&task) || self.others_standby(held, task) || self.others_warmup(held, task)
    }

    fn block_standby(&self, held: &HeldTasks, task: (&str, i32)) -> bool {
        let is_mine = held.active.get(task.0).is_some_and(|tasks| tasks.contains_key(&task.1));
        (self.own_active.contains(&task) && !is_mine)
            || self.own_standby.contains(&task)
            || self.others_warmup(held, task)
    }

    fn block_warmup(&self, held: &HeldTasks, task: (&str, i32)) -> bool {
        self.own_active.contains(&task) || self.others_standby(held, task) || self.own_warmup.contains(&task)
    }

    fn others_standby(&self, held: &HeldTasks, task: (&str, i32)) -> bool {
        self.own_standby.contains(&task) && !has(&held.standby, task)
    }

    fn others_warmup(&self, held: &HeldTasks, task: (&str, i32)) -> bool {
        self.own_warmup.contains(&task) && !has(&held.warmup, task)
    }
}

fn has(tasks: &Tasks, (id, partition): (&str, i32)) -> bool {
    tasks.get(id).is_some_and(|tasks| tasks.contains(&partition))
}

impl StreamsGroup {
    /// The member's next state on the way to its target.
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
            // The member has revoked all tasks that its epoch demands.
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

/// Tasks of one type: those that the member may run from now on, and those to revoke.
struct Change {
    kept: EpochTasks,
    revoking: EpochTasks,
    /// Tasks that the member may take once it has no task to revoke.
    pending: EpochTasks,
    /// True if other members still own some tasks of the target.
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

    /// Takes a task without a wait, if it may take it.
    fn take_now(&mut self, task: (&str, i32)) {
        if remove(&mut self.pending, task) {
            insert(&mut self.kept, task);
        }
    }

    /// Takes a task that the member has as one of another kind, without a wait, if it may take it.
    fn take_from(&mut self, other: &mut Self, task: (&str, i32)) {
        if remove(&mut self.pending, task) {
            insert(&mut self.kept, task);
            remove(&mut other.revoking, task);
        }
    }

    /// The tasks together with the taken ones.
    fn taken(mut self) -> EpochTasks {
        for (id, tasks) in self.pending {
            self.kept.entry(id).or_default().extend(tasks);
        }
        self.kept
    }
}

/// The three kinds of tasks on the way to a target.
struct Changes {
    active: Change,
    standby: Change,
    warmup: Change,
}

impl Changes {
    fn new(held: &HeldTasks, goal: &Goal<'_>, holders: &Holders<'_>) -> Self {
        let target = goal.target;
        let block = |id: &str, partition| holders.block_active(held, (id, partition));
        let active = Change::new(&held.active, &target.active, goal.epoch, block);
        let block = |id: &str, partition| holders.block_standby(held, (id, partition));
        let standby = Change::new(&with_epochs(&held.standby), &target.standby, 0, block);
        let block = |id: &str, partition| holders.block_warmup(held, (id, partition));
        let warmup = Change::new(&with_epochs(&held.warmup), &target.warmup, 0, block);
        Self { active, standby, warmup }
    }

    /// Converts immediately the tasks that the member has with another type: an active task that
    /// becomes a standby task, and standby and warm-up tasks that become each other. Copies that
    /// become active are not revoked.
    fn convert(&mut self, held: &HeldTasks, target: &TaskSets) {
        for (id, tasks) in &held.active {
            tasks.keys().for_each(|partition| self.standby.take_now((id, *partition)));
        }
        let Self { standby, warmup, .. } = self;
        let (standby_before, warmup_before) = (each(&held.standby), each(&held.warmup));
        standby_before.clone().for_each(|task| warmup.take_from(standby, task));
        warmup_before.clone().for_each(|task| standby.take_from(warmup, task));
        let is_promoted = |task: &(&str, i32)| has(&target.active, *task);
        for task in standby_before.filter(is_promoted) {
            remove(&mut standby.revoking, task);
        }
        for task in warmup_before.filter(is_promoted) {
            remove(&mut warmup.revoking, task);
        }
    }

    fn revoking(&self) -> HeldTasks {
        HeldTasks {
            active: self.active.revoking.clone(),
            standby: without_epochs(self.standby.revoking.clone()),
            warmup: without_epochs(self.warmup.revoking.clone()),
        }
    }

    /// Keeps copies that are to become active, but do not yet.
    fn keep_copies(&mut self, held: &HeldTasks, target: &TaskSets, must_revoke: bool) {
        let Self { active, standby, warmup } = self;
        let waits = |(id, partition): &(&str, i32)| {
            let is_granted = active.pending.get(*id).is_some_and(|tasks| tasks.contains_key(partition));
            has(&target.active, (id, *partition)) && (must_revoke || !is_granted)
        };
        each(&held.standby).filter(waits).for_each(|task| insert(&mut standby.kept, task));
        each(&held.warmup).filter(waits).for_each(|task| insert(&mut warmup.kept, task));
    }
}

fn each(tasks: &Tasks) -> impl Iterator<Item = (&str, i32)> + Clone {
    tasks.iter().flat_map(|(id, tasks)| tasks.iter().map(move |partition| (id.as_str(), *partition)))
}

fn insert(tasks: &mut EpochTasks, (id, partition): (&str, i32)) {
    tasks.entry(id.to_owned()).or_default().insert(partition, 0);
}

fn remove(tasks: &mut EpochTasks, (id, partition): (&str, i32)) -> bool {
    let Some(of_part) = tasks.get_mut(id) else { return false };
    let was_there = of_part.remove(&partition).is_some();
    if of_part.is_empty() {
        tasks.remove(id);
    }
    was_there
}

fn advance(
    now: &StreamsCurrentValue,
    epoch: i32,
    goal: &Goal<'_>,
    holders: &Holders<'_>,
) -> StreamsCurrentValue {
    let held = &now.assigned;
    let mut changes = Changes::new(held, goal, holders);
    changes.convert(held, goal.target);
    let revoking = changes.revoking();
    let must_revoke = !revoking.is_empty() && owns_any(goal.owned, &revoking);
    changes.keep_copies(held, goal.target, must_revoke);
    let Changes { active, standby, warmup } = changes;
    let previous_epoch = now.epoch;
    if must_revoke {
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
