//! Sequential reading of a file of batches without a log, for dumps and checks.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use levada_base::batch::{BatchView, HEADER_LEN, MAGIC, PREFIX_LEN, check_stored};

use crate::disk::Disk;
use crate::segment::is_zero;

/// Bytes of one read.
const CHUNK: usize = 1 << 20;
/// Position of the format in a batch.
const MAGIC_AT: usize = PREFIX_LEN + 4;

/// Reads a segment or snapshot batch by batch. Memory is bounded by the largest batch that fits
/// into the file.
#[derive(Debug)]
pub struct Batches<'a> {
    disk: &'a dyn Disk,
    path: PathBuf,
    file: File,
    len: u64,
    position: u64,
    window: Vec<u8>,
    window_at: u64,
}

/// The next thing in a segment.
#[derive(Debug)]
pub enum Next<'a> {
    /// Bytes in the form of a batch; the caller verifies the checksum.
    Batch {
        /// Position of the batch.
        at: u64,
        /// Bytes of the whole batch.
        bytes: &'a [u8],
    },
    /// The end; `unused` bytes of zeros were allocated ahead of use.
    End {
        /// Number of bytes allocated ahead of use.
        unused: u64,
    },
    /// Bytes that are not a batch.
    Broken(String),
}

impl<'a> Batches<'a> {
    /// Opens a file for reading.
    ///
    /// # Errors
    /// The file does not exist, or the disk fails.
    pub fn open(disk: &'a dyn Disk, path: &Path) -> io::Result<Self> {
        let file = disk.open_to_read(path)?;
        let len = disk.len(path)?;
        let (path, window) = (path.to_owned(), Vec::new());
        Ok(Self { disk, path, file, len, position: 0, window, window_at: 0 })
    }

    /// Position of the next batch, or of bytes that are not a batch.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// The file's length when it was opened.
    pub fn len_bytes(&self) -> u64 {
        self.len
    }

    /// The next batch. [`Next::Broken`] is the last result.
    ///
    /// # Errors
    /// A failing disk.
    pub fn next_batch(&mut self) -> io::Result<Next<'_>> {
        let (at, left) = (self.position, self.len - self.position);
        let header = self.read(at, HEADER_LEN)?;
        if is_zero(header) {
            return self.zeros();
        }
        let size = match header.first_chunk::<HEADER_LEN>().map(BatchView::parse_header) {
            Some(Ok(header)) => header.size_bytes() as u64,
            Some(Err(error)) => return Ok(Next::Broken(error.to_string())),
            None => {
                return Ok(Next::Broken(format!(
                    "batch is cut short: {left} of at least {HEADER_LEN} bytes"
                )));
            }
        };
        if size > left {
            return Ok(Next::Broken(format!("batch is cut short: {left} of {size} bytes")));
        }
        self.position += size;
        let bytes = self.read(at, usize::try_from(size).unwrap_or(usize::MAX))?;
        match bytes.len() as u64 {
            whole if whole == size => Ok(Next::Batch { at, bytes }),
            part => Ok(Next::Broken(format!("batch is cut short: {part} of {size} bytes"))),
        }
    }

    /// Reads zeros: up to the end they are preallocated space; before other bytes they are a hole.
    fn zeros(&mut self) -> io::Result<Next<'_>> {
        let mut at = self.position;
        loop {
            let bytes = self.read(at, CHUNK)?;
            if bytes.is_empty() {
                return Ok(Next::End { unused: self.len - self.position });
            }
            if !is_zero(bytes) {
                return Ok(Next::Broken("zeros where a batch should be, data after them".to_owned()));
            }
            at += bytes.len() as u64;
        }
    }

    /// True if an intact batch of offsets from `offset` on exists anywhere after damaged bytes: a
    /// torn write has nothing after it.
    pub(super) fn intact_behind(&mut self, offset: i64) -> io::Result<bool> {
        let mut from = self.position + 1;
        while from + HEADER_LEN as u64 <= self.len {
            let window = self.read(from, CHUNK + HEADER_LEN)?;
            let starts = (window.len() + 1).saturating_sub(HEADER_LEN).min(CHUNK);
            let likely = |skip: &usize| window[skip + MAGIC_AT].cast_signed() == MAGIC;
            let likely: Vec<usize> = (0..starts).filter(likely).collect();
            for skip in likely {
                if self.is_intact(from + skip as u64, offset)? {
                    return Ok(true);
                }
            }
            from += CHUNK as u64;
        }
        Ok(false)
    }

    fn is_intact(&mut self, at: u64, offset: i64) -> io::Result<bool> {
        let left = self.len - at;
        let header = self.read(at, HEADER_LEN)?;
        let Some(Ok(header)) = header.first_chunk::<HEADER_LEN>().map(BatchView::parse_header) else {
            return Ok(false);
        };
        let size = header.size_bytes();
        if header.base_offset() < offset || size as u64 > left {
            return Ok(false);
        }
        Ok(check_stored(self.read(at, size)?).is_ok())
    }

    /// `len` bytes at `at`, or as many as the file has. The file was at least this long when its
    /// length was read.
    fn read(&mut self, at: u64, len: usize) -> io::Result<&[u8]> {
        let skip = at.checked_sub(self.window_at).and_then(|skip| usize::try_from(skip).ok());
        let skip = match skip.filter(|skip| skip + len <= self.window.len()) {
            Some(skip) => skip,
            None => {
                let room = usize::try_from(self.len.saturating_sub(at)).unwrap_or(usize::MAX);
                self.window.resize(CHUNK.max(len).min(room), 0);
                let read = self.disk.read_at(&self.file, &self.path, &mut self.window, at);
                self.window.truncate(*read.as_ref().unwrap_or(&0));
                read?;
                self.window_at = at;
                0
            }
        };
        let end = (skip + len).min(self.window.len());
        Ok(&self.window[skip..end])
    }
}
