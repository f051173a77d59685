//! Page faults, switches and user time of this process, from `/proc/self`.

use std::fs;
use std::io;
use std::time::Duration;

/// Counts since the start of the process, or between two readings.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Faults {
    /// Number of minor and major faults.
    pub(super) faults: u64,
    /// Number of major faults, which wait for the device.
    pub(super) large: u64,
    /// Processor time in user mode, with a resolution of 10 ms.
    pub(super) user: Duration,
}

impl Faults {
    pub(super) fn now() -> Self {
        let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
        Self::parse(&stat)
    }

    fn parse(stat: &str) -> Self {
        // The values follow the name in brackets: minflt is field 10 of the line, majflt 12, utime
        // 14.
        let fields: Vec<u64> = stat
            .rsplit(") ")
            .next()
            .unwrap_or_default()
            .split_whitespace()
            .map(|field| field.parse().unwrap_or(0))
            .collect();
        let field = |number: usize| fields.get(number - 3).copied().unwrap_or(0);
        let per_second = rustix::param::clock_ticks_per_second().max(1);
        Self {
            faults: field(10) + field(12),
            large: field(12),
            user: Duration::from_secs_f64(field(14) as f64 / per_second as f64),
        }
    }

    /// Returns the difference between the counts now and these counts.
    pub(super) fn since(self) -> Self {
        let now = Self::now();
        Self {
            faults: now.faults.saturating_sub(self.faults),
            large: now.large.saturating_sub(self.large),
            user: now.user.saturating_sub(self.user),
        }
    }
}

/// Number of voluntary context switches of the calling thread.
pub(super) fn switches() -> u64 {
    waited(&fs::read_to_string("/proc/thread-self/status").unwrap_or_default())
}

/// True if a file mapping of this process contains huge pages.
pub(super) fn has_huge_pages() -> io::Result<bool> {
    let rollup = fs::read_to_string("/proc/self/smaps_rollup")?;
    let line = rollup.lines().find_map(|line| line.strip_prefix("FilePmdMapped:"));
    Ok(line.is_some_and(|size| !size.trim().starts_with("0 ")))
}

fn waited(status: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    line.and_then(|count| count.trim().parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_proc_files_are_parsed() {
        let stat = "7 (a) b) S 1 2 3 4 5 6 100 7 20 8 30 40 0 0";
        let faults = Faults::parse(stat);
        assert_eq!((faults.faults, faults.large), (120, 20));
        assert_eq!(waited("Name:\ta\nvoluntary_ctxt_switches:\t12\nnonvoluntary_ctxt_switches:\t9\n"), 12);
        assert!(faults.user > Duration::ZERO);
    }
}
