//! Counters of moved bytes, calls and costs by path: relaxed atomics that any thread may read.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::path::Path;

/// Counters of one or more engines, from 0 upwards.
#[derive(Debug, Default)]
pub struct Counters {
    bytes: [AtomicU64; Path::ALL.len()],
    calls: [AtomicU64; Path::ALL.len()],
    stalls: [AtomicU64; Path::ALL.len()],
    fallbacks: [AtomicU64; Fallback::ALL.len()],
    copied: AtomicU64,
    copied_by_kernel: AtomicU64,
    warmed: AtomicU64,
    dropped_behind: AtomicU64,
}

/// Duration from which on a system call counts as a stall of its thread.
pub const STALL: Duration = Duration::from_millis(1);

/// The reason why bytes left by another way than planned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fallback {
    /// The engine has as many pipes as it may, all of them kept by blocked transfers.
    PipesInUse,
    /// The kernel created no pipe: out of descriptors or memory.
    NoPipe,
    /// The kernel created a pipe that is too small to be useful, because this user has too many
    /// pipes.
    SmallPipe,
    /// This file or socket does not support `splice`.
    SpliceRefused,
    /// This file or socket does not support `sendfile`.
    SendfileRefused,
    /// The pages were not in the cache; the read waited for the disk.
    ColdRead,
    /// The files cannot share blocks.
    ReflinkRefused,
    /// `copy_file_range` does not copy between these files.
    CopyFileRangeRefused,
    /// The process may not pin more memory, so memory is copied.
    NoLockedMemory,
    /// This socket does not support zero-copy sends.
    ZeroCopyRefused,
    /// This kernel or file system does not support reads that leave no page in the cache.
    UncachedReadRefused,
    /// This file could not be mapped: the process has reached its limit of mappings, or the file
    /// system does not support them.
    MappingRefused,
}

impl Fallback {
    /// Every cause, in the order of its index in counters.
    pub const ALL: [Self; 12] = [
        Self::PipesInUse,
        Self::NoPipe,
        Self::SmallPipe,
        Self::SpliceRefused,
        Self::SendfileRefused,
        Self::ColdRead,
        Self::ReflinkRefused,
        Self::CopyFileRangeRefused,
        Self::NoLockedMemory,
        Self::ZeroCopyRefused,
        Self::UncachedReadRefused,
        Self::MappingRefused,
    ];

    /// The name used in metrics and tables.
    pub fn label(self) -> &'static str {
        match self {
            Self::PipesInUse => "pipes_in_use",
            Self::NoPipe => "no_pipe",
            Self::SmallPipe => "small_pipe",
            Self::SpliceRefused => "splice_refused",
            Self::SendfileRefused => "sendfile_refused",
            Self::ColdRead => "cold_read",
            Self::ReflinkRefused => "reflink_refused",
            Self::CopyFileRangeRefused => "copy_file_range_refused",
            Self::NoLockedMemory => "no_locked_memory",
            Self::ZeroCopyRefused => "zero_copy_refused",
            Self::UncachedReadRefused => "uncached_read_refused",
            Self::MappingRefused => "mapping_refused",
        }
    }
}

const _: () = {
    let mut index = 0;
    while index < Fallback::ALL.len() {
        assert!(Fallback::ALL[index] as usize == index, "the list of causes is in the order of their index");
        index += 1;
    }
};

impl Counters {
    /// The values of this moment; each is exact, but they are not read at one instant.
    pub fn snapshot(&self) -> Snapshot {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Snapshot {
            bytes: self.bytes.each_ref().map(load),
            calls: self.calls.each_ref().map(load),
            stalls: self.stalls.each_ref().map(load),
            fallbacks: self.fallbacks.each_ref().map(load),
            copied: load(&self.copied),
            copied_by_kernel: load(&self.copied_by_kernel),
            warmed: load(&self.warmed),
            dropped_behind: load(&self.dropped_behind),
        }
    }

    /// Performs one system call for `path` and counts it; also as a stall if it takes too long.
    pub(crate) fn call<T>(&self, path: Path, call: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let result = call();
        self.calls[path as usize].fetch_add(1, Ordering::Relaxed);
        if start.elapsed() > STALL {
            self.stalls[path as usize].fetch_add(1, Ordering::Relaxed);
        }
        result
    }

    /// Counts bytes that a socket has accepted by `path`.
    pub(crate) fn moved(&self, path: Path, count: u64) {
        self.bytes[path as usize].fetch_add(count, Ordering::Relaxed);
    }

    /// Counts bytes that the CPU copied between kernel memory and memory of the process.
    pub(crate) fn copied(&self, count: u64) {
        self.copied.fetch_add(count, Ordering::Relaxed);
    }

    /// Counts bytes that were to be sent by reference and that the kernel copied.
    pub(crate) fn copied_by_kernel(&self, count: u64) {
        self.copied_by_kernel.fetch_add(count, Ordering::Relaxed);
    }

    /// Counts bytes that a [`Warmer`](crate::residency::Warmer) read into the page cache, or found
    /// there.
    pub(crate) fn warmed(&self, count: u64) {
        self.warmed.fetch_add(count, Ordering::Relaxed);
    }

    /// Counts bytes that the kernel was requested to drop from the page cache.
    pub(crate) fn dropped_behind(&self, count: u64) {
        self.dropped_behind.fetch_add(count, Ordering::Relaxed);
    }

    /// Counts a planned path that was not taken.
    pub(crate) fn fell_back(&self, cause: Fallback) {
        self.fallbacks[cause as usize].fetch_add(1, Ordering::Relaxed);
    }
}

/// The counters at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    bytes: [u64; Path::ALL.len()],
    calls: [u64; Path::ALL.len()],
    stalls: [u64; Path::ALL.len()],
    fallbacks: [u64; Fallback::ALL.len()],
    copied: u64,
    copied_by_kernel: u64,
    warmed: u64,
    dropped_behind: u64,
}

impl Snapshot {
    /// Bytes that sockets, or target files of copies, accepted by `path`. Those under
    /// [`Path::UringRead`] were read into memory, and count again under the path by which they are
    /// sent.
    pub fn bytes(&self, path: Path) -> u64 {
        self.bytes[path as usize]
    }

    /// System calls of `path`, including failed calls.
    pub fn calls(&self, path: Path) -> u64 {
        self.calls[path as usize]
    }

    /// System calls for `path` that took longer than [`STALL`].
    pub fn stalls(&self, path: Path) -> u64 {
        self.stalls[path as usize]
    }

    /// Number of times that a planned path was not taken for this cause.
    pub fn fallbacks(&self, cause: Fallback) -> u64 {
        self.fallbacks[cause as usize]
    }

    /// Bytes that the CPU copied between the kernel's memory and ours, in either direction: two for
    /// every byte by [`Path::ReadWrite`], one by [`Path::Send`], [`Path::UringSend`],
    /// [`Path::UringRead`] and [`Path::MmapWrite`], one or two by [`Path::UserTls`], none by the
    /// others. Reads around the page cache (`O_DIRECT`) count as copies, because a file system may
    /// copy nevertheless. And those of small pieces that an [`Outbox`](crate::outbox::Outbox) puts
    /// together in our own.
    pub fn copied(&self) -> u64 {
        self.copied
    }

    /// Bytes that were to be sent by reference and that the kernel copied: according to its
    /// notifications, or by [`Path::SpliceCopy`] and [`Path::SendfileCopy`].
    pub fn copied_by_kernel(&self) -> u64 {
        self.copied_by_kernel
    }

    /// Bytes that a [`Warmer`](crate::residency::Warmer) read into the page cache, so that no other
    /// thread waited for them.
    pub fn warmed(&self) -> u64 {
        self.warmed
    }

    /// Bytes dropped from the page cache because their only reader had read them.
    pub fn dropped_behind(&self) -> u64 {
        self.dropped_behind
    }

    /// Every value with its names, grouped by family: the contents of a metrics page.
    pub fn samples(&self) -> impl Iterator<Item = Sample> {
        let by_path = |metric, values: [u64; Path::ALL.len()]| {
            let labelled = Path::ALL.into_iter().zip(values);
            labelled.map(move |(path, value)| Sample { metric, label: Some(("path", path.label())), value })
        };
        let fallbacks = Fallback::ALL.into_iter().zip(self.fallbacks).map(|(cause, value)| Sample {
            metric: "fallbacks",
            label: Some(("cause", cause.label())),
            value,
        });
        by_path("bytes", self.bytes)
            .chain(by_path("calls", self.calls))
            .chain(by_path("stalls", self.stalls))
            .chain(fallbacks)
            .chain([
                Sample { metric: "copied_bytes", label: None, value: self.copied },
                Sample { metric: "copied_by_kernel_bytes", label: None, value: self.copied_by_kernel },
                Sample { metric: "warmed_bytes", label: None, value: self.warmed },
                Sample { metric: "dropped_behind_bytes", label: None, value: self.dropped_behind },
            ])
    }
}

/// One value of a [`Snapshot`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    /// The family: `bytes`, `calls`, `stalls`, `fallbacks`, `copied_bytes`,
    /// `copied_by_kernel_bytes`, `warmed_bytes` or `dropped_behind_bytes`.
    pub metric: &'static str,
    /// Name and value of the label within the family, if it has any.
    pub label: Option<(&'static str, &'static str)>,
    /// The count since the start.
    pub value: u64,
}

#[cfg(test)]
mod tests;
