//! Checks of the entries of an index file against the batches of its segment.

use std::collections::HashSet;
use std::io;
use std::path::Path;

use levada_base::batch::{BatchView, NO_TIMESTAMP};

use crate::disk::Disk;
use crate::index::{Aborted, TXN_WIDTH};

/// Larger than any index may be configured to be, bytes.
const INDEX_BYTES_MAX: usize = i32::MAX as usize;

/// Position and reason of an error in an index.
pub(super) type Fault = (u64, String);

/// Check of an offset index against the batches of its segment.
pub(super) struct Offsets {
    entries: Vec<(u32, u32)>,
    next: usize,
}

/// Check of a time index against the batches of its segment.
pub(super) struct Times {
    entries: Vec<(i64, u32)>,
    next: usize,
    latest: i64,
}

/// The used slots of an index file; the zeroes after them are reserved space. `None` if the file
/// does not exist.
fn slots<const WIDTH: usize>(
    disk: &dyn Disk,
    path: &Path,
) -> io::Result<Option<Result<Vec<[u8; WIDTH]>, Fault>>> {
    let file = match disk.open_to_read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other?,
    };
    let len = disk.len(path)?;
    let Some(len) = usize::try_from(len).ok().filter(|len| *len <= INDEX_BYTES_MAX) else {
        return Ok(Some(Err((0, format!("{len} bytes are more than an index may have")))));
    };
    // The length comes from the file system, and is bounded.
    let mut bytes = vec![0; len];
    let read = disk.read_at(&file, path, &mut bytes, 0)?;
    bytes.truncate(read);
    let (whole, rest) = bytes.as_chunks::<WIDTH>();
    if rest.iter().any(|byte| *byte != 0) {
        let at = (whole.len() * WIDTH) as u64;
        return Ok(Some(Err((at, format!("{} bytes at its end are not a whole entry", rest.len())))));
    }
    let used = whole.iter().rposition(|slot| *slot != [0; WIDTH]).map_or(0, |last| last + 1);
    // A file of one entry has been cut to it, even if that entry is zero.
    let used = if whole.len() == 1 { 1 } else { used };
    Ok(Some(Ok(whole[..used].to_vec())))
}

fn u32_at(slot: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(slot[at..at + 4].try_into().expect("four bytes of a slot"))
}

fn i64_at(slot: &[u8], at: usize) -> i64 {
    i64::from_be_bytes(slot[at..at + 8].try_into().expect("eight bytes of a slot"))
}

impl Offsets {
    /// Reads the file; `None` if there is none. Both fields ascend.
    pub(super) fn load(disk: &dyn Disk, path: &Path) -> io::Result<Option<Result<Self, Fault>>> {
        let Some(slots) = slots::<8>(disk, path)? else { return Ok(None) };
        Ok(Some(slots.and_then(|slots| {
            let entries: Vec<(u32, u32)> =
                slots.iter().map(|slot| (u32_at(slot, 0), u32_at(slot, 4))).collect();
            let wrong = entries.windows(2).position(|pair| pair[1].0 <= pair[0].0 || pair[1].1 <= pair[0].1);
            match wrong {
                Some(at) => Err(((at as u64 + 1) * 8, format!("entry {} is out of order", at + 1))),
                None => Ok(Self { entries, next: 0 }),
            }
        })))
    }

    /// The batch at `position`: an entry that leads into the middle of one, or to one with other
    /// offsets, is wrong.
    pub(super) fn meet(&mut self, base: i64, position: u64, batch: &BatchView<'_>) -> Option<Fault> {
        let end = position + batch.size_bytes() as u64;
        let mut fault = None;
        while let Some((delta, there)) = self.entries.get(self.next).filter(|entry| u64::from(entry.1) < end)
        {
            let (at, offset) = (self.next as u64 * 8, base + i64::from(*delta));
            let wrong = if u64::from(*there) != position {
                Some(format!("entry {} leads to position {there}, where no batch begins", self.next))
            } else if batch.last_offset() > offset {
                let last = batch.last_offset();
                Some(format!("entry {} has {offset} for a batch that ends at {last}", self.next))
            } else {
                None
            };
            fault = fault.or(wrong.map(|what| (at, what)));
            self.next += 1;
        }
        fault
    }

    /// An entry that leads beyond all batches.
    pub(super) fn rest(&self) -> Option<Fault> {
        let (_, position) = self.entries.get(self.next)?;
        let what = format!("entry {} leads to position {position}, after the last batch", self.next);
        Some((self.next as u64 * 8, what))
    }
}

impl Times {
    /// Reads the file; `None` if there is none. Both fields ascend.
    pub(super) fn load(disk: &dyn Disk, path: &Path) -> io::Result<Option<Result<Self, Fault>>> {
        let Some(slots) = slots::<12>(disk, path)? else { return Ok(None) };
        Ok(Some(slots.and_then(|slots| {
            let entries: Vec<(i64, u32)> =
                slots.iter().map(|slot| (i64_at(slot, 0), u32_at(slot, 8))).collect();
            let wrong = entries.windows(2).position(|pair| pair[1].0 <= pair[0].0 || pair[1].1 < pair[0].1);
            match wrong {
                Some(at) => Err(((at as u64 + 1) * 12, format!("entry {} is out of order", at + 1))),
                None => Ok(Self { entries, next: 0, latest: NO_TIMESTAMP }),
            }
        })))
    }

    /// The next batch: a search by time starts after the previous entry, so no earlier batch may be
    /// later.
    pub(super) fn meet(&mut self, base: i64, batch: &BatchView<'_>) -> Option<Fault> {
        let mut fault = None;
        while let Some((time, delta)) =
            self.entries.get(self.next).filter(|entry| base + i64::from(entry.1) < batch.base_offset())
        {
            fault = fault.or(self.judge(*time, *delta));
            self.next += 1;
        }
        self.latest = self.latest.max(batch.max_timestamp());
        fault
    }

    /// The entries after the last batch. The last entry of a `sealed` segment has its latest time.
    pub(super) fn rest(&mut self, base: i64, end_offset: i64, sealed: bool) -> Option<Fault> {
        let mut fault = None;
        while let Some((time, delta)) = self.entries.get(self.next).copied() {
            let at = self.next as u64 * 12;
            let offset = base + i64::from(delta);
            let behind = (offset >= end_offset && (time, delta) != (0, 0))
                .then(|| (at, format!("entry {} is of offset {offset}, after the last batch", self.next)));
            fault = fault.or(behind).or(self.judge(time, delta));
            self.next += 1;
        }
        let told = self.entries.last().map_or(NO_TIMESTAMP, |entry| entry.0);
        let untold = sealed && told < self.latest;
        fault.or_else(|| {
            let at = self.entries.len() as u64 * 12;
            untold.then(|| {
                (
                    at,
                    format!(
                        "its latest time is {told}, but the latest time of the batches is {}",
                        self.latest
                    ),
                )
            })
        })
    }

    fn judge(&self, time: i64, delta: u32) -> Option<Fault> {
        let what = || {
            let latest = self.latest;
            format!("entry {} has time {time}, but an earlier batch has {latest} (delta {delta})", self.next)
        };
        (self.latest > time).then(|| (self.next as u64 * 12, what()))
    }
}

/// Reads an index of aborted transactions; `None` if there is none. Last offsets ascend.
pub(super) fn load_aborted(disk: &dyn Disk, path: &Path) -> io::Result<Option<Result<Vec<Aborted>, Fault>>> {
    let Some(slots) = slots::<{ TXN_WIDTH }>(disk, path)? else { return Ok(None) };
    Ok(Some(slots.and_then(|slots| {
        let mut entries: Vec<Aborted> = Vec::new();
        for (at, slot) in slots.iter().enumerate() {
            let wrong = |what: &str| Err(((at * TXN_WIDTH) as u64, format!("entry {at} {what}")));
            let Some(entry) = Aborted::decode(slot) else { return wrong("is of no known version") };
            if entries.last().is_some_and(|last| entry.last_offset < last.last_offset) {
                return wrong("is out of order");
            }
            entries.push(entry);
        }
        Ok(entries)
    })))
}

/// The first transaction of the batches that is missing in the index.
pub(super) fn untold(told: &[Aborted], seen: &[Aborted]) -> Option<Fault> {
    let known: HashSet<(i64, i64)> =
        told.iter().map(|entry| (entry.producer_id, entry.last_offset)).collect();
    let missing = seen.iter().find(|one| !known.contains(&(one.producer_id, one.last_offset)))?;
    let Aborted { producer_id, first_offset, last_offset, .. } = missing;
    let what = format!(
        "the transaction index has no entry for the transaction of producer {producer_id} aborted at offset \
         {last_offset}: read_committed consumers receive its records from offset {first_offset}"
    );
    Some(((told.len() * TXN_WIDTH) as u64, what))
}
