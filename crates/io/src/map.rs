//! A file mapped into memory, shared and writable: the storage of the log's indexes, and a way to
//! append to the log ([`WriteMap`]).
//!
//! One thread appends while any number of threads read. Every access goes through whole aligned
//! words with relaxed atomic loads and stores, so that a race between them is a stale value and
//! never undefined behaviour; the caller orders them: write the entry, then publish the
//! count with a releasing store, and read the count with an acquiring load before reading entries
//! below it.
//!
//! Touching a page that lies wholly beyond the end of a file that was cut, or that its disk does
//! not give, raises `SIGBUS`. This does not end the process: zeroes replace the page, and
//! [`FileMap::is_lost`] is true from then on. Check it after a read and before using the value.
//! [`FileMap::create`] allocates the blocks first, so that a full disk is an error there and not a
//! loss later.

use std::fs::File;
use std::io;

use rustix::fs::FallocateFlags;
use rustix::io::Errno;

use crate::sys::mapping::Mapping;

mod write;

pub use crate::sys::mapping::Access;
pub use write::WriteMap;

/// A shared writable mapping of the first `len` bytes of a file.
///
/// Positions are bytes from the start. A position that does not fit is a bug of the caller and
/// panics, as indexing a slice does; check lengths that came from disk against [`FileMap::len`]
/// first.
#[derive(Debug)]
pub struct FileMap {
    words: Mapping,
    len: usize,
}

impl FileMap {
    /// Maps `len` bytes of `file` after growing it to at least that length with real blocks
    /// (`fallocate`).
    ///
    /// Existing bytes stay; new bytes are zero.
    ///
    /// # Errors
    /// A full disk, a file that is not open for reading and writing, or `len` of 0.
    pub fn create(file: &File, len: usize) -> io::Result<Self> {
        match rustix::fs::fallocate(file, FallocateFlags::empty(), 0, len as u64) {
            Ok(()) => {}
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => write_zeroes(file, len as u64)?,
            Err(errno) => return Err(errno.into()),
        }
        Self::open(file, len)
    }

    /// Maps the first `len` bytes of `file`, which must be at least that long.
    ///
    /// The mapping stays when `file` is closed. Nothing is read ahead: on a device with a large
    /// read-ahead one touched page of a sparse file would bring megabytes of zeroes.
    ///
    /// # Errors
    /// A file shorter than `len` (`UnexpectedEof`), one that is not open for reading and writing,
    /// or `len` of 0.
    pub fn open(file: &File, len: usize) -> io::Result<Self> {
        Self::open_for(file, len, Access::Random)
    }

    /// Like [`open`](FileMap::open), for the given access pattern. [`Access::Populated`] waits
    /// until the whole mapping is read.
    ///
    /// # Errors
    /// Same as for [`open`](FileMap::open), and a kernel without huge pages for [`Access::Huge`].
    pub fn open_for(file: &File, len: usize, access: Access) -> io::Result<Self> {
        let actual = file.metadata()?.len();
        if actual < len as u64 {
            let text = format!("cannot map {len} bytes of a file of {actual}");
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, text));
        }
        Ok(Self { words: Mapping::new(file, len, access)?, len })
    }

    /// The number of bytes that can be reached.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if the mapping is empty; never for an existing map, since the kernel refuses empty
    /// ones.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// True if anything read so far may be zeros instead of the contents of the file, or anything
    /// written may be lost, because the file was truncated or its disk failed. The mark is
    /// permanent: map the file again.
    pub fn is_lost(&self) -> bool {
        self.words.is_lost()
    }

    /// The big-endian `u32` at `pos`.
    pub fn read_u32_be(&self, pos: usize) -> u32 {
        self.check(pos, 4);
        if pos.is_multiple_of(4) {
            return u32::from_be_bytes(self.words.load(pos / 4));
        }
        let mut bytes = [0; 4];
        self.read_bytes(pos, &mut bytes);
        u32::from_be_bytes(bytes)
    }

    /// The big-endian `u64` at `pos`, read as two halves: whole only if the writer has published
    /// it.
    pub fn read_u64_be(&self, pos: usize) -> u64 {
        u64::from(self.read_u32_be(pos)) << 32 | u64::from(self.read_u32_be(pos + 4))
    }

    /// The big-endian `i64` at `pos`, read as two halves: whole only if the writer has published
    /// it.
    pub fn read_i64_be(&self, pos: usize) -> i64 {
        self.read_u64_be(pos).cast_signed()
    }

    /// Copies the bytes from `pos` on into `into`.
    pub fn read_bytes(&self, pos: usize, into: &mut [u8]) {
        self.check(pos, into.len());
        let mut at = pos;
        let mut rest = into;
        while !rest.is_empty() {
            let inside = at % 4;
            let (now, later) = rest.split_at_mut(rest.len().min(4 - inside));
            now.copy_from_slice(&self.words.load(at / 4)[inside..inside + now.len()]);
            at += now.len();
            rest = later;
        }
    }

    /// Copies `bytes` to `pos`. One thread writes at a time: two writers within the same four bytes
    /// would lose an update.
    pub fn write_bytes(&self, pos: usize, bytes: &[u8]) {
        self.check(pos, bytes.len());
        let mut at = pos;
        let mut rest = bytes;
        while !rest.is_empty() {
            let inside = at % 4;
            let (now, later) = rest.split_at(rest.len().min(4 - inside));
            let mut word = if now.len() == 4 { [0; 4] } else { self.words.load(at / 4) };
            word[inside..inside + now.len()].copy_from_slice(now);
            self.words.store(at / 4, word);
            at += now.len();
            rest = later;
        }
    }

    /// Waits until the kernel has written the changed pages to the device (`msync`). Blocks.
    ///
    /// # Errors
    /// Errors of the device.
    pub fn flush(&self) -> io::Result<()> {
        self.words.flush()
    }

    fn check(&self, pos: usize, count: usize) {
        let inside = pos.checked_add(count).is_some_and(|end| end <= self.len);
        assert!(inside, "{count} bytes at {pos} lie outside a map of {}", self.len);
    }
}

/// Allocates blocks by writing zeros where the file system has no `fallocate`.
fn write_zeroes(file: &File, len: u64) -> io::Result<()> {
    use std::os::unix::fs::FileExt;

    let zeroes = [0; 4096];
    let mut at = file.metadata()?.len();
    while at < len {
        let count = zeroes.len().min(usize::try_from(len - at).unwrap_or(usize::MAX));
        file.write_all_at(&zeroes[..count], at)?;
        at += count as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
