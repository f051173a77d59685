//! Every loop serves every request, and the calls of the loops are counted.

use super::*;
use crate::tests::tiny;

fn bench() -> Bench {
    Bench::new(&std::env::temp_dir(), Scale::Tiny).unwrap()
}

#[test]
fn every_loop_serves_every_request() {
    let bench = bench();
    tiny(&bench, &mut Loops::new(&bench).unwrap());
}

#[test]
fn calls_of_each_loop_are_counted() {
    let bench = bench();
    let mut loops = Loops::new(&bench).unwrap();
    let mut calls = |name: String| {
        let case = Case::new("many small producers", name);
        match loops.run(&case, Pass::Timed).unwrap() {
            Outcome::Measured(metrics) => Some(metrics["calls_per_request"]),
            // The machine allows no ring.
            Outcome::Skipped(_) => None,
            Outcome::Checked(_) => unreachable!(),
        }
    };
    // A request is read, written and answered by one call each, and epoll reports it once.
    let epoll = calls(LoopMethod::Epoll { frames: 1 }.name()).unwrap();
    assert!(epoll > 3.0 && epoll <= 4.0, "{epoll}");
    // A request is written by one call, and causes at most two turns: when it arrives, and when the
    // response has been sent. The loop submits the last responses after its last turn.
    if let Some(ring) = calls(LoopMethod::Ring.name()) {
        assert!(ring > 1.0 && ring <= 3.02, "{ring}");
    }
}

#[test]
fn check_detects_a_batch_that_differs() {
    let bench = bench();
    let work = Work::all(Scale::Tiny)[1];
    let mut load = work.load(&bench).unwrap();
    load.requests = load.files.len();
    for mut file in &load.files {
        io::Write::write_all(&mut file, &load.batch).unwrap();
    }
    let ends = vec![0; load.files.len()];
    assert!(check(&load, &ends).unwrap().sound);
    let mut batch = load.batch.to_vec();
    batch[70] ^= 1;
    io::Write::write_all(&mut &load.files[3], &batch).unwrap();
    load.requests += 1;
    let mut longer = ends.clone();
    longer[3] = 1;
    assert!(!check(&load, &longer).unwrap().sound, "the batch is damaged");
}
