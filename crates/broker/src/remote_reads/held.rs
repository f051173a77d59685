//! A remote segment during one attempt: the cached parts, which stay open until the attempt ends.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use levada_chunks::search::RecordBytes;
use levada_chunks::{CHUNK_BYTES, Cache, Chunk, Part};
use levada_io::Extent;
use levada_remote::RemoteError;
use levada_tiered::RemoteSegment;

use super::fault::{RemoteFault, Stop};
use super::fetches::RemotePart;

/// A segment and the parts of its records.
pub(super) struct HeldSegment<'a> {
    cache: &'a Cache<RemoteError>,
    pub(super) segment: Arc<RemoteSegment>,
    chunks: RefCell<BTreeMap<u32, Chunk>>,
}

impl<'a> HeldSegment<'a> {
    pub(super) fn new(cache: &'a Cache<RemoteError>, segment: Arc<RemoteSegment>) -> Self {
        Self { cache, segment, chunks: RefCell::default() }
    }

    /// Bytes of its records.
    pub(super) fn size(&self) -> u64 {
        u64::try_from(self.segment.size).unwrap_or(0)
    }

    /// An offset as the indexes store it.
    pub(super) fn delta(&self, offset: i64) -> u32 {
        u32::try_from(offset.saturating_sub(self.segment.start_offset).clamp(0, i64::from(i32::MAX)))
            .expect("clamped to 31 bits")
    }

    /// An index.
    pub(super) fn index(&self, part: Part) -> Result<Chunk, Stop> {
        let part = RemotePart { segment: self.segment.clone(), part };
        self.cache.there(part.key()).ok_or(Stop::Lacks(part))
    }

    /// End of the bytes that are there from `from` on, at most `limit`.
    pub(super) fn there_until(&self, from: u64, limit: u64) -> u64 {
        let mut end = from;
        while end < limit && self.chunk(number_at(end)).is_ok() {
            end = (u64::from(number_at(end)) + 1).saturating_mul(CHUNK_BYTES).min(limit);
        }
        end
    }

    /// The ranges of files that have these bytes.
    pub(super) fn extents(&self, range: Range<u64>) -> Result<Vec<Extent>, Stop> {
        let mut extents = Vec::new();
        self.each_part(range, |chunk, within| {
            let len = within.end - within.start;
            extents.push(Extent { file: chunk.file.clone(), offset: within.start, len });
            Ok(())
        })?;
        Ok(extents)
    }

    fn each_part(
        &self,
        range: Range<u64>,
        mut each: impl FnMut(&Chunk, Range<u64>) -> Result<(), Stop>,
    ) -> Result<(), Stop> {
        let mut at = range.start;
        while at < range.end {
            let number = number_at(at);
            let start = u64::from(number) * CHUNK_BYTES;
            let end = range.end.min(start + CHUNK_BYTES);
            let chunk = self.chunk(number)?;
            if end - start > chunk.len {
                let text = format!("part {number} of {} is too short", self.segment.id);
                return Err(RemoteFault::Cache(text).into());
            }
            each(&chunk, at - start..end - start)?;
            at = end;
        }
        Ok(())
    }

    fn chunk(&self, number: u32) -> Result<Chunk, Stop> {
        if let Some(chunk) = self.chunks.borrow().get(&number) {
            return Ok(chunk.clone());
        }
        let chunk = self.index(Part::Records(number))?;
        self.chunks.borrow_mut().insert(number, chunk.clone());
        Ok(chunk)
    }
}

impl RecordBytes for HeldSegment<'_> {
    type Error = Stop;

    fn read_at(&self, position: u64, into: &mut [u8]) -> Result<(), Stop> {
        let mut filled = 0;
        self.each_part(position..position + into.len() as u64, |chunk, within| {
            let len = usize::try_from(within.end - within.start).expect("a part of a slice");
            let read = chunk.file.read_exact_at(&mut into[filled..filled + len], within.start);
            read.map_err(|error: io::Error| RemoteFault::Cache(error.to_string()))?;
            filled += len;
            Ok(())
        })
    }
}

/// Number of the part with the bytes at a position.
pub(super) fn number_at(position: u64) -> u32 {
    u32::try_from(position / CHUNK_BYTES).unwrap_or(u32::MAX)
}
