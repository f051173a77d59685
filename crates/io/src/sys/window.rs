//! A part of a file mapped for reading by the kernel only: sent from memory, never read by this
//! process.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::{self, NonNull};

use rustix::mm::{MapFlags, ProtFlags};

/// Owns one mapping. This process never touches its memory, so that a file which shrinks or cannot
/// be read makes a call fail with `EFAULT` instead of raising `SIGBUS`.
#[derive(Debug)]
pub(crate) struct Window {
    base: NonNull<u8>,
    bytes: usize,
}

impl Window {
    /// Maps `bytes` bytes at `offset`, a multiple of the page size. Its pages are looked up as they
    /// are sent, several per fault: a request for all of them with the mapping would cost up to a
    /// fifth more.
    pub(crate) fn new(file: &File, offset: u64, bytes: usize) -> io::Result<Self> {
        let flags = MapFlags::SHARED;
        // SAFETY: a null address lets the kernel choose a range that overlaps nothing of ours, so
        // no existing memory changes; the mapping is reached through system calls only.
        let base = unsafe { rustix::mm::mmap(ptr::null_mut(), bytes, ProtFlags::READ, flags, file, offset) }?;
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { base, bytes })
    }

    /// Sends a part of the window by one call.
    pub(crate) fn send(&self, socket: BorrowedFd<'_>, part: Range<usize>, flags: i32) -> io::Result<usize> {
        assert!(part.start <= part.end && part.end <= self.bytes, "{part:?} of {}", self.bytes);
        let start = self.base.as_ptr().wrapping_add(part.start).cast();
        // SAFETY: the range lies in the mapping that `self` owns; pages that cannot be read make
        // the call fail.
        let sent = unsafe { libc::send(socket.as_raw_fd(), start, part.len(), flags) };
        usize::try_from(sent).map_err(|_| io::Error::last_os_error())
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        // SAFETY: the range is the one `new` mapped, nothing refers into it, and it is unmapped
        // once.
        let unmapped = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.bytes) };
        debug_assert!(unmapped.is_ok(), "munmap of our own range cannot fail");
    }
}
