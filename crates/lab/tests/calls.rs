//! The system calls that we say a path makes are those that the kernel has counted. A process of
//! its own: others would be counted as well.

use levada_lab::copy::Copies;
use levada_lab::search::Searches;
use levada_lab::transfer::Transfers;
use levada_lab::{Bench, Case, Experiment, Outcome, Pass, Scale, flame, peer};

/// Calls that move bytes. Plain `read` and `write` are not among them: nothing that is measured
/// makes them, and perf is told by them when to count.
const MOVE: [&str; 12] = [
    "pread64",
    "preadv",
    "preadv2",
    "pwrite64",
    "sendto",
    "sendmsg",
    "recvmsg",
    "sendfile64",
    "splice",
    "copy_file_range",
    "ioctl",
    "io_uring_enter",
];

/// Further calls of mapping.
const MAP: [&str; 2] = ["mmap", "munmap"];

/// Further calls of waiting for a notification.
const WAIT: [&str; 2] = ["poll", "ppoll"];

/// Runs a case once; our count and the kernel's.
fn counted(
    experiment: &mut dyn Experiment,
    case: &Case,
    calls: &[&str],
    ours: fn(f64) -> f64,
) -> Option<(u64, u64)> {
    let metric =
        experiment.metrics().into_iter().find(|metric| metric.name.starts_with("calls")).expect("a count");
    assert!(flame::count(calls).expect("a directory"), "perf counted a moment ago");
    let outcome = experiment.run(case, Pass::Timed).expect("a run");
    let seen = flame::finish().expect("what perf has counted");
    match outcome {
        Outcome::Measured(metrics) => Some((ours(metrics[&metric.name]).round() as u64, seen.values().sum())),
        Outcome::Skipped(why) => {
            eprintln!("skipped: {}: {why}", case.name);
            None
        }
        Outcome::Checked(verdict) => panic!("{verdict:?}"),
    }
}

fn check(experiment: &mut dyn Experiment, group: &str, ours: fn(f64) -> f64) {
    for case in experiment.cases().iter().filter(|case| case.group == group) {
        let besides: &[&str] = match () {
            () if case.name.starts_with("mmap") => &MAP,
            () if case.name.contains("MSG_ZEROCOPY") => &WAIT,
            () => &[],
        };
        let calls = [&MOVE[..], besides].concat();
        let Some((ours, kernels)) = counted(experiment, case, &calls, ours) else { continue };
        assert_eq!(ours, kernels, "{}: by our count and by the kernel's", case.name);
        assert!(ours > 0, "{}: nothing was counted", case.name);
    }
}

#[test]
fn what_we_count_is_what_the_kernel_counts() {
    if !flame::count(&MOVE[..1]).expect("a directory") {
        return eprintln!(
            "skipped: perf cannot count tracepoints here; it takes linux-perf, root and /sys/kernel/tracing"
        );
    }
    flame::finish().expect("nothing yet");
    let bench = Bench::new(&std::env::temp_dir(), Scale::Tiny).expect("room");
    // Of a megabyte; a mebibyte is what a tiny run moves.
    let of_a_run = |per_gb: f64| per_gb * f64::from(1 << 20) / 1e9;
    check(&mut Transfers::new(&bench).expect("a file and a receiver"), "hot, receiver discards", of_a_run);
    check(&mut Copies::new(&bench).expect("a file"), "hot", of_a_run);
    check(&mut Searches::new(&bench).expect("a log"), "the last of 40 batches", |per_lookup| {
        per_lookup * 50.0
    });
}

/// The second process of the experiment is this program with the word `peer`, which a test
/// program takes for the name of a test.
#[test]
fn peer() {
    if std::env::var_os("LEVADA_LAB_ROLE").is_some() {
        peer::serve().expect("the first process lives");
    }
}
