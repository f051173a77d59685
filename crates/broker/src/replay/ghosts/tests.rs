//! Tests of ghosts, against a list that is looked through.

use proptest::prelude::*;

use super::*;

const MIB: u64 = 1 << 20;
const FILE: FileId = (1, 2);

fn ghosts(capacity: u64) -> Ghosts {
    let mut ghosts = Ghosts::default();
    ghosts.set_capacity(capacity);
    ghosts
}

#[test]
fn ghost_entry_recognizes_only_second_read() {
    let mut ghosts = ghosts(100 * MIB);
    // As a consumer reads: from wherever the last response ended, so that neighbours share a block.
    let steps = || (0..20).map(|step| (4321 + step * 999_999, 999_999));
    for (offset, len) in steps() {
        assert!(!ghosts.read(FILE, offset, len), "{offset}");
    }
    for (offset, len) in steps() {
        assert!(ghosts.read(FILE, offset, len), "{offset}");
    }
    assert!(!ghosts.read((1, 3), 4321, 999_999), "another file");
    assert!(!ghosts.read(FILE, 4321 + 20 * 999_999 - 10, 100_000), "goes on after what was read");
    assert!(!ghosts.read(FILE, 0, 0));
}

#[test]
fn ghosts_forget_reads_beyond_cache_capacity() {
    let mut ghosts = ghosts(16 * MIB);
    for round in 0..3 {
        for step in 0..32 {
            assert!(!ghosts.read(FILE, step * MIB, MIB), "{round} {step}");
        }
    }
    // A reader of half as much is not put off by the other.
    for step in 0..8 {
        ghosts.read((7, 7), step * MIB, MIB);
    }
    assert!((0..8).all(|step| ghosts.read((7, 7), step * MIB, MIB)));
    ghosts.set_capacity(0);
    assert_eq!((ghosts.bytes(), ghosts.chunks.len(), ghosts.order.len()), (0, 0, 0));
    assert!(!ghosts.read((7, 7), 0, MIB) && !ghosts.read((7, 7), 0, MIB));
}

#[test]
fn ghost_memory_is_bounded() {
    let mut ghosts = ghosts(u64::MAX);
    for chunk in 0..CHUNKS as u64 + 1000 {
        ghosts.read(FILE, chunk * MIB, 1);
    }
    assert_eq!((ghosts.chunks.len(), ghosts.order.len()), (CHUNKS, CHUNKS));
    assert!(!ghosts.read(FILE, 0, 1) && ghosts.read(FILE, 1500 * MIB, 1));
    ghosts.read(FILE, u64::MAX - 5, 100);
}

/// Chunks with the blocks that were read of them, the one read longest ago first.
#[derive(Default)]
struct Model(Vec<(Key, std::collections::BTreeSet<u64>)>);

impl Model {
    fn read(&mut self, file: FileId, blocks: std::ops::Range<u64>, capacity: u64) -> bool {
        let mut all = !blocks.is_empty();
        for block in blocks {
            let key = (file, block / CHUNK_BLOCKS);
            let found = self.0.iter().position(|(chunk, _)| *chunk == key);
            let (_, mut read) = found.map_or_else(|| (key, Default::default()), |at| self.0.remove(at));
            all &= !read.insert(block);
            self.0.push((key, read));
        }
        while self.blocks() * BLOCK_BYTES > capacity {
            self.0.remove(0);
        }
        all
    }

    fn blocks(&self) -> u64 {
        self.0.iter().map(|(_, read)| read.len() as u64).sum()
    }
}

proptest! {
    #[test]
    fn ghosts_remember_the_latest_reads(
        reads in prop::collection::vec((0_u64..2, 0_u64..2000, 0_u64..700), 1..60),
        capacity in (0_u64..3000).prop_map(|blocks| blocks * BLOCK_BYTES),
    ) {
        let (mut ghosts, mut model) = (ghosts(capacity), Model::default());
        for (file, first, count) in reads {
            let file = (9, file);
            let known = ghosts.read(file, first * BLOCK_BYTES, count * BLOCK_BYTES);
            prop_assert_eq!(known, model.read(file, first..first + count, capacity));
            prop_assert_eq!(ghosts.bytes(), model.blocks() * BLOCK_BYTES);
            prop_assert!(ghosts.bytes() <= capacity);
            prop_assert_eq!(ghosts.chunks.len(), ghosts.order.len());
        }
    }
}
