//! The assignors of the broker: which member gets which partitions. Pure functions.
//!
//! `range` gives each member consecutive partitions of each topic, so that topics with equally many
//! partitions are split alike. `uniform` keeps as much as it can where it is, and moves partitions
//! until no member has two more than another that could take one. Kafka's `uniform` has the same
//! aims; where they leave a choice, it may choose differently.

use std::collections::{BTreeMap, BTreeSet};

use levada_wire::Uuid;

use crate::group::records::Partitions;

/// The names of the assignors, the default first.
pub const ASSIGNORS: [&str; 2] = ["uniform", "range"];

/// A member as the assignors see it.
#[derive(Clone, Debug, Default)]
pub(super) struct Candidate {
    /// Id of the member.
    pub(super) id: String,
    /// Instance id of a static member.
    pub(super) instance_id: Option<String>,
    /// Existing topics to which it subscribes.
    pub(super) topics: BTreeSet<Uuid>,
    /// Previous target assignment.
    pub(super) before: Partitions,
}

/// Assigns all partitions of `counts` (partitions by topic) that have subscribers.
pub(super) fn assign(
    assignor: &str,
    members: Vec<Candidate>,
    counts: &BTreeMap<Uuid, i32>,
) -> BTreeMap<String, Partitions> {
    if assignor == "range" { range(members, counts) } else { uniform(members, counts) }
}

fn range(mut members: Vec<Candidate>, counts: &BTreeMap<Uuid, i32>) -> BTreeMap<String, Partitions> {
    // Static members first, by name: they find their old place again when they return.
    members.sort_by(|a, b| {
        let key = |member: &Candidate| (member.instance_id.is_none(), member.instance_id.clone());
        key(a).cmp(&key(b)).then_with(|| a.id.cmp(&b.id))
    });
    let mut assigned: BTreeMap<String, Partitions> =
        members.iter().map(|member| (member.id.clone(), Partitions::new())).collect();
    for (&topic, &count) in counts {
        let subscribers: Vec<&Candidate> =
            members.iter().filter(|member| member.topics.contains(&topic)).collect();
        let among = i32::try_from(subscribers.len()).unwrap_or(i32::MAX).max(1);
        let (least, extra) = (count / among, count % among);
        let mut next = 0;
        for (place, member) in (0..).zip(subscribers) {
            let end = next + least + i32::from(place < extra);
            if next < end {
                let partitions = assigned.entry(member.id.clone()).or_default();
                partitions.insert(topic, (next..end).collect());
            }
            next = end;
        }
    }
    assigned
}

/// Assignment while partitions move; members by index.
struct Balance {
    /// Partitions by topic and member.
    held: BTreeMap<Uuid, BTreeMap<usize, BTreeSet<i32>>>,
    loads: Vec<usize>,
}

impl Balance {
    fn give(&mut self, topic: Uuid, partition: i32, member: usize) {
        self.held.entry(topic).or_default().entry(member).or_default().insert(partition);
        self.loads[member] += 1;
    }

    fn least_loaded(&self, subscribers: &[usize]) -> Option<usize> {
        subscribers.iter().copied().min_by_key(|&member| (self.loads[member], member))
    }

    /// Moves one partition of the topic to a member with at least two fewer; false if there is
    /// none.
    fn even_out(&mut self, topic: Uuid, subscribers: &[usize]) -> bool {
        let Some(least) = self.least_loaded(subscribers) else { return false };
        let Some(held) = self.held.get_mut(&topic) else { return false };
        let holders = held.iter_mut().filter(|(_, partitions)| !partitions.is_empty());
        let Some((&most, partitions)) = holders.max_by_key(|(member, _)| self.loads[**member]) else {
            return false;
        };
        if self.loads[most] < self.loads[least] + 2 {
            return false;
        }
        let Some(partition) = partitions.pop_last() else { return false };
        self.loads[most] -= 1;
        self.give(topic, partition, least);
        true
    }
}

fn uniform(members: Vec<Candidate>, counts: &BTreeMap<Uuid, i32>) -> BTreeMap<String, Partitions> {
    let mut balance = Balance { held: BTreeMap::new(), loads: vec![0; members.len()] };
    // Topics with few subscribers first: they leave the least choice.
    let mut topics: Vec<(Uuid, i32, Vec<usize>)> = counts
        .iter()
        .map(|(&topic, &count)| {
            let subscribed = (0..members.len()).filter(|&member| members[member].topics.contains(&topic));
            (topic, count, subscribed.collect())
        })
        .collect();
    topics.sort_by_key(|(topic, _, subscribers)| (subscribers.len(), *topic));
    let mut free: Vec<(Uuid, i32, &[usize])> = Vec::new();
    for (topic, count, subscribers) in &topics {
        let mut left: BTreeSet<i32> = (0..*count).collect();
        for &member in subscribers {
            for partition in members[member].before.get(topic).into_iter().flatten() {
                if left.remove(partition) {
                    balance.give(*topic, *partition, member);
                }
            }
        }
        free.extend(left.into_iter().map(|partition| (*topic, partition, &subscribers[..])));
    }
    for (topic, partition, subscribers) in free {
        if let Some(member) = balance.least_loaded(subscribers) {
            balance.give(topic, partition, member);
        }
    }
    loop {
        let mut moved = false;
        for (topic, _, subscribers) in &topics {
            while balance.even_out(*topic, subscribers) {
                moved = true;
            }
        }
        if !moved {
            break;
        }
    }
    let mut assigned: BTreeMap<String, Partitions> =
        members.iter().map(|member| (member.id.clone(), Partitions::new())).collect();
    for (topic, held) in balance.held {
        for (member, partitions) in held.into_iter().filter(|(_, partitions)| !partitions.is_empty()) {
            assigned.entry(members[member].id.clone()).or_default().insert(topic, partitions);
        }
    }
    assigned
}

#[cfg(test)]
mod tests;
