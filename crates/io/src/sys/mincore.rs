//! `mincore(2)`: the pages of a file that are in memory, through a mapping that exists for the
//! query only.

use std::fs::File;
use std::io;
use std::ptr;

use rustix::mm::{MapFlags, ProtFlags};

/// Pages of the range that are in memory, in order. Touches none of them.
///
/// For a file that the caller neither owns nor may write the kernel reports all pages as present.
pub(crate) fn resident_pages(file: &File, offset: u64, len: u64) -> io::Result<Vec<bool>> {
    let page_bytes = rustix::param::page_size();
    let start = offset - offset % page_bytes as u64;
    let bytes =
        usize::try_from(offset.saturating_add(len) - start).map_err(|_| io::ErrorKind::InvalidInput)?;
    // SAFETY: a null address lets the kernel choose a range that overlaps nothing of ours, so no
    // existing memory changes; the mapping is only asked about, never read, so that a file that
    // shrinks does no harm.
    let base = unsafe {
        rustix::mm::mmap(ptr::null_mut(), bytes, ProtFlags::empty(), MapFlags::SHARED, file, start)
    }?;
    let mut pages = vec![0_u8; bytes.div_ceil(page_bytes)];
    // SAFETY: the range is the mapping just made, and `pages` has one byte for each page of it.
    let asked = unsafe { libc::mincore(base, bytes, pages.as_mut_ptr()) };
    let answer = if asked == 0 { Ok(()) } else { Err(io::Error::last_os_error()) };
    // SAFETY: the range is the one mapped above, nothing refers into it, and it is unmapped once.
    let unmapped = unsafe { rustix::mm::munmap(base, bytes) };
    debug_assert!(unmapped.is_ok(), "munmap of our own range cannot fail");
    answer.map(|()| pages.iter().map(|page| *page & 1 == 1).collect())
}
