//! A file of batches read from its beginning, for those who look at it without a log: dumps and checks.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::Path;

use crate::batch::{BatchView, HEADER_LEN, MAGIC, PREFIX_LEN, check_stored};

/// Bytes read at once.
const CHUNK: usize = 1 << 20;
/// Where in a batch its format lies.
const MAGIC_AT: usize = PREFIX_LEN + 4;

/// A segment or snapshot, batch by batch. Memory is bounded by the largest batch that the file really has room for.
#[derive(Debug)]
pub struct Batches {
    input: BufReader<File>,
    len: u64,
    position: u64,
    batch: Vec<u8>,
}

/// What comes next.
#[derive(Debug)]
pub enum Next<'a> {
    /// Bytes that have the form of a batch; whether their checksum is right is for the caller to ask.
    Batch {
        /// Where it begins.
        at: u64,
        /// All of it.
        bytes: &'a [u8],
    },
    /// The end; `unused` bytes of zeros were allocated ahead of use.
    End {
        /// How many.
        unused: u64,
    },
    /// Bytes that are no batch.
    Broken(String),
}

impl Batches {
    /// Opens a file for reading.
    ///
    /// # Errors
    /// No such file, or a failing disk.
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let len = file.metadata()?.len();
        Ok(Self { input: BufReader::with_capacity(CHUNK, file), len, position: 0, batch: Vec::new() })
    }

    /// Where the next batch begins, or the bytes that are none.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// The file's length when it was opened.
    pub fn len_bytes(&self) -> u64 {
        self.len
    }

    /// The next batch. After [`Next::Broken`] there is nothing more to ask.
    ///
    /// # Errors
    /// A failing disk.
    pub fn next_batch(&mut self) -> io::Result<Next<'_>> {
        let left = self.len - self.position;
        self.batch.clear();
        (&mut self.input).take(HEADER_LEN as u64).read_to_end(&mut self.batch)?;
        if self.batch.iter().all(|byte| *byte == 0) {
            return self.zeros(left);
        }
        let size = match self.batch.first_chunk::<HEADER_LEN>().map(BatchView::parse_header) {
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
        let rest = size - HEADER_LEN as u64;
        (&mut self.input).take(rest).read_to_end(&mut self.batch)?;
        let at = self.position;
        self.position += size;
        Ok(Next::Batch { at, bytes: &self.batch })
    }

    /// Zeros up to the end are room for later; zeros in between are a hole.
    fn zeros(&mut self, left: u64) -> io::Result<Next<'_>> {
        let mut chunk = Vec::with_capacity(64 * 1024);
        loop {
            chunk.clear();
            if (&mut self.input).take(64 * 1024).read_to_end(&mut chunk)? == 0 {
                return Ok(Next::End { unused: left });
            }
            if chunk.iter().any(|byte| *byte != 0) {
                return Ok(Next::Broken("zeros where a batch should be, data behind them".to_owned()));
            }
        }
    }

    /// Whether an intact batch of offsets from `offset` on lies anywhere behind bytes that are none: what is torn has nothing behind it.
    pub(super) fn intact_behind(&mut self, offset: i64) -> io::Result<bool> {
        let mut from = self.position + 1;
        while from + HEADER_LEN as u64 <= self.len {
            let window = self.read(from, CHUNK + HEADER_LEN)?;
            let Some(starts) = (window.len() + 1).checked_sub(HEADER_LEN) else { return Ok(false) };
            for skip in (0..starts.min(CHUNK)).filter(|skip| window[skip + MAGIC_AT].cast_signed() == MAGIC) {
                if self.is_intact(from + skip as u64, &window[skip..skip + HEADER_LEN], offset)? {
                    return Ok(true);
                }
            }
            from += CHUNK as u64;
        }
        Ok(false)
    }

    fn is_intact(&mut self, at: u64, header: &[u8], offset: i64) -> io::Result<bool> {
        let Some(Ok(header)) = header.first_chunk::<HEADER_LEN>().map(BatchView::parse_header) else {
            return Ok(false);
        };
        let size = header.size_bytes();
        if header.base_offset() < offset || size as u64 > self.len - at {
            return Ok(false);
        }
        let bytes = self.read(at, size)?;
        Ok(check_stored(&bytes).is_ok())
    }

    /// At most `len` bytes from `at` on, which the file has room for.
    fn read(&mut self, at: u64, len: usize) -> io::Result<Vec<u8>> {
        self.input.seek(SeekFrom::Start(at))?;
        let mut bytes = Vec::new();
        (&mut self.input).take(len as u64).read_to_end(&mut bytes)?;
        Ok(bytes)
    }
}
