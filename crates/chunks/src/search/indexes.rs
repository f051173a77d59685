//! The index files of a segment, read by binary search without loading them.

use std::fs::File;
use std::io;

use crate::Chunk;
use crate::search::read_range;

/// One entry of an offset index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OffsetEntry {
    /// The last offset of the batch, less the base offset of the segment.
    pub delta: u32,
    /// Position of the batch in the segment.
    pub position: u32,
}

/// An offset index. A tail of zeroes, which an index of an unsealed segment has, is not read.
#[derive(Clone, Copy, Debug)]
pub struct OffsetEntries<'a>(Sorted<'a, 8>);

impl<'a> OffsetEntries<'a> {
    /// The index in a part.
    pub fn new(part: &'a Chunk) -> Self {
        Self(Sorted::new(part))
    }

    /// The last entry that is not above an offset, less the base; the start of the segment if there
    /// is none.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn floor(&self, delta: u32) -> io::Result<OffsetEntry> {
        Ok(self.last_where(|entry| entry.delta <= delta)?.unwrap_or_default())
    }

    /// The last entry whose batch begins at or before a position.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn last_within(&self, limit: u64) -> io::Result<Option<OffsetEntry>> {
        self.last_where(|entry| u64::from(entry.position) <= limit)
    }

    /// The first entry whose batch begins at or after a position.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn first_from(&self, position: u64) -> io::Result<Option<OffsetEntry>> {
        let slot = self.count_where(|entry| u64::from(entry.position) < position)?;
        let entry = if slot < self.0.count { Some(offset_entry(self.0.read(slot)?)) } else { None };
        Ok(entry.filter(|entry| slot == 0 || entry.position > 0))
    }

    fn last_where(&self, is_before: impl Fn(&OffsetEntry) -> bool) -> io::Result<Option<OffsetEntry>> {
        match self.count_where(is_before)? {
            0 => Ok(None),
            count => Ok(Some(offset_entry(self.0.read(count - 1)?))),
        }
    }

    fn count_where(&self, is_before: impl Fn(&OffsetEntry) -> bool) -> io::Result<u64> {
        self.0.count_where(|slot, bytes| {
            let entry = offset_entry(bytes);
            (slot == 0 || entry.position > 0) && is_before(&entry)
        })
    }
}

fn offset_entry(bytes: [u8; 8]) -> OffsetEntry {
    let [a, b, c, d, e, f, g, h] = bytes;
    OffsetEntry { delta: u32::from_be_bytes([a, b, c, d]), position: u32::from_be_bytes([e, f, g, h]) }
}

/// A time index.
#[derive(Clone, Copy, Debug)]
pub struct TimeEntries<'a>(Sorted<'a, 12>);

impl<'a> TimeEntries<'a> {
    /// The index in a part.
    pub fn new(part: &'a Chunk) -> Self {
        Self(Sorted::new(part))
    }

    /// The offset, less the base, up to which all records are earlier than a timestamp; none if
    /// that is not known of any.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn delta_before(&self, timestamp: i64) -> io::Result<Option<u32>> {
        let entry = |bytes: [u8; 12]| {
            let (time, delta) = bytes.split_at(8);
            let time = i64::from_be_bytes(time.try_into().expect("eight of twelve bytes"));
            (time, u32::from_be_bytes(delta.try_into().expect("four of twelve bytes")))
        };
        let count = self.0.count_where(|slot, bytes| {
            let (time, delta) = entry(bytes);
            time < timestamp && (slot == 0 || delta > 0)
        })?;
        if count == 0 { Ok(None) } else { Ok(Some(entry(self.0.read(count - 1)?).1)) }
    }
}

/// One aborted transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AbortedEntry {
    /// Producer id of the transaction.
    pub producer_id: i64,
    /// First offset of the transaction in the partition.
    pub first_offset: i64,
}

/// A transaction index.
#[derive(Clone, Copy, Debug)]
pub struct AbortedEntries<'a>(Sorted<'a, 34>);

impl<'a> AbortedEntries<'a> {
    /// The index in a part.
    pub fn new(part: &'a Chunk) -> Self {
        Self(Sorted::new(part))
    }

    /// Adds the transactions with an offset in `from..upto` whose markers are before `end`. Returns
    /// true if later segments have no more of them.
    ///
    /// # Errors
    /// The file cannot be read, or has entries of another version.
    pub fn overlapping(
        &self,
        (from, upto): (i64, i64),
        end: i64,
        into: &mut Vec<AbortedEntry>,
    ) -> io::Result<bool> {
        // Ordered by the offset of the marker, the third number.
        let first = self.0.count_where(|_, bytes| field(&bytes, 2) < from)?;
        for slot in first..self.0.count {
            let bytes = self.0.read(slot)?;
            if bytes[..2] != [0, 0] {
                let text = format!("entry {slot} of a transaction index has an unknown version");
                return Err(io::Error::new(io::ErrorKind::InvalidData, text));
            }
            let (producer_id, first_offset) = (field(&bytes, 0), field(&bytes, 1));
            if field(&bytes, 2) >= end {
                return Ok(false);
            }
            if first_offset < upto {
                into.push(AbortedEntry { producer_id, first_offset });
            }
            if field(&bytes, 3) >= upto {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// One of the four numbers of an aborted transaction.
fn field(bytes: &[u8; 34], number: usize) -> i64 {
    let at = 2 + 8 * number;
    i64::from_be_bytes(bytes[at..at + 8].try_into().expect("eight of 34 bytes"))
}

/// Entries of `WIDTH` bytes in a file.
#[derive(Clone, Copy, Debug)]
struct Sorted<'a, const WIDTH: usize> {
    file: &'a File,
    count: u64,
}

impl<'a, const WIDTH: usize> Sorted<'a, WIDTH> {
    fn new(part: &'a Chunk) -> Self {
        Self { file: &part.file, count: part.len / WIDTH as u64 }
    }

    fn read(&self, slot: u64) -> io::Result<[u8; WIDTH]> {
        let mut bytes = [0; WIDTH];
        read_range(self.file, slot * WIDTH as u64, &mut bytes)?;
        Ok(bytes)
    }

    /// Number of entries before the first one for which `is_before` is false.
    fn count_where(&self, is_before: impl Fn(u64, [u8; WIDTH]) -> bool) -> io::Result<u64> {
        let (mut low, mut high) = (0, self.count);
        while low < high {
            let middle = low.midpoint(high);
            if is_before(middle, self.read(middle)?) { low = middle + 1 } else { high = middle }
        }
        Ok(low)
    }
}
