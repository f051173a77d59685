//! Ghost entries, as in 2Q and ARC: ranges of files that were read from the disk and not kept. A
//! second read of a range with a ghost entry would have been a hit in a cache of this capacity.
//!
//! Uses no file, clock or kernel: a file is a number. Memory is bounded by [`CHUNKS`], independent
//! of the bytes read.

use std::collections::{BTreeMap, HashMap};

/// A file, by device and number.
pub(crate) type FileId = (u64, u64);

/// Bytes per mark: no page is smaller.
pub(crate) const BLOCK_BYTES: u64 = 4096;

/// Blocks that are remembered and dropped together: 1 MiB.
const CHUNK_BLOCKS: u64 = 256;

/// Maximum number of remembered chunks; they take some 10 MB, for 64 GB of reads.
pub(crate) const CHUNKS: usize = 64 * 1024;

/// Ranges that were read, up to a capacity; the oldest is dropped first.
#[derive(Debug, Default)]
pub(crate) struct Ghosts {
    capacity: u64,
    blocks: u64,
    chunks: HashMap<Key, Chunk>,
    /// Chunks by when they were last read.
    order: BTreeMap<u64, Key>,
    clock: u64,
}

type Key = (FileId, u64);

#[derive(Debug)]
struct Chunk {
    read: u64,
    marks: [u64; CHUNK_BLOCKS as usize / 64],
}

impl Chunk {
    fn blocks(&self) -> u64 {
        self.marks.iter().map(|word| u64::from(word.count_ones())).sum()
    }
}

impl Ghosts {
    /// Sets the limit of remembered bytes.
    pub(crate) fn set_capacity(&mut self, bytes: u64) {
        self.capacity = bytes;
        self.forget();
    }

    /// Number of remembered bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.blocks * BLOCK_BYTES
    }

    /// Records that a range is read; returns true if all of it was remembered before.
    pub(crate) fn read(&mut self, file: FileId, offset: u64, len: u64) -> bool {
        let end = offset.saturating_add(len).div_ceil(BLOCK_BYTES);
        let (mut block, mut all) = (offset / BLOCK_BYTES, len > 0);
        while block < end {
            let chunk = block / CHUNK_BLOCKS;
            let behind = end.min((chunk + 1) * CHUNK_BLOCKS);
            let first = chunk * CHUNK_BLOCKS;
            all &= self.mark((file, chunk), block - first..behind - first);
            block = behind;
        }
        self.forget();
        all
    }

    /// Marks blocks of a chunk, by their numbers within it; returns true if all of them were marked
    /// before.
    fn mark(&mut self, key: Key, blocks: std::ops::Range<u64>) -> bool {
        self.clock += 1;
        let fresh = || Chunk { read: 0, marks: Default::default() };
        let chunk = self.chunks.entry(key).or_insert_with(fresh);
        self.order.remove(&std::mem::replace(&mut chunk.read, self.clock));
        self.order.insert(self.clock, key);
        let before = chunk.blocks();
        let count = blocks.end - blocks.start;
        let mut marked = 0;
        for block in blocks {
            let (word, bit) = (&mut chunk.marks[(block / 64) as usize], 1 << (block % 64));
            marked += u64::from(*word & bit != 0);
            *word |= bit;
        }
        self.blocks += chunk.blocks() - before;
        marked == count
    }

    fn forget(&mut self) {
        while self.bytes() > self.capacity || self.chunks.len() > CHUNKS {
            let Some((_, key)) = self.order.pop_first() else { return };
            self.blocks -= self.chunks.remove(&key).map_or(0, |chunk| chunk.blocks());
        }
    }
}

#[cfg(test)]
mod tests;
