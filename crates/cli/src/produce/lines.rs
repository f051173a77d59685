//! Lines of stdin, read as they arrive: a wait for the next line has a limit.

use std::io::{self, BufRead, BufReader, Read, StdinLock};
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::FileType;

use levada_terminal::failure::Failure;

/// Lines of a file, a pipe or a terminal.
pub(super) struct Lines<R> {
    input: BufReader<R>,
    line: Vec<u8>,
    /// `line` was returned, and the next line replaces it.
    is_whole: bool,
    is_closed: bool,
    number: u64,
    taken_bytes: u64,
}

/// The input at this moment.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Input<'l> {
    /// The next line, without its end.
    Line(&'l [u8]),
    /// The next line has not arrived in time.
    Pause,
    End,
}

impl Lines<StdinLock<'static>> {
    pub(super) fn stdin() -> Self {
        Self::new(io::stdin().lock())
    }
}

impl<R: Read + AsFd> Lines<R> {
    pub(super) fn new(input: R) -> Self {
        let input = BufReader::with_capacity(1 << 20, input);
        Self { input, line: Vec::new(), is_whole: false, is_closed: false, number: 0, taken_bytes: 0 }
    }

    /// Number of lines that have been read.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// True for a regular file, whose lines are all there.
    pub(super) fn are_complete(&self) -> bool {
        let found = rustix::fs::fstat(self.input.get_ref());
        found.is_ok_and(|found| FileType::from_raw_mode(found.st_mode) == FileType::RegularFile)
    }

    /// Bytes of the lines that have been read.
    pub(super) fn taken_bytes(&self) -> u64 {
        self.taken_bytes
    }

    /// Bytes of a regular file from its present position on; none for other inputs, and after the
    /// first line.
    pub(super) fn size(&self) -> Option<u64> {
        let file = self.input.get_ref();
        if !self.are_complete() || !self.input.buffer().is_empty() {
            return None;
        }
        let size = u64::try_from(rustix::fs::fstat(file).ok()?.st_size).ok()?;
        Some(size.saturating_sub(rustix::fs::tell(file).ok()?))
    }

    /// Reads no more: only the whole lines that were read already are left.
    pub(super) fn close(&mut self) {
        self.is_closed = true;
    }

    /// True if the input ended in the middle of a line because it was closed.
    pub(super) fn has_rest(&self) -> bool {
        self.is_closed && !self.is_whole && !self.line.is_empty()
    }

    /// The next line; waits less than a second for its bytes.
    pub(super) fn next(&mut self, wait: Duration) -> Result<Input<'_>, Failure> {
        debug_assert!(wait < Duration::from_secs(1), "{wait:?}");
        if std::mem::take(&mut self.is_whole) {
            self.line.clear();
        }
        while !self.take() {
            if self.is_closed {
                return Ok(Input::End);
            }
            if !self.has_arrived(wait) {
                return Ok(Input::Pause);
            }
            match self.input.fill_buf() {
                Ok([]) => return Ok(self.last()),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    return Err(Failure::new(format!("stdin after line {}: {error}", self.number)));
                }
            }
        }
        Ok(self.whole())
    }

    /// Moves bytes of the buffer to the line; true if the line is complete.
    fn take(&mut self) -> bool {
        let read = self.input.buffer().read_until(b'\n', &mut self.line).expect("memory can be read");
        self.input.consume(read);
        self.taken_bytes += read as u64;
        let is_complete = self.line.last() == Some(&b'\n');
        if is_complete {
            self.line.pop();
        }
        is_complete
    }

    /// The last line of an input that does not end with a newline.
    fn last(&mut self) -> Input<'_> {
        self.is_closed = true;
        if self.line.is_empty() { Input::End } else { self.whole() }
    }

    fn whole(&mut self) -> Input<'_> {
        self.is_whole = true;
        self.number += 1;
        Input::Line(&self.line)
    }

    /// True if a read does not block: there are bytes, or the end. A signal ends the wait.
    fn has_arrived(&self, wait: Duration) -> bool {
        let wait = Timespec { tv_sec: 0, tv_nsec: i64::from(wait.subsec_nanos()) };
        let mut waited = [PollFd::from_borrowed_fd(self.input.get_ref().as_fd(), PollFlags::IN)];
        !matches!(poll(&mut waited, Some(&wait)), Ok(0) | Err(rustix::io::Errno::INTR))
    }
}
