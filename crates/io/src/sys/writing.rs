//! A part of a file mapped for writing, and never read through the mapping.

use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::ptr::{self, NonNull};
use std::slice;
use std::sync::Arc;

use rustix::fd::BorrowedFd;
use rustix::mm::{Advice, MapFlags, ProtFlags};
use rustix::net::RecvFlags;

use super::sigbus::Watched;

/// The only writer to a mapping; it cannot be cloned, so that there is no other at the same time.
#[derive(Debug)]
pub(crate) struct Writing {
    region: Arc<MappedRegion>,
}

/// A mapping, unmapped with its last owner.
#[derive(Debug)]
pub(crate) struct MappedRegion {
    base: NonNull<u8>,
    bytes: usize,
    watched: Watched,
}

// SAFETY: the memory belongs to the process, not to a thread; `MappedRegion` owns the mapping and
// unmapping may happen on any thread.
unsafe impl Send for MappedRegion {}
// SAFETY: through a shared `MappedRegion` the memory is not accessed; only `Writing::write` does,
// by its exclusive reference.
unsafe impl Sync for MappedRegion {}

impl Writing {
    /// Maps `bytes` bytes at `offset`, a multiple of the page size; the caller has checked that the
    /// file is that long.
    pub(crate) fn new(file: &File, offset: u64, bytes: usize) -> io::Result<Self> {
        let (prot, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        // SAFETY: a null address lets the kernel choose a range that overlaps nothing of ours, so
        // no existing memory changes; the result is checked by rustix.
        let start = unsafe { rustix::mm::mmap(ptr::null_mut(), bytes, prot, flags, file, offset) }?;
        let base = NonNull::new(start.cast::<u8>()).ok_or(io::ErrorKind::OutOfMemory)?;
        let watched = Watched::new(start as usize, bytes);
        Ok(Self { region: Arc::new(MappedRegion { base, bytes, watched }) })
    }

    /// Copies `from` to position `at` of the mapping, where it must fit.
    pub(crate) fn write(&mut self, at: usize, from: &[u8]) {
        let region = &*self.region;
        let fits = at.checked_add(from.len()).is_some_and(|end| end <= region.bytes);
        assert!(fits, "{} bytes at {at} of {}", from.len(), region.bytes);
        let into = region.base.as_ptr().wrapping_add(at);
        region.watched.touch(|| {
            // SAFETY: the assertion keeps the range inside the mapping, which `region` owns; no
            // other code uses it while `self` is borrowed exclusively, no Rust reference into it
            // exists, and `from` is other memory since none is ever lent from here.
            unsafe { ptr::copy_nonoverlapping(from.as_ptr(), into, from.len()) };
        });
    }

    /// Receives at most `bytes` bytes from a socket to position `at` of the mapping, where they
    /// have to fit. A page that cannot be loaded is an error (`EFAULT`) and raises no signal.
    pub(crate) fn receive(&mut self, at: usize, bytes: usize, socket: BorrowedFd<'_>) -> io::Result<usize> {
        let region = &*self.region;
        let fits = at.checked_add(bytes).is_some_and(|end| end <= region.bytes);
        assert!(fits, "{bytes} bytes at {at} of {}", region.bytes);
        let into = region.base.as_ptr().wrapping_add(at).cast::<MaybeUninit<u8>>();
        // SAFETY: the assertion keeps the range inside the mapping, which `region` owns; no other
        // code uses it while `self` is borrowed exclusively. Only the kernel writes through the
        // slice, and nothing reads it.
        let into = unsafe { slice::from_raw_parts_mut(into, bytes) };
        let ((got, _), _) = rustix::net::recv(socket, into, RecvFlags::empty())?;
        Ok(got.len())
    }

    /// True if a page could not be loaded, and bytes written to it are lost.
    pub(crate) fn is_lost(&self) -> bool {
        self.region.watched.is_lost()
    }

    /// The mapping, for a thread that prepares its pages.
    pub(crate) fn region(&self) -> Arc<MappedRegion> {
        self.region.clone()
    }
}

impl MappedRegion {
    /// Faults in all pages, writable, without changing them. Waits for the disk where necessary.
    pub(crate) fn populate(&self) -> io::Result<()> {
        let (start, advice) = (self.base.as_ptr().cast(), Advice::LinuxPopulateWrite);
        // SAFETY: base and length are those of the mapping that `self` owns; the pages keep their
        // bytes, and one that cannot be brought in makes the call fail instead of raising a signal.
        unsafe { rustix::mm::madvise(start, self.bytes, advice) }?;
        Ok(())
    }
}

impl Drop for MappedRegion {
    fn drop(&mut self) {
        // SAFETY: the range is the one `new` mapped, nothing refers into it, and it is unmapped
        // once.
        let unmapped = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.bytes) };
        debug_assert!(unmapped.is_ok(), "munmap of our own range cannot fail");
    }
}
