//! Deterministic histories of one partition on four nodes: real logs on disks that crash, the
//! machines of leaders and followers, a controller, a network that loses, delays and repeats, and
//! clients that write. A seed is one history: everything in it happens on one thread.
//!
//! In another kind of histories, the files of one replica are damaged before all processes are
//! killed, and the others have every acknowledged record.
//!
//! `LEVADA_TEST_SEED=7` repeats a history that failed, `LEVADA_TEST_SEED=random` begins with a
//! random seed, and `LEVADA_TEST_SCALE=50` lives 100 000 histories, and 10 000 with damage. A
//! failure prints the seed, the accidents that are needed for it, and the last lines of the
//! history.
//!
//! Soak: seed random, repeated, filter histories

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use levada_testing::{scaled, seeds};
use rand::SeedableRng;
use rand::rngs::StdRng;

use chaos::Accident;
use mutation::Mutation;
use world::{Figures, Sim};

mod chaos;
mod controller;
mod doubts;
mod harm;
mod mutation;
mod node;
mod roles;
mod truth;
mod world;

/// Number of histories without a mistake.
const HISTORIES: u64 = 2_000;
/// Number of histories with a damaged replica.
const DAMAGED: u64 = 200;
/// Number of histories in which each mistake must show. Some need most of them, so they do not
/// follow the scale.
const BUDGET: u64 = 800;

type Accidents = Vec<(i64, Accident)>;

/// Begins a history with a seed and its accidents, and with a mistake if one is given.
type Begin = fn(u64, &[(i64, Accident)], Option<Mutation>) -> Sim;

/// A kind of histories.
#[derive(Clone, Copy)]
struct Kind {
    begin: Begin,
    accidents: fn(u64) -> Accidents,
}

const CHAOS: Kind = Kind { begin: Sim::new, accidents: accidents_of };
const DAMAGE: Kind = Kind { begin: Sim::damaged, accidents: damage_of };

fn accidents_of(seed: u64) -> Accidents {
    let mut accidents = chaos::draw(&mut StdRng::seed_from_u64(seed ^ 0x5eed_0000));
    accidents.extend(chaos::draw_broken(&mut StdRng::seed_from_u64(seed ^ 0xb20c_0000)));
    accidents.extend(chaos::draw_detours(&mut StdRng::seed_from_u64(seed ^ 0xde70_0000)));
    accidents.sort_by_key(|(ms, _)| *ms);
    accidents
}

fn damage_of(seed: u64) -> Accidents {
    chaos::draw_damage(&mut StdRng::seed_from_u64(seed ^ 0xda3a_0000))
}

/// One history; the broken invariant and the last lines if there is one.
fn live(
    kind: Kind,
    seed: u64,
    accidents: &Accidents,
    mutation: Option<Mutation>,
) -> Result<Figures, (String, String)> {
    let mut sim = (kind.begin)(seed, accidents, mutation);
    let lived = catch_unwind(AssertUnwindSafe(|| sim.run()));
    let broken = match lived {
        Ok(Ok(())) => return Ok(sim.figures),
        Ok(Err(broken)) => broken,
        Err(panic) => match panic.downcast::<String>() {
            Ok(text) => format!("panic: {text}"),
            Err(panic) => format!("panic: {}", panic.downcast_ref::<&str>().unwrap_or(&"")),
        },
    };
    Err((broken, sim.story()))
}

/// Leaves out accidents as long as the history still fails.
fn shortened(kind: Kind, seed: u64) -> (Accidents, String, String) {
    let mut accidents = (kind.accidents)(seed);
    let (mut broken, mut story) = live(kind, seed, &accidents, None).expect_err("it has failed before");
    let mut at = 0;
    while at < accidents.len() {
        let mut fewer = accidents.clone();
        fewer.remove(at);
        match live(kind, seed, &fewer, None) {
            Err((what, told)) => (accidents, broken, story) = (fewer, what, told),
            Ok(_) => at += 1,
        }
    }
    (accidents, broken, story)
}

/// Lives histories of a kind; returns their number and what happened in them.
fn keep_the_invariants(kind: Kind, histories: u64) -> (u64, Figures) {
    let seeds = seeds(scaled(histories));
    let (first, count) = (seeds.start, seeds.end - seeds.start);
    let threads = std::thread::available_parallelism().map_or(1, |threads| threads.get() as u64).min(count);
    let (next, failed) = (AtomicU64::new(first), AtomicU64::new(u64::MAX));
    let work = || {
        let mut all = Figures::default();
        while failed.load(Ordering::Relaxed) == u64::MAX {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end {
                break;
            }
            match live(kind, seed, &(kind.accidents)(seed), None) {
                Ok(figures) => all.add(figures),
                Err(_) => drop(failed.fetch_min(seed, Ordering::Relaxed)),
            }
        }
        all
    };
    let mut all = Figures::default();
    std::thread::scope(|scope| {
        let working: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        working.into_iter().for_each(|thread| all.add(thread.join().unwrap()));
    });
    let seed = failed.load(Ordering::Relaxed);
    if seed < u64::MAX {
        let (accidents, broken, story) = shortened(kind, seed);
        panic!("seed {seed}: {broken}\naccidents: {accidents:#?}\n{story}");
    }
    eprintln!("{count} histories from seed {first}: {all:?}");
    (count, all)
}

#[test]
fn histories_keep_the_invariants() {
    let (count, all) = keep_the_invariants(CHAOS, HISTORIES);
    if count >= 100 {
        // An event that never happens is not tested.
        let rare = [all.acknowledged, all.elections, all.unclean, all.truncations, all.changes];
        let rare = [&rare[..], &[all.refused, all.tricks, all.lost, all.detours]].concat();
        assert!(rare.iter().all(|number| *number > 10), "{all:?}");
    }
}

#[test]
fn histories_with_one_damaged_replica_lose_nothing() {
    let (count, all) = keep_the_invariants(DAMAGE, DAMAGED);
    if count >= 100 {
        let rare = [all.acknowledged, all.elections, all.doubts, all.handovers];
        assert!(rare.iter().all(|number| *number > 10), "{all:?}");
    }
}

#[test]
fn simulation_detects_a_leader_with_losses() {
    let mutation = Some(Mutation::LeadsWithLosses);
    let is_broken = |seed: &u64| live(DAMAGE, *seed, &damage_of(*seed), mutation).is_err();
    assert!((0..DAMAGED).any(|seed| is_broken(&seed)));
}

#[test]
fn simulation_detects_every_injected_mistake() {
    let (next, hidden) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = || {
        while let Some(mutation) = Mutation::ALL.get(next.fetch_add(1, Ordering::Relaxed)) {
            let broken = (0..BUDGET).find_map(|seed| {
                Some((seed, live(CHAOS, seed, &accidents_of(seed), Some(*mutation)).err()?.0))
            });
            match broken {
                Some((seed, broken)) => eprintln!("{mutation:?}: {} histories: {broken}", seed + 1),
                None => hidden.lock().unwrap().push(*mutation),
            }
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, |threads| threads.get());
    std::thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
    let hidden = hidden.into_inner().unwrap();
    assert!(hidden.is_empty(), "no history of {BUDGET} shows {hidden:?}");
}
