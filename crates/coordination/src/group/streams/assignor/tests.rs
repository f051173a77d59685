//! Assignments of small groups.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::{TaskMember, TaskSource, assign};
use crate::group::records::{TaskSets, Tasks};

fn member(id: &str, process_id: &str) -> TaskMember {
    TaskMember { id: id.into(), process_id: process_id.into(), ..TaskMember::default() }
}

fn source(id: &str, tasks: i32, is_stateful: bool) -> TaskSource {
    TaskSource { subtopology_id: id.into(), tasks, is_stateful }
}

fn numbers(tasks: &Tasks) -> Vec<(&str, i32)> {
    tasks.iter().flat_map(|(id, tasks)| tasks.iter().map(move |task| (id.as_str(), *task))).collect()
}

fn again(members: &[TaskMember], before: &BTreeMap<String, TaskSets>) -> Vec<TaskMember> {
    let member = |member: &TaskMember| TaskMember {
        before: before.get(&member.id).cloned().unwrap_or_default(),
        ..member.clone()
    };
    members.iter().map(member).collect()
}

#[test]
fn tasks_are_shared_by_processes_then_members() {
    let members = [member("a1", "p"), member("a2", "p"), member("b", "q")];
    let found = assign(&members, &[source("0", 6, false)], 0);
    let counts: Vec<usize> = found.values().map(|sets| numbers(&sets.active).len()).collect();
    assert_eq!(counts, [2, 2, 2]);
    assert!(found.values().all(|sets| sets.standby.is_empty()));
}

#[test]
fn no_subtopologies_assign_no_tasks() {
    assert_eq!(assign(&[member("a", "p")], &[], 2)["a"], TaskSets::default());
    assert_eq!(assign(&[], &[source("0", 3, true)], 2), BTreeMap::new());
}

#[test]
fn streams_assignor_keeps_active_tasks() {
    let members = [member("a", "p"), member("b", "q")];
    let sources = [source("0", 4, true), source("1", 2, false)];
    let first = assign(&members, &sources, 1);
    assert_eq!(assign(&again(&members, &first), &sources, 1), first);
    // A third member takes the tasks above the share of the others.
    let three = [&again(&members, &first)[..], &[member("c", "r")]].concat();
    let next = assign(&three, &sources, 1);
    for id in ["a", "b"] {
        let kept = numbers(&next[id].active);
        assert_eq!(kept.len(), 2);
        assert!(kept.iter().all(|task| numbers(&first[id].active).contains(task)));
    }
}

#[test]
fn a_standby_becomes_active() {
    let members = [member("a", "p"), member("b", "q")];
    let sources = [source("0", 2, true)];
    let first = assign(&members, &sources, 1);
    let left = again(&members[1..], &first);
    let next = assign(&left, &sources, 1);
    assert_eq!(numbers(&next["b"].active).len(), 2);
    assert!(next["b"].standby.is_empty(), "a process never has a task twice");
}

#[test]
fn streams_tasks_prefer_members_with_most_state() {
    let offsets = |offset: i64| [("0".to_owned(), [(0, offset)].into())].into();
    let with = |id: &str, offset: i64| TaskMember {
        offsets: std::sync::Arc::new(offsets(offset)),
        ..member(id, &format!("process-{id}"))
    };
    let sources = [source("0", 1, true)];
    for (a, b, expected) in [(5, 7, "b"), (7, 5, "a")] {
        let found = assign(&[with("a", a), with("b", b)], &sources, 0);
        assert_eq!(numbers(&found[expected].active), [("0", 0)]);
    }
    // A standby task is better than a report.
    let standby = TaskSets { standby: [("0".to_owned(), [0].into())].into(), ..TaskSets::default() };
    let members = [TaskMember { before: standby, ..member("a", "process-a") }, with("b", 9)];
    assert_eq!(numbers(&assign(&members, &sources, 0)["a"].active), [("0", 0)]);
}

/// Members of few processes, and subtopologies.
fn groups() -> impl Strategy<Value = (Vec<TaskMember>, Vec<TaskSource>, usize)> {
    let members = prop::collection::vec(0..5_usize, 1..8).prop_map(|processes| {
        let members = processes.into_iter().enumerate();
        members.map(|(at, process)| member(&format!("member-{at}"), &format!("process-{process}"))).collect()
    });
    let sources = prop::collection::vec((0..7_i32, any::<bool>()), 1..4).prop_map(|sources| {
        let sources = sources.into_iter().enumerate();
        sources.map(|(at, (tasks, is_stateful))| source(&at.to_string(), tasks, is_stateful)).collect()
    });
    (members, sources, 0..3_usize)
}

proptest! {
    #[test]
    fn each_task_is_active_once((members, sources, replicas) in groups(), seen in 0..8_usize) {
        let first = assign(&members[..seen.clamp(1, members.len())], &sources, replicas);
        let found = assign(&again(&members, &first), &sources, replicas);
        prop_assert_eq!(found.len(), members.len());
        let mut active = BTreeSet::new();
        let mut by_process = BTreeSet::new();
        for member in &members {
            let sets = &found[&member.id];
            for task in numbers(&sets.active) {
                prop_assert!(active.insert(task), "{:?} is active twice", task);
                prop_assert!(by_process.insert((&member.process_id, task)));
            }
            for task in numbers(&sets.standby) {
                prop_assert!(by_process.insert((&member.process_id, task)), "{:?} is twice in a process", task);
            }
        }
        let all: i32 = sources.iter().map(|source| source.tasks).sum();
        prop_assert_eq!(active.len(), usize::try_from(all).unwrap());
    }
}
