//! Page-aligned memory at a fixed address, divided into chunks with one owner each, which the
//! kernel may read and write.

use std::alloc::{self, Layout};
use std::io;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, PoisonError};

/// The alignment of every chunk whose size is a multiple of it: enough for `O_DIRECT` on any common
/// device.
pub(crate) const ALIGNMENT: usize = 4096;

/// Zeroed memory for chunks of one size. Lives as long as any of its chunks.
#[derive(Debug)]
pub(crate) struct Region {
    base: NonNull<u8>,
    layout: Layout,
    chunk_bytes: usize,
    free: Mutex<Vec<u16>>,
}

// SAFETY: the memory belongs to the process, not to a thread; `Region` owns it and freeing it may
// happen on any thread.
unsafe impl Send for Region {}
// SAFETY: a shared region hands out chunks behind a lock; memory is reached through a chunk only,
// and each has one owner.
unsafe impl Sync for Region {}

impl Region {
    /// Memory for `count` chunks of `chunk_bytes` each.
    pub(crate) fn new(chunk_bytes: usize, count: u16) -> io::Result<Arc<Self>> {
        let bytes = chunk_bytes.checked_mul(usize::from(count)).filter(|bytes| *bytes > 0);
        let layout = bytes.and_then(|bytes| Layout::from_size_align(bytes, ALIGNMENT).ok());
        let layout = layout.ok_or(io::ErrorKind::InvalidInput)?;
        // SAFETY: the layout has a size above zero.
        let base = unsafe { alloc::alloc_zeroed(layout) };
        let base = NonNull::new(base).ok_or(io::ErrorKind::OutOfMemory)?;
        let free = Mutex::new((0..count).rev().collect());
        Ok(Arc::new(Self { base, layout, chunk_bytes, free }))
    }

    /// A free chunk, if there is one.
    pub(crate) fn take(self: &Arc<Self>) -> Option<Chunk> {
        let index = self.free.lock().unwrap_or_else(PoisonError::into_inner).pop()?;
        Some(Chunk { region: Arc::clone(self), index })
    }

    /// The parts to register with a ring, in the order of their indexes.
    pub(crate) fn io_slices(&self) -> Vec<libc::iovec> {
        let start = |index| self.base.as_ptr().wrapping_add(index * self.chunk_bytes).cast();
        let count = self.layout.size() / self.chunk_bytes;
        (0..count).map(|index| libc::iovec { iov_base: start(index), iov_len: self.chunk_bytes }).collect()
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: base and layout are those of the allocation in `new`; no chunk is left, because
        // each keeps the region alive.
        unsafe { alloc::dealloc(self.base.as_ptr(), self.layout) };
    }
}

/// One part of a [`Region`], with one owner. The memory keeps its address when the `Chunk` moves.
#[derive(Debug)]
pub(crate) struct Chunk {
    region: Arc<Region>,
    index: u16,
}

impl Chunk {
    /// The index of the chunk in its region.
    pub(crate) fn index(&self) -> u16 {
        self.index
    }

    /// True if it is a part of `region`.
    pub(crate) fn is_of(&self, region: &Arc<Region>) -> bool {
        Arc::ptr_eq(&self.region, region)
    }

    /// Size of the chunk, bytes.
    pub(crate) fn len(&self) -> usize {
        self.region.chunk_bytes
    }

    /// Address of the chunk, valid for [`Chunk::len`] bytes while the chunk exists.
    pub(crate) fn as_ptr(&self) -> *mut u8 {
        // `wrapping_add` stays inside the allocation: the index is below the count of chunks.
        self.region.base.as_ptr().wrapping_add(usize::from(self.index) * self.region.chunk_bytes)
    }

    /// The bytes of the chunk.
    pub(crate) fn as_slice(&self) -> &[u8] {
        // SAFETY: the chunk is `len` initialised bytes inside the region, which it keeps alive; no
        // other chunk has this index, and the only one is borrowed, so nothing writes during the
        // borrow (the kernel is given chunks by value only).
        unsafe { std::slice::from_raw_parts(self.as_ptr(), self.len()) }
    }

    /// The bytes of the chunk, mutable.
    pub(crate) fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: as for `as_slice`, and the chunk is borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.as_ptr(), self.len()) }
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        self.region.free.lock().unwrap_or_else(PoisonError::into_inner).push(self.index);
    }
}
