//! `mmap` and `send`: extents copied once, straight from the page cache into the socket.
//!
//! *Saves* the first of the two copies, and the buffer; where the kernel copies pages for `splice`,
//! it saves the pages of that copy. *Needs* a mapping for each window, so the whole process's lock
//! on its address space, twice a window, and page faults. *Loses* to the paths by reference, which
//! save the second copy too, and to copying paths on extents below
//! [`MAPPED_BYTES`](crate::plan::MAPPED_BYTES), where mapping costs more than a copy. Planned where
//! the kernel has no references to pages for `splice`: the second lane.
//!
//! A window lasts for one call, so that a socket that takes nothing keeps no mapping: their number
//! is limited for the whole process, and the indexes of logs are mapped, too.
//!
//! Only the kernel reads the mapping: a truncated file is an error and no signal.

use rustix::io::Errno;

use crate::counters::Fallback;
use crate::error::{SourceFault, TransferError};
use crate::path::Path;
use crate::sys::window::Window;
use crate::transfer::job::{Job, Progress};
use crate::transfer::queue::Queue;

/// One mapping is no larger than this.
const WINDOW_BYTES: u64 = 1 << 20;
const _: () = assert!(WINDOW_BYTES.is_power_of_two() && WINDOW_BYTES >= 64 << 10, "no page is larger");

/// Sends from the extent at the front of the queue.
pub(crate) fn advance(job: &mut Job<'_>, queue: &mut Queue) -> Result<Progress, TransferError> {
    while let Some((extent, done)) = queue.front_extent() {
        if job.budget == 0 {
            break;
        }
        let counters = &job.engine.counters;
        let offset = extent.offset.saturating_add(done);
        let skip = offset % job.engine.page_bytes;
        let count = job.allowance(extent, done).min(WINDOW_BYTES - skip);
        // After the end of the file, but in its last page, a mapping shows zeroes.
        let there = extent.file.metadata().map_or(0, |meta| meta.len()).saturating_sub(offset);
        let count = count.min(there);
        if count == 0 {
            return Err(TransferError::source(extent, done, SourceFault::Truncated));
        }
        let len = usize::try_from(skip + count).unwrap_or(usize::MAX);
        let window = counters.call(Path::MmapWrite, || Window::new(&extent.file, offset - skip, len));
        let Ok(window) = window else { return Ok(Progress::Refused(Fallback::MappingRefused)) };
        let more = if job.more_after(queue, count) { libc::MSG_MORE } else { 0 };
        let part = usize::try_from(skip).unwrap_or(usize::MAX)..len;
        let sent = counters
            .call(Path::MmapWrite, || window.send(job.socket, part, libc::MSG_NOSIGNAL | more))
            .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO));
        counters.call(Path::MmapWrite, || drop(window));
        match sent {
            Ok(count) => {
                counters.moved(Path::MmapWrite, count as u64);
                counters.copied(count as u64);
                let finished = count as u64 == extent.len - done;
                job.sent(queue, count as u64);
                if finished {
                    break;
                }
            }
            Err(Errno::AGAIN) => return Ok(Progress::Blocked),
            Err(Errno::INTR) => {}
            Err(Errno::FAULT) => {
                return Err(TransferError::source(extent, done, SourceFault::Read(Errno::IO.into())));
            }
            Err(errno) => return Err(Job::peer_failed(queue, 0, errno)),
        }
    }
    Ok(Progress::Moved)
}
