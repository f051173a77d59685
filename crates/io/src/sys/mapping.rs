//! A shared file mapping seen as a slice of atomic words.

use std::fs::File;
use std::io;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::mm::{Advice, MapFlags, MsyncFlags, ProtFlags};

use super::sigbus::Watched;

/// Access pattern of a mapping, which determines the kernel's read-ahead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Here and there: nothing is read ahead.
    Random,
    /// As the kernel does by default.
    Usual,
    /// From start to end: the kernel reads far ahead, and may drop pages that the reader has
    /// passed.
    Sequential,
    /// All of the mapping, soon: reading begins immediately, without a wait in the call.
    Needed,
    /// All of the mapping is read and entered into the page table before the call returns.
    Populated,
    /// In huge pages if the file system supports them (ext4 since Linux 6.16, XFS, tmpfs with the
    /// option); otherwise like the default.
    Huge,
}

/// Owns one `MAP_SHARED` mapping until dropped.
///
/// All accesses have one size (four aligned bytes), because atomics of different sizes on the same
/// memory may not race.
#[derive(Debug)]
pub(crate) struct Mapping {
    base: NonNull<AtomicU32>,
    bytes: usize,
    watched: Watched,
}

// SAFETY: the memory belongs to the process, not to a thread; `Mapping` owns it alone and unmapping
// may happen on any thread.
unsafe impl Send for Mapping {}
// SAFETY: shared access is by `AtomicU32` loads and stores only, which may race.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps the first `bytes` bytes of `file` for reading and writing; the caller has checked that
    /// the file is that long.
    pub(crate) fn new(file: &File, bytes: usize, access: Access) -> io::Result<Self> {
        let populate = if access == Access::Populated { MapFlags::POPULATE } else { MapFlags::empty() };
        let (prot, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED | populate);
        // SAFETY: a null address lets the kernel choose a range that overlaps nothing of ours, so
        // no existing memory changes; the result is checked by rustix.
        let start = unsafe { rustix::mm::mmap(ptr::null_mut(), bytes, prot, flags, file, 0) }?;
        let base = NonNull::new(start.cast::<AtomicU32>()).ok_or(io::ErrorKind::OutOfMemory)?;
        let mapping = Self { base, bytes, watched: Watched::new(start as usize, bytes) };
        let advice = match access {
            Access::Random => Advice::Random,
            Access::Usual | Access::Populated => Advice::Normal,
            Access::Sequential => Advice::Sequential,
            Access::Needed => Advice::WillNeed,
            Access::Huge => Advice::LinuxHugepage,
        };
        // SAFETY: base and length are those of the mapping just made; none of these advices changes
        // memory.
        unsafe { rustix::mm::madvise(start, bytes, advice) }?;
        Ok(mapping)
    }

    /// The bytes of word `index`, in the order they have in the file.
    pub(crate) fn load(&self, index: usize) -> [u8; 4] {
        let word = &self.words()[index];
        self.watched.touch(|| word.load(Ordering::Relaxed)).to_ne_bytes()
    }

    /// Replaces the bytes of word `index`.
    pub(crate) fn store(&self, index: usize, bytes: [u8; 4]) {
        let word = &self.words()[index];
        self.watched.touch(|| word.store(u32::from_ne_bytes(bytes), Ordering::Relaxed));
    }

    /// True if a page could not be read, and was replaced by zeros.
    pub(crate) fn is_lost(&self) -> bool {
        self.watched.is_lost()
    }

    /// Writes changed pages to the device and waits.
    pub(crate) fn flush(&self) -> io::Result<()> {
        // SAFETY: base and length are those of the mapping that `self` owns, so the range is
        // mapped.
        unsafe { rustix::mm::msync(self.base.as_ptr().cast(), self.bytes, MsyncFlags::SYNC) }?;
        Ok(())
    }

    fn words(&self) -> &[AtomicU32] {
        // SAFETY: `base` is page-aligned and the mapping covers whole pages, so rounding the length
        // up to a word stays inside it; the memory is initialised (file content or zeroes), lives
        // as long as `self`, and is only reached as `AtomicU32`.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr(), self.bytes.div_ceil(4)) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range is the one `new` mapped, no reference into it outlives `self`, and it
        // is unmapped once.
        let unmapped = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.bytes) };
        debug_assert!(unmapped.is_ok(), "munmap of our own range cannot fail");
    }
}
