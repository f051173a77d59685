//! Even loads: racks first, then numbers of replicas, then bytes, then leaders, each step with few
//! bytes to copy.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use super::Planner;

/// Part of the mean that the bytes of a broker may differ from it.
const TOLERANCE: u64 = 10;

/// Maximum number of rounds of all steps.
const ROUNDS: usize = 16;

/// Number of partitions near the best size that a step examines.
const NEIGHBOURS: usize = 16;

/// A change that balances the bytes of two brokers: a replica that moves, and optionally one that
/// moves in the opposite direction.
#[derive(Clone, Copy, Debug)]
struct Exchange {
    there: usize,
    back: Option<usize>,
    /// Bytes by which the fuller broker shrinks.
    shift: u64,
    /// Bytes that the plan copies.
    copied: u64,
}

impl Planner {
    /// Evens racks, replicas, bytes and leaders, until nothing changes: a step for leaders can open
    /// one for bytes.
    pub(crate) fn balance(&mut self) {
        for _ in 0..ROUNDS {
            let before = self.shares.clone();
            self.spread_racks();
            self.even_replicas();
            self.even_bytes();
            self.share_leaders();
            if self.shares == before {
                return;
            }
        }
    }

    fn share_leaders(&mut self) {
        self.even_leaders();
        while let Some((from, to, exchange)) = self.idle_leader() {
            self.apply((from, to), exchange);
            self.even_leaders();
        }
    }

    /// An exchange that gives a leader to a broker that leads at least two fewer, if a new order of
    /// replicas is not enough. The difference of the bytes of the two does not grow beyond the
    /// tolerance.
    fn idle_leader(&self) -> Option<(i32, i32, Exchange)> {
        let slack = self.slack();
        for (from, to) in self.pairs(|load| load.leaders as u64) {
            let (full, free) = (self.loads[&from], self.loads[&to]);
            if full.leaders < free.leaders + 2 {
                return None;
            }
            let leads = |index: usize, id: i32| self.shares[index].replicas[0] == id;
            let gap = full.bytes.abs_diff(free.bytes).max(slack.saturating_mul(2));
            let found = self.exchanges((from, to)).into_iter().filter(|one| {
                let comes = one.back.map_or(0, |back| self.shares[back].bytes);
                let (goes, held) =
                    (self.shares[one.there].bytes, i128::from(full.bytes) - i128::from(free.bytes));
                let after = held - 2 * (i128::from(goes) - i128::from(comes));
                leads(one.there, from)
                    && one.back.is_none_or(|back| !leads(back, to))
                    && after.unsigned_abs() <= u128::from(gap)
            });
            if let Some(best) = found.min_by_key(|one| (one.copied, one.there, one.back)) {
                return Some((from, to, best));
            }
        }
        None
    }

    /// Moves replicas that share a rack to racks without one.
    fn spread_racks(&mut self) {
        for index in 0..self.shares.len() {
            while let Some((from, to)) = self.wider(index) {
                self.replace(index, from, to);
            }
        }
    }

    /// A replica and another broker for it, so that the partition has one rack more.
    fn wider(&self, index: usize) -> Option<(i32, i32)> {
        let share = &self.shares[index];
        if !share.is_movable {
            return None;
        }
        let spread = self.spread(&share.replicas);
        if spread == share.replicas.len() {
            return None;
        }
        let pairs = share.replicas.iter().filter(|id| self.loads.contains_key(id)).flat_map(|from| {
            let free = self.loads.keys().filter(|to| !share.replicas.contains(to));
            free.map(move |to| (*from, *to))
        });
        let widens =
            pairs.filter(|(from, to)| self.spread(&super::replaced(&share.replicas, *from, *to)) > spread);
        widens.min_by_key(|(from, to)| {
            let (full, free) = (self.loads[from], self.loads[to]);
            (free.replicas, Reverse(full.replicas), free.bytes, *to, *from)
        })
    }

    /// Moves replicas until their numbers differ by at most one, or racks prevent more. Prefers the
    /// replica of the fuller broker whose size also balances the bytes.
    fn even_replicas(&mut self) {
        while let Some((index, from, to)) = self.excess() {
            self.replace(index, from, to);
        }
    }

    fn excess(&self) -> Option<(usize, i32, i32)> {
        for (from, to) in self.pairs(|load| load.replicas as u64) {
            let (full, free) = (self.loads[&from], self.loads[&to]);
            let gap = full.replicas.saturating_sub(free.replicas);
            if gap < 2 {
                return None;
            }
            let goal = full.bytes.saturating_sub(free.bytes) / gap as u64;
            let held = self.held[&from].iter().copied().filter(|index| self.may_replace(*index, from, to));
            let best = held.min_by_key(|index| {
                let share = &self.shares[*index];
                (share.bytes.abs_diff(goal), share.bytes, share.replicas[0] == from, *index)
            });
            if let Some(index) = best {
                return Some((index, from, to));
            }
        }
        None
    }

    /// Exchanges replicas until the bytes of all brokers are near the mean, or no exchange helps.
    fn even_bytes(&mut self) {
        let slack = self.slack();
        // Each exchange evens two brokers; the bound only ends a long tail of small gains.
        for _ in 0..self.shares.len().saturating_mul(2) {
            let Some((from, to, exchange)) = self.uneven(slack) else { return };
            self.apply((from, to), exchange);
        }
    }

    /// Bytes by which a broker may differ from the mean.
    fn slack(&self) -> u64 {
        let total: u64 = self.loads.values().map(|load| load.bytes).sum();
        total / (self.loads.len().max(1) as u64) / TOLERANCE
    }

    fn apply(&mut self, (from, to): (i32, i32), exchange: Exchange) {
        self.replace(exchange.there, from, to);
        if let Some(back) = exchange.back {
            self.replace(back, to, from);
        }
    }

    fn uneven(&self, slack: u64) -> Option<(i32, i32, Exchange)> {
        for (from, to) in self.pairs(|load| load.bytes) {
            let gap = self.loads[&from].bytes.saturating_sub(self.loads[&to].bytes);
            if gap <= slack.saturating_mul(2).max(1) {
                return None;
            }
            if let Some(exchange) = self.exchange((from, to), gap, slack) {
                return Some((from, to, exchange));
            }
        }
        None
    }

    /// The exchange that best balances two brokers; of nearly equal ones, the one with the fewest
    /// bytes to copy.
    fn exchange(&self, (from, to): (i32, i32), gap: u64, slack: u64) -> Option<Exchange> {
        let helps = self.exchanges((from, to)).into_iter().filter(|one| (1..gap).contains(&one.shift));
        helps.min_by_key(|one| (one.shift.abs_diff(gap / 2) / slack.max(1), one.copied, one.there, one.back))
    }

    /// Exchanges between two brokers. For each replica that moves, only those near the size that
    /// balances the bytes may move back.
    fn exchanges(&self, (from, to): (i32, i32)) -> Vec<Exchange> {
        let movable = |from: i32, to: i32| {
            self.held[&from].iter().copied().filter(move |index| self.may_replace(*index, from, to))
        };
        let bytes = |index: usize| self.shares[index].bytes;
        let mut comes: Vec<usize> = movable(to, from).collect();
        comes.sort_by_key(|index| bytes(*index));
        let (full, free) = (self.loads[&from], self.loads[&to]);
        let half = full.bytes.saturating_sub(free.bytes) / 2;
        let mut found: Vec<Exchange> = Vec::new();
        for there in movable(from, to) {
            if full.replicas > free.replicas {
                found.push(Exchange { there, back: None, shift: bytes(there), copied: bytes(there) });
            }
            let wanted = bytes(there).saturating_sub(half);
            let first = comes.partition_point(|index| bytes(*index) < wanted).saturating_sub(NEIGHBOURS / 2);
            let near = comes[first..].iter().take(NEIGHBOURS).filter(|back| **back != there);
            found.extend(near.map(|back| Exchange {
                there,
                back: Some(*back),
                shift: bytes(there).saturating_sub(bytes(*back)),
                copied: bytes(there) + bytes(*back),
            }));
        }
        found
    }

    /// Pairs of different brokers by the difference of a load, the largest first.
    fn pairs(&self, load: impl Fn(&super::Load) -> u64) -> Vec<(i32, i32)> {
        let ids: BTreeSet<i32> = self.loads.keys().copied().collect();
        let mut pairs: Vec<(i32, i32)> =
            ids.iter().flat_map(|from| ids.iter().map(move |to| (*from, *to))).collect();
        pairs.retain(|(from, to)| from != to && load(&self.loads[from]) > load(&self.loads[to]));
        pairs
            .sort_by_key(|(from, to)| (Reverse(load(&self.loads[from]) - load(&self.loads[to])), *from, *to));
        pairs
    }
}
