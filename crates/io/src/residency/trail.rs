//! The ranges that a single-pass reader has read into the page cache, so that they can be dropped
//! once it has passed them.

use std::collections::VecDeque;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::sync::{Arc, Weak};

use super::Warmed;
use crate::piece::Extent;

/// The ranges that one reader of old data has brought in and not yet dropped.
///
/// The kernel cannot drop a page that a socket still refers to, so the last [`Trail::LAG_BYTES`]
/// stay; they are tried when the reader has moved on. Pages that were in the cache before are
/// others' and are left alone.
///
/// A trail keeps no file open: its reader may be connected for weeks, and a deleted file has its
/// blocks until it is closed.
///
/// Has no clock and makes no calls: a [`Warmer`](super::Warmer) reports the pages that it [brought
/// in](Trail::follow), and drops those that are [`ripe`](Trail::ripe).
#[derive(Debug, Default)]
pub struct Trail {
    /// Ranges in the order in which they were read; neighbours are one range.
    ranges: VecDeque<TrailRange>,
    /// Range of the last request, missing or not.
    asked: Vec<TrailRange>,
}

/// A range of a file that others may still hold open.
#[derive(Debug)]
struct TrailRange {
    file: Weak<File>,
    offset: u64,
    len: u64,
}

impl TrailRange {
    fn of(extent: &Extent) -> Self {
        Self { file: Arc::downgrade(&extent.file), offset: extent.offset, len: extent.len }
    }

    fn end(&self) -> u64 {
        self.offset.saturating_add(self.len)
    }

    /// The first `len` bytes, if the file is open.
    fn beginning(&self, len: u64) -> Option<Extent> {
        Some(Extent { file: self.file.upgrade()?, offset: self.offset, len })
    }

    /// True if the extent is a range of this file. Partitions use one `File` for all extents of a
    /// segment; for callers that open a file for each extent, the kernel is queried.
    fn is_of_file(&self, extent: &Extent) -> bool {
        let Some(file) = self.file.upgrade() else { return false };
        let identity = |file: &File| file.metadata().map(|meta| (meta.dev(), meta.ino())).ok();
        Arc::ptr_eq(&file, &extent.file)
            || identity(&file).is_some_and(|own| identity(&extent.file) == Some(own))
    }
}

impl Trail {
    /// Bytes that a reader has passed and that stay: more than its socket refers to.
    pub const LAG_BYTES: u64 = 4 << 20;

    /// Records the pages that a request of this reader has loaded.
    pub fn follow(&mut self, warmed: Warmed) {
        for extent in warmed.brought_in {
            let end = extent.offset.saturating_add(extent.len);
            match self.ranges.back_mut() {
                Some(last)
                    if (last.offset..=last.end()).contains(&extent.offset) && last.is_of_file(&extent) =>
                {
                    last.len = last.len.max(end - last.offset);
                }
                _ => self.ranges.push_back(TrailRange::of(&extent)),
            }
        }
    }

    /// Records the range that this reader requests, ahead of its need or not.
    pub(super) fn ask(&mut self, extents: impl IntoIterator<Item = Extent>) {
        self.asked.clear();
        self.asked.extend(extents.into_iter().map(|extent| TrailRange::of(&extent)));
    }

    /// True if a range was part of this reader's last request: its pages may be on their way.
    pub fn is_under_way(&self, extent: &Extent) -> bool {
        let end = extent.offset.saturating_add(extent.len);
        let is_within = |asked: &&TrailRange| asked.offset <= extent.offset && end <= asked.end();
        self.asked.iter().filter(is_within).any(|asked| asked.is_of_file(extent))
    }

    /// Range that can be dropped now: all but the last [`LAG_BYTES`](Trail::LAG_BYTES), cut where
    /// no large page straddles the cut.
    pub fn ripe(&mut self) -> Vec<Extent> {
        self.ranges.retain(|range| range.file.strong_count() > 0);
        let before = self.len();
        let mut excess = before.saturating_sub(Self::LAG_BYTES);
        let mut ripe = Vec::new();
        while let Some(first) = self.ranges.front_mut() {
            let end = first.offset.saturating_add(first.len.min(excess));
            if end - first.offset == first.len {
                excess -= first.len;
                ripe.extend(first.beginning(first.len));
                self.ranges.pop_front();
                continue;
            }
            let cut = end - end % LARGE_PAGE_BYTES;
            if cut > first.offset {
                let len = cut - first.offset;
                ripe.extend(first.beginning(len));
                first.offset = cut;
                first.len -= len;
            }
            break;
        }
        debug_assert!(self.len() >= before.min(Self::LAG_BYTES), "the last pages stay");
        ripe
    }

    /// Removes and returns all remaining ranges, for a reader that has ended.
    pub fn finish(&mut self) -> Vec<Extent> {
        std::mem::take(&mut self.ranges).iter().filter_map(|range| range.beginning(range.len)).collect()
    }

    /// Number of bytes that have been read into the page cache and not been dropped.
    pub fn len(&self) -> u64 {
        self.ranges.iter().map(|range| range.len).sum()
    }

    /// True if there is nothing to drop.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }
}

/// The largest page that the page cache uses; such a page starts at a multiple of its size and is
/// dropped whole or not at all.
const LARGE_PAGE_BYTES: u64 = 2 << 20;
const _: () = assert!(Trail::LAG_BYTES.is_multiple_of(LARGE_PAGE_BYTES));

#[cfg(test)]
mod tests;
