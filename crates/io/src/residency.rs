//! Presence of a file range in the page cache, and ways to bring it there while the shard does not
//! wait.
//!
//! `sendfile` and `splice` wait for the disk even if the socket does not, and with them every
//! connection of the thread. Therefore a thread that may not wait asks first ([`lead()`]), has
//! another thread load missing pages ([`Warmer`]), and continues after that. A reader of old data
//! would push pages of other readers out of the cache; the pages that it has loaded, and no others,
//! are dropped again once it has passed ([`Trail`]).
//!
//! # In a transfer
//!
//! An [`Engine`](crate::Engine) that [reports cold pages](crate::Engine::report_cold) asks before
//! each window of an extent, and [`Transfer::step`](crate::Transfer::step) ends with
//! [`Turn::Cold`](crate::Turn::Cold) instead of waiting:
//!
//! ```
//! # use std::{fs::File, os::fd::AsFd, os::unix::net::UnixStream, sync::{Arc, mpsc}};
//! # use levada_io::{Caps, Counters, Engine, Extent, Piece, Transfer, Turn};
//! # use levada_io::residency::{Trail, Warmer, WarmerLimits};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let file = Arc::new(File::open("Cargo.toml")?);
//! # let len = file.metadata()?.len();
//! # let counters = Arc::new(Counters::default());
//! # let mut engine = Engine::new(&Caps::probe(), Arc::clone(&counters));
//! # let (socket, _peer) = UnixStream::pair()?;
//! # let mut transfer = Transfer::new([Piece::Extent(Extent { file, offset: 0, len })]);
//! let warmer = Warmer::new(WarmerLimits::default(), counters); // one for the process
//! let mut trail = Trail::default();                            // one for each reader that reads once
//! engine.report_cold(true);
//! loop {
//!     match transfer.step(&mut engine, socket.as_fd(), 1 << 20)? {
//!         Turn::Done => break,
//!         Turn::Cold => {
//!             let Some(warm) = transfer.cold(1 << 20) else { continue };
//!             let (there, wait) = mpsc::channel(); // a runtime would take its own oneshot channel
//!             warmer.submit(warm.once(&mut trail), move |warmed| drop(there.send(warmed)))?;
//!             trail.follow(wait.recv()??); // and would let others go first
//!         }
//!         Turn::Yield | Turn::Blocked => { /* let others go first; wait for the socket */ }
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! A range is reported cold once. If the pages were evicted again, or the file system cannot tell,
//! the next step waits for the disk and counts that, so that a transfer always makes progress.

use rustix::io::{Errno, ReadWriteFlags};

use std::io::IoSliceMut;
use std::os::fd::AsFd;
use std::sync::Arc;

use crate::piece::Extent;
use crate::probe::Means;
use crate::sys::{calls, mincore};

mod lead;
mod trail;
mod warm;

use lead::{PageRun, first_run};
pub use trail::Trail;
pub use warm::{QueueFull, Warm, Warmed, Warmer, WarmerLimits};

/// Part of a range that is in the page cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Residency {
    /// All of the range: reading does not wait for the disk.
    Resident,
    /// Some of it, or all of it while some pages are still being read.
    Partly,
    /// No page of the range is in the cache.
    Cold,
    /// Unknown: this kernel has no information about this file.
    Unknown,
}

/// Part of `extent` that is in the page cache now; pages may come and go before the next call.
/// Never waits for the disk.
///
/// - `cachestat` (Linux 6.5) counts pages, those still being read in included; so if it counts all,
///   the first and the last byte are read without waiting. Together some microseconds for any
///   length.
/// - Without it, at most [`SAMPLES`] single bytes are read without waiting (`RWF_NOWAIT`), evenly
///   spread. A missing page starts the kernel's read-ahead.
/// - Without that, `mincore` on a mapping made for it. It answers only for files that the caller
///   owns or may write; for others it reports everything as present.
pub fn of(extent: &Extent, means: Means) -> Residency {
    if extent.len == 0 {
        return Residency::Resident;
    }
    let counted = if means.cachestat { by_cachestat(extent, means) } else { None };
    let answer = counted.or_else(|| if means.nowait_reads { by_reading(extent) } else { None });
    answer.or_else(|| by_mincore(extent)).unwrap_or(Residency::Unknown)
}

/// Number of bytes of `extent` in pages of the page cache, up to its length; pages that are still
/// being read count. `None`: the kernel has no `cachestat` (Linux 6.5), or the file does not use
/// the page cache.
pub fn cached_bytes(extent: &Extent) -> Option<u64> {
    if extent.len == 0 {
        return Some(0);
    }
    let pages = calls::cached_pages(extent.file.as_fd(), extent.offset, extent.len).ok()?;
    Some(pages.saturating_mul(rustix::param::page_size() as u64).min(extent.len))
}

/// Start of a range: a number of bytes that can be sent immediately, or that must first be read
/// from the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lead {
    /// Number of bytes in the page cache.
    Ready(u64),
    /// Missing, or still being read. Ends with a missing page; islands of present pages may lie
    /// between two missing ones, each smaller than twice [`ISLAND_BYTES`].
    Missing(u64),
}

/// Present pages between missing ones are skipped up to this size: one more request costs a device
/// more than the bytes.
pub const ISLAND_BYTES: u64 = 64 << 10;
const _: () = assert!(ISLAND_BYTES.is_power_of_two(), "a whole number of pages, whatever their size");

/// Start of `extent` at this time. `None`: it is empty, or residency is unknown for this kernel and
/// file. Never waits for the disk.
///
/// Costs one call, like [`of`], if all or nothing is present, and about twenty more calls
/// otherwise.
pub fn lead(extent: &Extent, means: Means) -> Option<Lead> {
    if extent.len == 0 {
        return None;
    }
    match of(extent, means) {
        Residency::Unknown => return None,
        Residency::Resident => return Some(Lead::Ready(extent.len)),
        Residency::Cold => return Some(Lead::Missing(extent.len)),
        Residency::Partly => {}
    }
    let Some(census) = Census::of(extent, means.cachestat) else { return Some(Lead::Missing(extent.len)) };
    let islands = ISLAND_BYTES / rustix::param::page_size() as u64;
    Some(match first_run(pages(extent), islands, |start, count| census.count(start, count)) {
        PageRun::There(count) => {
            let part = Extent { len: bytes_of(extent, count), ..extent.clone() };
            // Counted, but perhaps still being read in.
            match of(&part, means) {
                Residency::Resident => Lead::Ready(part.len),
                _ => Lead::Missing(part.len),
            }
        }
        PageRun::Missing(count) => Lead::Missing(bytes_of(extent, count)),
    })
}

/// The parts of `extent` that are not in the page cache, in whole pages; pages that are being read
/// count as present. `None`: unknown.
fn missing(extent: &Extent) -> Option<Vec<Extent>> {
    let page_bytes = rustix::param::page_size() as u64;
    let census = Census::of(extent, true)?;
    let (first, all) = (extent.offset / page_bytes, if extent.len == 0 { 0 } else { pages(extent) });
    let (mut at, mut missing) = (0, Vec::new());
    while at < all {
        match first_run(all - at, 0, |start, count| census.count(at + start, count)) {
            PageRun::There(count) => at += count,
            PageRun::Missing(count) => {
                let (offset, len) = ((first + at) * page_bytes, count * page_bytes);
                missing.push(Extent { file: Arc::clone(&extent.file), offset, len });
                at += count;
            }
        }
    }
    Some(missing)
}

/// Counts the pages of one extent that are in the cache, by their numbers within it.
enum Census<'a> {
    Asking(&'a Extent),
    Known(Vec<bool>),
}

impl Census<'_> {
    /// `None`: neither way to count works for this file.
    fn of(extent: &Extent, cachestat: bool) -> Option<Census<'_>> {
        if cachestat && calls::cached_pages(extent.file.as_fd(), extent.offset, 1).is_ok() {
            return Some(Census::Asking(extent));
        }
        mincore::resident_pages(&extent.file, extent.offset, extent.len).ok().map(Census::Known)
    }

    fn count(&self, start: u64, count: u64) -> u64 {
        match self {
            Census::Asking(extent) => {
                let page_bytes = rustix::param::page_size() as u64;
                let offset = (extent.offset / page_bytes + start).saturating_mul(page_bytes);
                let counted = calls::cached_pages(extent.file.as_fd(), offset, count * page_bytes);
                counted.map_or(0, |counted| counted.min(count))
            }
            Census::Known(pages) => {
                let pages = pages.iter().skip(usize::try_from(start).unwrap_or(usize::MAX));
                let pages = pages.take(usize::try_from(count).unwrap_or(usize::MAX));
                pages.filter(|there| **there).count() as u64
            }
        }
    }
}

/// Number of bytes of the extent in its first `count` pages.
fn bytes_of(extent: &Extent, count: u64) -> u64 {
    let page_bytes = rustix::param::page_size() as u64;
    (count * page_bytes - extent.offset % page_bytes).min(extent.len)
}

/// Maximum number of bytes that one query reads where `cachestat` is missing.
pub const SAMPLES: u64 = 64;

/// Distance of the sampled bytes in ranges that are short enough for it: no more than common
/// read-ahead.
const SAMPLE_BYTES: u64 = 64 << 10;

fn by_cachestat(extent: &Extent, means: Means) -> Option<Residency> {
    let cached = calls::cached_pages(extent.file.as_fd(), extent.offset, extent.len).ok()?;
    let expected = pages(extent);
    if cached == 0 {
        return Some(Residency::Cold);
    }
    if cached < expected {
        return Some(Residency::Partly);
    }
    let ready = |at| !means.nowait_reads || is_ready(extent, at) != Some(false);
    let both = ready(0) && ready(extent.len - 1);
    Some(if both { Residency::Resident } else { Residency::Partly })
}

fn by_reading(extent: &Extent) -> Option<Residency> {
    let step = SAMPLE_BYTES.max(extent.len / SAMPLES + 1);
    let mut at = 0;
    while at < extent.len {
        if !is_ready(extent, at)? {
            return Some(if at == 0 { Residency::Cold } else { Residency::Partly });
        }
        at += step;
    }
    let last = is_ready(extent, extent.len - 1)?;
    Some(if last { Residency::Resident } else { Residency::Partly })
}

fn by_mincore(extent: &Extent) -> Option<Residency> {
    let resident = mincore::resident_pages(&extent.file, extent.offset, extent.len).ok()?;
    Some(match (resident.contains(&true), resident.contains(&false)) {
        (false, _) => Residency::Cold,
        (true, true) => Residency::Partly,
        (true, false) => Residency::Resident,
    })
}

/// True if the byte at `at` of the extent can be read now. `None`: unknown for this file.
fn is_ready(extent: &Extent, at: u64) -> Option<bool> {
    let mut byte = [0];
    loop {
        let mut slices = [IoSliceMut::new(&mut byte)];
        let offset = extent.offset.saturating_add(at);
        match rustix::io::preadv2(&extent.file, &mut slices, offset, ReadWriteFlags::NOWAIT) {
            Ok(count) => return Some(count > 0),
            Err(Errno::AGAIN) => return Some(false),
            Err(Errno::INTR) => {}
            Err(_) => return None,
        }
    }
}

/// Number of pages the extent touches.
fn pages(extent: &Extent) -> u64 {
    let page_bytes = rustix::param::page_size() as u64;
    let last = extent.offset.saturating_add(extent.len - 1);
    last / page_bytes - extent.offset / page_bytes + 1
}

#[cfg(test)]
mod tests;
