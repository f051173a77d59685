//! Balances the numbers of preferred leaders only by another order of the replicas: no byte moves.

use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};

use super::Planner;

impl Planner {
    /// Balances the preferred leaders as far as the replicas allow: as long as a chain of
    /// partitions leads from a broker to one that leads at least two fewer, each of the chain gets
    /// the next leader.
    pub(crate) fn even_leaders(&mut self) {
        loop {
            let mut ids: Vec<i32> = self.loads.keys().copied().collect();
            ids.sort_by_key(|id| Reverse(self.loads[id].leaders));
            let Some(chain) = ids.into_iter().find_map(|id| self.chain(id)) else { return };
            for (index, next) in chain {
                let found = self.shares[index].replicas.iter().position(|id| *id == next);
                self.promote(index, found.expect("a chain goes along replicas"));
            }
        }
    }

    /// The shortest chain from a broker to the one that leads the fewest partitions, and at least
    /// two fewer: partitions, each with its next leader.
    fn chain(&self, first: i32) -> Option<Vec<(usize, i32)>> {
        // The partition by which a broker is reached, and its present leader.
        let mut reached: BTreeMap<i32, Option<(usize, i32)>> = BTreeMap::from([(first, None)]);
        let mut order = VecDeque::from([first]);
        while let Some(leader) = order.pop_front() {
            for index in &self.held[&leader] {
                let share = &self.shares[*index];
                if share.replicas[0] != leader || !share.is_movable {
                    continue;
                }
                for next in share.replicas.iter().filter(|id| self.loads.contains_key(id)) {
                    if !reached.contains_key(next) {
                        reached.insert(*next, Some((*index, leader)));
                        order.push_back(*next);
                    }
                }
            }
        }
        let led = |id: &i32| self.loads[id].leaders;
        let last = reached.keys().copied().min_by_key(|id| (led(id), *id))?;
        if led(&last) + 2 > led(&first) {
            return None;
        }
        let mut chain = Vec::new();
        let mut at = last;
        while let Some((index, leader)) = reached[&at] {
            chain.push((index, at));
            at = leader;
        }
        Some(chain)
    }
}
