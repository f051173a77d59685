//! The order in which parts leave the cache: a segmented LRU.
//!
//! A part enters on *probation*. It is *protected* once bytes of it are read a second time: a
//! reader that goes through a log once reads each byte once, however many requests it needs. Parts
//! on probation leave first, the one that has not been used for longest at the front. Protected
//! parts have at most four fifths of the cache; above that, the least recently used of them goes
//! back on probation.

use std::collections::{BTreeMap, HashMap};

use levada_base::IdBytes;

use crate::{ChunkKey, Part};

#[cfg(test)]
mod tests;

/// Relation of a read to earlier reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// Begins where the read before it ended, or at the start of a segment.
    Continues,
    /// Begins with a byte that was read before.
    Repeats,
    /// Begins neither at the expected position nor before it.
    Jumps,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rank {
    /// Being fetched: the part is not evicted.
    Pinned,
    Probation,
    Protected,
}

#[derive(Debug)]
struct Entry {
    bytes: u64,
    rank: Rank,
    /// Time of the last use, as a count of uses.
    used: u64,
    /// End of the bytes of a part of records that were read, from the start of the segment.
    read_to: u64,
}

/// Sizes and last uses of all parts.
#[derive(Debug)]
pub(crate) struct Ledger {
    capacity_bytes: u64,
    uses: u64,
    bytes: u64,
    protected_bytes: u64,
    entries: HashMap<ChunkKey, Entry>,
    probation: BTreeMap<u64, ChunkKey>,
    protected: BTreeMap<u64, ChunkKey>,
}

impl Ledger {
    pub(crate) fn new(capacity_bytes: u64) -> Self {
        Self {
            capacity_bytes,
            uses: 0,
            bytes: 0,
            protected_bytes: 0,
            entries: HashMap::new(),
            probation: BTreeMap::new(),
            protected: BTreeMap::new(),
        }
    }

    /// Size of all parts in bytes, including those that are being fetched.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Adds a part that is about to be fetched, and stays until [`Ledger::settle`] or
    /// [`Ledger::remove`]. Returns the parts to evict for it; if all others are being fetched too,
    /// the cache exceeds its size until then.
    pub(crate) fn reserve(&mut self, key: ChunkKey, bytes: u64) -> Vec<ChunkKey> {
        let entry = Entry { bytes, rank: Rank::Pinned, used: 0, read_to: 0 };
        let before = self.entries.insert(key, entry);
        assert!(before.is_none(), "{key:?} is in the cache already");
        self.bytes += bytes;
        self.make_room()
    }

    /// Records that a part was fetched, with this size. Returns the parts to evict.
    pub(crate) fn settle(&mut self, key: ChunkKey, bytes: u64) -> Vec<ChunkKey> {
        let entry = self.entries.get_mut(&key).expect("a part is reserved before it is there");
        assert_eq!(entry.rank, Rank::Pinned, "{key:?} is there already");
        self.bytes = self.bytes - entry.bytes + bytes;
        self.uses += 1;
        (entry.bytes, entry.rank, entry.used) = (bytes, Rank::Probation, self.uses);
        self.probation.insert(self.uses, key);
        self.make_room()
    }

    /// Removes a part, in whatever state.
    pub(crate) fn remove(&mut self, key: &ChunkKey) {
        let Some(entry) = self.entries.remove(key) else { return };
        self.bytes -= entry.bytes;
        match entry.rank {
            Rank::Pinned => {}
            Rank::Probation => drop(self.probation.remove(&entry.used)),
            Rank::Protected => {
                self.protected.remove(&entry.used);
                self.protected_bytes -= entry.bytes;
            }
        }
    }

    /// Holds a part that is there, so that it is not removed while its bytes are checked.
    pub(crate) fn pin(&mut self, key: ChunkKey) {
        let bytes = self.entries.get(&key).expect("only a part that is there is checked").bytes;
        self.remove(&key);
        let entry = Entry { bytes, rank: Rank::Pinned, used: 0, read_to: 0 };
        self.entries.insert(key, entry);
        self.bytes += bytes;
    }

    /// Notes a use of a part.
    pub(crate) fn touch(&mut self, key: &ChunkKey) {
        let Some(entry) = self.entries.get_mut(key) else { return };
        let order = match entry.rank {
            Rank::Pinned => return,
            Rank::Probation => &mut self.probation,
            Rank::Protected => &mut self.protected,
        };
        self.uses += 1;
        order.remove(&entry.used);
        order.insert(self.uses, *key);
        entry.used = self.uses;
    }

    /// Records a read of the bytes from `from` to `to` of a segment's records, and protects the
    /// parts that were read before.
    pub(crate) fn read(&mut self, segment: IdBytes, from: u64, to: u64) -> Pattern {
        let part_of =
            |position: u64| Part::Records(u32::try_from(position / crate::CHUNK_BYTES).unwrap_or(u32::MAX));
        let key = |position| ChunkKey { segment, part: part_of(position) };
        let read_to = |position| self.entries.get(&key(position)).map_or(0, |entry| entry.read_to);
        let pattern = if read_to(from) > from {
            Pattern::Repeats
        } else if from == 0 || read_to(from - 1) == from {
            Pattern::Continues
        } else {
            Pattern::Jumps
        };
        let mut position = from;
        while position < to {
            let end = (position / crate::CHUNK_BYTES + 1).saturating_mul(crate::CHUNK_BYTES).min(to);
            self.touch(&key(position));
            if let Some(entry) = self.entries.get_mut(&key(position)) {
                let is_repeated = entry.read_to > position;
                entry.read_to = entry.read_to.max(end);
                if is_repeated {
                    self.protect(&key(position));
                    self.protect(&ChunkKey { segment, part: Part::Offsets });
                }
            }
            position = end;
        }
        pattern
    }

    /// Protects a part on probation.
    fn protect(&mut self, key: &ChunkKey) {
        let Some(entry) = self.entries.get_mut(key).filter(|entry| entry.rank == Rank::Probation) else {
            return;
        };
        entry.rank = Rank::Protected;
        self.protected_bytes += entry.bytes;
        self.probation.remove(&entry.used);
        self.protected.insert(entry.used, *key);
        while self.protected_bytes > self.capacity_bytes / 5 * 4 {
            let Some((used, key)) = self.protected.pop_first() else { break };
            self.probation.insert(used, key);
            let entry = self.entries.get_mut(&key).expect("each part in an order has an entry");
            entry.rank = Rank::Probation;
            self.protected_bytes -= entry.bytes;
        }
    }

    /// Keys of all parts of a segment.
    pub(crate) fn of_segment(&self, segment: IdBytes) -> Vec<ChunkKey> {
        self.entries.keys().filter(|key| key.segment == segment).copied().collect()
    }

    fn make_room(&mut self) -> Vec<ChunkKey> {
        let mut leaving = Vec::new();
        while self.bytes > self.capacity_bytes {
            let first = self.probation.first_key_value().or_else(|| self.protected.first_key_value());
            let Some((_, key)) = first else { break };
            let key = *key;
            self.remove(&key);
            leaving.push(key);
        }
        leaving
    }
}
