//! Statistics of the kernel about this process: memory, CPU time, open files.

use std::fs;

use crate::descriptors;

/// The process at one moment; values that the kernel does not report are omitted.
pub struct Process {
    /// Memory in physical pages, bytes.
    pub resident_bytes: Option<u64>,
    /// Processor time of the process, s.
    pub cpu_seconds: Option<f64>,
    /// Number of open file descriptors.
    pub open_fds: Option<u64>,
    /// Maximum number of file descriptors.
    pub max_fds: u64,
    /// Names of the threads that serve connections, and their processor time in seconds.
    pub shards: Vec<(String, f64)>,
}

/// Start of the names of the threads that serve connections.
const SHARD: &str = "shard-";

impl Process {
    /// Reads the present values.
    pub fn read() -> Self {
        Self {
            resident_bytes: resident_bytes(),
            cpu_seconds: cpu_seconds(),
            open_fds: open_fds(),
            max_fds: descriptors::limit(),
            shards: shards(),
        }
    }
}

/// Open file descriptors. From Linux 6.2 on their number is the size of the directory; an older
/// kernel has to list them, which takes milliseconds for tens of thousands.
fn open_fds() -> Option<u64> {
    match fs::metadata("/proc/self/fd").ok()?.len() {
        0 => Some(fs::read_dir("/proc/self/fd").ok()?.count() as u64),
        count => Some(count),
    }
}

/// Processor times of the shards, by their numbers; none if the kernel does not report them.
fn shards() -> Vec<(String, f64)> {
    let Ok(threads) = fs::read_dir("/proc/self/task") else { return Vec::new() };
    let mut shards: Vec<(String, f64)> = threads
        .filter_map(|thread| {
            let path = thread.ok()?.path();
            let name = fs::read_to_string(path.join("comm")).ok()?;
            let name = name.trim_end();
            name.starts_with(SHARD).then_some(())?;
            // Nanoseconds on a processor, nanoseconds of waiting for one, and turns.
            let times = fs::read_to_string(path.join("schedstat")).ok()?;
            let on_processor: u64 = times.split(' ').next()?.parse().ok()?;
            Some((name.to_owned(), on_processor as f64 / 1e9))
        })
        .collect();
    shards.sort_by_key(|(name, _)| (name.len(), name.clone()));
    shards
}

/// Resident memory of the process, bytes.
pub fn resident_bytes() -> Option<u64> {
    let statm = fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = statm.split_whitespace().nth(1)?.parse().ok()?;
    pages.checked_mul(rustix::param::page_size() as u64)
}

/// Memory in use that is not a file's.
pub fn own_bytes() -> Option<u64> {
    let statm = fs::read_to_string("/proc/self/statm").ok()?;
    let mut pages = statm.split_whitespace().skip(1).map(str::parse::<u64>);
    let (resident, of_files) = (pages.next()?.ok()?, pages.next()?.ok()?);
    resident.checked_sub(of_files)?.checked_mul(rustix::param::page_size() as u64)
}

fn cpu_seconds() -> Option<f64> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    // The second field is the program's name in parentheses and may contain anything.
    let (_, after_name) = stat.rsplit_once(')')?;
    let mut times = after_name.split_whitespace().skip(11).map(str::parse::<u64>);
    let (user, system) = (times.next()?.ok()?, times.next()?.ok()?);
    Some((user + system) as f64 / rustix::param::clock_ticks_per_second() as f64)
}
