//! The last offset of each key, in bounded memory. A 128-bit hash identifies a key; a collision
//! would lose records. Each map has a random hash key, so that clients cannot construct collisions.

use std::hash::{BuildHasher, RandomState};

/// Two halves of a hash and an offset plus one; zeroes are an empty slot.
type Slot = [u64; 3];

/// Keys and their last offsets. Never grows.
#[derive(Debug)]
pub(super) struct KeyMap {
    slots: Vec<Slot>,
    used: usize,
    limit: usize,
    /// Everything up to here is in the map, if it counts.
    latest: i64,
    hashers: [RandomState; 2],
}

impl KeyMap {
    /// A map that takes at most `memory_bytes`, less if `records` need less, and is full at a fixed
    /// share of used slots. Pages are touched only as keys are added.
    pub(super) fn new(memory_bytes: usize, load_factor: f64, records: u64) -> Self {
        let load_factor = load_factor.clamp(0.1, 0.99);
        let needed = (records as f64 / load_factor).ceil() + 1.0;
        let slots = (memory_bytes / size_of::<Slot>()).min(needed as usize).max(2);
        let limit = ((slots as f64 * load_factor) as usize).max(1);
        assert!(limit < slots, "a search ends at an empty slot: {limit} of {slots} may be used");
        let hashers = [RandomState::new(), RandomState::new()];
        Self { slots: vec![[0; 3]; slots], used: 0, limit, latest: -1, hashers }
    }

    /// Records the latest offset of a key; `false` if the map is full.
    pub(super) fn put(&mut self, key: &[u8], offset: i64) -> bool {
        if self.used >= self.limit {
            return false;
        }
        let hash = self.hash(key);
        let at = self.find(hash);
        self.used += usize::from(self.slots[at][2] == 0);
        self.slots[at] = [hash[0], hash[1], offset.cast_unsigned() + 1];
        self.latest = offset;
        true
    }

    /// The last offset of a key.
    pub(super) fn last(&self, key: &[u8]) -> Option<i64> {
        let [.., offset] = self.slots[self.find(self.hash(key))];
        offset.checked_sub(1).map(u64::cast_signed)
    }

    /// Records that all offsets up to this one have been read.
    pub(super) fn reach(&mut self, offset: i64) {
        self.latest = offset;
    }

    pub(super) fn latest(&self) -> i64 {
        self.latest
    }

    /// Used fraction of the capacity, from 0 to 1.
    pub(super) fn fill(&self) -> f64 {
        self.used as f64 / self.slots.len() as f64
    }

    /// The slot of a hash, or the empty slot where it belongs. There always is one: the limit is
    /// below the number of slots.
    fn find(&self, hash: [u64; 2]) -> usize {
        let count = self.slots.len();
        let mut at = ((u128::from(hash[0]) * count as u128) >> 64) as usize;
        loop {
            let [first, second, offset] = self.slots[at];
            if offset == 0 || [first, second] == hash {
                return at;
            }
            at = if at + 1 == count { 0 } else { at + 1 };
        }
    }

    fn hash(&self, key: &[u8]) -> [u64; 2] {
        [self.hashers[0].hash_one(key), self.hashers[1].hash_one(key)]
    }
}
