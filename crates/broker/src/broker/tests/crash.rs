//! Crashes at every moment: a broker's life is recorded change by change, and opened again as if it
//! had ended after each of them, in the middle of a write, with the page cache lost, torn or kept.
//! Every acknowledged record must be there, as its durability promises, and every record that is
//! served must be as it was written.
//!
//! Lives are of two kinds. A steady one goes slowly: records, transactions, offsets, topics,
//! housekeeping, stops. In one of short segments logs are rolled every few batches, the next
//! segment is made ahead, and records go again: by age, by size, by DeleteRecords, by compaction,
//! with their topic; in half of these, what the broker does beside its clients is done by threads
//! while they continue. What is drawn is a list (`Event::ALL`), and the test fails if one of them
//! never had its effect.
//!
//! Beyond what was acknowledged, it is checked that what was flushed is there whatever the
//! acknowledgements promise, that no log begins before where a checkpoint had it, that compacted
//! logs have the last value of each key and none of a deleted one, and what groups committed in
//! transactions.
//!
//! `LEVADA_TEST_SEED=7` repeats the life that a failed run has printed. A long run has lives with
//! random seeds of both kinds. With threads a seed is not one order of changes: what a failed crash
//! left is kept, and its place printed.
//!
//! Soak: lasts 30 s, filter chosen_seed_survives_crashes

use std::panic::AssertUnwindSafe;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use levada_log::crash_disk::{Crash, Op, Recorder, Tree, World, lay_out};
use levada_log::disk::{Disk, RealDisk};
use levada_testing::{given_seed, long_run, scaled};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tempfile::TempDir;

use check::Ended;
use event::Happened;
use life::{Incarnation, Life, Ways};

mod check;
mod event;
mod facts;
pub(super) mod life;

/// Things that happen in a steady life, and in one of short segments.
const STEPS: usize = 60;
const SHORT_STEPS: usize = 110;
/// Number of crashes of a run.
const CRASHES: usize = 500;
/// Duration of a long run for each unit of its scale.
const LONG_RUN: Duration = Duration::from_secs(30);

/// A directory in memory where there is one: nothing of it is to last.
pub(crate) fn directory() -> TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { TempDir::new_in(memory) } else { TempDir::new() }.unwrap()
}

/// Lives one life and ends it at many moments; returns how many of them there were, and what
/// happened before.
fn crashes_of(seed: u64, crashes: usize) -> (usize, Happened) {
    let ways = Ways::of(seed);
    let home = directory();
    let life = Life::of(home.path(), seed, ways, if ways.is_short() { SHORT_STEPS } else { STEPS });
    let ops = life.recorder.ops();
    let mut random = StdRng::seed_from_u64(seed);
    let (mut world, mut done) = (World::new(), 0);
    for (moment, op) in ops.iter().enumerate() {
        // Crash points spread evenly over the changes; several may be at the same change.
        while done * ops.len() < (moment + 1) * crashes && done < crashes {
            let crash = [Crash::Killed, Crash::Dropped, Crash::Torn, Crash::Torn][random.random_range(0..4)];
            let keeps = ways.durable || crash == Crash::Killed;
            let tree = world.crash(crash, Some(op), &mut random);
            let is_whole = crash == Crash::Killed;
            let ended = Ended { facts: &life.facts, moment, keeps, is_whole };
            let case =
                || format!("seed {seed} ({ways:?}), moment {moment} of {} ({op:?}), {crash:?}", ops.len());
            survive(&tree, ended, (ways, crash), &mut random)
                .unwrap_or_else(|what| panic!("{}: {what}", case()));
            done += 1;
        }
        world.apply(op);
    }
    (done, life.facts.happened)
}

/// Opens what a crash left and checks it; sometimes that crashes as well, sometimes life continues.
fn survive(
    tree: &Tree,
    ended: Ended<'_>,
    (ways, crash): (Ways, Crash),
    random: &mut StdRng,
) -> Result<(), String> {
    let home = directory();
    lay_out(tree, home.path());
    let survived = survive_in(home.path(), ended, (ways, crash), random);
    survived.map_err(|what| {
        // For a closer look: the directory as it was found, before the recovery changed it.
        let kept = directory();
        lay_out(tree, kept.path());
        format!("{what}; see {}", kept.keep().display())
    })
}

fn survive_in(
    home: &Path,
    ended: Ended<'_>,
    (ways, crash): (Ways, Crash),
    random: &mut StdRng,
) -> Result<(), String> {
    let again = random.random_bool(0.2);
    let recorder = again.then(|| Arc::new(Recorder::new(home)));
    let disk: Arc<dyn Disk> = match &recorder {
        Some(recorder) => recorder.clone(),
        None => Arc::new(RealDisk),
    };
    let before = recorder.as_ref().map_or(0, |recorder| recorder.count());
    let now = open(disk, home, ways)?;
    check::check(&now, ended)?;
    if let Some(recorder) = recorder {
        drop(now);
        return crash_again(&recorder.ops(), before, ended, (ways, crash), random);
    }
    if random.random_bool(0.15) {
        check::go_on(&now, ended)?;
        let ends = check::ends(&now.broker);
        now.close();
        let now = open(Arc::new(RealDisk), home, ways)?;
        let found = check::ends(&now.broker);
        if found != ends {
            return Err(format!("after a clean stop {found:?}, not {ends:?}"));
        }
    }
    Ok(())
}

/// The opening that followed a crash crashes itself.
fn crash_again(
    ops: &[Op],
    before: usize,
    ended: Ended<'_>,
    (ways, crash): (Ways, Crash),
    random: &mut StdRng,
) -> Result<(), String> {
    let at = random.random_range(before..=ops.len());
    let mut world = World::new();
    ops[..at].iter().for_each(|op| world.apply(op));
    let tree = world.crash(crash, ops.get(at), random);
    let home = directory();
    lay_out(&tree, home.path());
    let now = open(Arc::new(RealDisk), home.path(), ways).map_err(|what| format!("again at {at}: {what}"))?;
    check::check(&now, ended).map_err(|what| format!("again at {at} ({:?}): {what}", ops.get(at)))
}

fn open(disk: Arc<dyn Disk>, dir: &Path, ways: Ways) -> Result<Incarnation, String> {
    let opened = std::panic::catch_unwind(AssertUnwindSafe(|| Incarnation::open(disk, dir, ways)));
    opened.unwrap_or_else(|_| Err("the opening panicked".to_owned()))
}

/// Several lives of one kind. In those of short segments everything has to happen that can.
fn lives(seeds: &[u64]) {
    if given_seed().is_some() {
        return;
    }
    let (mut happened, crashes) = (Happened::default(), scaled(CRASHES));
    for &seed in seeds {
        let (done, what) = crashes_of(seed, crashes);
        assert_eq!(done, crashes, "seed {seed}");
        happened.add(&what);
    }
    if Ways::of(seeds[0]).is_short() {
        assert_eq!(happened.missing(), [""; 0], "{happened:?}");
    }
}

// Together ten thousand at scale 1; apart so that they run beside each other. What a seed's bits
// mean is said by `Ways::of`.

#[test]
fn page_cache_data_survives_process_crash() {
    lives(&[0, 4, 32]);
}

#[test]
fn synced_data_survives_machine_crashes() {
    lives(&[1, 5, 37]);
}

#[test]
fn page_cache_data_survives_process_crash_more_seeds() {
    lives(&[2, 38]);
}

#[test]
fn device_data_survives_machine_crash_more_seeds() {
    lives(&[3, 39]);
}

#[test]
fn short_segments_in_page_cache_survive_process_crash() {
    lives(&[8, 44, 46]);
}

#[test]
fn short_segments_on_the_device_outlive_the_machine() {
    lives(&[9, 45, 47]);
}

#[test]
fn short_segments_with_threads_survive_process_crash() {
    lives(&[24, 60, 62]);
}

#[test]
fn short_segments_with_threads_survive_machine_crash() {
    lives(&[25, 61, 63]);
}

#[test]
fn chosen_seed_survives_crashes() {
    if let Some(seed) = given_seed() {
        let (done, happened) = crashes_of(seed, CRASHES);
        println!("{done} crashes; {happened:?}");
    }
    if let Some(time) = long_run(LONG_RUN) {
        go_on_for(time);
    }
}

fn go_on_for(time: Duration) {
    let (start, mut done, mut lives) = (Instant::now(), 0, 0);
    while start.elapsed() < time {
        done += crashes_of(rand::random::<u32>().into(), CRASHES).0;
        lives += 1;
        println!("{lives} lives, {done} crashes, {} s", start.elapsed().as_secs());
    }
}
