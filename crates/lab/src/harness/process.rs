//! Kernel statistics about a measured process.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use rustix::process::{Pid, Signal};

/// Processor time of a process at one moment, by thread and for the whole process.
///
/// The time by thread is exact to the nanosecond. It misses threads that begin and end between two
/// moments, and the time of a thread is gone when the thread ends. The time of the whole process
/// includes all threads and has a resolution of one tick (10 ms).
#[derive(Debug, Clone)]
pub(crate) struct Spent {
    threads: BTreeMap<u32, Duration>,
    whole: Duration,
}

impl Spent {
    pub(crate) fn of(pid: u32) -> Self {
        Self { threads: of_threads(pid), whole: of_whole(pid) }
    }

    /// Processor time used since `before`. Uses the time by thread, unless a thread has ended.
    pub(crate) fn since(pid: u32, before: &Self) -> Duration {
        Self::of(pid).less(before)
    }

    /// Processor time used since `before` by all threads, including those that have begun and ended
    /// meanwhile, with a resolution of one tick.
    pub(crate) fn whole_since(pid: u32, before: &Self) -> Duration {
        of_whole(pid).saturating_sub(before.whole)
    }

    /// Processor time used between two moments.
    pub(crate) fn less(&self, before: &Self) -> Duration {
        if before.threads.keys().any(|thread| !self.threads.contains_key(thread)) {
            return self.whole.saturating_sub(before.whole);
        }
        let spent = |(thread, now): (&u32, &Duration)| {
            now.saturating_sub(before.threads.get(thread).copied().unwrap_or_default())
        };
        self.threads.iter().map(spent).sum()
    }
}

/// Time of each thread from the first field of `schedstat`: nanoseconds on a processor.
fn of_threads(pid: u32) -> BTreeMap<u32, Duration> {
    let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else { return BTreeMap::new() };
    let of_task = |task: fs::DirEntry| {
        let thread = task.file_name().to_str()?.parse().ok()?;
        let text = fs::read_to_string(task.path().join("schedstat")).ok()?;
        Some((thread, Duration::from_nanos(text.split_whitespace().next()?.parse().ok()?)))
    };
    tasks.flatten().filter_map(of_task).collect()
}

fn of_whole(pid: u32) -> Duration {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The values follow the name in brackets: utime is field 14 of the line, stime 15.
    let fields = stat.rsplit(") ").next().unwrap_or_default().split_whitespace().skip(11).take(2);
    let ticks: u64 = fields.filter_map(|field| field.parse::<u64>().ok()).sum();
    let per_second = rustix::param::clock_ticks_per_second().max(1);
    Duration::from_secs_f64(ticks as f64 / per_second as f64)
}

/// Resident memory in bytes.
pub(crate) fn resident_bytes(pid: u32) -> u64 {
    status(pid, "VmRSS:") * 1024
}

/// Largest resident memory so far, in bytes.
pub(crate) fn peak_resident_bytes(pid: u32) -> u64 {
    status(pid, "VmHWM:") * 1024
}

/// Bytes of the kernel's small objects, of all processes.
pub(crate) fn slab_bytes() -> u64 {
    value(&fs::read_to_string("/proc/meminfo").unwrap_or_default(), "Slab:") * 1024
}

/// Number of voluntary context switches of all threads so far.
pub(crate) fn wakeups(pid: u32) -> u64 {
    let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else { return 0 };
    let of_task = |task: fs::DirEntry| {
        let text = fs::read_to_string(task.path().join("status")).unwrap_or_default();
        value(&text, "voluntary_ctxt_switches:")
    };
    tasks.flatten().map(of_task).sum()
}

/// Number of minor and major page faults so far.
pub(crate) fn faults(pid: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The values follow the name in brackets: minflt is field 10 of the line, majflt 12.
    let fields: Vec<&str> = stat.rsplit(") ").next().unwrap_or_default().split_whitespace().collect();
    [7, 9].iter().filter_map(|at| fields.get(*at)?.parse::<u64>().ok()).sum()
}

/// Bytes that the device has read for the process so far; none if the kernel does not report them.
pub(crate) fn device_bytes(pid: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/io")).ok()?;
    text.lines().find_map(|line| line.strip_prefix("read_bytes:"))?.trim().parse().ok()
}

/// Number of open descriptors.
pub(crate) fn descriptors(pid: u32) -> u64 {
    fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, |entries| entries.count() as u64)
}

fn status(pid: u32, key: &str) -> u64 {
    value(&fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default(), key)
}

/// Number after `key` at the start of a line; 0 if there is none.
fn value(text: &str, key: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(key)).unwrap_or_default();
    line.split_whitespace().next().and_then(|number| number.parse().ok()).unwrap_or(0)
}

/// Stops a child process until the caller drops the guard.
pub(crate) fn pause(pid: u32) -> Paused {
    let pid = Pid::from_raw(pid.cast_signed());
    Paused { pid: pid.filter(|pid| rustix::process::kill_process(*pid, Signal::STOP).is_ok()) }
}

/// A stopped process, which continues when the value is dropped.
#[derive(Debug)]
pub(crate) struct Paused {
    pid: Option<Pid>,
}

impl Drop for Paused {
    fn drop(&mut self) {
        if let Some(pid) = self.pid {
            // This process has not waited for its child, so the id still belongs to the child.
            let _ = rustix::process::kill_process(pid, Signal::CONT);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::cpu;

    #[test]
    fn statistics_of_this_process_are_plausible() {
        let pid = std::process::id();
        let before = Spent::of(pid);
        assert!(resident_bytes(pid) > 100_000 && slab_bytes() > 100_000);
        assert!(peak_resident_bytes(pid) >= resident_bytes(pid));
        assert!(descriptors(pid) >= 3 && faults(pid) > 0);
        while Spent::since(pid, &before).is_zero() {}
        let used = Duration::from_millis(50);
        std::thread::scope(|scope| {
            scope.spawn(|| while cpu::of_this_thread() < used {});
        });
        assert!(
            Spent::whole_since(pid, &before) >= used - Duration::from_millis(20),
            "two roundings to a tick"
        );
        assert_eq!(value("a:\t7 kB\nvoluntary: 3\nnonvoluntary: 9\n", "voluntary:"), 3);
    }
}
