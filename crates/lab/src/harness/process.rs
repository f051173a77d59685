//! Kernel statistics about a measured process.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use rustix::process::{Pid, Signal};

/// Processor time of a process at one moment.
///
/// By thread it is exact to the nanosecond, but a thread that ends takes its time along, and one
/// that begins and ends between two moments is not seen; the process's sum includes all threads and
/// is rounded to ticks (10 ms).
#[derive(Debug, Clone)]
pub(crate) struct Spent {
    threads: BTreeMap<u32, Duration>,
    whole: Duration,
}

impl Spent {
    pub(crate) fn of(pid: u32) -> Self {
        Self { threads: of_threads(pid), whole: of_whole(pid) }
    }

    /// Time used since then.
    pub(crate) fn since(pid: u32, before: &Self) -> Duration {
        Self::of(pid).less(before)
    }

    /// Time used since then by all threads, those that have begun and ended in between included:
    /// rounded to ticks.
    pub(crate) fn whole_since(pid: u32, before: &Self) -> Duration {
        of_whole(pid).saturating_sub(before.whole)
    }

    /// Time used between two moments.
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

/// The first field of `schedstat`: nanoseconds on a processor.
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
    // After the name in brackets; utime and stime are the fields 14 and 15 of the line.
    let fields = stat.rsplit(") ").next().unwrap_or_default().split_whitespace().skip(11).take(2);
    let ticks: u64 = fields.filter_map(|field| field.parse::<u64>().ok()).sum();
    let per_second = rustix::param::clock_ticks_per_second().max(1);
    Duration::from_secs_f64(ticks as f64 / per_second as f64)
}

/// Memory in use, in bytes.
pub(crate) fn resident_bytes(pid: u32) -> u64 {
    status(pid, "VmRSS:") * 1024
}

/// Number of times that its threads have slept and woken so far.
pub(crate) fn wakeups(pid: u32) -> u64 {
    let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else { return 0 };
    let of_task = |task: fs::DirEntry| {
        let text = fs::read_to_string(task.path().join("status")).unwrap_or_default();
        value(&text, "voluntary_ctxt_switches:")
    };
    tasks.flatten().map(of_task).sum()
}

/// Pages that had to be loaded or made writable, so far, with or without a wait for the disk.
pub(crate) fn faults(pid: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // After the name in brackets; minflt and majflt are the fields 10 and 12 of the line.
    let fields: Vec<&str> = stat.rsplit(") ").next().unwrap_or_default().split_whitespace().collect();
    [7, 9].iter().filter_map(|at| fields.get(*at)?.parse::<u64>().ok()).sum()
}

/// Bytes that the device read for it, so far; none if the kernel does not report it.
pub(crate) fn device_bytes(pid: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/io")).ok()?;
    text.lines().find_map(|line| line.strip_prefix("read_bytes:"))?.trim().parse().ok()
}

/// Open descriptors.
pub(crate) fn descriptors(pid: u32) -> u64 {
    fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, |entries| entries.count() as u64)
}

fn status(pid: u32, key: &str) -> u64 {
    value(&fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default(), key)
}

/// The number after the key at the start of a line.
fn value(text: &str, key: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(key)).unwrap_or_default();
    line.split_whitespace().next().and_then(|number| number.parse().ok()).unwrap_or(0)
}

/// Stops the clock of a child process until the guard goes.
pub(crate) fn pause(pid: u32) -> Paused {
    let pid = Pid::from_raw(pid.cast_signed());
    Paused { pid: pid.filter(|pid| rustix::process::kill_process(*pid, Signal::STOP).is_ok()) }
}

/// A stopped process.
#[derive(Debug)]
pub(crate) struct Paused {
    pid: Option<Pid>,
}

impl Drop for Paused {
    fn drop(&mut self) {
        if let Some(pid) = self.pid {
            // The process is our child and has not been waited for, so the number still belongs to
            // it.
            let _ = rustix::process::kill_process(pid, Signal::CONT);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::cpu;

    #[test]
    fn this_process_is_described() {
        let pid = std::process::id();
        let before = Spent::of(pid);
        assert!(resident_bytes(pid) > 100_000);
        assert!(descriptors(pid) >= 3 && faults(pid) > 0);
        while Spent::since(pid, &before).is_zero() {}
        let used = Duration::from_millis(50);
        std::thread::scope(|scope| {
            scope.spawn(|| while cpu::of_this_thread() < used {});
        });
        assert!(Spent::whole_since(pid, &before) >= used - Duration::from_millis(20), "two roundings");
        assert_eq!(value("a:\t7 kB\nvoluntary: 3\nnonvoluntary: 9\n", "voluntary:"), 3);
    }
}
