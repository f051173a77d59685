//! Iteration over the batch headers of a segment: reads a window of bytes at a time, and skips data
//! beyond it.

use std::fs::File;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use levada_base::batch::{BatchView, HEADER_LEN, MAGIC, PREFIX_LEN};

use super::{SWEEP, Segment};
use crate::disk::{At, ReadFiles};
use crate::{LogError, ReadError};

/// Position of the format in a batch; its last offset delta ends ten bytes later.
const MIDDLE_AT: u64 = 16;
const MIDDLE_LEN: usize = 11;
const _: () = assert!(MIDDLE_AT == PREFIX_LEN as u64 + 4, "the format follows the leader epoch");
const _: () = assert!(MIDDLE_AT as usize + MIDDLE_LEN <= HEADER_LEN);

/// Range of a batch, from its first twelve bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) position: u64,
    pub(crate) size: u64,
    pub(crate) base_offset: i64,
}

impl Head {
    pub(crate) fn end(&self) -> u64 {
        self.position + self.size
    }
}

/// A walk over batches. Its end is fixed at the start.
#[derive(Debug)]
pub(crate) struct Scan<'a> {
    disk: &'a dyn ReadFiles,
    segment: &'a Segment,
    file: Arc<File>,
    next: u64,
    end: u64,
    window: Vec<u8>,
    window_at: u64,
    window_len: usize,
}

impl<'a> Scan<'a> {
    pub(super) fn new(
        disk: &'a dyn ReadFiles,
        segment: &'a Segment,
        range: Range<u64>,
        window_len: usize,
    ) -> Result<Self, LogError> {
        let file = segment.file(disk)?.clone();
        let (window, window_at) = (Vec::new(), range.start);
        // Callers give a multiple of `index.interval.bytes`, which a topic may set to any value.
        let window_len = window_len.min(SWEEP);
        Ok(Scan { disk, segment, file, next: range.start, end: range.end, window, window_at, window_len })
    }

    /// The file.
    pub(crate) fn path(&self) -> &'a Path {
        self.segment.path()
    }

    /// The next batch, `None` at the end.
    pub(crate) fn next(&mut self) -> Result<Option<Head>, ReadError> {
        let position = self.next;
        if position >= self.end {
            return Ok(None);
        }
        if self.end - position < HEADER_LEN as u64 {
            return Err(self.corrupt(position));
        }
        let prefix = self.bytes(position, PREFIX_LEN)?;
        let (base, length) = prefix.split_at(8);
        let base_offset = i64::from_be_bytes(base.try_into().expect("eight of twelve bytes"));
        let length = i32::from_be_bytes(length.try_into().expect("four of twelve bytes"));
        let size = u64::try_from(length).unwrap_or(0) + PREFIX_LEN as u64;
        if size < HEADER_LEN as u64 || size > self.end - position || base_offset < self.segment.base() {
            return Err(self.corrupt(position));
        }
        self.next = position + size;
        Ok(Some(Head { position, size, base_offset }))
    }

    /// True if the next batch is known without reading.
    pub(crate) fn has_next(&self) -> bool {
        self.inside(self.next, PREFIX_LEN).is_some()
    }

    /// The header of a batch.
    pub(crate) fn header(&mut self, head: &Head) -> Result<BatchView<'_>, ReadError> {
        let corrupt = self.corrupt(head.position);
        let bytes = self.bytes(head.position, HEADER_LEN)?;
        let bytes = bytes.first_chunk::<HEADER_LEN>().ok_or(corrupt.clone())?;
        BatchView::parse_header(bytes).map_err(|_| corrupt)
    }

    /// A batch as a whole.
    pub(crate) fn batch(&mut self, head: &Head) -> Result<&[u8], ReadError> {
        self.bytes(head.position, usize::try_from(head.size).unwrap_or(usize::MAX))
    }

    /// The last offset of a batch: a few bytes after those of the head, from the format on, which
    /// distinguishes a batch from random bytes.
    pub(crate) fn last_offset(&mut self, head: &Head) -> Result<i64, ReadError> {
        let mut middle = [0; MIDDLE_LEN];
        let at = head.position + MIDDLE_AT;
        // The window may have moved on: it is not worth bringing back for eleven bytes.
        match self.inside(at, middle.len()) {
            Some(skip) => middle.copy_from_slice(&self.window[skip..skip + MIDDLE_LEN]),
            None => {
                let path = self.segment.path();
                self.disk.read_at(&self.file, path, &mut middle, at).at("read", path)?;
            }
        }
        let [magic, .., a, b, c, d] = middle;
        let delta = i32::from_be_bytes([a, b, c, d]);
        if delta < 0 || magic.cast_signed() != MAGIC {
            return Err(self.corrupt(head.position));
        }
        Ok(head.base_offset.saturating_add(i64::from(delta)))
    }

    /// The error of a batch that is none.
    pub(crate) fn corrupt(&self, position: u64) -> ReadError {
        ReadError::Corrupt { path: self.segment.path().to_owned(), position, offset: self.segment.base() }
    }

    fn inside(&self, at: u64, len: usize) -> Option<usize> {
        let skip = usize::try_from(at.checked_sub(self.window_at)?).ok()?;
        (skip + len <= self.window.len()).then_some(skip)
    }

    /// `len` bytes at `at`, before the end of the scan; reads on from there if the window does not
    /// contain them.
    fn bytes(&mut self, at: u64, len: usize) -> Result<&[u8], ReadError> {
        let skip = match self.inside(at, len) {
            Some(skip) => skip,
            None => {
                let room = usize::try_from(self.end - at).unwrap_or(usize::MAX);
                self.window.resize(self.window_len.max(len).min(room), 0);
                let read = self.disk.read_at(&self.file, self.segment.path(), &mut self.window, at);
                self.window.truncate(*read.as_ref().unwrap_or(&0));
                read.at("read", self.segment.path())?;
                self.window_at = at;
                0
            }
        };
        self.window.get(skip..skip + len).ok_or_else(|| self.corrupt(at))
    }
}
