//! A range of a file mapped to be written to: bytes get into the page cache by a copy in memory,
//! without a system call.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsFd;

use crate::sys::writing::Writing;

/// A shared mapping of a range of a file that only its owner writes to and that is never read:
/// readers use the file, with the same page cache.
///
/// Written bytes survive the process as after `pwrite`, and `fdatasync` on the file brings them to
/// the device. A page that cannot be brought in, because the file was cut or its disk failed,
/// raises no signal but loses the bytes that are written to it: check [`WriteMap::is_lost`] after
/// each write. The range must have blocks (`fallocate`), or a full disk is such a loss as well.
#[derive(Debug)]
pub struct WriteMap {
    writing: Writing,
    /// Position of the first mapped page in the file.
    origin: u64,
    range: Range<u64>,
}

impl WriteMap {
    /// Maps a range of `file`, which must be open for reading and writing and reach to its end.
    ///
    /// # Errors
    /// A shorter file (`UnexpectedEof`), an empty range, one too many mapping.
    pub fn new(file: &File, range: Range<u64>) -> io::Result<Self> {
        let actual = file.metadata()?.len();
        if actual < range.end {
            let text = format!("cannot map up to {} in a file of {actual} bytes", range.end);
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, text));
        }
        let page_bytes = rustix::param::page_size() as u64;
        let origin = range.start / page_bytes * page_bytes;
        let bytes = usize::try_from(range.end.saturating_sub(origin)).map_err(io::Error::other)?;
        Ok(Self { writing: Writing::new(file, origin, bytes)?, origin, range })
    }

    /// The mapped range of the file.
    pub fn range(&self) -> Range<u64> {
        self.range.clone()
    }

    /// Copies `bytes` to `position` in the file.
    ///
    /// # Panics
    /// If they are not in the range.
    pub fn write(&mut self, position: u64, bytes: &[u8]) {
        let end = position.checked_add(bytes.len() as u64);
        let fits = position >= self.range.start && end.is_some_and(|end| end <= self.range.end);
        assert!(fits, "{} bytes at {position} lie outside {:?}", bytes.len(), self.range);
        // The length fits in a mapping, so it fits in memory.
        self.writing.write((position - self.origin) as usize, bytes);
    }

    /// Receives from a socket, by one system call, what it has for `range` of the file; returns the
    /// number of bytes from the start of `range`, 0 at the end of the stream. Blocks as the socket
    /// does.
    ///
    /// # Errors
    /// Errors of the socket; `EFAULT` if a page cannot be brought in.
    ///
    /// # Panics
    /// If `range` is not within the mapping's.
    pub fn receive(&mut self, range: Range<u64>, socket: impl AsFd) -> io::Result<usize> {
        let fits = self.range.start <= range.start && range.start <= range.end && range.end <= self.range.end;
        assert!(fits, "{range:?} lies outside {:?}", self.range);
        // The range fits in a mapping, so it fits in memory.
        let (at, bytes) = ((range.start - self.origin) as usize, (range.end - range.start) as usize);
        self.writing.receive(at, bytes, socket.as_fd())
    }

    /// True if anything written so far may be lost. The mark is permanent.
    pub fn is_lost(&self) -> bool {
        self.writing.is_lost()
    }

    /// A task that faults in all pages before the writes, for another thread: it may wait for the
    /// disk, changes no byte, and keeps the mapping until it is done. If the kernel cannot (before
    /// 5.14) or a page is not available, writes detect it.
    pub fn populate(&self) -> impl FnOnce() + Send + use<> {
        let region = self.writing.region();
        move || drop(region.populate())
    }
}

#[cfg(test)]
mod tests;
