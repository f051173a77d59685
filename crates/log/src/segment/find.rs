//! From an offset to a place in the file. The index gives a position close before it; one bounded window is read there and
//! scanned by base offset alone, twelve bytes a batch; a single last offset is read at the end.

use super::{Head, Scan, Segment};
use crate::ReadError;
use crate::batch::HEADER_LEN;
use crate::disk::Disk;
use crate::index::Entry;

impl Segment {
    /// The first batch below `end` whose last offset is not before `offset`, if there is one.
    ///
    /// `interval` is `index.interval.bytes`: batches between two index entries start within so many bytes, so that one read
    /// finds the batch. An index that was built with a larger interval, or lost entries, costs more reads, nothing else.
    pub(crate) fn find(
        &self,
        disk: &dyn Disk,
        offset: i64,
        end: u64,
        interval: u32,
    ) -> Result<Option<Head>, ReadError> {
        if end == 0 {
            return Ok(None);
        }
        let hint = self.offsets.lookup(disk, self.delta(offset))?;
        // An entry may be ahead of what is published, or wrong.
        let start = match hint.position < end {
            true => hint.position,
            false => self.offsets.boundary(disk, end - 1)?,
        };
        // To the next entry, which lies less than a batch behind the interval; farther if there are large batches between.
        let distance = hint.next.map_or(end, |next| next.position).saturating_sub(start);
        let interval = u64::from(interval);
        // Who reads on where he ended asks for what follows an entry; and where batches are large each has an entry.
        if let Some(next) = hint.next.filter(|_| distance > interval)
            && hint.delta.is_some_and(|delta| self.base() + i64::from(delta) + 1 == offset)
            && let Some(head) = self.batch_of(disk, next, (offset, end))?
        {
            return Ok(Some(head));
        }
        let window = if distance <= 2 * interval { distance } else { interval };
        let window = usize::try_from(window).unwrap_or(usize::MAX) + HEADER_LEN;
        let latest =
            hint.delta.filter(|_| start == hint.position).map(|delta| self.base() + i64::from(delta));
        // No entry leads to the first batch: zeroes do.
        let zero = hint.delta.is_some() && hint.position == 0;
        let by_index = || self.find_from(disk, (offset, latest), start..end, window);
        match if zero { Ok(Found::Before) } else { by_index() } {
            // The index does not lead to the start of a batch at or before the offset: do without it.
            Ok(Found::Before) | Err(ReadError::Corrupt { .. }) if start > 0 || zero => {
                // That may take the whole segment.
                if !disk.waits() {
                    return Err(ReadError::Cold);
                }
                let found = self.find_anyhow(disk, offset, end)?;
                if self.index_state.note_misled() {
                    tracing::warn!(path = %self.path().display(), position = start, "index is wrong; searching without it until it is built again");
                }
                Ok(found)
            }
            other => Ok(other?.head()),
        }
    }

    /// Finds a batch where the search in the index has misled: by an entry that it has passed over, else from the first batch on. Reads up to the
    /// whole segment.
    fn find_anyhow(&self, disk: &dyn Disk, offset: i64, end: u64) -> Result<Option<Head>, ReadError> {
        if let Some(entry) = self.offsets.nearest(disk, self.delta(offset), end)? {
            let latest = Some(self.base() + i64::from(entry.delta));
            match self.find_from(disk, (offset, latest), entry.position..end, super::SWEEP) {
                Ok(Found::Before) | Err(ReadError::Corrupt { .. }) => {}
                other => return Ok(other?.head()),
            }
        }
        Ok(self.find_from(disk, (offset, None), 0..end, super::SWEEP)?.head())
    }

    /// The batch of an index entry, if it is there, and starts with the offset.
    fn batch_of(
        &self,
        disk: &dyn Disk,
        entry: Entry,
        (offset, end): (i64, u64),
    ) -> Result<Option<Head>, ReadError> {
        if entry.position >= end {
            return Ok(None);
        }
        let mut scan = self.scan(disk, entry.position..end, HEADER_LEN)?;
        let head = match scan.next() {
            Ok(Some(head)) if head.base_offset == offset => head,
            Ok(_) | Err(ReadError::Corrupt { .. }) => return Ok(None),
            Err(error) => return Err(error),
        };
        match scan.last_offset(&head) {
            Ok(last) if last == self.base() + i64::from(entry.delta) => Ok(Some(head)),
            Ok(_) | Err(ReadError::Corrupt { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn find_from(
        &self,
        disk: &dyn Disk,
        (offset, latest): (i64, Option<i64>),
        range: std::ops::Range<u64>,
        window: usize,
    ) -> Result<Found, ReadError> {
        let started_at_zero = range.start == 0;
        let mut scan: Scan<'_> = self.scan(disk, range, window)?;
        let mut candidate: Option<Head> = None;
        while let Some(head) = scan.next()? {
            // The index says where its batch ends: if this one ends behind that, it is none, or another.
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
                // Before more is read: this may be the one.
                if !scan.has_next() && scan.last_offset(&head)? >= offset {
                    return Ok(Found::At(head));
                }
                continue;
            }
            return match candidate {
                Some(before) if scan.last_offset(&before)? >= offset => Ok(Found::At(before)),
                None if !started_at_zero => Ok(Found::Before),
                _ => Ok(Found::At(head)),
            };
        }
        match candidate {
            Some(last) if scan.last_offset(&last)? >= offset => Ok(Found::At(last)),
            _ => Ok(Found::End),
        }
    }
}

enum Found {
    /// Here.
    At(Head),
    /// Every batch of the range ends before the offset.
    End,
    /// The first batch of the range lies behind the offset, and others may lie before it.
    Before,
}

impl Found {
    fn head(self) -> Option<Head> {
        match self {
            Found::At(head) => Some(head),
            Found::End | Found::Before => None,
        }
    }
}
