//! A file range that a bare loop sends by `splice`, one turn at a time.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::io::Errno;
use rustix::pipe::SpliceFlags;

/// Bytes of a turn, and of the pipe if the kernel allows that: the maximum of an unprivileged pipe.
const TURN_BYTES: usize = 1 << 20;

/// The pipe of a connection, and the file range that it still has to send.
#[derive(Debug, Default)]
pub(crate) struct Spliced {
    pipe: Option<(OwnedFd, OwnedFd)>,
    /// Bytes in the pipe.
    held: usize,
    from: u64,
    end: u64,
}

impl Spliced {
    /// Begins to send a range.
    pub(crate) fn begin(&mut self, from: u64, len: u64) {
        (self.from, self.end) = (from, from + len);
    }

    /// True if the whole range has been sent.
    pub(crate) fn is_done(&self) -> bool {
        self.held == 0 && self.from == self.end
    }

    /// Sends a turn of `file`, or as much of it as the socket accepts.
    ///
    /// # Errors
    /// The file is shorter than the range, or the client has disconnected.
    pub(crate) fn turn(&mut self, file: &File, socket: impl AsFd) -> io::Result<()> {
        if self.is_done() {
            return Ok(());
        }
        let (reader, writer) = match &mut self.pipe {
            Some(pipe) => pipe,
            none => none.insert(pipe()?),
        };
        let mut left = TURN_BYTES;
        while left > 0 && (self.held > 0 || self.from < self.end) {
            if self.held == 0 {
                let want = usize::try_from(self.end - self.from).unwrap_or(usize::MAX).min(left);
                let from = Some(&mut self.from);
                self.held = rustix::pipe::splice(file, from, &*writer, None, want, SpliceFlags::MOVE)?;
                if self.held == 0 {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
            }
            let more = if self.from < self.end { SpliceFlags::MORE } else { SpliceFlags::empty() };
            let flags = SpliceFlags::MOVE | SpliceFlags::NONBLOCK | more;
            match rustix::pipe::splice(&*reader, None, &socket, None, self.held, flags) {
                Ok(count) => (self.held, left) = (self.held - count, left - count),
                Err(Errno::AGAIN) => break,
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(())
    }
}

fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let (reader, writer) = rustix::pipe::pipe()?;
    // All pipes of a user share a limit; beyond the limit the pipe keeps its size.
    let _ = rustix::pipe::fcntl_setpipe_size(&writer, TURN_BYTES);
    Ok((reader, writer))
}

/// True if the error means that the client has disconnected.
pub(crate) fn is_gone(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset)
}
