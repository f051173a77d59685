//! `READ` and `READ_FIXED` through a ring: file to memory without a thread that waits.
//!
//! *Saves* waiting: many reads are under way at once and each completes when its pages are there, registered buffers are pinned once, and
//! with `RWF_DONTCACHE` pages that nobody will read again leave the cache at once. *Needs* a ring. *Loses* on hot data, which
//! `preadv2` returns in the same call and `splice` does not copy at all.

use crate::Extent;
use crate::buf::Buffer;
use crate::probe::Caps;
use crate::ring::{Caching, Operation};

/// Works where a ring does.
pub(crate) fn needs(caps: &Caps) -> bool {
    caps.io_uring.works()
}

/// Reads as much as fits of an extent behind its first `done` bytes.
pub(crate) fn operation(extent: &Extent, done: u64, buffer: Buffer, caching: Caching) -> Operation {
    let len = usize::try_from(extent.len - done).unwrap_or(usize::MAX);
    let offset = extent.offset.saturating_add(done);
    Operation::read(std::sync::Arc::clone(&extent.file), offset, len, buffer).caching(caching)
}
