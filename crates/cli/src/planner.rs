//! Plans of replicas over brokers, without a cluster: they balance the load, or empty a broker. A
//! plan keeps the number of replicas of each partition, and no plan puts the replicas of a
//! partition into fewer racks.

mod balance;
mod leaders;

use std::collections::{BTreeMap, BTreeSet};

use levada_client::TopicPartition;

use crate::layout::{Directories, Layout, Placed};
use crate::moves::Move;

/// A partition whose replicas a plan may change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Share {
    pub(crate) place: TopicPartition,
    /// Replicas, the preferred leader first; never empty.
    pub(crate) replicas: Vec<i32>,
    /// Size of one replica, bytes.
    pub(crate) bytes: u64,
    /// True if the plan may change the replicas; otherwise they only count as load.
    pub(crate) is_movable: bool,
}

/// Load of a broker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Load {
    pub(crate) leaders: usize,
    pub(crate) replicas: usize,
    pub(crate) bytes: u64,
}

/// Replicas over brokers, which change step by step.
#[derive(Clone, Debug)]
pub(crate) struct Planner {
    /// Racks of all brokers, including those that get no replica.
    racks: BTreeMap<i32, Option<String>>,
    shares: Vec<Share>,
    /// The replicas before the plan.
    before: Vec<Vec<i32>>,
    /// Brokers that may get replicas, with their load.
    loads: BTreeMap<i32, Load>,
    /// Indexes in `shares` of the partitions of each of these brokers.
    held: BTreeMap<i32, BTreeSet<usize>>,
}

impl Planner {
    /// A plan without changes for a cluster, whose sizes are known as far as `directories` has
    /// them.
    pub(crate) fn of_cluster(
        layout: &Layout,
        directories: &Directories,
        candidates: &BTreeSet<i32>,
        is_movable: impl Fn(&TopicPartition) -> bool,
    ) -> Self {
        let sizes = directories.sizes();
        let share = |(place, placed): (&TopicPartition, &Placed)| {
            let of = |id: &i32| sizes.get(&(place.clone(), *id)).copied();
            Share {
                place: place.clone(),
                replicas: placed.replicas.clone(),
                bytes: placed.replicas.iter().filter_map(of).max().unwrap_or(0),
                is_movable: is_movable(place),
            }
        };
        let shares = layout.partitions.iter().filter(|(_, placed)| !placed.replicas.is_empty());
        Self::new(layout.racks(), candidates, shares.map(share).collect())
    }

    /// A plan without changes. `candidates` may get replicas; replicas on other brokers stay.
    pub(crate) fn new(
        racks: BTreeMap<i32, Option<String>>,
        candidates: &BTreeSet<i32>,
        shares: Vec<Share>,
    ) -> Self {
        let loads = candidates.iter().map(|id| (*id, Load::default())).collect();
        let held = candidates.iter().map(|id| (*id, BTreeSet::new())).collect();
        let before = shares.iter().map(|share| share.replicas.clone()).collect();
        let mut planner = Self { racks, shares, before, loads, held };
        for index in 0..planner.shares.len() {
            planner.count(index);
        }
        planner
    }

    /// Moves every replica of a broker to others, the largest first, each to the broker with the
    /// fewest replicas among those whose racks spread the partition best.
    ///
    /// # Errors
    /// The partitions for which no other broker is left.
    pub(crate) fn drain(&mut self, broker: i32) -> Result<(), Vec<TopicPartition>> {
        let holds = |index: &usize| self.shares[*index].replicas.contains(&broker);
        let mut held: Vec<usize> = (0..self.shares.len()).filter(holds).collect();
        held.sort_by_key(|index| std::cmp::Reverse(self.shares[*index].bytes));
        let mut stuck = Vec::new();
        for index in held {
            match self.successor(index, broker) {
                Some(target) => {
                    self.replace(index, broker, target);
                    self.follow(index, target);
                }
                None => stuck.push(self.shares[index].place.clone()),
            }
        }
        stuck.sort();
        if stuck.is_empty() { Ok(()) } else { Err(stuck) }
    }

    /// The best broker for a replica of a broker that is being emptied.
    fn successor(&self, index: usize, leaving: i32) -> Option<i32> {
        let present = &self.shares[index].replicas;
        let free = self.loads.iter().filter(|(id, _)| **id != leaving && !present.contains(id));
        let best = free.min_by_key(|(id, load)| {
            let spread = self.spread(&replaced(present, leaving, **id));
            (std::cmp::Reverse(spread), load.replicas, load.bytes, **id)
        });
        best.map(|(id, _)| *id)
    }

    /// If a replica that is still to be copied has become the preferred leader, promotes the
    /// replica whose broker leads the fewest partitions.
    fn follow(&mut self, index: usize, target: i32) {
        let replicas = &self.shares[index].replicas;
        if replicas[0] != target {
            return;
        }
        let led = |id: &i32| self.loads.get(id).map_or(usize::MAX, |load| load.leaders);
        let kept = replicas.iter().enumerate().skip(1);
        if let Some((position, _)) = kept.min_by_key(|(_, id)| (led(id), **id)) {
            self.promote(index, position);
        }
    }

    /// The moves from the present assignment to the planned one.
    pub(crate) fn moves(&self) -> Vec<Move> {
        let changed =
            self.shares.iter().zip(&self.before).filter(|(share, before)| share.replicas != **before);
        let one = |(share, before): (&Share, &Vec<i32>)| {
            let (topic, partition) = share.place.clone();
            Move {
                topic,
                partition,
                from: before.clone(),
                to: share.replicas.clone(),
                bytes: Some(share.bytes),
            }
        };
        changed.map(one).collect()
    }

    /// Load of each broker that may get replicas, after the plan.
    pub(crate) fn loads(&self) -> &BTreeMap<i32, Load> {
        &self.loads
    }

    /// Number of racks of these brokers; a broker without a rack counts as a separate rack.
    fn spread(&self, replicas: &[i32]) -> usize {
        let racks = replicas.iter().map(|id| match self.racks.get(id) {
            Some(Some(rack)) => (Some(rack), 0),
            _ => (None, *id),
        });
        racks.collect::<BTreeSet<_>>().len()
    }

    /// Adds a partition to the loads.
    fn count(&mut self, index: usize) {
        let share = &self.shares[index];
        for (position, id) in share.replicas.iter().enumerate() {
            let Some(load) = self.loads.get_mut(id) else { continue };
            load.replicas += 1;
            load.bytes += share.bytes;
            load.leaders += usize::from(position == 0);
            self.held.entry(*id).or_default().insert(index);
        }
    }

    /// Removes a partition from the loads.
    fn discount(&mut self, index: usize) {
        let share = &self.shares[index];
        for (position, id) in share.replicas.iter().enumerate() {
            let Some(load) = self.loads.get_mut(id) else { continue };
            load.replicas -= 1;
            load.bytes -= share.bytes;
            load.leaders -= usize::from(position == 0);
            self.held.entry(*id).or_default().remove(&index);
        }
    }

    /// Replaces a replica by one on another broker, at the same position.
    fn replace(&mut self, index: usize, from: i32, to: i32) {
        self.discount(index);
        self.shares[index].replicas = replaced(&self.shares[index].replicas, from, to);
        self.count(index);
    }

    /// Makes the replica at a position the preferred leader.
    fn promote(&mut self, index: usize, position: usize) {
        self.discount(index);
        self.shares[index].replicas.swap(0, position);
        self.count(index);
    }

    /// True if a replica may move from one broker to another.
    fn may_replace(&self, index: usize, from: i32, to: i32) -> bool {
        let Share { replicas, is_movable, .. } = &self.shares[index];
        *is_movable
            && replicas.contains(&from)
            && !replicas.contains(&to)
            && self.spread(&replaced(replicas, from, to)) >= self.spread(replicas)
    }
}

fn replaced(replicas: &[i32], from: i32, to: i32) -> Vec<i32> {
    replicas.iter().map(|id| if *id == from { to } else { *id }).collect()
}

#[cfg(test)]
mod tests;
