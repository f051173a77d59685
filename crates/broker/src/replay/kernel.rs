//! Memory statistics of the kernel: of the machine (`/proc`), and of the control groups of this
//! process (cgroups, version 1 or 2).
//!
//! Some small files of `/proc` and `/sys`, 0.1 ms together. Not for a shard.

use std::path::{Path, PathBuf};

use super::admission::Observation;

/// The source of the figure in the kernel, and its former value.
#[derive(Debug)]
pub(crate) struct Kernel {
    root: PathBuf,
    /// Bytes that were read again soon after their eviction, since the start of the machine.
    refaulted: Option<u64>,
}

/// Bytes per observation, read again soon after their eviction, that count as one percent of the
/// time. Used if the kernel does not report the time for which tasks waited.
const REFAULTED_PERCENT: u64 = 8 << 20;

impl Default for Kernel {
    fn default() -> Self {
        Self::at(Path::new("/"))
    }
}

impl Kernel {
    fn at(root: &Path) -> Self {
        Self { root: root.to_owned(), refaulted: None }
    }

    /// State of the memory; `None` if the kernel reports nothing.
    pub(crate) fn observe(&mut self) -> Option<Observation> {
        let machine = self.read("proc/meminfo")?;
        let of = |key| Some(value(&machine, key)? * 1024);
        let mut seen = Observation {
            total: of("MemTotal:")?,
            free: of("MemFree:")?,
            available: of("MemAvailable:")?,
            stalled: 0.0,
        };
        for group in self.groups() {
            seen.total = seen.total.min(group.limit);
            seen.free = seen.free.min(group.limit.saturating_sub(group.used));
            let used = group.used.saturating_sub(group.cached);
            seen.available = seen.available.min(group.limit.saturating_sub(used));
        }
        seen.stalled = self.stalled();
        Some(seen)
    }

    fn stalled(&mut self) -> f64 {
        if let Some(percent) = self.read("proc/pressure/memory").and_then(|text| pressure(&text)) {
            return percent;
        }
        let pages = self.read("proc/vmstat").and_then(|text| value(&text, "workingset_refault_file"));
        let now = pages.map(|pages| pages.saturating_mul(rustix::param::page_size() as u64));
        let before = std::mem::replace(&mut self.refaulted, now);
        let since = now.zip(before).map_or(0, |(now, before)| now.saturating_sub(before));
        since as f64 / REFAULTED_PERCENT as f64
    }

    /// The groups that limit this process, innermost first.
    fn groups(&self) -> Vec<Group> {
        let mut groups = Vec::new();
        for line in self.read("proc/self/cgroup").unwrap_or_default().lines() {
            let mut fields = line.splitn(3, ':').skip(1);
            let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { continue };
            if controllers.is_empty() {
                ["sys/fs/cgroup", "sys/fs/cgroup/unified"]
                    .iter()
                    .for_each(|mount| groups.extend(self.up_from(mount, path, Self::unified)));
            } else if controllers.split(',').any(|controller| controller == "memory") {
                groups.extend(self.up_from("sys/fs/cgroup/memory", path, Self::separate));
            }
        }
        groups
    }

    /// The groups from `path` up to the mount. A container sees its own group as the mount,
    /// independent of the group's name outside.
    fn up_from(&self, mount: &str, path: &str, of: fn(&Self, &Path) -> Option<Group>) -> Vec<Group> {
        let dir = Path::new(mount).join(path.trim_start_matches('/'));
        let up = dir.ancestors().take_while(|dir| dir.starts_with(mount));
        up.filter_map(|dir| of(self, dir)).collect()
    }

    /// A group of version 2.
    fn unified(&self, dir: &Path) -> Option<Group> {
        let limit = self.number(&dir.join("memory.max"))?;
        let stat = self.read(dir.join("memory.stat"))?;
        Some(Group { limit, used: self.number(&dir.join("memory.current"))?, cached: cached(&stat, "")? })
    }

    /// A group of version 1.
    fn separate(&self, dir: &Path) -> Option<Group> {
        let limit = self.number(&dir.join("memory.limit_in_bytes"))?;
        let stat = self.read(dir.join("memory.stat"))?;
        let used = self.number(&dir.join("memory.usage_in_bytes"))?;
        Some(Group { limit, used, cached: cached(&stat, "total_")? })
    }

    /// `None` also for `max`.
    fn number(&self, path: &Path) -> Option<u64> {
        self.read(path)?.trim().parse().ok()
    }

    fn read(&self, path: impl AsRef<Path>) -> Option<String> {
        std::fs::read_to_string(self.root.join(path)).ok()
    }
}

/// A limit and its use, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Group {
    limit: u64,
    used: u64,
    /// The part of it that is pages of files.
    cached: u64,
}

fn cached(stat: &str, prefix: &str) -> Option<u64> {
    let of = |name: &str| value(stat, &format!("{prefix}{name}"));
    Some(of("inactive_file")? + of("active_file")?)
}

/// The number after a key at the start of a line.
fn value(text: &str, key: &str) -> Option<u64> {
    let mut lines = text.lines().map(str::split_ascii_whitespace);
    let mut line = lines.find_map(|mut line| (line.next() == Some(key)).then_some(line))?;
    line.next()?.parse().ok()
}

/// The share of the last ten seconds in which at least one task waited for memory.
fn pressure(text: &str) -> Option<f64> {
    let line = text.lines().find_map(|line| line.strip_prefix("some "))?;
    line.split_ascii_whitespace().find_map(|field| field.strip_prefix("avg10="))?.parse().ok()
}

#[cfg(test)]
mod tests;
