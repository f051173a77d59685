//! Reads file ranges through a ring, several at a time and in order, so that the disk works ahead
//! of the connection.
//!
//! For data that is not in the page cache and is not expected to be read again soon. Each piece
//! comes in a buffer of a pool, ready for an [`Outbox`](crate::outbox::Outbox): with a registered
//! pool and a route that does not copy, bytes go from disk to network with one copy (none for files
//! opened with `O_DIRECT`). When the pool is empty it waits, so that a slow receiver delays its
//! reader and memory stays within the pool.
//!
//! *Saves* waiting: many reads are in flight at the same time and each completes when its pages are
//! loaded, registered buffers are pinned once, and with `RWF_DONTCACHE` pages leave the cache
//! immediately.
//! *Needs* a ring. *Loses* on hot data, which `preadv2` returns in the same call and `splice` does
//! not copy at all.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use super::MemoryPiece;
use crate::counters::{Counters, Fallback};
use crate::error::{SourceFault, TransferError};
use crate::path::Path;
use crate::piece::Extent;
use crate::ring::{Caching, Completion, Event, Key, Memory, Operation, Ring};
use crate::sys::buf::{Buffer, BufferPool};

/// Options for reading files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InflowOptions {
    /// Fate of the pages. [`Caching::Drop`] becomes [`Caching::Keep`] where it is not
    /// known.
    pub caching: Caching,
    /// Alignment of offsets, lengths and buffers: 1, or for files opened with `O_DIRECT` the value
    /// of `statx` (`dio_offset_align`; 4096 works on all common devices). The read is then larger
    /// than needed, and the excess is dropped.
    pub alignment: u64,
    /// Maximum number of reads in flight.
    pub depth: usize,
}

impl Default for InflowOptions {
    fn default() -> Self {
        Self { caching: Caching::Keep, alignment: 1, depth: 4 }
    }
}

/// Ranges on their way from the disk.
#[derive(Debug)]
pub struct Inflow {
    access: InflowOptions,
    /// Ranges that are not requested yet.
    extents: VecDeque<Extent>,
    /// Ranges in progress or finished, in order.
    parts: VecDeque<Part>,
}

/// The capacity of one buffer.
#[derive(Debug)]
struct Part {
    extent: Extent,
    state: State,
}

#[derive(Debug)]
enum State {
    /// The read is to be requested, or requested again.
    Wanted,
    Reading(Key, Caching),
    Ready(MemoryPiece),
}

impl Inflow {
    /// Will read `extents`, in this order.
    pub fn new(extents: impl IntoIterator<Item = Extent>, access: InflowOptions) -> Self {
        let extents = extents.into_iter().filter(|extent| extent.len > 0).collect();
        Self { access, extents, parts: VecDeque::new() }
    }

    /// Queues reads in the ring, as many as depth, pool and ring permit, and returns their keys:
    /// pass completions with these keys to [`take_in`](Inflow::take_in).
    pub fn submit(&mut self, ring: &mut Ring, pool: &BufferPool) -> Vec<Key> {
        let mut keys = Vec::new();
        let reading = |part: &Part| matches!(part.state, State::Reading(..));
        let mut under_way = self.parts.iter().filter(|part| reading(part)).count();
        while under_way < self.access.depth.max(1) && ring.room() > 0 {
            let Some(buffer) = pool.take() else { break };
            let Some(part) = self.wanted(buffer.capacity() as u64) else { break };
            let access = part.1;
            let whole = aligned(&part.0.extent, access.alignment);
            let read = operation(whole, buffer, access.caching);
            let Ok(key) = ring.push(read) else { break };
            part.0.state = State::Reading(key, access.caching);
            keys.push(key);
            under_way += 1;
        }
        keys
    }

    /// Processes a completion of one of its reads.
    ///
    /// # Errors
    /// [`TransferError::Source`] if the file could not be read or ends before its extent.
    pub fn take_in(&mut self, completion: Completion, counters: &Counters) -> Result<(), TransferError> {
        let Completion { key, event } = completion;
        let mine = |part: &Part| match part.state {
            State::Reading(reading, caching) if reading == key => Some(caching),
            _ => None,
        };
        let found = self.parts.iter().enumerate().find_map(|(at, part)| Some((at, mine(part)?)));
        let Some((at, caching)) = found else { return Ok(()) };
        let Event::Done { result, memory: Memory::Buffer(buffer) } = event else { return Ok(()) };
        let part = &mut self.parts[at];
        match result {
            Ok(count) => {
                let skip = part.extent.offset % self.access.alignment.max(1);
                let got = (count as u64).saturating_sub(skip).min(part.extent.len);
                if got == 0 {
                    return Err(TransferError::source(&part.extent, 0, SourceFault::Truncated));
                }
                counters.moved(Path::UringRead, got);
                counters.copied(got);
                // The kernel reads no more than requested, and `got` was limited to the extent.
                let rest = part.extent.after(got);
                part.extent.len = got;
                let start = usize::try_from(skip).expect("within a buffer");
                let end = usize::try_from(skip + got).expect("within a buffer");
                part.state = State::Ready(MemoryPiece::Buffer(Arc::new(buffer), start..end));
                if rest.len > 0 {
                    self.parts.insert(at + 1, Part { extent: rest, state: State::Wanted });
                }
            }
            Err(error) if caching == Caching::Drop && is_unknown(&error) => {
                counters.fell_back(Fallback::UncachedReadRefused);
                self.access.caching = Caching::Keep;
                part.state = State::Wanted;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => part.state = State::Wanted,
            Err(error) => return Err(TransferError::source(&part.extent, 0, SourceFault::Read(error))),
        }
        Ok(())
    }

    /// The next piece, if it is there.
    pub fn next_piece(&mut self) -> Option<MemoryPiece> {
        let State::Ready(_) = self.parts.front()?.state else { return None };
        match self.parts.pop_front()?.state {
            State::Ready(piece) => Some(piece),
            State::Wanted | State::Reading(..) => None,
        }
    }

    /// True if all ranges have been read and consumed.
    pub fn is_done(&self) -> bool {
        self.extents.is_empty() && self.parts.is_empty()
    }

    /// The next part to request: the rest of a short read, or a new one of `capacity` bytes.
    fn wanted(&mut self, capacity: u64) -> Option<(&mut Part, InflowOptions)> {
        let access = self.access;
        let again = self.parts.iter().position(|part| matches!(part.state, State::Wanted));
        if again.is_none() {
            let extent = self.extents.front_mut()?;
            let alignment = access.alignment.max(1);
            // A whole number of blocks fits, the first of which may be needed in part only.
            let len = (capacity - capacity % alignment).saturating_sub(extent.offset % alignment);
            let part = Extent { len: len.clamp(1, extent.len), ..extent.clone() };
            *extent = extent.after(part.len);
            debug_assert_eq!(part.offset + part.len, extent.offset, "parts are contiguous");
            if extent.len == 0 {
                self.extents.pop_front();
            }
            self.parts.push_back(Part { extent: part, state: State::Wanted });
        }
        let at = again.unwrap_or(self.parts.len() - 1);
        self.parts.get_mut(at).map(|part| (part, access))
    }
}

/// Reads as much of an extent as fits.
fn operation(extent: Extent, buffer: Buffer, caching: Caching) -> Operation {
    let len = usize::try_from(extent.len).unwrap_or(usize::MAX);
    Operation::read(extent.file, extent.offset, len, buffer).caching(caching)
}

/// The blocks that an extent touches.
fn aligned(extent: &Extent, alignment: u64) -> Extent {
    let alignment = alignment.max(1);
    let offset = extent.offset - extent.offset % alignment;
    let len = (extent.offset - offset + extent.len).next_multiple_of(alignment);
    Extent { file: Arc::clone(&extent.file), offset, len }
}

/// Error for a flag that the kernel or the file system does not support.
fn is_unknown(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP))
}

#[cfg(test)]
mod tests;
