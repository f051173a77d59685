//! Tests of the cold lane with the real kernel.

use std::cell::Cell;
use std::io::Write;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::task::{JoinSet, LocalSet};

use super::*;

/// More readers than there are buffers for, so that some are turned away.
const READERS: u64 = 12;
const READS: u64 = 25;

struct Stage {
    lane: ColdLane,
    file: Arc<File>,
    content: Vec<u8>,
    read: Cell<u64>,
}

impl Stage {
    /// Within a runtime; `None` where no ring is allowed.
    fn new() -> Option<Rc<Self>> {
        let lane = ColdLane::new(&Caps::probe(), Arc::default());
        lane.open()?;
        let content: Vec<u8> =
            (0..8_u32 << 20).map(|at| (at.wrapping_mul(0x9E37_79B9) >> 24) as u8).collect();
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&content).unwrap();
        file.sync_all().unwrap();
        Some(Rc::new(Self { lane, file: Arc::new(file), content, read: Cell::new(0) }))
    }

    /// Reads somewhere; now and then the connection goes before the response comes.
    async fn read(&self, random: &mut StdRng) {
        let offset = random.random_range(0..self.content.len() - 1);
        let len = random.random_range(1..=(1 << 20).min(self.content.len() - offset));
        let extent = Extent { file: self.file.clone(), offset: offset as u64, len: len as u64 };
        let patience = if random.random_ratio(1, 4) { random.random_range(0..2) } else { 60_000 };
        let reading = tokio::time::timeout(Duration::from_millis(patience), self.lane.read(&extent));
        let Ok(Some(bytes)) = reading.await else { return tokio::task::yield_now().await };
        // A slow consumer keeps its buffers meanwhile.
        tokio::task::yield_now().await;
        let bytes = bytes.concat();
        assert!((1..=len).contains(&bytes.len()), "{} of {len} at {offset}", bytes.len());
        assert!(bytes == self.content[offset..offset + bytes.len()], "{len} at {offset}");
        self.read.set(self.read.get() + 1);
    }
}

#[test]
fn a_shard_without_cold_readers_pins_no_memory() {
    let lane = ColdLane::new(&Caps::probe(), Arc::default());
    assert!(lane.open.get().is_none(), "the buffers exist before the first read");
}

#[test]
fn cold_lane_wakes_every_reader_despite_others() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    LocalSet::new().block_on(&runtime, async {
        let Some(stage) = Stage::new() else { return eprintln!("skipped: a test of the cold lane: no ring") };
        let mut readers = JoinSet::new();
        for seed in 0..READERS {
            let stage = stage.clone();
            readers.spawn_local(async move {
                let mut random = StdRng::seed_from_u64(seed);
                for _ in 0..READS {
                    stage.read(&mut random).await;
                }
            });
        }
        let all = async {
            while let Some(done) = readers.join_next().await {
                done.unwrap();
            }
        };
        let ended = tokio::time::timeout(Duration::from_secs(50), all).await;
        let lane = stage.lane.open().expect("it was open before");
        let (ring, waiting) = (&lane.ring, lane.waiting.borrow().len());
        assert!(ended.is_ok(), "nobody woke a reader: {:?}, {waiting} operations waited for", ring.borrow());
        if stage.read.get() == 0 {
            eprintln!("skipped: a test of the cold lane: this file system does not read around its cache");
        }
    });
}
