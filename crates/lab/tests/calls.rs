//! The laboratory counts the same system calls for a path as the kernel does. The test has its own
//! process, because perf would also count the calls of other tests.

use levada_lab::copy::Copies;
use levada_lab::search::Searches;
use levada_lab::transfer::Transfers;
use levada_lab::{Bench, Case, Experiment, Outcome, Pass, Scale, flame, peer};

/// System calls that move bytes. `read` and `write` are not among them: no measured case calls
/// them, but this process sends commands to perf with them.
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

/// Additional system calls of mappings.
const MAP: [&str; 2] = ["mmap", "munmap"];

/// Additional system calls that wait for a notification.
const WAIT: [&str; 2] = ["poll", "ppoll"];

/// Runs a case once. Returns the counts of the laboratory and of the kernel.
fn counted(
    experiment: &mut dyn Experiment,
    case: &Case,
    calls: &[&str],
    ours: fn(f64) -> f64,
) -> Option<(u64, u64)> {
    let metric = experiment
        .metrics()
        .into_iter()
        .find(|metric| metric.name.starts_with("calls"))
        .expect("the experiment counts calls");
    assert!(flame::count(calls).expect("a directory"), "perf could count before");
    let outcome = experiment.run(case, Pass::Timed).expect("a run");
    let seen = flame::finish().expect("the counts of perf");
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
        assert_eq!(ours, kernels, "{}: counts of the laboratory and of the kernel", case.name);
        assert!(ours > 0, "{}: nothing was counted", case.name);
    }
}

#[test]
fn counted_calls_match_the_counts_of_the_kernel() {
    if !flame::count(&MOVE[..1]).expect("a directory") {
        return eprintln!(
            "skipped: perf cannot count tracepoints on this machine: it needs linux-perf, root and /sys/kernel/tracing"
        );
    }
    flame::finish().expect("perf stops");
    let bench = Bench::new(&std::env::temp_dir(), Scale::Tiny).expect("a directory with free space");
    // The metric is per GB, and a tiny run moves 1 MiB.
    let of_a_run = |per_gb: f64| per_gb * f64::from(1 << 20) / 1e9;
    check(&mut Transfers::new(&bench).expect("a file and a receiver"), "hot, receiver discards", of_a_run);
    check(&mut Copies::new(&bench).expect("a file"), "hot", of_a_run);
    check(&mut Searches::new(&bench).expect("a log"), "the last of 40 batches", |per_lookup| {
        per_lookup * 50.0
    });
}

/// The second process of the experiment. It is this program with the argument `peer`, which a test
/// program uses as the name of a test.
#[test]
fn peer() {
    if std::env::var_os("LEVADA_LAB_ROLE").is_some() {
        peer::serve().expect("the first process is alive");
    }
}
