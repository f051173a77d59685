//! Histories of the copies of one partition on two brokers that crash at each request: real logs,
//! the code of tiered storage itself, a store and a metadata topic that lose answers, elections
//! that the former leader hears of later, requests of ended processes that take effect later.
//!
//! A seed is one history. A task of tiered storage (copying, expiry, removal) runs up to its next
//! change of the store or of the metadata topic. There the history decides: the change takes
//! effect, is refused, or has no answer; the process ends, and the change takes effect before,
//! later, or never; or the other tasks continue first. The metadata topic may lose its last records
//! in an unclean election. Then the history checks these rules:
//!
//! - Each acknowledged record from the start of the leader's log on is readable, in its epoch, from
//!   the local log or from a finished copy.
//! - The start of a log passes only records that retention, or a client, lets go.
//! - A broker deletes an unfinished copy of another broker only if the log begins after its
//!   records.
//! - Objects are deleted only after the metadata has DeleteStarted for their segment, a copy ends
//!   only with all of its objects, states follow each other as in KIP-405, ids are unique.
//! - In the end, without further faults, all objects belong to finished copies, which have theirs.
//!   One exception: an object that a former leader uploads after the next one has deleted the copy,
//!   if the former leader then crashes, or the store refuses to delete it. No record names it. The
//!   same holds for the objects of a segment whose records the metadata topic has lost.
//!
//! `LEVADA_TEST_SEED=7` repeats a history that failed.
//!
//! Soak: seed random, repeated, filter histories

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use levada_testing::{least, scaled, seeds};

use board::Board;
use figures::Figures;
use history::History;

mod board;
mod cases;
mod cuts;
mod ending;
mod figures;
mod history;
mod ledger;
mod node;
mod world;

/// Histories without a mistake.
const HISTORIES: u64 = 16;
/// Histories in which each mistake must show.
const BUDGET: u64 = 60;

/// A mistake that the simulation must find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mistake {
    /// A segment counts as copied once its copy has begun.
    CountsStartedCopies,
    /// Objects are deleted before the metadata has DeleteStarted.
    DeletesUnmarked,
    /// The first copy after a crash has the id of the last one before it.
    ReusesIds,
    /// The expiry does not know which copies are in progress.
    ForgetsCopiesInProgress,
    /// A deletion ends, and its objects stay.
    KeepsObjects,
    /// A copy ends without its last object.
    LeavesLastObjectOut,
    /// The start of the log moves over the records that the store alone has.
    RaisesStartOverCopies,
    /// A broker does not learn that the metadata topic has lost records.
    HidesCuts,
    /// A leader deletes the unfinished copies of the other node, which may go on with them.
    TakesOverCopies,
}

impl Mistake {
    const ALL: [Self; 9] = [
        Self::CountsStartedCopies,
        Self::DeletesUnmarked,
        Self::ReusesIds,
        Self::ForgetsCopiesInProgress,
        Self::KeepsObjects,
        Self::LeavesLastObjectOut,
        Self::RaisesStartOverCopies,
        Self::HidesCuts,
        Self::TakesOverCopies,
    ];
}

/// One history; the broken rule and the last lines if there is one.
fn live(seed: u64, board: &Board, mistake: Option<Mistake>) -> Result<Figures, String> {
    let mut history = History::new(seed, board, mistake);
    let lived = catch_unwind(AssertUnwindSafe(|| history.run()));
    let broken = match lived {
        Ok(Ok(())) => return Ok(history.figures),
        Ok(Err(broken)) => broken,
        Err(panic) => match panic.downcast::<String>() {
            Ok(text) => format!("panic: {text}"),
            Err(panic) => format!("panic: {}", panic.downcast_ref::<&str>().unwrap_or(&"")),
        },
    };
    Err(format!("{}\n{broken}", history.story()))
}

#[test]
fn histories_of_copies_keep_the_invariants() {
    let seeds = seeds(scaled(HISTORIES));
    let (next, first_failure) = (AtomicU64::new(seeds.start), Mutex::new(None::<(u64, String)>));
    let all = Mutex::new(Figures::default());
    let work = || {
        let board = Board::start();
        while first_failure.lock().unwrap().is_none() {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end {
                return;
            }
            match live(seed, &board, None) {
                Ok(figures) => all.lock().unwrap().add(figures),
                Err(broken) => {
                    first_failure.lock().unwrap().get_or_insert((seed, broken));
                }
            }
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        (0..threads).for_each(|_| {
            scope.spawn(work);
        });
    });
    if let Some((seed, broken)) = first_failure.into_inner().unwrap() {
        panic!("LEVADA_TEST_SEED={seed}: {broken}");
    }
    let all = all.into_inner().unwrap();
    println!("{all:?}");
    assert!(all.all().iter().all(|count| *count >= least(2)), "an event that never happens: {all:?}");
}

#[test]
fn simulation_detects_every_injected_mistake() {
    let board = Board::start();
    for mistake in Mistake::ALL {
        let found =
            (0..BUDGET).find_map(|seed| live(seed, &board, Some(mistake)).err().map(|broken| (seed, broken)));
        let (seed, broken) = found.unwrap_or_else(|| panic!("{mistake:?} is not found"));
        println!("{mistake:?} in history {seed}: {}", broken.lines().last().unwrap_or_default());
    }
}
