//! Task assignments of streams groups against those of Kafka's assignor: random groups that start,
//! grow, shrink and change, each from the assignment before.
//!
//! Suite: long; 6 s; needs java, newer-kafka; share streams
//! Soak: scale 25, repeated

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use levada_coordination::group::records::TaskSets;
use levada_coordination::group::request::TaskOffsets;
use levada_coordination::group::streams::assignor::{TaskMember, TaskSource, assign};
use levada_testing::{scaled, seed};
use levada_tests::Tool;
use levada_tests::tool::Conversation;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};

const LIMIT: Duration = Duration::from_secs(60);
const GROUPS: usize = 400;
/// Number of changes of one group.
const CHANGES: usize = 6;

/// A group that changes.
struct Group {
    random: StdRng,
    subtopologies: Vec<TaskSource>,
    standby_replicas: usize,
    members: Vec<TaskMember>,
    /// Number of all members that were.
    named: usize,
}

impl Group {
    fn new(mut random: StdRng) -> Self {
        let count = random.random_range(1..=4);
        let subtopologies = (0..count).map(|index| TaskSource {
            subtopology_id: format!("{index}"),
            tasks: random.random_range(1..=9),
            is_stateful: random.random_bool(0.6),
        });
        let subtopologies = subtopologies.collect();
        let standby_replicas = [0, 0, 1, 1, 2, 3][random.random_range(0..6)];
        let mut group = Self { random, subtopologies, standby_replicas, members: Vec::new(), named: 0 };
        for _ in 0..group.random.random_range(1..=12) {
            group.add();
        }
        group
    }

    /// A member of a new process or of an old one, with tasks of an earlier life now and then.
    fn add(&mut self) {
        let random = &mut self.random;
        self.named += 1;
        let long = random.random_bool(0.5);
        let id = if long { format!("{:022x}", random.random::<u64>()) } else { format!("m{}", self.named) };
        let process = random.random_range(0..=self.members.len() / 2 + 1);
        let process_id = if long { format!("process-{process:08x}") } else { format!("p{process}") };
        let before = if random.random_bool(0.1) { self.odd_tasks() } else { TaskSets::default() };
        let at = self.random.random_range(0..=self.members.len());
        let offsets = self.offsets();
        self.members.insert(at, TaskMember { id, process_id, before, offsets });
    }

    /// Tasks that no assignor gave: of other members, of absent subtopologies, beyond the end.
    fn odd_tasks(&mut self) -> TaskSets {
        let mut sets = TaskSets::default();
        for _ in 0..self.random.random_range(1..6) {
            let subtopology = format!("{}", self.random.random_range(0..5));
            let partition = self.random.random_range(0..10);
            let kind = if self.random.random_bool(0.5) { &mut sets.active } else { &mut sets.standby };
            kind.entry(subtopology).or_default().insert(partition);
        }
        sets
    }

    /// A report of the state of a few tasks, some of which do not exist.
    fn offsets(&mut self) -> Arc<TaskOffsets> {
        let mut offsets = TaskOffsets::new();
        let count = [0, 0, 1, 2, 5][self.random.random_range(0..5)];
        for _ in 0..count {
            let of_part = offsets.entry(format!("{}", self.random.random_range(0..5))).or_default();
            of_part.insert(self.random.random_range(0..10), self.random.random_range(0..4));
        }
        Arc::new(offsets)
    }

    fn change(&mut self) {
        match self.random.random_range(0..11) {
            10 => {
                let at = self.random.random_range(0..self.members.len());
                self.members[at].offsets = self.offsets();
            }
            0..4 => self.add(),
            4..7 if self.members.len() > 1 => {
                let at = self.random.random_range(0..self.members.len());
                self.members.remove(at);
            }
            7 => {
                let at = self.random.random_range(0..self.subtopologies.len());
                self.subtopologies[at].tasks = self.random.random_range(1..=12);
            }
            8 => self.standby_replicas = self.random.random_range(0..=3),
            // The same group again: nothing may move without a reason.
            _ => {}
        }
    }

    /// The group as `TaskAssignments` reads it.
    fn line(&self) -> String {
        let member = |one: &TaskMember| {
            json!({
                "id": one.id, "process": one.process_id,
                "active": one.before.active, "standby": one.before.standby, "offsets": *one.offsets,
            })
        };
        let subtopology = |one: &TaskSource| json!([one.subtopology_id, one.tasks, one.is_stateful]);
        let subtopologies: Vec<Value> = self.subtopologies.iter().map(subtopology).collect();
        let members: Vec<Value> = self.members.iter().map(member).collect();
        json!({"standbys": self.standby_replicas, "subtopologies": subtopologies, "members": members})
            .to_string()
    }

    /// Compares the assignment with Kafka's, and takes it.
    fn assign(&mut self, kafka: &mut Conversation) {
        let line = self.line();
        kafka.say(&line);
        let answer = kafka.line(LIMIT);
        let expected: Value = serde_json::from_str(&answer).expect("JSON");
        let mut found: BTreeMap<String, TaskSets> =
            assign(&self.members, &self.subtopologies, self.standby_replicas);
        let tasks = |sets: &TaskSets| json!({"active": sets.active, "standby": sets.standby});
        let all: BTreeMap<&String, Value> = found.iter().map(|(id, sets)| (id, tasks(sets))).collect();
        assert_eq!(json!(all), expected, "of {line}");
        for member in &mut self.members {
            member.before = found.remove(&member.id).expect("an assignment of each member");
        }
    }
}

#[test]
fn random_groups_are_assigned_as_by_kafka() {
    let mut random = StdRng::seed_from_u64(seed());
    let mut kafka = Tool::newer_source("TaskAssignments.java").spawn();
    for _ in 0..scaled(GROUPS) {
        let mut group = Group::new(StdRng::seed_from_u64(random.random()));
        group.assign(&mut kafka);
        for _ in 0..CHANGES {
            group.change();
            group.assign(&mut kafka);
        }
    }
    kafka.finish(LIMIT);
}
