//! Which path a piece takes: a pure function of what is asked and of what the machine allows.
//!
//! | source | size | TLS | path |
//! |---|---|---|---|
//! | memory | any | none, kernel | `send` |
//! | file | ≤ `small_extent_bytes` | none | `read_write`, together with its neighbours |
//! | file | larger | none | `splice`; without it `sendfile`; without both `read_write` |
//! | file | < one TLS record | kernel | `read_write` |
//! | file | larger | kernel | `splice`; without it `sendfile`; without both `read_write` |
//! | file that may change | any | any | `read_write` |
//! | any | any | user space | `read_write`: encryption needs the bytes in memory |
//!
//! Whether the pages are in the cache and whether the route copies do not decide yet: the paths that they would
//! choose are not there.

use crate::path::Path;
use crate::probe::Caps;

/// Chooses the path. A path that the machine does not have is never chosen.
pub fn plan(question: &Question, thresholds: &Thresholds) -> Path {
    let by_reference = match question.tls {
        Tls::UserSpace => return Path::ReadWrite,
        Tls::Kernel => question.len >= TLS_RECORD_BYTES,
        Tls::None => question.len > thresholds.small_extent_bytes,
    };
    match question.source {
        Source::Memory => Path::Send,
        Source::VolatileFile => Path::ReadWrite,
        Source::File if by_reference && question.means.splice => Path::Splice,
        Source::File if by_reference && question.means.sendfile => Path::Sendfile,
        Source::File => Path::ReadWrite,
    }
}

/// Kernel TLS encrypts records of up to this size; a smaller one gains nothing from a page by reference.
const TLS_RECORD_BYTES: u64 = 16 * 1024;

/// What is to be sent, and with what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Question {
    /// Where the bytes are.
    pub source: Source,
    /// How many there are, in bytes.
    pub len: u64,
    /// Who encrypts them.
    pub tls: Tls,
    /// Which paths there are.
    pub means: Means,
}

/// Where bytes are before they are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// In our memory.
    Memory,
    /// In a file, in a range that will not change.
    File,
    /// In a file, in a range that may be rewritten or cut while it is in flight.
    VolatileFile,
}

/// Who encrypts a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tls {
    /// Nobody.
    None,
    /// A library in this process, which needs the bytes in memory.
    UserSpace,
    /// The kernel, as part of sending.
    Kernel,
}

/// The paths beyond plain reading and sending that this machine allows.
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
}

impl Means {
    /// What the probe found.
    pub fn of(caps: &Caps) -> Means {
        Means {
            splice: Path::Splice.works(caps),
            sendfile: Path::Sendfile.works(caps),
            nowait_reads: caps.nowait_reads.works(),
            cachestat: caps.cachestat.works(),
        }
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
