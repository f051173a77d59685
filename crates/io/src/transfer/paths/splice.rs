//! `splice` through a pipe of ours: large extents from the page cache to the socket, by reference,
//! in large steps.
//!
//! *Saves* both copies, as `sendfile` does, and its 64 KiB steps: one call puts up to 1 MiB of page
//! references into the pipe and one hands them to the socket. *Needs* a pipe for as long as bytes
//! are in it, so two descriptors, and the right to a large pipe. *Loses* below some 16 KiB, where
//! copying costs less than two calls do, and a cold page blocks the caller even if the socket does
//! not.
//!
//! A kernel may put copies of the pages into the pipe ([`Path::SpliceCopy`]): that saves one copy
//! and the memory for it, and the bytes count under that name.
//!
//! From file to file the same call is a path of [`copy`](mod@crate::copy).
//!
//! A socket may take less than the pipe holds. The rest cannot be put back, so the pipe stays with
//! its transfer until it is empty; if the transfer is dropped before, the pipe is closed.

use rustix::io::Errno;
use rustix::pipe::SpliceFlags;

use crate::counters::Fallback;
use crate::error::{SourceFault, TransferError};
use crate::path::{Path, SocketPath};
use crate::piece::Extent;
use crate::pipe::Pipe;
use crate::transfer::job::{Job, Progress};
use crate::transfer::queue::Queue;

/// Sends from the extent at the front of the queue.
pub(crate) fn advance(job: &mut Job<'_>, queue: &mut Queue) -> Result<Progress, TransferError> {
    let held = match queue.take_pipe() {
        Some(pipe) => Ok(pipe),
        None => job.engine.pipes.take(),
    };
    let mut pipe = match held {
        Ok(pipe) => pipe,
        Err(cause) => return Ok(Progress::Refused(cause)),
    };
    let outcome = flow(job, queue, &mut pipe);
    match outcome {
        Ok(Progress::Moved | Progress::Blocked) if pipe.is_empty() => job.engine.pipes.put_back(pipe),
        Ok(Progress::Moved | Progress::Blocked) => queue.keep_pipe(pipe),
        // The bytes in the pipe were not sent: closing it loses nothing that the queue does not
        // still have.
        Ok(Progress::Refused(_) | Progress::Cold) | Err(_) => drop(pipe),
    }
    outcome
}

/// Fills and drains the pipe alternately.
fn flow(job: &mut Job<'_>, queue: &mut Queue, pipe: &mut Pipe) -> Result<Progress, TransferError> {
    while let Some((extent, done)) = queue.front_extent() {
        if job.budget == 0 {
            break;
        }
        if pipe.is_empty() {
            match fill(job, extent, done, pipe)? {
                Progress::Moved => {}
                other => return Ok(other),
            }
        }
        let last = done + pipe.filled() == extent.len;
        let (count, progress) = drain(job, queue, pipe)?;
        job.sent(queue, count);
        if progress != Progress::Moved || (last && pipe.is_empty()) {
            return Ok(progress);
        }
    }
    Ok(Progress::Moved)
}

/// Puts references to the next pages of the extent into the empty pipe. May wait for the disk.
fn fill(job: &Job<'_>, extent: &Extent, done: u64, pipe: &mut Pipe) -> Result<Progress, TransferError> {
    let (counters, path) = (&job.engine.counters, SocketPath::Splice.counted(job.engine.means));
    let want = job.allowance(extent, done).min(pipe.capacity());
    loop {
        let mut offset = extent.offset.saturating_add(done);
        let got = counters.call(path, || {
            let want = usize::try_from(want).unwrap_or(usize::MAX);
            let flags = SpliceFlags::MOVE | SpliceFlags::NONBLOCK;
            rustix::pipe::splice(&extent.file, Some(&mut offset), pipe.writer(), None, want, flags)
        });
        match got {
            Ok(0) => return Err(TransferError::source(extent, done, SourceFault::Truncated)),
            Ok(count) => {
                pipe.put(count as u64);
                return Ok(Progress::Moved);
            }
            Err(Errno::INTR) => {}
            // Above all EINVAL: the file system cannot splice. An empty pipe is never full, so
            // EAGAIN means the same.
            Err(Errno::INVAL | Errno::NOSYS | Errno::PERM | Errno::OPNOTSUPP | Errno::AGAIN) => {
                return Ok(Progress::Refused(Fallback::SpliceRefused));
            }
            Err(errno) => return Err(TransferError::source(extent, done, SourceFault::Read(errno.into()))),
        }
    }
}

/// Sends the contents of the pipe to the socket, once.
fn drain(job: &Job<'_>, queue: &Queue, pipe: &mut Pipe) -> Result<(u64, Progress), TransferError> {
    let (counters, path) = (&job.engine.counters, SocketPath::Splice.counted(job.engine.means));
    let Some((extent, done)) = queue.front_extent() else { return Ok((0, Progress::Moved)) };
    let count = pipe.filled().min(job.allowance(extent, done));
    let more = if job.more_after(queue, count) { SpliceFlags::MORE } else { SpliceFlags::empty() };
    loop {
        let sent = counters.call(path, || {
            let count = usize::try_from(count).unwrap_or(usize::MAX);
            let flags = SpliceFlags::MOVE | SpliceFlags::NONBLOCK | more;
            rustix::pipe::splice(pipe.reader(), None, job.socket, None, count, flags)
        });
        match sent {
            // Not a thing that sockets do; going round again would never end.
            Ok(0) => return Err(Job::peer_failed(queue, 0, Errno::PIPE)),
            Ok(count) => {
                counters.moved(path, count as u64);
                if path == Path::SpliceCopy {
                    counters.copied_by_kernel(count as u64);
                }
                pipe.drained(count as u64);
                return Ok((count as u64, Progress::Moved));
            }
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => return Ok((0, Progress::Blocked)),
            Err(Errno::INVAL | Errno::NOSYS | Errno::PERM | Errno::OPNOTSUPP) => {
                return Ok((0, Progress::Refused(Fallback::SpliceRefused)));
            }
            Err(errno) => return Err(Job::either_failed(queue, extent, done, errno)),
        }
    }
}
