//! Crashes of a follower's log at every change of its files: while it appends, while it is cut, and
//! while it restarts at another offset. The next opening must find a beginning of what the log had.

use levada_testing::{scaled, seeds};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};

use super::*;
use crate::crash_disk::{Crash, Recorder, World, lay_out};
use crate::disk::{Disk, RealDisk};

const LIVES: u64 = 8;

/// A log as its leader has it: the first offset, and the batches.
struct History {
    start: i64,
    batches: Vec<Vec<u8>>,
}

impl History {
    fn from(start: i64) -> Self {
        Self { start, batches: Vec::new() }
    }

    fn end(&self) -> i64 {
        self.batches.last().map_or(self.start, |batch| BatchView::parse(batch).unwrap().last_offset() + 1)
    }

    /// Adds a few batches; returns them.
    fn grow(&mut self, epoch: i32, random: &mut StdRng) -> Vec<u8> {
        let from = self.batches.len();
        for _ in 0..random.random_range(1..8) {
            let gap = if random.random_bool(0.2) { random.random_range(1..9) } else { 0 };
            let id = random.random_range(0..3);
            let builder = Builder::new().base_offset(self.end() + gap).leader_epoch(epoch).producer(id, 0, 0);
            let builder = if id == 0 { builder.transactional() } else { builder };
            self.batches.push(records(builder, random.random_range(1..4)).to_vec());
        }
        self.batches[from..].concat()
    }

    /// The same log without what lies at `offset` and after it.
    fn cut(&self, offset: i64) -> Self {
        let is_before = |batch: &&Vec<u8>| BatchView::parse(batch).unwrap().last_offset() < offset;
        Self { start: self.start, batches: self.batches.iter().take_while(is_before).cloned().collect() }
    }

    /// True if these bytes, which begin at `start`, are a beginning of it.
    fn begins_with(&self, start: i64, bytes: &[u8]) -> bool {
        start == self.start && self.batches.concat().starts_with(bytes)
    }
}

/// Follows leaders on a recorded disk; returns the logs that were to be, and for each change of the
/// files how many of them had begun by then.
fn live(recorder: &Arc<Recorder>, dir: &Path, random: &mut StdRng) -> (Vec<History>, Vec<usize>) {
    let mut writer = open(recorder.clone(), dir, 0);
    recorder.sync_dir(dir).unwrap();
    let (mut histories, mut begun) = (vec![History::from(0)], Vec::new());
    let mut epoch = 0;
    for _ in 0..24 {
        begun.resize(recorder.count(), histories.len());
        match random.random_range(0..10) {
            0 => {
                writer.flush().unwrap();
            }
            1 => {
                let last = histories.last().unwrap();
                let to = random.random_range(last.start..=last.end());
                let cut = last.cut(to);
                histories.push(cut);
                writer.truncate(to, NOW_MS).unwrap();
                // Another leader has another log.
                epoch += 1;
            }
            2 => {
                let start = random.random_range(0..2 * histories.last().unwrap().end() + 20);
                histories.push(History::from(start));
                epoch += 1;
                let retired = writer.restart_at(start, NOW_MS).unwrap();
                if random.random_bool(0.5) {
                    retired.remove().unwrap();
                }
            }
            // A segment is on the device before the next begins: what a crash left of unsynced
            // segments need not be a beginning of the log.
            3 | 4 => {
                writer.flush().unwrap();
                writer.roll(NOW_MS).unwrap();
            }
            _ => {
                epoch += random.random_range(0..2);
                let last = histories.last_mut().unwrap();
                let answer = last.grow(epoch, random);
                assert_eq!(
                    writer.append_replica(&answer, from_leader(epoch), NOW_MS).unwrap().log_end,
                    last.end()
                );
            }
        }
    }
    begun.resize(recorder.count(), histories.len());
    (histories, begun)
}

fn open(disk: Arc<dyn Disk>, dir: &Path, recovery_point: i64) -> Writer {
    let config = LogConfig { index_interval_bytes: 200, segment_index_bytes: 240, ..LogConfig::default() };
    let options = OpenOptions {
        config,
        disk,
        recovery_point,
        high_watermark: Some(0),
        ..OpenOptions::new(dir.join("t-0"))
    };
    let mut writer = Writer::open(options, NOW_MS).unwrap().0;
    writer.resign();
    writer
}

fn memory() -> TempDir {
    TempDir::new_in("/dev/shm").or_else(|_| tempdir()).unwrap()
}

/// Opens the remains, compares them with the logs, and has the log followed on.
fn survive(dir: &Path, histories: &[History]) {
    let mut writer = open(Arc::new(RealDisk), dir, 0);
    let partition = writer.partition().clone();
    let (start, end) = (partition.log_start(), partition.log_end());
    let (mut bytes, mut at) = (Vec::new(), start);
    while at < end {
        let read = partition.read_batches(at, 1).unwrap();
        at = BatchView::parse(&read).unwrap().last_offset() + 1;
        bytes.extend_from_slice(&read);
    }
    let is_known = histories.iter().any(|history| history.begins_with(start, &bytes));
    // With nothing in it, a log begins where the name of its segment or the checkpoint has it.
    assert!(is_known || bytes.is_empty() && start == 0, "{start}..{end} was never a beginning of the log");
    let (mut at, mut epochs) = (0, Vec::new());
    while let Ok(batch) = BatchView::parse(&bytes[at..]) {
        if epochs.last() != Some(&batch.leader_epoch()) {
            epochs.push(batch.leader_epoch());
        }
        at += batch.size_bytes();
    }
    assert_eq!(partition.latest_epoch(), epochs.last().copied().unwrap_or(-1), "{epochs:?}");
    let next = records(Builder::new().base_offset(end).leader_epoch(90), 1);
    assert_eq!(writer.append_replica(&next, from_leader(90), NOW_MS).unwrap().log_end, end + 1);
}

#[test]
fn crash_keeps_a_prefix_of_the_replica_log() {
    for seed in seeds(scaled(LIVES)) {
        let random = &mut StdRng::seed_from_u64(seed);
        let home = memory();
        let recorder = Arc::new(Recorder::new(home.path()));
        let (histories, begun) = live(&recorder, home.path(), random);
        let (mut world, ops) = (World::new(), recorder.ops());
        assert_eq!(begun.len(), ops.len());
        for (moment, op) in ops.iter().enumerate() {
            let crash = *[Crash::Killed, Crash::Dropped, Crash::Torn, Crash::Torn].choose(random).unwrap();
            let remains = memory();
            lay_out(&world.crash(crash, Some(op), random), remains.path());
            // The operation under way may be that which begins the next log.
            let known = (begun[moment] + 1).min(histories.len());
            let checked = std::panic::catch_unwind(|| survive(remains.path(), &histories[..known]));
            assert!(checked.is_ok(), "seed {seed}, change {moment} of {}: {op:?}, {crash:?}", ops.len());
            world.apply(op);
        }
    }
}

#[test]
fn led_epoch_survives_a_crash() {
    let home = memory();
    let recorder = Arc::new(Recorder::new(home.path()));
    let mut writer = open(recorder.clone(), home.path(), 0);
    recorder.sync_dir(home.path()).unwrap();
    let random = &mut StdRng::seed_from_u64(1);
    writer.append_replica(&History::from(0).grow(1, random), from_leader(1), NOW_MS).unwrap();
    writer.flush().unwrap();
    let end = writer.lead(7).unwrap();
    let mut world = World::new();
    recorder.ops().iter().for_each(|op| world.apply(op));
    let remains = memory();
    lay_out(&world.crash(Crash::Dropped, None, random), remains.path());
    let text = fs::read_to_string(remains.path().join("t-0/leader-epoch-checkpoint")).unwrap();
    assert_eq!(text, format!("0\n2\n1 0\n7 {end}\n"));
}
