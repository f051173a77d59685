//! `sendfile`: large extents from the page cache to the socket, by reference.
//!
//! *Saves* both copies: the socket's buffers point at the pages of the page cache. *Needs* a file
//! that lives in the page cache and a socket that takes pages; no descriptors beyond the two.
//! *Loses* to `splice` because the pipe inside the call has 64 KiB: more and smaller sends. It
//! cannot say that more follows, so `TCP_CORK` says it, by two more calls for a transfer. A cold
//! page blocks the caller even if the socket does not. Where the kernel copies the pages, bytes
//! count as [`Path::SendfileCopy`].

use rustix::io::Errno;

use crate::counters::Fallback;
use crate::error::{SourceFault, TransferError};
use crate::path::{Path, SocketPath};
use crate::transfer::job::{Job, Progress};
use crate::transfer::queue::Queue;

/// The kernel moves no more than this in one call.
const CALL_MAX: u64 = 0x7fff_f000;

/// Sends from the extent at the front of the queue.
pub(crate) fn advance(job: &mut Job<'_>, queue: &mut Queue) -> Result<Progress, TransferError> {
    while let Some((extent, done)) = queue.front_extent() {
        if job.budget == 0 {
            break;
        }
        let count = job.allowance(extent, done).min(CALL_MAX);
        let mut offset = extent.offset.saturating_add(done);
        if count < queue.remaining() || queue.expects_more() {
            queue.cork(job.socket);
        }
        let (counters, path) = (&job.engine.counters, SocketPath::Sendfile.counted(job.engine.means));
        let sent = counters.call(path, || {
            let count = usize::try_from(count).unwrap_or(usize::MAX);
            rustix::fs::sendfile(job.socket, &extent.file, Some(&mut offset), count)
        });
        match sent {
            Ok(0) => return Err(TransferError::source(extent, done, SourceFault::Truncated)),
            Ok(count) => {
                counters.moved(path, count as u64);
                if path == Path::SendfileCopy {
                    counters.copied_by_kernel(count as u64);
                }
                let finished = count as u64 == extent.len - done;
                job.sent(queue, count as u64);
                if finished {
                    return Ok(Progress::Moved);
                }
            }
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => return Ok(Progress::Blocked),
            Err(Errno::INVAL | Errno::NOSYS | Errno::PERM | Errno::OPNOTSUPP) => {
                return Ok(Progress::Refused(Fallback::SendfileRefused));
            }
            Err(errno) => return Err(Job::either_failed(queue, extent, done, errno)),
        }
    }
    Ok(Progress::Moved)
}
