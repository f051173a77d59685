//! From an offset to a place in the file, in four steps:
//!
//! 1. `search_start`: the offset index gives a position close before the offset.
//! 2. `try_next_entry`: a reader that continues where it ended asks for the offset after that
//!    entry;
//!    with large batches the next entry is the batch.
//! 3. `scan_window`: one bounded window is read and scanned by base offset alone, twelve bytes a
//!    batch; a single last offset is read at the end.
//! 4. `find_without_index`: only if the index is wrong.

use levada_base::batch::HEADER_LEN;

use super::{Head, Scan, Segment};
use crate::ReadError;
use crate::disk::ReadFiles;
use crate::index::OffsetEntry;

/// A search for the first batch below `end` whose last offset is not before `offset`.
#[derive(Clone, Copy)]
struct Query {
    offset: i64,
    end: u64,
}

/// Position at which a search begins, according to the index.
struct SearchStart {
    /// A batch starts here, at or below the requested offset.
    start: u64,
    /// Upper bound of the last offset of a batch that starts there, if it is known.
    latest: Option<i64>,
    /// The entry after it, whose batch ends after the offset sought.
    next: Option<OffsetEntry>,
    /// From the start to the next entry, or to the end.
    distance: u64,
    /// True if the requested offset follows the batch of the entry.
    follows_entry: bool,
    /// True if the entry is all zeroes and points to the first batch, for which no entry exists.
    is_zero: bool,
}

impl Segment {
    /// The first batch below `end` whose last offset is not before `offset`, if there is one.
    ///
    /// `interval` is `index.interval.bytes`: batches between two index entries start within this
    /// number of bytes, so that one read finds the batch. An index that was built with a larger
    /// interval, or lost entries, only costs more reads.
    pub(crate) fn find(
        &self,
        disk: &dyn ReadFiles,
        offset: i64,
        end: u64,
        interval: u32,
    ) -> Result<Option<Head>, ReadError> {
        if end == 0 {
            return Ok(None);
        }
        let (query, interval) = (Query { offset, end }, u64::from(interval));
        let search_start = self.search_start(disk, query)?;
        if let Some(head) = self.try_next_entry(disk, query, &search_start, interval)? {
            return Ok(Some(head));
        }
        match self.scan_window(disk, query, &search_start, interval) {
            // The index does not lead to the start of a batch at or before the offset: do without
            // it.
            Ok(Found::Overshot) | Err(ReadError::Corrupt { .. })
                if search_start.start > 0 || search_start.is_zero =>
            {
                self.find_without_index(disk, query, search_start.start)
            }
            other => Ok(other?.head()),
        }
    }

    /// The position of the index for the offset, with the neighbouring entry.
    fn search_start(&self, disk: &dyn ReadFiles, query: Query) -> Result<SearchStart, ReadError> {
        let hint = self.offsets.lookup(disk, self.delta(query.offset))?;
        // An entry may be ahead of the published size, or wrong.
        let start = if hint.position < query.end {
            hint.position
        } else {
            self.offsets.boundary(disk, query.end - 1)?
        };
        let last = hint.delta.map(|delta| self.base() + i64::from(delta));
        // To the next entry, which is less than a batch after the interval; farther if there are
        // large batches between.
        let distance = hint.next.map_or(query.end, |next| next.position).saturating_sub(start);
        debug_assert!(start < query.end, "a search begins at {start}, after {}", query.end);
        Ok(SearchStart {
            start,
            latest: last.filter(|_| start == hint.position),
            next: hint.next,
            distance,
            follows_entry: last.is_some_and(|last| last + 1 == query.offset),
            is_zero: hint.delta.is_some() && hint.position == 0,
        })
    }

    /// The batch of the next entry, if the offset sought begins it. Batches between two entries
    /// that are farther apart than the interval are large, and each has an entry.
    fn try_next_entry(
        &self,
        disk: &dyn ReadFiles,
        query: Query,
        search_start: &SearchStart,
        interval: u64,
    ) -> Result<Option<Head>, ReadError> {
        let next = search_start.next.filter(|next| {
            search_start.distance > interval && search_start.follows_entry && next.position < query.end
        });
        let Some(entry) = next else { return Ok(None) };
        let mut scan = self.scan(disk, entry.position..query.end, HEADER_LEN)?;
        let head = match scan.next() {
            Ok(Some(head)) if head.base_offset == query.offset => head,
            Ok(_) | Err(ReadError::Corrupt { .. }) => return Ok(None),
            Err(error) => return Err(error),
        };
        match scan.last_offset(&head) {
            Ok(last) if last == self.base() + i64::from(entry.delta) => Ok(Some(head)),
            Ok(_) | Err(ReadError::Corrupt { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The batch in the window that begins at the entrance.
    fn scan_window(
        &self,
        disk: &dyn ReadFiles,
        query: Query,
        search_start: &SearchStart,
        interval: u64,
    ) -> Result<Found, ReadError> {
        if search_start.is_zero {
            return Ok(Found::Overshot);
        }
        let window = if search_start.distance <= 2 * interval { search_start.distance } else { interval };
        let window = usize::try_from(window).unwrap_or(usize::MAX) + HEADER_LEN;
        self.find_from(disk, (query.offset, search_start.latest), search_start.start..query.end, window)
    }

    /// Finds a batch after an index entry has misled to `start`: by an earlier entry that was
    /// skipped, otherwise from the first batch on. Reads up to the whole segment, and marks the
    /// index for a rebuild.
    fn find_without_index(
        &self,
        disk: &dyn ReadFiles,
        query: Query,
        start: u64,
    ) -> Result<Option<Head>, ReadError> {
        if !disk.waits() {
            return Err(ReadError::Cold);
        }
        let found = self.find_by_any_entry(disk, query)?;
        if self.index_state.note_misled() {
            tracing::warn!(path = %self.path().display(), position = start, "offset index is wrong; the log does not use it until it is rebuilt");
        }
        Ok(found)
    }

    fn find_by_any_entry(
        &self,
        disk: &dyn ReadFiles,
        Query { offset, end }: Query,
    ) -> Result<Option<Head>, ReadError> {
        if let Some(entry) = self.offsets.nearest(disk, self.delta(offset), end)? {
            let latest = Some(self.base() + i64::from(entry.delta));
            match self.find_from(disk, (offset, latest), entry.position..end, super::SWEEP) {
                Ok(Found::Overshot) | Err(ReadError::Corrupt { .. }) => {}
                other => return Ok(other?.head()),
            }
        }
        Ok(self.find_from(disk, (offset, None), 0..end, super::SWEEP)?.head())
    }

    /// Scans batch by batch from the start of `range`, where a batch begins that ends no later than
    /// `latest`.
    fn find_from(
        &self,
        disk: &dyn ReadFiles,
        (offset, latest): (i64, Option<i64>),
        range: std::ops::Range<u64>,
        window: usize,
    ) -> Result<Found, ReadError> {
        let started_at_zero = range.start == 0;
        let mut scan: Scan<'_> = self.scan(disk, range, window)?;
        let mut candidate: Option<Head> = None;
        while let Some(head) = scan.next()? {
            // The index gives the end of its batch: a batch that ends above it is not this batch.
            if let Some(latest) = latest.filter(|_| candidate.is_none())
                && scan.last_offset(&head)? > latest
            {
                return Err(scan.corrupt(head.position));
            }
            if candidate.is_some_and(|before| head.base_offset <= before.base_offset) {
                return Err(scan.corrupt(head.position));
            }
            if head.base_offset == offset {
                return Ok(Found::At(head));
            }
            if head.base_offset < offset {
                candidate = Some(head);
                // Checked before the next read: this may be the batch.
                if !scan.has_next() && scan.last_offset(&head)? >= offset {
                    return Ok(Found::At(head));
                }
                continue;
            }
            return match candidate {
                Some(before) if scan.last_offset(&before)? >= offset => Ok(Found::At(before)),
                None if !started_at_zero => Ok(Found::Overshot),
                _ => Ok(Found::At(head)),
            };
        }
        match candidate {
            Some(last) if scan.last_offset(&last)? >= offset => Ok(Found::At(last)),
            _ => Ok(Found::End),
        }
    }
}

/// The outcome of a scan.
enum Found {
    /// The batch that starts or contains the offset.
    At(Head),
    /// Every batch of the range ends before the offset.
    End,
    /// The first batch of the range is above the offset, and other batches may precede it.
    Overshot,
}

impl Found {
    fn head(self) -> Option<Head> {
        match self {
            Self::At(head) => Some(head),
            Self::End | Self::Overshot => None,
        }
    }
}
