//! From a socket into a file: what arrives goes through a pipe of ours into the page cache, copied once and never seen by this process.
//!
//! For bodies that are stored as they come. Who must know what arrived maps the file afterwards and checks it there. Where
//! `splice` does not do, bytes are read and written. Writing may wait for the disk when many changed pages are waiting
//! for it.

use std::fs::File;
use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::FileExt;

use rustix::io::Errno;
use rustix::pipe::SpliceFlags;

use crate::Extent;
use crate::counters::Fallback;
use crate::engine::Engine;
use crate::path::Path;
use crate::pipe::Pipe;
use crate::transfer::Turn;

/// Bytes on their way from one socket into one range of a file.
///
/// The caller drives it: [`Receive::step`] whenever the socket is readable, until [`Turn::Done`]. After an error the file has a prefix
/// of the range, of [`received`](Receive::received) bytes at least.
#[derive(Debug)]
pub struct Receive {
    into: Extent,
    /// Bytes that are in the file.
    done: u64,
    copies: bool,
}

/// Why receiving cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum ReceiveError {
    /// The peer closed the connection, or it broke, before everything was there.
    #[error("the connection ended with {missing} bytes to come: {cause}")]
    Peer {
        /// How much was still to come.
        missing: u64,
        /// What the socket said.
        cause: io::Error,
    },
    /// The file could not be written.
    #[error("cannot write at offset {offset}: {cause}")]
    File {
        /// Where.
        offset: u64,
        /// Why.
        cause: io::Error,
    },
}

impl Receive {
    /// Will fill the range, which need not exist yet; the file must be open for writing, not for appending.
    pub fn new(into: Extent) -> Receive {
        Receive { into, done: 0, copies: false }
    }

    /// How many bytes are in the file.
    pub fn received(&self) -> u64 {
        self.done
    }

    /// Receives up to `budget` bytes. Does not wait for a non-blocking socket.
    ///
    /// # Errors
    /// See [`ReceiveError`].
    pub fn step(
        &mut self,
        engine: &mut Engine,
        socket: BorrowedFd<'_>,
        budget: u64,
    ) -> Result<Turn, ReceiveError> {
        let mut left = budget;
        while self.done < self.into.len {
            if left == 0 {
                return Ok(Turn::Yield);
            }
            let want = left.min(self.into.len - self.done);
            let moved = if self.copies || !engine.means.splice {
                self.copy(engine, socket, want)?
            } else {
                self.splice(engine, socket, want)?
            };
            match moved {
                Some(count) => left = left.saturating_sub(count),
                None => return Ok(Turn::Blocked),
            }
        }
        Ok(Turn::Done)
    }

    /// Moves some bytes by reference to the socket's buffers; the file system copies them. `None`: nothing there yet.
    fn splice(
        &mut self,
        engine: &mut Engine,
        socket: BorrowedFd<'_>,
        want: u64,
    ) -> Result<Option<u64>, ReceiveError> {
        let mut pipe = match engine.pipes.take() {
            Ok(pipe) => pipe,
            Err(cause) => return self.refused(engine, cause),
        };
        let want = usize::try_from(want.min(pipe.capacity())).unwrap_or(usize::MAX);
        let flags = SpliceFlags::MOVE | SpliceFlags::NONBLOCK;
        let got = engine
            .counters
            .call(Path::Splice, || rustix::pipe::splice(socket, None, pipe.writer(), None, want, flags));
        match got {
            Ok(0) => return Err(self.peer(io::ErrorKind::UnexpectedEof.into())),
            Ok(count) => pipe.put(count as u64),
            Err(errno) => {
                engine.pipes.put_back(pipe);
                return match errno {
                    Errno::AGAIN => Ok(None),
                    Errno::INTR => Ok(Some(0)),
                    Errno::INVAL | Errno::NOSYS | Errno::PERM | Errno::OPNOTSUPP => {
                        self.refused(engine, Fallback::SpliceRefused)
                    }
                    errno => Err(self.peer(errno.into())),
                };
            }
        }
        let moved = self.drain(engine, &mut pipe)?;
        engine.pipes.put_back(pipe);
        Ok(Some(moved))
    }

    /// Writes all that the pipe holds; through memory, if the file does not take pipes.
    fn drain(&mut self, engine: &Engine, pipe: &mut Pipe) -> Result<u64, ReceiveError> {
        let before = self.done;
        while !pipe.is_empty() {
            let mut offset = self.into.offset.saturating_add(self.done);
            let at = offset;
            let count = usize::try_from(pipe.filled()).unwrap_or(usize::MAX);
            let drained = engine.counters.call(Path::Splice, || {
                let flags = SpliceFlags::MOVE;
                rustix::pipe::splice(pipe.reader(), None, &self.into.file, Some(&mut offset), count, flags)
            });
            let (path, count) = match drained {
                Ok(0) => {
                    return Err(ReceiveError::File { offset: at, cause: io::ErrorKind::WriteZero.into() });
                }
                Ok(count) => (Path::Splice, count as u64),
                Err(Errno::INTR) => continue,
                Err(Errno::INVAL | Errno::OPNOTSUPP) => {
                    if !std::mem::replace(&mut self.copies, true) {
                        engine.counters.fell_back(Fallback::SpliceRefused);
                    }
                    let mut bytes = vec![0; count];
                    let got = rustix::io::read(pipe.reader(), &mut bytes);
                    let got = got.map_err(|errno| ReceiveError::File { offset: at, cause: errno.into() })?;
                    let written = self.into.file.write_all_at(&bytes[..got], at);
                    written.map_err(|cause| ReceiveError::File { offset: at, cause })?;
                    engine.counters.copied(2 * got as u64);
                    (Path::ReadWrite, got as u64)
                }
                Err(errno) => return Err(ReceiveError::File { offset: at, cause: errno.into() }),
            };
            engine.counters.moved(path, count);
            pipe.drained(count);
            self.done += count;
        }
        Ok(self.done - before)
    }

    /// Moves some bytes through memory.
    fn copy(
        &mut self,
        engine: &mut Engine,
        socket: BorrowedFd<'_>,
        want: u64,
    ) -> Result<Option<u64>, ReceiveError> {
        let mut scratch = engine.take_scratch();
        let want = usize::try_from(want).unwrap_or(usize::MAX).min(scratch.len());
        let got = engine.counters.call(Path::ReadWrite, || rustix::io::read(socket, &mut scratch[..want]));
        let outcome = match got {
            Ok(0) => Err(self.peer(io::ErrorKind::UnexpectedEof.into())),
            Ok(count) => {
                let offset = self.into.offset.saturating_add(self.done);
                let file: &File = &self.into.file;
                let written =
                    engine.counters.call(Path::ReadWrite, || file.write_all_at(&scratch[..count], offset));
                match written {
                    Ok(()) => {
                        engine.counters.moved(Path::ReadWrite, count as u64);
                        engine.counters.copied(2 * count as u64);
                        self.done += count as u64;
                        Ok(Some(count as u64))
                    }
                    Err(cause) => Err(ReceiveError::File { offset, cause }),
                }
            }
            Err(Errno::AGAIN) => Ok(None),
            Err(Errno::INTR) => Ok(Some(0)),
            Err(errno) => Err(self.peer(errno.into())),
        };
        engine.return_scratch(scratch);
        outcome
    }

    fn refused(&mut self, engine: &Engine, cause: Fallback) -> Result<Option<u64>, ReceiveError> {
        engine.counters.fell_back(cause);
        self.copies = true;
        Ok(Some(0))
    }

    fn peer(&self, cause: io::Error) -> ReceiveError {
        ReceiveError::Peer { missing: self.into.len - self.done, cause }
    }
}

#[cfg(test)]
mod tests;
