//! The assignor of streams groups, `sticky`: which members have which tasks. A pure function.
//!
//! Active tasks stay with their members, then go to members with a standby task for the same state,
//! as long as no member has more than its share; the rest goes to the process with the lowest load.
//! Standby tasks follow in the same way, and a process never has a task twice. A member that has
//! restored some of a task's state comes after those with a standby task, the furthest first. The
//! result is the one of Kafka 4.4, also where the rules leave a choice: Kafka chooses in the order
//! of its hash tables and of its heaps, which `JavaMap` and `JavaQueue` have.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use super::queue::JavaQueue;
use crate::group::java_map::JavaMap;
use crate::group::records::TaskSets;
use crate::group::request::TaskOffsets;

/// A member as the assignor sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskMember {
    /// Id of the member.
    pub id: String,
    /// The process that it is a thread of.
    pub process_id: String,
    /// Tasks that it has.
    pub before: TaskSets,
    /// Progress of its restoration of the state of tasks.
    pub offsets: Arc<TaskOffsets>,
}

/// A subtopology: it has one active task for each partition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskSource {
    /// Id of the subtopology.
    pub subtopology_id: String,
    /// Number of tasks of the subtopology.
    pub tasks: i32,
    /// True if the tasks have state, which standby tasks replicate.
    pub is_stateful: bool,
}

/// Assigns the tasks of all subtopologies, with a number of standby tasks for each task with state.
/// The result has an entry for each member, and no entries for subtopologies without tasks.
pub fn assign(
    members: &[TaskMember],
    subtopologies: &[TaskSource],
    standby_replicas: usize,
) -> BTreeMap<String, TaskSets> {
    let mut sources: Vec<&TaskSource> = subtopologies.iter().collect();
    sources.sort_by(|one, other| in_java_order(&one.subtopology_id, &other.subtopology_id));
    let mut assignment = Assignment::new(members, &sources, standby_replicas);
    if !members.is_empty() {
        assignment.assign_active();
        assignment.assign_standby(standby_replicas);
    }
    assignment.result()
}

/// Java compares texts by UTF-16 units.
fn in_java_order(one: &str, other: &str) -> Ordering {
    one.encode_utf16().cmp(other.encode_utf16())
}

/// A task: the index of its subtopology in the order of ids, and its partition.
type Task = (usize, i32);

/// Largest number of tasks that a member may have while tasks stay where they were. It falls when
/// members have reached it and are left out.
#[derive(Debug)]
struct Quota {
    tasks: i64,
    members: i64,
    of_member: i64,
}

impl Quota {
    fn new(tasks: i64, members: i64) -> Self {
        let of_member = if members == 0 { 0 } else { tasks / members + i64::from(tasks % members > 0) };
        Self { tasks, members, of_member }
    }

    /// Records that a member has this number of tasks from now on.
    fn count(&mut self, tasks: i64) {
        if tasks == self.of_member {
            *self = Self::new(self.tasks - tasks, self.members - 1);
        }
    }
}

#[derive(Debug)]
struct Member<'a> {
    id: &'a str,
    process: usize,
    /// Number of tasks of the member.
    count: i64,
    active: Vec<Task>,
    standby: Vec<Task>,
}

#[derive(Debug, Default)]
struct Process {
    /// Members, in the order in which Kafka iterates over them.
    members: Vec<usize>,
    tasks: HashSet<Task>,
    count: i64,
    /// Members and their numbers of tasks, the lowest first.
    by_load: Option<JavaQueue<(usize, i64)>>,
}

impl Process {
    fn load(&self) -> f64 {
        // Numbers of tasks and of members are far below 2^53.
        self.count as f64 / self.members.len() as f64
    }
}

struct Assignment<'a> {
    sources: &'a [&'a TaskSource],
    members: Vec<Member<'a>>,
    /// Processes, in the order in which Kafka iterates over them.
    processes: Vec<Process>,
    active_before: HashMap<Task, usize>,
    /// Members that have some of a task's state, the best first.
    standby_before: HashMap<Task, Vec<usize>>,
    active_quota: Quota,
    quota: Quota,
}

impl<'a> Assignment<'a> {
    fn new(all: &'a [TaskMember], sources: &'a [&'a TaskSource], standby_replicas: usize) -> Self {
        let mut ordered = JavaMap::new();
        all.iter().for_each(|member| ordered.insert(member.id.as_str(), member));
        let ordered: Vec<&TaskMember> = ordered.values().copied().collect();
        let (members, processes) = group_by_process(&ordered);
        let count = i64::try_from(members.len()).unwrap_or(i64::MAX);
        let tasks = |source: &&TaskSource| i64::from(source.tasks.max(0));
        let active: i64 = sources.iter().map(tasks).sum();
        let stateful: i64 = sources.iter().filter(|source| source.is_stateful).map(tasks).sum();
        let replicas = i64::try_from(standby_replicas).unwrap_or(i64::MAX);
        let mut assignment = Self {
            sources,
            members,
            processes,
            active_before: HashMap::new(),
            standby_before: HashMap::new(),
            active_quota: Quota::new(active, count),
            quota: Quota::new(active.saturating_add(stateful.saturating_mul(replicas)), count),
        };
        assignment.remember(&ordered);
        assignment
    }

    /// Applies the previous assignment.
    fn remember(&mut self, members: &[&TaskMember]) {
        let places: HashMap<&str, usize> = self
            .sources
            .iter()
            .enumerate()
            .map(|(at, source)| (source.subtopology_id.as_str(), at))
            .collect();
        let mut copies: HashMap<Task, Vec<(bool, i64, usize)>> = HashMap::new();
        for (index, member) in members.iter().enumerate() {
            for (subtopology, partitions) in &member.before.active {
                let Some(place) = places.get(subtopology.as_str()) else { continue };
                self.active_before.extend(partitions.iter().map(|partition| ((*place, *partition), index)));
            }
            let offset = |id: &str, partition| member.offsets.get(id)?.get(&partition).copied();
            for (id, partitions) in &member.before.standby {
                let Some(place) = places.get(id.as_str()) else { continue };
                for partition in partitions {
                    let copy = (true, offset(id, *partition).unwrap_or_default(), index);
                    copies.entry((*place, *partition)).or_default().push(copy);
                }
            }
            let is_standby = |id: &str, partition| {
                member.before.standby.get(id).is_some_and(|tasks| tasks.contains(&partition))
            };
            for (id, partitions) in &*member.offsets {
                let Some(place) = places.get(id.as_str()) else { continue };
                for (partition, offset) in
                    partitions.iter().filter(|(partition, _)| !is_standby(id, **partition))
                {
                    copies.entry((*place, *partition)).or_default().push((false, *offset, index));
                }
            }
        }
        let best_first = |(task, mut copies): (Task, Vec<(bool, i64, usize)>)| {
            copies.sort_by_key(|(is_standby, offset, _)| std::cmp::Reverse((*is_standby, *offset)));
            (task, copies.into_iter().map(|(.., member)| member).collect())
        };
        self.standby_before = copies.into_iter().map(best_first).collect();
    }

    fn tasks(&self, all: bool) -> Vec<Task> {
        let sources = self.sources.iter().enumerate().filter(|(_, source)| all || source.is_stateful);
        sources.flat_map(|(place, source)| (0..source.tasks).map(move |index| (place, index))).collect()
    }

    fn assign_active(&mut self) {
        let mut tasks = self.tasks(true);
        // Partitions of the same number are read together.
        tasks.sort_unstable_by_key(|(place, partition)| (*partition, *place));
        tasks.retain(|task| {
            let before = self.active_before.get(task).copied();
            !before.is_some_and(|member| self.keep_active(member, *task))
        });
        tasks.retain(|task| {
            let before = self.least_loaded_before(*task, false);
            !before.is_some_and(|member| self.keep_active(member, *task))
        });
        tasks.sort_unstable();
        let mut queue = self.by_load();
        for task in tasks {
            let Some(process) = queue.pop(|one, other| self.compare(*one, *other)) else { return };
            let count = self.add_to_least_loaded(process, task, true);
            self.active_quota.count(count);
            self.quota.count(count);
            queue.push(process, |one, other| self.compare(*one, *other));
        }
    }

    /// Assigns an active task to a member that had it, if the member may have one more.
    fn keep_active(&mut self, member: usize, task: Task) -> bool {
        if self.members[member].count >= self.active_quota.of_member {
            return false;
        }
        let count = self.add(member, task, true);
        self.active_quota.count(count);
        self.quota.count(count);
        true
    }

    fn assign_standby(&mut self, replicas: usize) {
        if replicas == 0 {
            return;
        }
        let mut tasks = self.tasks(false);
        tasks.sort_unstable_by_key(|(place, partition)| (*partition, *place));
        let mut rest = Vec::new();
        for task in tasks.into_iter().rev() {
            let kept = (0..replicas).take_while(|_| self.keep_standby(task)).count();
            rest.extend((kept < replicas).then_some((task, replicas - kept)));
        }
        rest.sort_unstable();
        let mut queue = self.by_load();
        for (task, replicas) in rest.into_iter().rev() {
            for _ in 0..replicas {
                if !self.add_to_some(&mut queue, task) {
                    break;
                }
            }
        }
    }

    /// Assigns a standby task to a member that had the task and may have it; true if there is one.
    fn keep_standby(&mut self, task: Task) -> bool {
        let has_room = |this: &Self, member: usize| this.members[member].count < this.quota.of_member;
        let active = self.active_before.get(&task).copied();
        let active = active.filter(|member| !self.has(*member, task) && has_room(self, *member));
        let standby = || self.least_loaded_before(task, true).filter(|member| has_room(self, *member));
        let Some(member) = active.or_else(standby) else { return false };
        let count = self.add(member, task, false);
        self.quota.count(count);
        true
    }

    /// The member with the lowest load among those that have some of the task's state. With
    /// `without`, processes that have the task are skipped.
    fn least_loaded_before(&self, task: Task, without: bool) -> Option<usize> {
        let load = |member: usize| self.processes[self.members[member].process].load();
        let is_less = |one: usize, other: usize| {
            load(one) < load(other) && self.members[one].count < self.members[other].count
        };
        let members = self.standby_before.get(&task)?.iter().copied();
        let free = members.filter(|member| !without || !self.has(*member, task));
        free.reduce(|best, member| if is_less(member, best) { member } else { best })
    }

    /// True if the member's process has the task.
    fn has(&self, member: usize, task: Task) -> bool {
        self.processes[self.members[member].process].tasks.contains(&task)
    }

    fn by_load(&self) -> JavaQueue<usize> {
        let mut queue = JavaQueue::default();
        (0..self.processes.len())
            .for_each(|index| queue.push(index, |one, other| self.compare(*one, *other)));
        queue
    }

    fn compare(&self, one: usize, other: usize) -> Ordering {
        self.processes[one].load().total_cmp(&self.processes[other].load())
    }

    /// Gives a standby task to the process with the lowest load that lacks the task, if there is
    /// one.
    fn add_to_some(&mut self, queue: &mut JavaQueue<usize>, task: Task) -> bool {
        let (mut passed, mut found) = (Vec::new(), false);
        while let Some(process) = queue.pop(|one, other| self.compare(*one, *other)) {
            passed.push(process);
            if !self.processes[process].tasks.contains(&task) {
                let count = self.add_to_least_loaded(process, task, false);
                self.quota.count(count);
                found = true;
                break;
            }
        }
        for process in passed.into_iter().rev() {
            queue.push(process, |one, other| self.compare(*one, *other));
        }
        found
    }

    /// Adds a task to the member of a process that has the fewest.
    fn add_to_least_loaded(&mut self, process: usize, task: Task, is_active: bool) -> i64 {
        if let [only] = self.processes[process].members[..] {
            return self.count_in(only, task, is_active);
        }
        let by_count = |one: &(usize, i64), other: &(usize, i64)| one.1.cmp(&other.1);
        let queue = self.processes[process].by_load.take();
        let mut queue = queue.unwrap_or_else(|| {
            let mut queue = JavaQueue::default();
            let members = self.processes[process].members.iter();
            members.for_each(|member| queue.push((*member, self.members[*member].count), by_count));
            queue
        });
        let (member, _) = queue.pop(by_count).expect("a process has a member");
        let count = self.count_in(member, task, is_active);
        queue.push((member, count), by_count);
        self.processes[process].by_load = Some(queue);
        count
    }

    /// Adds a task to a member; returns the number of its tasks.
    fn add(&mut self, member: usize, task: Task, is_active: bool) -> i64 {
        let count = self.count_in(member, task, is_active);
        self.processes[self.members[member].process].by_load = None;
        count
    }

    fn count_in(&mut self, member: usize, task: Task, is_active: bool) -> i64 {
        let member = &mut self.members[member];
        let process = &mut self.processes[member.process];
        process.tasks.insert(task);
        process.count += 1;
        if is_active {
            member.active.push(task)
        } else {
            member.standby.push(task)
        }
        member.count += 1;
        member.count
    }

    fn result(self) -> BTreeMap<String, TaskSets> {
        let sources = self.sources;
        let named = |tasks: Vec<Task>| {
            let mut named: BTreeMap<&str, BTreeSet<i32>> = BTreeMap::new();
            for (place, partition) in tasks {
                named.entry(&sources[place].subtopology_id).or_default().insert(partition);
            }
            named.into_iter().map(|(id, tasks)| (id.to_owned(), tasks)).collect()
        };
        let members = self.members.into_iter().map(|member| {
            let (active, standby) = (named(member.active), named(member.standby));
            (member.id.to_owned(), TaskSets { active, standby, ..TaskSets::default() })
        });
        members.collect()
    }
}

/// The members in order, and their processes in the order in which Kafka has them.
fn group_by_process<'a>(all: &[&'a TaskMember]) -> (Vec<Member<'a>>, Vec<Process>) {
    let mut by_id: JavaMap<&str, JavaMap<&str, usize>> = JavaMap::with_capacity(all.len());
    for (index, member) in all.iter().enumerate() {
        by_id.entry(member.process_id.as_str(), JavaMap::new).insert(member.id.as_str(), index);
    }
    let mut of_member = vec![0; all.len()];
    let mut processes = Vec::with_capacity(by_id.len());
    for (at, members) in by_id.values().enumerate() {
        let members: Vec<usize> = members.values().copied().collect();
        members.iter().for_each(|member| of_member[*member] = at);
        processes.push(Process { members, ..Process::default() });
    }
    let member = |(member, process): (&&'a TaskMember, usize)| Member {
        id: &member.id,
        process,
        count: 0,
        active: Vec::new(),
        standby: Vec::new(),
    };
    (all.iter().zip(of_member).map(member).collect(), processes)
}

#[cfg(test)]
mod tests;
