//! Lines of stdin, with a check if reading the next one would block.

use std::io::{self, BufRead, BufReader, StdinLock};
use std::os::fd::AsFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::failure::Failure;

/// Pause of the input after which the lines read so far are sent.
const LINGER: Timespec = Timespec { tv_sec: 0, tv_nsec: 5_000_000 };

/// Lines of a file, a pipe or a terminal.
pub(super) struct Lines<R> {
    input: BufReader<R>,
    line: Vec<u8>,
    number: u64,
}

impl Lines<StdinLock<'static>> {
    pub(super) fn stdin() -> Self {
        Self::new(io::stdin().lock())
    }

    /// True if the next line has not arrived yet. A regular file never makes wait.
    pub(super) fn would_wait(&self) -> bool {
        if self.input.buffer().contains(&b'\n') {
            return false;
        }
        let stdin = self.input.get_ref().as_fd();
        let mut waited = [PollFd::from_borrowed_fd(stdin, PollFlags::IN)];
        matches!(poll(&mut waited, Some(&LINGER)), Ok(0))
    }
}

impl<R: io::Read> Lines<R> {
    pub(super) fn new(input: R) -> Self {
        Self { input: BufReader::with_capacity(1 << 20, input), line: Vec::new(), number: 0 }
    }

    /// Number of lines that have been read.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// The next line without its end; `None` after the last.
    pub(super) fn next(&mut self) -> Result<Option<&[u8]>, Failure> {
        self.line.clear();
        let read = self.input.read_until(b'\n', &mut self.line);
        let count =
            read.map_err(|error| Failure::new(format!("stdin after line {}: {error}", self.number)))?;
        if count == 0 {
            return Ok(None);
        }
        self.number += 1;
        Ok(Some(self.line.strip_suffix(b"\n").unwrap_or(&self.line)))
    }
}
