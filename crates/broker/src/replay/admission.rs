//! Decides if pages that a reader of old records brings in from the disk may stay in the cache.
//!
//! - *Free*: memory is unused. Ranges stay, because they displace nothing, until the unused memory
//!   is down to a reserve.
//! - *Full*: the cache has all memory. A range stays on its second reading within the capacity of
//!   the cache ([`Ghosts`]); the first reading leaves no trace.
//! - *Stalled*: tasks wait for memory. Nothing stays.
//!
//! A state machine: the input is the kernel's figures ([`Observation`]), and each range with the
//! question. It uses no clock, file or system call.

use super::ghosts::{FileId, Ghosts};

/// Memory figures of the kernel: of the machine, or of the control group with the least free
/// memory, whichever is smaller.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Observation {
    /// Total memory, bytes.
    pub(crate) total: u64,
    /// Free memory, which not even the page cache uses.
    pub(crate) free: u64,
    /// Free memory plus clean pages that can be dropped.
    pub(crate) available: u64,
    /// Share of the last ten seconds in which tasks waited for memory, in percent. If the kernel
    /// does not report it, an estimate from the pages that were read again soon after their
    /// eviction.
    pub(crate) stalled: f64,
}

/// State of the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MemoryState {
    Free,
    Full,
    Stalled,
}

/// Decision about a range that is read from the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The range goes through the page cache and stays.
    Admitted,
    /// The range leaves no trace.
    Refused,
}

/// The range of a read, and the bytes that are read ahead with it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    pub(crate) file: FileId,
    pub(crate) offset: u64,
    pub(crate) len: u64,
    /// Number of bytes after the range that are read ahead, if it is admitted.
    pub(crate) ahead: u64,
}

/// Replays may use free memory if at least this part (one eighth) of all memory is free.
const FREE_ENOUGH: u64 = 8;
/// Part of all memory (one sixteenth) that replays leave free.
const RESERVE: u64 = 16;

/// The share of the cache's capacity that second readings may use: the rest is for other data.
const CLAIMED: u64 = 2;

/// Memory is stalled from this percentage of the time on.
const STALLED: f64 = 10.0;
/// Memory is no longer stalled below this percentage of the time.
const CALM: f64 = 2.0;

/// Admission of old records to the page cache.
#[derive(Debug, Default)]
pub(crate) struct Admission {
    /// State of the memory; `None` before the first observation, and then no old records stay in
    /// the cache.
    level: Option<MemoryState>,
    /// Bytes that may still be read into the page cache before the next observation.
    room: u64,
    ghosts: Ghosts,
}

impl Admission {
    /// Records the state of the memory.
    pub(crate) fn observe(&mut self, seen: &Observation) {
        let reserve = seen.total / RESERVE;
        let level = match self.level {
            _ if seen.stalled >= STALLED => MemoryState::Stalled,
            Some(MemoryState::Stalled) if seen.stalled >= CALM => MemoryState::Stalled,
            Some(MemoryState::Free) if seen.free > reserve => MemoryState::Free,
            _ if seen.free > seen.total / FREE_ENOUGH => MemoryState::Free,
            _ => MemoryState::Full,
        };
        self.level = Some(level);
        self.room = if level == MemoryState::Free { seen.free - reserve } else { 0 };
        self.ghosts.set_capacity(seen.available / CLAIMED);
    }

    /// Records that the kernel reports no state of the memory.
    pub(crate) fn observe_nothing(&mut self) {
        (self.level, self.room) = (None, 0);
        self.ghosts.set_capacity(0);
    }

    /// Decides whether a range that has to be read from the disk may stay in the page cache. Call
    /// it once for each read.
    pub(crate) fn ask(&mut self, wanted: &Wanted) -> Verdict {
        let Wanted { file, offset, len, ahead } = *wanted;
        let known = self.ghosts.read(file, offset, len);
        let bytes = len.saturating_add(ahead);
        let free = self.level == Some(MemoryState::Free) && bytes <= self.room;
        if !free && (!known || self.level == Some(MemoryState::Stalled)) {
            return Verdict::Refused;
        }
        self.room -= if free { bytes } else { 0 };
        self.ghosts.read(file, offset.saturating_add(len), ahead);
        Verdict::Admitted
    }

    /// Records a read that needs no decision, because it belongs to another one.
    pub(crate) fn note(&mut self, file: FileId, offset: u64, len: u64) {
        self.ghosts.read(file, offset, len);
    }

    /// State of the memory at the last observation, if there was one.
    pub(crate) fn level(&self) -> Option<MemoryState> {
        self.level
    }

    /// Number of remembered bytes of earlier readings.
    pub(crate) fn remembered_bytes(&self) -> u64 {
        self.ghosts.bytes()
    }
}

#[cfg(test)]
mod tests;
