//! Sends of a socket whose memory the kernel still uses: a state machine without system calls.
//!
//! The kernel numbers the sends of a socket from 0, wrapping after 2³², and reports ranges of
//! numbers: several sends at the same time, and not always in the order in which they were made.

use std::collections::VecDeque;

use bytes::Bytes;

/// The sends of one socket that the kernel is not done with.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    /// The number of the first entry.
    first: u32,
    /// Memory of each send, without gaps; `None` if the kernel has finished it but not an earlier
    /// one.
    entries: VecDeque<Option<(Vec<Bytes>, u64)>>,
    parked_bytes: u64,
}

impl Ledger {
    /// Notes the next send, which took `count` bytes of `memory`.
    pub(crate) fn sent(&mut self, memory: Vec<Bytes>, count: u64) {
        self.parked_bytes += count;
        self.entries.push_back(Some((memory, count)));
    }

    /// Releases the sends from `first` to `last`, both included; returns the number of their bytes.
    /// Ignores numbers that are not parked, or no longer parked.
    pub(crate) fn acknowledged(&mut self, first: u32, last: u32) -> u64 {
        let mut freed = 0;
        let reported = u64::from(last.wrapping_sub(first)) + 1;
        // Position of the range's start among the entries; before the first of them if that
        // difference is "negative".
        let skip = first.wrapping_sub(self.first);
        let (start, count) = if skip < 1 << 31 {
            (u64::from(skip), reported)
        } else {
            (0, reported.saturating_sub(u64::from(self.first.wrapping_sub(first))))
        };
        let start = usize::try_from(start).unwrap_or(usize::MAX);
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        for entry in self.entries.iter_mut().skip(start).take(count) {
            freed += entry.take().map_or(0, |(_, bytes)| bytes);
        }
        while let Some(None) = self.entries.front() {
            self.entries.pop_front();
            self.first = self.first.wrapping_add(1);
        }
        assert!(freed <= self.parked_bytes, "{freed} bytes of {} are free again", self.parked_bytes);
        self.parked_bytes -= freed;
        debug_assert!(!self.entries.is_empty() || self.parked_bytes == 0);
        freed
    }

    /// Number of bytes the kernel still refers to.
    pub(crate) fn parked_bytes(&self) -> u64 {
        self.parked_bytes
    }
}

#[cfg(test)]
mod tests;
