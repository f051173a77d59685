//! Copies from file to file: shares blocks if the file system can, otherwise copies inside the
//! kernel, otherwise through memory. Holes stay holes.
//!
//! The order is reflink → `copy_file_range` → `splice` through a pipe → read and write. If a path
//! refuses, also in the middle of a file, the copy continues with the next one; the [`Copied`]
//! contains the bytes of each path.
//!
//! It waits for the disk: do not call it on a thread that serves connections.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use std::fs::File;
//! use levada_io::copy::{CopyOptions, copy};
//!
//! let from = File::open("Cargo.toml")?;
//! let to = tempfile::tempfile()?;
//! let copied = copy(&from, &to, &CopyOptions::default(), |done, total| eprintln!("{done} of {total}"))?;
//! assert_eq!(copied.data_bytes() + copied.hole_bytes, from.metadata()?.len());
//! # Ok(())
//! # }
//! ```

use std::fs::File;
use std::io;

use rustix::fs::SeekFrom;
use rustix::io::Errno;

use crate::counters::{Counters, Fallback};
use crate::path::Path;
use crate::pipe::{Pipe, PipePool};
use crate::thresholds::Thresholds;

mod copy_file_range;
mod read_write;
mod reflink;
mod splice;

/// Options of a copy.
#[derive(Debug, Clone, Copy, Default)]
pub struct CopyOptions<'a> {
    /// The only path to use, one of [`COPY_PATHS`]. By default one after the other is tried.
    pub only: Option<Path>,
    /// Counters to update, in addition to the result.
    pub counters: Option<&'a Counters>,
}

/// The paths from file to file, best first.
pub const COPY_PATHS: [Path; 4] = [Path::Reflink, Path::CopyFileRange, Path::Splice, Path::ReadWrite];

/// Copied bytes, by path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Copied {
    /// Bytes by path, in the order of [`COPY_PATHS`]; paths that moved none are left out.
    pub by_path: Vec<(Path, u64)>,
    /// Bytes of holes, which were not copied but left out again.
    pub hole_bytes: u64,
}

impl Copied {
    /// Bytes copied or shared; all but the holes.
    pub fn data_bytes(&self) -> u64 {
        self.by_path.iter().map(|(_, bytes)| bytes).sum()
    }
}

/// The reason why a copy failed. The destination holds a part.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    /// The requested path cannot copy this file.
    #[error("{path} cannot copy between these files: {cause}")]
    Refused {
        /// Path that was refused.
        path: Path,
        /// Error of the operating system.
        cause: io::Error,
    },
    /// The source could not be read.
    #[error("cannot read at offset {offset}: {cause}")]
    Read {
        /// Position in the source, bytes.
        offset: u64,
        /// Error of the operating system.
        cause: io::Error,
    },
    /// The destination could not be written, or the source not be read by a call that does both.
    #[error("cannot copy at offset {offset}: {cause}")]
    Write {
        /// Position in both files, bytes.
        offset: u64,
        /// Error of the operating system.
        cause: io::Error,
    },
}

/// Copies all of `from` over `to`, which is cut or grown to the same length. Positions of the files
/// do not matter, and move.
///
/// Copies the length that the source has at the start; if it has none (as files of `/proc`), reads
/// to the end. After every step, at least each 64 MiB, `progress` gets the copied and the total
/// length.
///
/// # Errors
/// See [`CopyError`]; a source that is truncated during the copy is an error too.
pub fn copy(
    from: &File,
    to: &File,
    options: &CopyOptions<'_>,
    progress: impl FnMut(u64, u64),
) -> Result<Copied, CopyError> {
    let total = from.metadata().map_err(|cause| CopyError::Read { offset: 0, cause })?.len();
    let own = Counters::default();
    let counters = options.counters.unwrap_or(&own);
    let before = counters.snapshot();
    let mut work = Work { from, to, total, counters, progress, pipe: None, only: options.only, holes: 0 };
    work.run()?;
    let hole_bytes = work.holes;
    let after = counters.snapshot();
    let moved = COPY_PATHS.map(|path| (path, after.bytes(path) - before.bytes(path)));
    Ok(Copied { by_path: moved.into_iter().filter(|(_, bytes)| *bytes > 0).collect(), hole_bytes })
}

/// The range of one step, at the same offset in both files.
#[derive(Clone, Copy)]
struct StepRange {
    offset: u64,
    len: u64,
}

/// Result of one step of a path.
enum StepOutcome {
    /// Copied this number of bytes; none at the end of the source.
    Moved(u64),
    /// The path does not work between these files.
    Refused(Errno),
}

/// Maximum bytes of one step, so that there is progress to report.
const STEP_BYTES: u64 = 64 << 20;

struct Work<'a, P> {
    from: &'a File,
    to: &'a File,
    total: u64,
    counters: &'a Counters,
    progress: P,
    pipe: Option<Pipe>,
    only: Option<Path>,
    holes: u64,
}

impl<P: FnMut(u64, u64)> Work<'_, P> {
    fn run(&mut self) -> Result<(), CopyError> {
        let resized =
            |outcome: io::Result<()>| outcome.map_err(|cause| CopyError::Write { offset: 0, cause });
        // A clone would omit the bytes after the end of the source.
        resized(self.to.set_len(0))?;
        if self.tries(Path::Reflink) && self.total > 0 {
            match reflink::clone(self.from, self.to, self.total, self.counters) {
                StepOutcome::Moved(_) => {
                    (self.progress)(self.total, self.total);
                    return Ok(());
                }
                StepOutcome::Refused(errno) => self.refused(Path::Reflink, errno)?,
            }
        }
        resized(self.to.set_len(self.total))?;
        let ways = COPY_PATHS.into_iter().skip(1).filter(|path| self.tries(*path));
        let mut ways: Vec<Path> = ways.rev().collect();
        if self.total == 0 {
            // The file is empty, or does not report its length: only a read can tell.
            return if ways.contains(&Path::ReadWrite) { self.rest() } else { Ok(()) };
        }
        let mut offset = 0;
        while offset < self.total {
            let data = self.next_data(offset);
            self.holes += data.offset - offset;
            self.segment(data, &mut ways)?;
            offset = data.offset + data.len;
        }
        (self.progress)(self.total, self.total);
        Ok(())
    }

    fn tries(&self, path: Path) -> bool {
        self.only.is_none_or(|only| only == path)
    }

    /// Handles a path that does not work: an error if it was requested, otherwise the next path
    /// follows.
    fn refused(&self, path: Path, errno: Errno) -> Result<(), CopyError> {
        if self.only.is_some() {
            return Err(CopyError::Refused { path, cause: errno.into() });
        }
        self.counters.fell_back(match path {
            Path::Reflink => Fallback::ReflinkRefused,
            Path::CopyFileRange => Fallback::CopyFileRangeRefused,
            _ => Fallback::SpliceRefused,
        });
        Ok(())
    }

    /// The next range with data at or after `offset`; the bytes before it are a hole. File systems
    /// without holes report only data.
    fn next_data(&self, offset: u64) -> StepRange {
        let end = self.total;
        let start = match rustix::fs::seek(self.from, SeekFrom::Data(offset)) {
            Ok(start) => start.clamp(offset, end),
            Err(Errno::NXIO) => end,
            Err(_) => offset,
        };
        let hole = rustix::fs::seek(self.from, SeekFrom::Hole(start)).unwrap_or(end);
        StepRange { offset: start, len: hole.clamp(start, end) - start }
    }

    /// Copies one range by the last of `ways`; removes paths that refuse it.
    fn segment(&mut self, data: StepRange, ways: &mut Vec<Path>) -> Result<(), CopyError> {
        let end = data.offset + data.len;
        let mut offset = data.offset;
        while offset < end {
            let Some(path) = ways.last().copied() else {
                let cause = io::ErrorKind::Unsupported.into();
                return Err(CopyError::Write { offset, cause });
            };
            let span = StepRange { offset, len: (end - offset).min(STEP_BYTES) };
            match self.stride(path, span)? {
                StepOutcome::Moved(0) => {
                    let cause = io::Error::new(io::ErrorKind::UnexpectedEof, "the file was truncated");
                    return Err(CopyError::Read { offset, cause });
                }
                StepOutcome::Moved(count) => {
                    self.counters.moved(path, count);
                    offset += count;
                    (self.progress)(offset, self.total);
                }
                StepOutcome::Refused(errno) => {
                    self.refused(path, errno)?;
                    ways.pop();
                }
            }
        }
        Ok(())
    }

    fn stride(&mut self, path: Path, span: StepRange) -> Result<StepOutcome, CopyError> {
        match path {
            Path::CopyFileRange => copy_file_range::between(self.from, self.to, span, self.counters),
            Path::Splice => {
                let mut pipe = match self.pipe.take() {
                    Some(pipe) => pipe,
                    None => match PipePool::new(&Thresholds::default()).take() {
                        Ok(pipe) => pipe,
                        Err(_) => return Ok(StepOutcome::Refused(Errno::MFILE)),
                    },
                };
                let stride = splice::between((self.from, self.to), span, &mut pipe, self.counters);
                // A pipe with bytes in it after an error is closed with them.
                self.pipe = Some(pipe).filter(Pipe::is_empty);
                stride
            }
            _ => read_write::between(self.from, self.to, span, self.counters),
        }
    }

    /// Reads until the end of the source.
    fn rest(&mut self) -> Result<(), CopyError> {
        let mut offset = 0;
        loop {
            let span = StepRange { offset, len: STEP_BYTES };
            match read_write::between(self.from, self.to, span, self.counters)? {
                StepOutcome::Moved(0) | StepOutcome::Refused(_) => return Ok(()),
                StepOutcome::Moved(count) => {
                    self.counters.moved(Path::ReadWrite, count);
                    offset += count;
                    (self.progress)(offset, offset);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
