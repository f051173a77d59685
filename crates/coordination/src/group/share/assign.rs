//! The assignor of share groups, `simple`: which members read which partitions. A pure function.
//!
//! Several members may share a partition. The assignor gives each partition the same number of
//! members, as few as are needed to give every member some partition, and each member the same
//! number of partitions. It keeps the rest of the previous assignment. The result is the one of
//! Kafka 4.3, also where the rules leave a choice: Kafka chooses in the order of its hash tables,
//! which [`JavaMap`] has. Groups whose members subscribe to the same topics divide all partitions
//! in one pass; other groups divide the partitions of each topic.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound::{Excluded, Unbounded};

use levada_wire::Uuid;

use crate::group::java_map::{JavaHash, JavaMap};
use crate::group::records::Partitions;

/// The name of the assignor.
pub const SHARE_ASSIGNOR: &str = "simple";

/// A member as the assignor sees it.
#[derive(Clone, Debug, Default)]
pub(super) struct Subscriber {
    /// Id of the subscriber.
    pub(super) id: String,
    /// Names of the topics to which it subscribes.
    pub(super) topics: BTreeSet<String>,
    /// Previous target assignment of the subscriber.
    pub(super) before: Partitions,
}

/// A topic that exists.
#[derive(Clone, Debug)]
pub(super) struct Assignable {
    /// Id of the topic.
    pub(super) id: Uuid,
    /// Partitions that may be assigned, in ascending order.
    pub(super) partitions: Vec<i32>,
}

/// Assigns the partitions of `topics`, by name, to their subscribers.
pub(super) fn assign(
    subscribers: Vec<Subscriber>,
    topics: &BTreeMap<String, Assignable>,
) -> BTreeMap<String, Partitions> {
    let mut members = in_java_order(subscribers);
    let alike = members.windows(2).all(|pair| pair[0].topics == pair[1].topics);
    let mut subscribed = members.iter().flat_map(|member| &member.topics);
    let any =
        if alike { subscribed.next().is_some() } else { subscribed.any(|name| topics.contains_key(name)) };
    if !any {
        return members.into_iter().map(|member| (member.id, Partitions::new())).collect();
    }
    if alike {
        divide_all(&mut members, topics);
    } else {
        divide_each(&mut members, topics);
    }
    members.into_iter().map(|member| (member.id, member.before)).collect()
}

/// The members in the order of Kafka's table of members.
fn in_java_order(subscribers: Vec<Subscriber>) -> Vec<Subscriber> {
    let mut by_id: BTreeMap<String, Subscriber> =
        subscribers.into_iter().map(|member| (member.id.clone(), member)).collect();
    let mut order: JavaMap<&str, ()> = JavaMap::new();
    by_id.keys().for_each(|id| order.insert(id, ()));
    let ids: Vec<String> = order.keys().map(|id| (*id).to_owned()).collect();
    ids.iter().filter_map(|id| by_id.remove(id)).collect()
}

/// Divides the partitions of all topics among members with equal subscriptions.
fn divide_all(members: &mut [Subscriber], topics: &BTreeMap<String, Assignable>) {
    let names = members.first().map(|member| member.topics.clone()).unwrap_or_default();
    let order: JavaMap<&str, ()> = JavaMap::copy_of(names.iter().map(String::as_str));
    let known: Vec<&Assignable> = order.keys().filter_map(|name| topics.get(*name)).collect();
    let ids: BTreeSet<Uuid> = known.iter().map(|topic| topic.id).collect();
    let targets = known.iter().flat_map(|topic| topic.partitions.iter().map(|index| (topic.id, *index)));
    let all = (0..members.len()).collect();
    let mut division = Division::new(targets.collect(), all, members.len());
    for (index, member) in members.iter_mut().enumerate() {
        let mut held: JavaMap<Uuid, ()> = JavaMap::new();
        member.before.keys().for_each(|topic| held.insert(*topic, ()));
        member.before.retain(|topic, _| ids.contains(topic));
        for topic in held.keys() {
            let Some(partitions) = member.before.get(topic) else { continue };
            let partitions: JavaMap<i32, ()> = JavaMap::copy_of(partitions.iter().copied());
            partitions.keys().for_each(|partition| division.keep(index, (*topic, *partition)));
        }
    }
    division.divide();
    division.apply(members, |key| key);
}

/// Divides the partitions of each topic among its subscribers.
fn divide_each(members: &mut [Subscriber], topics: &BTreeMap<String, Assignable>) {
    for (name, topic) in topics {
        let subscribed = (0..members.len()).filter(|index| members[*index].topics.contains(name));
        let subscribed: Vec<usize> = subscribed.collect();
        if subscribed.is_empty() {
            continue;
        }
        let mut division = Division::new(topic.partitions.clone(), subscribed, members.len());
        for (index, member) in members.iter().enumerate() {
            let Some(held) = member.before.get(&topic.id) else { continue };
            let held: JavaMap<i32, ()> = JavaMap::copy_of(held.iter().copied());
            held.keys().for_each(|partition| division.keep(index, *partition));
        }
        division.divide();
        division.apply(members, |partition| (topic.id, partition));
    }
}

/// A division of partitions among members, which are numbered.
struct Division<K> {
    targets: Vec<K>,
    subscribed: Vec<usize>,
    /// Number of members that each partition should have.
    sharing: usize,
    /// Partitions that each member should have.
    wanted: Vec<usize>,
    /// Members of each partition before the last step.
    holders: JavaMap<K, JavaMap<i32, ()>>,
    held: JavaMap<i32, JavaMap<K, ()>>,
    lost: Vec<(usize, K)>,
    gained: Vec<(usize, K)>,
}

impl<K: Copy + Eq + JavaHash> Division<K> {
    fn new(targets: Vec<K>, subscribed: Vec<usize>, members: usize) -> Self {
        let (partitions, subscribers) = (targets.len(), subscribed.len());
        let sharing = if partitions == 0 { 0 } else { subscribers.div_ceil(partitions) };
        let mut wanted = vec![0; members];
        // As evenly as whole numbers can be. Fractions are rounded as Kafka rounds them.
        let each = (sharing * partitions) as f64 / subscribers as f64;
        let upto = |number: usize| (each * number as f64).ceil() as usize;
        for (number, &index) in subscribed.iter().enumerate() {
            wanted[index] = upto(number + 1) - upto(number);
        }
        Self {
            holders: JavaMap::for_keys(partitions),
            held: JavaMap::for_keys(subscribers),
            targets,
            subscribed,
            sharing,
            wanted,
            lost: Vec::new(),
            gained: Vec::new(),
        }
    }

    /// Keeps a partition with a member that has had it so far.
    fn keep(&mut self, index: usize, key: K) {
        self.holders.entry(key, JavaMap::new).insert(number(index), ());
        self.held.entry(number(index), JavaMap::new).insert(key, ());
    }

    fn divide(&mut self) {
        self.take_from_overfilled();
        self.take_overshared();
        for target in &self.targets {
            self.holders.entry(*target, JavaMap::new);
        }
        self.give_missing();
    }

    /// Members with too many partitions lose some.
    fn take_from_overfilled(&mut self) {
        let members: Vec<i32> = self.held.keys().copied().collect();
        for member in members {
            let held: Vec<K> =
                self.held.get(&member).map(|held| held.keys().copied().collect()).unwrap_or_default();
            let wanted = self.wanted.get(index(member)).copied().unwrap_or_default();
            for key in held.iter().take(held.len().saturating_sub(wanted)) {
                self.lose(member, *key);
            }
        }
    }

    /// Partitions with too many members lose some.
    fn take_overshared(&mut self) {
        let keys: Vec<K> = self.holders.keys().copied().collect();
        for key in keys {
            let Some(holders) = self.holders.get(&key) else { continue };
            let excess = holders.len().saturating_sub(self.sharing);
            let losers: Vec<i32> = holders.keys().take(excess).copied().collect();
            losers.into_iter().for_each(|member| self.lose(member, key));
        }
    }

    fn lose(&mut self, member: i32, key: K) {
        if let Some(holders) = self.holders.value_mut(&key) {
            holders.remove(&member);
        }
        if let Some(held) = self.held.value_mut(&member) {
            held.remove(&key);
        }
        self.lost.push((index(member), key));
    }

    /// Partitions with too few members get members with too few partitions, in turns. If no such
    /// member can take a partition, the division ends there, as in Kafka.
    fn give_missing(&mut self) {
        let held_by =
            |division: &Self, index: usize| division.held.get(&number(index)).map_or(0, JavaMap::len);
        let unfilled = self.subscribed.iter().copied();
        let mut unfilled: BTreeSet<usize> =
            unfilled.filter(|index| held_by(self, *index) < self.wanted[*index]).collect();
        let (mut after, mut gave) = (None, false);
        let keys: Vec<K> = self.holders.keys().copied().collect();
        for key in keys {
            let holders = self.holders.get(&key).cloned().unwrap_or_else(JavaMap::new);
            let mut missing = self.sharing.saturating_sub(holders.len());
            while missing > 0 {
                let Some(index) = next(&unfilled, after) else {
                    if !gave || unfilled.is_empty() {
                        break;
                    }
                    (after, gave) = (None, false);
                    continue;
                };
                after = Some(index);
                if holders.get(&number(index)).is_some() {
                    continue;
                }
                self.held.entry(number(index), JavaMap::new).insert(key, ());
                self.gained.push((index, key));
                missing -= 1;
                gave = true;
                if held_by(self, index) >= self.wanted[index] {
                    unfilled.remove(&index);
                }
            }
            if unfilled.is_empty() {
                break;
            }
        }
    }

    /// Sets the computed division as the assignment of the members.
    fn apply(self, members: &mut [Subscriber], partition: impl Fn(K) -> (Uuid, i32)) {
        for (index, key) in self.lost {
            let (topic, index_of) = partition(key);
            if let Some(partitions) = members[index].before.get_mut(&topic) {
                partitions.remove(&index_of);
            }
        }
        for (index, key) in self.gained {
            let (topic, index_of) = partition(key);
            members[index].before.entry(topic).or_default().insert(index_of);
        }
    }
}

fn next(numbers: &BTreeSet<usize>, after: Option<usize>) -> Option<usize> {
    let from = after.map_or(Unbounded, Excluded);
    numbers.range((from, Unbounded)).next().copied()
}

/// Converts an index; groups have fewer members than `i32` has numbers.
fn number(index: usize) -> i32 {
    i32::try_from(index).unwrap_or(i32::MAX)
}

fn index(number: i32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests;
