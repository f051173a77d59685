//! Processor time of processes and threads, and binding to processors.
//!
//! The time of this process comes from `CLOCK_PROCESS_CPUTIME_ID`. It is exact to the nanosecond
//! and includes kernel workers of a ring (which are tasks of the process) and threads that have
//! ended. `/proc/self/task/*/schedstat` has the same numbers by task. For running tasks these
//! numbers lag by up to a timer tick (4 ms), which is too coarse for a run of 20 ms, but they show
//! the share of the ring's workers.

use std::fs;
use std::time::{Duration, Instant};

use rustix::thread::CpuSet;
use rustix::time::ClockId;

use crate::machine::flame;

/// Wall clock and processor time since a start.
#[derive(Debug, Clone, Copy)]
pub struct Stopwatch {
    wall: Instant,
    process: Duration,
    workers: Duration,
}

/// Wall clock and processor time between the start of a [`Stopwatch`] and a reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Elapsed {
    /// Time of the wall clock.
    pub wall: Duration,
    /// Processor time of this process: user and kernel, including kernel workers of rings.
    pub cpu: Duration,
    /// Part of `cpu` that kernel workers of rings (`iou-wrk`, `iou-sqp`) used, exact to a few
    /// milliseconds.
    pub workers: Duration,
}

impl Stopwatch {
    /// Starts a stopwatch.
    pub fn start() -> Self {
        let workers = of_ring_workers();
        flame::open();
        Self { workers, process: of_this_process(), wall: Instant::now() }
    }

    /// Reads the stopwatch, which continues.
    pub fn elapsed(&self) -> Elapsed {
        let (wall, cpu) = (self.wall.elapsed(), of_this_process().saturating_sub(self.process));
        flame::close();
        Elapsed { wall, cpu, workers: of_ring_workers().saturating_sub(self.workers) }
    }
}

/// Processor time of this process so far.
pub fn of_this_process() -> Duration {
    clock(ClockId::ProcessCPUTime)
}

/// Processor time of the calling thread so far.
pub fn of_this_thread() -> Duration {
    clock(ClockId::ThreadCPUTime)
}

/// Processor time of all live tasks of another process so far; none if the process does not exist.
/// Lags by up to 4 ms.
pub fn of_process(pid: u32) -> Option<Duration> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).ok()?;
    Some(tasks.flatten().filter_map(|task| on_cpu(&task.path())).sum())
}

fn of_ring_workers() -> Duration {
    let Ok(tasks) = fs::read_dir("/proc/self/task") else { return Duration::ZERO };
    let is_worker = |task: &fs::DirEntry| {
        fs::read_to_string(task.path().join("comm")).is_ok_and(|name| name.starts_with("iou-"))
    };
    tasks.flatten().filter(is_worker).filter_map(|task| on_cpu(&task.path())).sum()
}

/// Processor time of a task from the first field of `schedstat`: nanoseconds on a processor.
fn on_cpu(task: &std::path::Path) -> Option<Duration> {
    let text = fs::read_to_string(task.join("schedstat")).ok()?;
    Some(Duration::from_nanos(text.split_whitespace().next()?.parse().ok()?))
}

fn clock(id: ClockId) -> Duration {
    Duration::try_from(rustix::time::clock_gettime(id)).unwrap_or_default()
}

/// Nanoseconds of the monotonic clock, which all processes of a machine share.
pub fn monotonic_ns() -> u64 {
    u64::try_from(clock(ClockId::Monotonic).as_nanos()).unwrap_or(u64::MAX)
}

/// Processors of the two sides of an experiment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Places {
    allowed: Vec<usize>,
}

impl Places {
    /// Processors that this process may use.
    pub fn of_this_process() -> Self {
        let set = rustix::thread::sched_getaffinity(None).unwrap_or_else(|_| CpuSet::new());
        Self { allowed: (0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect() }
    }

    /// All processors that this process may use.
    pub fn allowed(&self) -> &[usize] {
        &self.allowed
    }

    /// Processor of the sender, if this process may use at least two.
    pub fn sender(&self) -> Option<usize> {
        (self.allowed.len() > 1).then(|| self.allowed[0])
    }

    /// Processor of the receiver, if this process may use at least two.
    pub fn receiver(&self) -> Option<usize> {
        self.allowed.get(1).copied()
    }

    /// Binds the calling thread, and threads and processes that it starts, to the sender's
    /// processor until the caller drops the guard.
    pub fn pin_sender(&self) -> Pinned {
        let before = rustix::thread::sched_getaffinity(None).ok();
        Pinned { before: before.filter(|_| pin(self.sender())) }
    }

    /// Binds them to the receiver's processor in the same way.
    pub fn pin_receiver(&self) -> Pinned {
        let before = rustix::thread::sched_getaffinity(None).ok();
        Pinned { before: before.filter(|_| pin(self.receiver())) }
    }
}

/// Binds the calling thread to a processor. Returns false without a processor, or if the kernel
/// refuses.
pub fn pin(cpu: Option<usize>) -> bool {
    let Some(cpu) = cpu else { return false };
    let mut set = CpuSet::new();
    set.set(cpu);
    rustix::thread::sched_setaffinity(None, &set).is_ok()
}

/// A thread that is bound to a processor. Drop restores the previous processors.
#[derive(Debug)]
pub struct Pinned {
    before: Option<CpuSet>,
}

impl Drop for Pinned {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            let _ = rustix::thread::sched_setaffinity(None, before);
        }
    }
}
