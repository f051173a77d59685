//! Chunks of records that Aiven's plug-in compressed: each is one frame of zstd.

use std::io;
use std::ops::Range;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// Largest chunk of plain records that a reader accepts. The plug-in's usual one has 4 MiB.
const CHUNK_LIMIT: u64 = 64 * 1024 * 1024;
/// Most chunks of a segment.
const COUNT_LIMIT: u64 = 1 << 20;

/// Positions of the chunks of a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Chunks {
    /// Bytes of plain records in each chunk but the last.
    chunk: u64,
    /// Bytes of all plain records.
    size: u64,
    /// Ends of the compressed chunks in the object.
    ends: Vec<u64>,
}

/// Plain records of a range, from compressed chunks in order.
pub(crate) struct Expander<'a> {
    chunks: &'a Chunks,
    range: Range<u64>,
    /// Number of the chunk that is received.
    at: usize,
    received: Vec<u8>,
}

impl Chunks {
    /// Reads the list of compressed lengths: base 64 of zstd of a count, a base, the bytes of a
    /// difference, the differences of all but the last, and the last length, all big-endian. An
    /// error is the cause.
    pub(crate) fn variable(chunk: u64, size: u64, text: &str) -> Result<Self, String> {
        let invalid = || "the list of compressed chunks in the manifest is not valid".to_owned();
        let count = if chunk == 0 { u64::MAX } else { size.div_ceil(chunk) };
        if chunk > CHUNK_LIMIT || count > COUNT_LIMIT {
            return Err(format!("chunks of {chunk} bytes in a segment of {size} bytes are not valid"));
        }
        let compressed = STANDARD.decode(text).map_err(|_| invalid())?;
        // At most four bytes for each chunk, and the head.
        let limit = 16 + 4 * count as usize;
        let list = zstd::bulk::decompress(&compressed, limit).map_err(|_| invalid())?;
        let lengths = lengths(&list).filter(|lengths| lengths.len() as u64 == count).ok_or_else(invalid)?;
        let mut end = 0;
        let ends = lengths.into_iter().map(|length| {
            end += u64::from(length);
            // An incompressible chunk grows by little.
            (u64::from(length) <= 2 * CHUNK_LIMIT).then_some(end)
        });
        let ends = ends.collect::<Option<_>>().ok_or_else(invalid)?;
        Ok(Self { chunk, size, ends })
    }

    /// Length of the object with the chunks.
    pub(crate) fn object_length(&self) -> u64 {
        self.ends.last().copied().unwrap_or(0)
    }

    /// Range of the chunks that contain a range of plain records, which lies within the segment.
    pub(crate) fn stored(&self, range: Range<u64>) -> Range<u64> {
        if range.is_empty() {
            return 0..0;
        }
        // A segment has fewer chunks than the limit.
        let (first, last) = ((range.start / self.chunk) as usize, ((range.end - 1) / self.chunk) as usize);
        self.begin(first)..self.ends[last]
    }

    /// Takes the bytes of [`Self::stored`] for the same range.
    pub(crate) fn expander(&self, range: Range<u64>) -> Expander<'_> {
        let at = (range.start / self.chunk) as usize;
        Expander { chunks: self, range, at, received: Vec::new() }
    }

    fn begin(&self, at: usize) -> u64 {
        if at == 0 { 0 } else { self.ends[at - 1] }
    }
}

impl Expander<'_> {
    /// Takes the next bytes, and passes the records of complete chunks to `sink`. If a chunk is not
    /// valid, `damage` gets the cause and the result is an error.
    pub(crate) fn take(
        &mut self,
        mut piece: &[u8],
        damage: &mut Option<String>,
        sink: &mut dyn FnMut(&[u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        while !piece.is_empty() {
            // The store does not pass more bytes than it was asked for.
            let Some(end) = self.chunks.ends.get(self.at) else { break };
            let whole = (end - self.chunks.begin(self.at)) as usize;
            let (taken, rest) = piece.split_at(piece.len().min(whole - self.received.len()));
            self.received.extend_from_slice(taken);
            piece = rest;
            if self.received.len() == whole {
                self.expand(damage, sink)?;
            }
        }
        Ok(())
    }

    fn expand(
        &mut self,
        damage: &mut Option<String>,
        sink: &mut dyn FnMut(&[u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        let begin = self.at as u64 * self.chunks.chunk;
        let end = (begin + self.chunks.chunk).min(self.chunks.size);
        let length = (end - begin) as usize;
        let plain = zstd::bulk::decompress(&self.received, length);
        let Some(plain) = plain.ok().filter(|plain| plain.len() == length) else {
            *damage = Some(format!("chunk {} is not valid", self.at));
            return Err(io::ErrorKind::InvalidData.into());
        };
        self.at += 1;
        self.received.clear();
        let wanted = self.range.start.max(begin)..self.range.end.min(end);
        sink(&plain[(wanted.start - begin) as usize..(wanted.end - begin) as usize])
    }
}

/// Lengths in the plug-in's list. None if it is cut short or has further bytes.
fn lengths(list: &[u8]) -> Option<Vec<u32>> {
    let (count, rest) = list.split_first_chunk::<4>()?;
    let count = u32::from_be_bytes(*count) as usize;
    if count < 2 {
        let lengths: Vec<u32> = rest.chunks_exact(4).map(number).collect();
        return (lengths.len() == count && rest.len() == 4 * count).then_some(lengths);
    }
    let (base, rest) = rest.split_first_chunk::<4>()?;
    let (width, rest) = rest.split_first()?;
    let (differences, last) = rest.split_last_chunk::<4>()?;
    let width = usize::from(*width);
    if !(1..=4).contains(&width) || differences.len() != (count - 1) * width {
        return None;
    }
    let base = u32::from_be_bytes(*base);
    let all = differences.chunks_exact(width).map(|bytes| base.checked_add(number(bytes)));
    all.chain([Some(u32::from_be_bytes(*last))]).collect()
}

/// A big-endian number of at most four bytes.
fn number(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0, |number, byte| number << 8 | u32::from(*byte))
}

#[cfg(test)]
mod tests;
