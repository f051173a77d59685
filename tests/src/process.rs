//! The kernel's figures about a process.

use std::fs;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal};

/// Sends a signal to a process that the caller has started and not yet waited for.
pub fn signal(pid: u32, signal: Signal) {
    assert!(signal_if_there(pid, signal), "process {pid} is not there");
}

/// Sends a signal to a process that may have ended; whether it had not.
pub fn signal_if_there(pid: u32, signal: Signal) -> bool {
    let pid = Pid::from_raw(pid.cast_signed()).expect("a child has a pid");
    rustix::process::kill_process(pid, signal).is_ok()
}

/// A process that kills another one as soon as this process has ended. Kill the guard when the
/// other process has ended by itself.
pub fn guard(pid: u32) -> Child {
    let mut command = Command::new("sh");
    command.args(["-c", "read -r _; kill -KILL \"$1\"", "guard", &pid.to_string()]);
    // The pipe is closed with the last process that has its other end.
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().expect("a shell")
}

/// The process that this one has started first, of those that still run.
pub fn first_child(pid: u32) -> Option<u32> {
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).ok()?;
    children.split_whitespace().next()?.parse().ok()
}

/// Processes that any thread of this one has started and that still run.
pub fn children(pid: u32) -> Vec<u32> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).expect("the process runs");
    let listed = tasks.filter_map(|task| fs::read_to_string(task.ok()?.path().join("children")).ok());
    let all: Vec<String> = listed.collect();
    all.iter().flat_map(|list| list.split_whitespace()).filter_map(|child| child.parse().ok()).collect()
}

/// Memory in use, in bytes.
pub fn resident_bytes(pid: u32) -> u64 {
    status_bytes(pid, "VmRSS:")
}

/// Memory in use that is no page of a file, in bytes.
pub fn anonymous_bytes(pid: u32) -> u64 {
    status_bytes(pid, "RssAnon:")
}

/// The most memory that was ever in use, in bytes.
pub fn peak_bytes(pid: u32) -> u64 {
    status_bytes(pid, "VmHWM:")
}

/// Resets the peak of memory in use to the present value.
pub fn forget_peak(pid: u32) {
    fs::write(format!("/proc/{pid}/clear_refs"), "5").expect("a process of ours");
}

fn status_bytes(pid: u32, key: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("the process runs");
    let line = status.lines().find_map(|line| line.strip_prefix(key)).expect("the kernel reports memory");
    let kilobytes: u64 = line.trim().trim_end_matches(" kB").parse().expect("memory is a number of kB");
    kilobytes * 1024
}

/// Processor time used by all threads so far, those that have ended included, in nanoseconds. The
/// kernel reports it in ticks of 10 ms.
pub fn cpu_ns_in_ticks(pid: u32) -> u64 {
    const TICK_NS: u64 = 10_000_000;
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).expect("the process runs");
    // The name may hold spaces; user and system time are the twelfth and thirteenth field after it.
    let (_, fields) = stat.rsplit_once(") ").expect("a name in parentheses");
    let times = fields.split(' ').skip(11).take(2).map(|ticks| ticks.parse::<u64>().expect("a number"));
    times.sum::<u64>() * TICK_NS
}

/// Processor time used by all running threads so far, in nanoseconds.
pub fn cpu_ns(pid: u32) -> u64 {
    cpu_ns_of(pid, "")
}

/// Processor time used so far by the running threads whose names begin with `name`, in nanoseconds.
pub fn cpu_ns_of(pid: u32, name: &str) -> u64 {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).expect("the process runs");
    let spent = |task: std::io::Result<fs::DirEntry>| -> Option<u64> {
        let task = task.ok()?.path();
        if !fs::read_to_string(task.join("comm")).ok()?.starts_with(name) {
            return None;
        }
        let schedstat = fs::read_to_string(task.join("schedstat")).ok()?;
        schedstat.split_whitespace().next()?.parse().ok()
    };
    tasks.filter_map(spent).sum()
}

/// True if this user may have a mount namespace of its own.
pub fn namespaces_allowed() -> bool {
    let tried = Command::new("unshare").args(["--user", "--map-root-user", "--mount", "true"]).output();
    tried.is_ok_and(|tried| tried.status.success())
}
