//! The counts and latencies of a measurement, its limits, and its progress.

use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use indicatif::{HumanBytes, HumanCount};
use rustix::time::{ClockId, clock_gettime};

use super::Extent;
use crate::interrupt;
use levada_terminal::failure::Failure;

/// Longest latency that is counted, in microseconds; a longer one counts as this value.
const LONGEST_US: u64 = 3_600_000_000;
const DIGITS: u8 = 3;

/// The distance between two lines of progress.
const PROGRESS: Duration = Duration::from_secs(1);

/// A job of a measurement, which runs on a separate thread.
pub(super) type Job<'a> = Box<dyn FnOnce() -> Result<(), Failure> + Send + 'a>;

/// State that the threads of a measurement share.
pub(super) struct Meter {
    begin: Instant,
    end: Option<Instant>,
    /// Number of records that may still be sent; no limit if that is `u64::MAX`.
    left: AtomicU64,
    has_failed: AtomicBool,
    tallies: Mutex<Tallies>,
}

struct Tallies {
    total: Tally,
    /// Since the last line of progress.
    recent: Tally,
}

/// Records, bytes and latencies.
#[derive(Clone, Debug)]
pub(super) struct Tally {
    pub(super) records: u64,
    pub(super) bytes: u64,
    pub(super) latencies: Histogram<u64>,
    /// Time of the last counted record.
    pub(super) last: Option<Instant>,
}

/// Result of a finished measurement.
pub(super) struct Measured {
    pub(super) tally: Tally,
    pub(super) elapsed: Duration,
    /// Processor time of this process.
    pub(super) cpu: Duration,
}

/// Records that were acknowledged or received together.
#[derive(Clone, Copy, Debug)]
pub(super) struct Done {
    /// The moment from which latency counts.
    pub(super) since: Instant,
    pub(super) records: u64,
    pub(super) bytes: u64,
    /// False with acks=0: without responses there is no latency.
    pub(super) is_answered: bool,
}

/// An empty histogram of microseconds.
pub(super) fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LONGEST_US, DIGITS).expect("these bounds are valid")
}

/// Records a latency, which is never less than a microsecond.
pub(super) fn record(histogram: &mut Histogram<u64>, latency: Duration) {
    histogram.saturating_record(u64::try_from(latency.as_micros()).unwrap_or(u64::MAX).max(1));
}

impl Tally {
    fn new() -> Self {
        Self { records: 0, bytes: 0, latencies: histogram(), last: None }
    }

    fn add(&mut self, done: &Done, now: Instant) {
        self.records += done.records;
        self.bytes += done.bytes;
        self.last = Some(now);
        if done.is_answered {
            record(&mut self.latencies, now.saturating_duration_since(done.since));
        }
    }
}

impl Meter {
    /// A meter that begins to count when the warm-up is over.
    pub(super) fn new(extent: &Extent) -> Self {
        let begin = Instant::now() + extent.warm_up();
        Self {
            begin,
            end: extent.duration().map(|duration| begin + duration),
            left: AtomicU64::new(extent.records.unwrap_or(u64::MAX)),
            has_failed: AtomicBool::new(false),
            tallies: Mutex::new(Tallies { total: Tally::new(), recent: Tally::new() }),
        }
    }

    /// True once the time has passed, a job has failed, or the user has requested the end.
    pub(super) fn is_over(&self) -> bool {
        self.has_failed.load(Ordering::Relaxed)
            || interrupt::is_asked()
            || self.end.is_some_and(|end| Instant::now() >= end)
    }

    /// True if an operation that begins at this moment is measured.
    pub(super) fn counts(&self, at: Instant) -> bool {
        at >= self.begin && self.end.is_none_or(|end| at < end)
    }

    /// The number of records that may be sent at this moment, at most `wanted`; 0 if all were sent.
    pub(super) fn claim(&self, at: Instant, wanted: u64) -> u64 {
        if !self.counts(at) {
            return wanted;
        }
        let take = |left: u64| (left != u64::MAX).then(|| left.saturating_sub(wanted));
        match self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take) {
            Ok(before) => before.min(wanted),
            Err(_) => wanted,
        }
    }

    /// Counts records whose work began after the warm-up.
    pub(super) fn note(&self, done: &Done) {
        if !self.counts(done.since) {
            return;
        }
        let now = Instant::now();
        let mut tallies = self.tallies();
        tallies.total.add(done, now);
        tallies.recent.add(done, now);
    }

    /// The number of records counted so far.
    pub(super) fn records(&self) -> u64 {
        self.tallies().total.records
    }

    /// Runs the jobs, prints the progress each second, and returns the measurements.
    pub(super) fn run(&self, jobs: Vec<Job<'_>>) -> Result<Measured, Failure> {
        let (running, ended) = mpsc::channel();
        thread::scope(|scope| {
            let start = |job| {
                let running = running.clone();
                scope.spawn(move || self.run_job(job, running))
            };
            let threads: Vec<_> = jobs.into_iter().map(start).collect();
            drop(running);
            let cpu = self.watch(&ended);
            for thread in threads {
                thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
            }
            let tally = self.tallies().total.clone();
            let last = tally.last.unwrap_or(self.begin);
            Ok(Measured { tally, elapsed: last.saturating_duration_since(self.begin), cpu })
        })
    }

    fn run_job(&self, job: Job<'_>, _running: Sender<Infallible>) -> Result<(), Failure> {
        // The default slack of timers would add 50 µs to each wait; a kernel that refuses the
        // change only measures worse.
        let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
        job().inspect_err(|_| self.has_failed.store(true, Ordering::Relaxed))
    }

    /// Prints the progress until the jobs have ended; returns the processor time since the end of
    /// the warm-up.
    fn watch(&self, ended: &Receiver<Infallible>) -> Duration {
        let wait = |until: Instant| {
            ended.recv_timeout(until.saturating_duration_since(Instant::now()))
                == Err(RecvTimeoutError::Timeout)
        };
        if !wait(self.begin) {
            return Duration::ZERO;
        }
        let before = cpu_time();
        let mut next = self.begin + PROGRESS;
        while wait(next) {
            let recent = std::mem::replace(&mut self.tallies().recent, Tally::new());
            let second = next.duration_since(self.begin).as_secs();
            next += PROGRESS;
            tell!(
                "{second:>4} s {:>12} records/s {:>12}/s  p50 {}  p99 {}",
                HumanCount(recent.records).to_string(),
                HumanBytes(recent.bytes).to_string(),
                shown(recent.latencies.value_at_quantile(0.5)),
                shown(recent.latencies.value_at_quantile(0.99)),
            );
        }
        cpu_time().saturating_sub(before)
    }

    fn tallies(&self) -> MutexGuard<'_, Tallies> {
        self.tallies.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Microseconds as milliseconds.
pub(super) fn shown(us: u64) -> String {
    format!("{:.3} ms", us as f64 / 1e3)
}

/// Processor time of this process so far.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}
