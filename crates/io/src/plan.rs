//! Which path bytes take: a pure function of what is asked and of what the machine allows.
//!
//! | source | size | TLS | route | first | then |
//! |---|---|---|---|---|---|
//! | file in the cache | ≤ `small_extent_bytes` | none | any | | `read_write`, together with its neighbours |
//! | file in the cache | larger | none | any | | `splice`; without it `sendfile`; without both `read_write` |
//! | file in the cache | ≥ one TLS record | kernel | any | | the same |
//! | memory | < `registered_send_bytes` or `zero_copy_send_bytes` | none | any | | `send` |
//! | memory | larger | none | by reference | | `uring_send_zc`; without a ring `msg_zerocopy`; without both `send` |
//! | memory | any | none, kernel | copies | | `send` |
//! | cold file | small | none, kernel | any | ring read; without a ring a [`Warmer`] | as memory; `read_write` |
//! | cold file | large, read again | any | any | `Warmer` | as a file in the cache |
//! | cold file | large, read once | none | by reference | ring read that leaves no pages | `uring_send_zc` |
//! | cold file | large, read once | any | copies | `Warmer` | as a file in the cache, dropped behind |
//! | any | any | user space | any | `Warmer` if it is a cold file | `user_tls`: encryption needs the bytes in memory |
//! | range that may change | any | any | any | `Warmer` if it is cold | `read_write`: copied before it can |
//! | file to file | | | | | [`between_files`] |
//!
//! Kernel TLS refuses sends by reference from memory.
//!
//! [`Warmer`]: crate::residency::Warmer

use crate::path::Path;
use crate::probe::Caps;
use crate::residency::Residency;
use crate::ring::Caching;

mod calibration;

pub use calibration::CalibrationError;

/// Chooses the path. One that the machine does not have is never chosen.
pub fn plan(question: &Question, thresholds: &Thresholds) -> Plan {
    let cold = matches!(question.residency, Residency::Cold | Residency::Partly);
    match question.source {
        Source::Memory { registered } => {
            let path = if question.tls == Tls::UserSpace {
                Path::UserTls
            } else {
                from_memory(question, registered, thresholds)
            };
            Plan { first: None, path, drop_behind: false }
        }
        Source::VolatileFile => copied(question, cold),
        Source::File if question.tls == Tls::UserSpace => copied(question, cold),
        Source::File if cold => from_cold_file(question, thresholds),
        Source::File => Plan { first: None, path: from_cache(question, thresholds), drop_behind: false },
    }
}

/// Kernel TLS encrypts records of up to this size; a smaller one gains nothing from a page by reference.
const TLS_RECORD_BYTES: u64 = 16 * 1024;

fn from_memory(question: &Question, registered: bool, thresholds: &Thresholds) -> Path {
    let least = if registered { thresholds.registered_send_bytes } else { thresholds.zero_copy_send_bytes };
    let worth_it =
        question.route == Route::ByReference && question.tls == Tls::None && question.len >= least as u64;
    match question.means {
        Means { ring_zero_copy: true, .. } if worth_it => Path::UringSendZc,
        Means { msg_zerocopy: true, .. } if worth_it => Path::MsgZerocopy,
        _ => Path::Send,
    }
}

/// Whether pages by reference cost less than copying them.
fn is_large(question: &Question, thresholds: &Thresholds) -> bool {
    match question.tls {
        Tls::UserSpace => false,
        Tls::Kernel => question.len >= TLS_RECORD_BYTES,
        Tls::None => question.len > thresholds.small_extent_bytes,
    }
}

fn from_cache(question: &Question, thresholds: &Thresholds) -> Path {
    let large = is_large(question, thresholds);
    match question.means {
        Means { splice: true, .. } if large => Path::Splice,
        Means { sendfile: true, .. } if large => Path::Sendfile,
        _ => Path::ReadWrite,
    }
}

fn from_cold_file(question: &Question, thresholds: &Thresholds) -> Plan {
    let Means { ring, ring_zero_copy, uncached_reads, .. } = question.means;
    if !is_large(question, thresholds) && ring {
        let path = from_memory(question, false, thresholds);
        return Plan { first: Some(First::Read(Caching::Keep)), path, drop_behind: false };
    }
    let by_reference = question.route == Route::ByReference && question.tls == Tls::None;
    if question.read_once && by_reference && is_large(question, thresholds) && ring && ring_zero_copy {
        let caching = if uncached_reads { Caching::Drop } else { Caching::Keep };
        let drop_behind = caching == Caching::Keep;
        return Plan { first: Some(First::Read(caching)), path: Path::UringSendZc, drop_behind };
    }
    Plan {
        first: Some(First::Warm),
        path: from_cache(question, thresholds),
        drop_behind: question.read_once && is_large(question, thresholds),
    }
}

fn copied(question: &Question, cold: bool) -> Plan {
    Plan {
        first: cold.then_some(First::Warm),
        path: if question.tls == Tls::UserSpace { Path::UserTls } else { Path::ReadWrite },
        drop_behind: cold && question.read_once,
    }
}

/// The ways from file to file that are to be tried, in order; the last of them always works.
pub fn between_files(means: Means) -> impl Iterator<Item = Path> {
    crate::copy::COPY_PATHS.into_iter().filter(move |path| match path {
        Path::Reflink => means.reflink,
        Path::CopyFileRange => means.copy_file_range,
        Path::Splice => means.splice,
        _ => true,
    })
}

/// What to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plan {
    /// What brings the bytes in before they can be sent.
    pub first: Option<First>,
    /// How they are sent.
    pub path: Path,
    /// Whether their pages are dropped from the cache afterwards.
    pub drop_behind: bool,
}

/// How bytes come from the disk, off the thread that sends them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum First {
    /// Into the page cache, by a [`Warmer`](crate::residency::Warmer).
    Warm,
    /// Into a buffer, through a ring ([`Inflow`](crate::inflow::Inflow)); they are memory then.
    Read(Caching),
}

/// What is to be sent, and with what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Question {
    /// Where the bytes are.
    pub source: Source,
    /// How many there are, in bytes.
    pub len: u64,
    /// Of a file: whether its pages are in the cache. What is not known counts as there.
    pub residency: Residency,
    /// Of a file: whether nobody is expected to read them again soon.
    pub read_once: bool,
    /// Who encrypts them.
    pub tls: Tls,
    /// What the way to the peer does with references.
    pub route: Route,
    /// Which paths there are.
    pub means: Means,
}

/// Where bytes are before they are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// In our memory.
    Memory {
        /// In a buffer that is registered with a ring.
        registered: bool,
    },
    /// In a file, in a range that will not change.
    File,
    /// In a file, in a range that may be rewritten or cut while it is in flight.
    VolatileFile,
}

/// What the way to the peer does with memory sent by reference; see [`Routes`](crate::routes::Routes).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Route {
    /// It copies: loopback, veth, tun, or a card without scatter-gather.
    Copies,
    /// The card fetches it.
    ByReference,
}

/// Who encrypts a connection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Tls {
    /// Nobody.
    #[default]
    None,
    /// A library in this process, which needs the bytes in memory.
    UserSpace,
    /// The kernel, as part of sending.
    Kernel,
}

/// The means beyond plain reading and sending that this machine allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Means {
    /// `splice` from file to socket.
    pub splice: bool,
    /// `sendfile` from file to socket.
    pub sendfile: bool,
    /// Reads that refuse instead of waiting for the disk.
    pub nowait_reads: bool,
    /// Counting the pages that are in the cache.
    pub cachestat: bool,
    /// A ring.
    pub ring: bool,
    /// Sends from memory by reference through it.
    pub ring_zero_copy: bool,
    /// The same without a ring.
    pub msg_zerocopy: bool,
    /// Reads that leave no page in the cache.
    pub uncached_reads: bool,
    /// `copy_file_range` from file to file.
    pub copy_file_range: bool,
    /// Files that share blocks.
    pub reflink: bool,
}

impl Means {
    /// What the probe found.
    pub fn of(caps: &Caps) -> Means {
        Means {
            splice: Path::Splice.works(caps),
            sendfile: Path::Sendfile.works(caps),
            nowait_reads: caps.nowait_reads.works(),
            cachestat: caps.cachestat.works(),
            ring: Path::UringRead.works(caps),
            ring_zero_copy: Path::UringSendZc.works(caps),
            msg_zerocopy: Path::MsgZerocopy.works(caps),
            uncached_reads: caps.uncached_reads.works(),
            copy_file_range: Path::CopyFileRange.works(caps),
            reflink: Path::Reflink.works(caps),
        }
    }

    /// For a thread that has no ring, or does not want it for this.
    #[must_use]
    pub fn without_ring(self) -> Means {
        Means { ring: false, ring_zero_copy: false, ..self }
    }

    /// The next best path after `path` refused.
    pub(crate) fn after(self, path: Path) -> Path {
        if path == Path::Splice && self.sendfile { Path::Sendfile } else { Path::ReadWrite }
    }
}

/// The sizes that the plan and the engine turn on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Thresholds {
    /// Extents up to this size are copied and leave together with their neighbours.
    pub small_extent_bytes: u64,
    /// How much is read into memory at a time, at least one small extent; each engine owns one buffer of this size.
    pub copy_bytes: usize,
    /// The size asked for a pipe.
    pub pipe_bytes: usize,
    /// A pipe that came out smaller than this is no better than `sendfile`'s own and is not used.
    pub pipe_floor_bytes: usize,
    /// How many pipes one engine may have.
    pub pipes: usize,
    /// Memory from this size on is sent by reference, where the route does not copy.
    pub zero_copy_send_bytes: usize,
    /// The same for memory in registered buffers.
    pub registered_send_bytes: usize,
    /// How much of an extent is asked for at a time when cold pages are reported, rounded up to whole pages.
    pub cold_window_bytes: u64,
}

impl Default for Thresholds {
    fn default() -> Thresholds {
        Thresholds {
            small_extent_bytes: 16 << 10,
            copy_bytes: 128 << 10,
            pipe_bytes: 1 << 20,
            pipe_floor_bytes: 128 << 10,
            pipes: 32,
            zero_copy_send_bytes: 16 << 10,
            registered_send_bytes: 4 << 10,
            cold_window_bytes: 1 << 20,
        }
    }
}

#[cfg(test)]
mod tests;
