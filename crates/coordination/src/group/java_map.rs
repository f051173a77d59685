//! A hash table that iterates in the order of Java's `HashMap`. Kafka's assignors for share groups
//! and for streams groups make their choices in that order, and their results depend on it.
//!
//! The order follows from the hashes of the keys, the number of buckets and the order of the
//! insertions. Buckets that Java has turned into trees, of more than eight keys in a table of at
//! least 64 buckets, keep the order of their insertions here.

use std::collections::BTreeMap;

use levada_wire::Uuid;

/// Number of buckets of a table without another capacity.
const BUCKETS: u32 = 16;
/// Below this number of buckets, a bucket of more than [`LONGEST_CHAIN`] keys doubles the table.
const TREE_BUCKETS_MIN: u32 = 64;
/// Keys of a bucket from which on Java converts it to a tree, or doubles a small table.
const LONGEST_CHAIN: usize = 8;

/// A key with Java's hash.
pub(super) trait JavaHash {
    /// `hashCode` of the Java object.
    fn java_hash(&self) -> i32;
}

impl JavaHash for i32 {
    fn java_hash(&self) -> i32 {
        *self
    }
}

impl JavaHash for Uuid {
    fn java_hash(&self) -> i32 {
        let words = self.as_bytes().chunks_exact(4);
        words.fold(0, |hash, word| hash ^ i32::from_be_bytes([word[0], word[1], word[2], word[3]]))
    }
}

/// A topic and a partition.
impl JavaHash for (Uuid, i32) {
    fn java_hash(&self) -> i32 {
        self.0.java_hash().wrapping_mul(31).wrapping_add(self.1)
    }
}

impl JavaHash for &str {
    fn java_hash(&self) -> i32 {
        let units = self.encode_utf16().map(i32::from);
        units.fold(0, |hash: i32, unit| hash.wrapping_mul(31).wrapping_add(unit))
    }
}

/// Keys and values in the order of Java's `HashMap`.
#[derive(Clone, Debug)]
pub(super) struct JavaMap<K, V> {
    /// A power of two.
    buckets: u32,
    /// Entries by bucket, then by position in the bucket.
    entries: BTreeMap<(u32, i64), (K, V)>,
    /// Number of insertions so far.
    inserted: i64,
}

impl<K: Clone + Eq + JavaHash, V> JavaMap<K, V> {
    /// A table of 16 buckets.
    pub(super) fn new() -> Self {
        Self { buckets: BUCKETS, entries: BTreeMap::new(), inserted: 0 }
    }

    /// A table of this number of buckets, rounded up to a power of two.
    pub(super) fn with_capacity(count: usize) -> Self {
        let buckets = u32::try_from(count.max(1).next_power_of_two()).unwrap_or(1 << 30);
        Self { buckets, ..Self::new() }
    }

    /// A table as Kafka's assignors make it for a known number of keys.
    pub(super) fn for_keys(count: usize) -> Self {
        // (count + 1) / 0.75 + 1, rounded down, and then up to a power of two.
        let capacity = (count + 1) * 4 / 3 + 1;
        let buckets = u32::try_from(capacity.next_power_of_two()).unwrap_or(1 << 30);
        Self { buckets, ..Self::new() }
    }

    /// A table as Java copies a collection of distinct keys.
    pub(super) fn copy_of(keys: impl ExactSizeIterator<Item = K>) -> Self
    where
        V: Default,
    {
        let capacity = (keys.len() * 4 / 3 + 1).max(BUCKETS as usize);
        let buckets = u32::try_from(capacity.next_power_of_two()).unwrap_or(1 << 30);
        let mut copy = Self { buckets, ..Self::new() };
        keys.for_each(|key| copy.insert(key, V::default()));
        copy
    }

    /// Number of keys.
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// The keys, in order.
    pub(super) fn keys(&self) -> impl Iterator<Item = &K> {
        self.entries.values().map(|(key, _)| key)
    }

    /// The values, in the order of their keys.
    pub(super) fn values(&self) -> impl Iterator<Item = &V> {
        self.entries.values().map(|(_, value)| value)
    }

    /// The value of a key.
    pub(super) fn get(&self, key: &K) -> Option<&V> {
        Some(&self.entries.get(&self.place(key)?)?.1)
    }

    /// Like [`JavaMap::get`], to change the value.
    pub(super) fn value_mut(&mut self, key: &K) -> Option<&mut V> {
        let place = self.place(key)?;
        Some(&mut self.entries.get_mut(&place)?.1)
    }

    /// Inserts a key, the last of its bucket, or replaces its value (`put`).
    pub(super) fn insert(&mut self, key: K, value: V) {
        if let Some(place) = self.place(&key) {
            self.entries.insert(place, (key, value));
            return;
        }
        let bucket = self.bucket(&key);
        let chain = self.chain(bucket);
        self.inserted += 1;
        self.entries.insert((bucket, self.inserted), (key, value));
        if chain >= LONGEST_CHAIN && self.buckets < TREE_BUCKETS_MIN {
            self.double();
        }
        if self.is_full() {
            self.double();
        }
    }

    /// The value of a key, which is inserted as the first of its bucket if it is missing
    /// (`computeIfAbsent`). A full table doubles before, not after the insertion.
    pub(super) fn entry(&mut self, key: K, value: impl FnOnce() -> V) -> &mut V {
        if self.is_full() {
            self.double();
        }
        let mut place = self.place(&key);
        if place.is_none() {
            let bucket = self.bucket(&key);
            let chain = self.chain(bucket);
            self.inserted += 1;
            self.entries.insert((bucket, -self.inserted), (key.clone(), value()));
            if chain + 1 >= LONGEST_CHAIN && self.buckets < TREE_BUCKETS_MIN {
                self.double();
            }
            place = self.place(&key);
        }
        let entry = place.and_then(|place| self.entries.get_mut(&place));
        &mut entry.expect("the key has just been found or inserted").1
    }

    /// Removes a key; true if it was there.
    pub(super) fn remove(&mut self, key: &K) -> bool {
        let place = self.place(key);
        place.is_some_and(|place| self.entries.remove(&place).is_some())
    }

    fn bucket(&self, key: &K) -> u32 {
        let hash = key.java_hash().cast_unsigned();
        (hash ^ (hash >> 16)) & (self.buckets - 1)
    }

    fn place(&self, key: &K) -> Option<(u32, i64)> {
        let bucket = self.bucket(key);
        let mut chain = self.entries.range((bucket, i64::MIN)..=(bucket, i64::MAX));
        chain.find(|(_, (other, _))| other == key).map(|(place, _)| *place)
    }

    fn chain(&self, bucket: u32) -> usize {
        self.entries.range((bucket, i64::MIN)..=(bucket, i64::MAX)).count()
    }

    fn is_full(&self) -> bool {
        self.entries.len() > self.buckets as usize * 3 / 4
    }

    /// Doubles the number of buckets. Keys of a bucket keep their order.
    fn double(&mut self) {
        if self.buckets >= 1 << 30 {
            return;
        }
        self.buckets *= 2;
        for ((_, at), (key, value)) in std::mem::take(&mut self.entries) {
            self.entries.insert((self.bucket(&key), at), (key, value));
        }
    }
}

#[cfg(test)]
mod tests;
