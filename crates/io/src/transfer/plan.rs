//! The path of one piece of a [`Transfer`](crate::Transfer): a pure function of the piece and of
//! the machine's capabilities.
//!
//! | piece | length | TLS | path |
//! |---|---|---|---|
//! | bytes in memory | any | any | `read_write`: one `sendmsg` together with their neighbours |
//! | range that may change | any | any | `read_write`: copied before it can |
//! | range of a file | ≤ `small_extent_bytes` | none | `read_write`, together with its neighbours |
//! | range of a file | larger | none | `splice`; without it `sendfile`; without both `read_write` |
//! | range of a file | < one TLS record | kernel | `read_write` |
//! | range of a file | ≥ one TLS record | kernel | `splice`; without it `sendfile`; without both `read_write` |
//! | range of a file, on a kernel that copies pages for `splice` | ≥ 256 KiB | any | `mmap_write` |
//!
//! It decides nothing else. The other choices of this crate are made here:
//!
//! | choice | made by |
//! |---|---|
//! | wait for pages on the disk, or not | [`Engine::report_cold`]: the transfer asks before each window and ends its turn with [`Turn::Cold`] |
//! | bring them into the page cache, or read around it | the caller, at [`Turn::Cold`]: a [`Warmer`], or an [`Inflow`] and [`Transfer::supply`] |
//! | keep them there, or drop them after the reader | the caller: [`Warm::once`] with a [`Trail`] |
//! | encrypt in this process, or in the kernel | the caller: [`SealedTransfer`], or [`ktls`](crate::ktls) and [`Transfer::into_kernel_tls`] |
//! | send memory by copy, or by reference | [`runs::cut`](crate::runs::cut), for an [`Outbox`] and a [`ZeroCopyOutbox`] |
//! | copy a file | [`COPY_PATHS`](crate::copy::COPY_PATHS), each tried in turn |
//!
//! [`Engine::report_cold`]: crate::Engine::report_cold
//! [`Turn::Cold`]: crate::Turn::Cold
//! [`Warmer`]: crate::residency::Warmer
//! [`Warm::once`]: crate::residency::Warm::once
//! [`Trail`]: crate::residency::Trail
//! [`Inflow`]: crate::inflow::Inflow
//! [`Transfer::supply`]: crate::Transfer::supply
//! [`Transfer::into_kernel_tls`]: crate::Transfer::into_kernel_tls
//! [`SealedTransfer`]: crate::SealedTransfer
//! [`Outbox`]: crate::outbox::Outbox
//! [`ZeroCopyOutbox`]: crate::zerocopy::ZeroCopyOutbox

use crate::path::SocketPath;
use crate::probe::Means;
use crate::thresholds::Thresholds;

/// Chooses the path. A path that the machine does not have is never chosen.
pub fn plan(question: &Question, thresholds: &Thresholds) -> SocketPath {
    match question.source {
        Source::Memory | Source::VolatileFile => SocketPath::ReadWrite,
        Source::File => match question.means {
            Means { page_references: false, .. } if question.len >= MAPPED_BYTES => SocketPath::MmapWrite,
            Means { splice: true, .. } if is_large(question, thresholds) => SocketPath::Splice,
            Means { sendfile: true, .. } if is_large(question, thresholds) => SocketPath::Sendfile,
            _ => SocketPath::ReadWrite,
        },
    }
}

/// The next best path after `path` has refused a piece; ends at copying, which refuses nothing.
pub(super) fn next_best(path: SocketPath, means: Means) -> SocketPath {
    match path {
        SocketPath::MmapWrite if means.splice => SocketPath::Splice,
        SocketPath::MmapWrite | SocketPath::Splice if means.sendfile => SocketPath::Sendfile,
        _ => SocketPath::ReadWrite,
    }
}

/// Kernel TLS encrypts records of up to this size; a smaller one gains nothing from a page by
/// reference.
const TLS_RECORD_BYTES: u64 = 16 * 1024;

/// Smallest range that is sent from a mapping where the kernel has no references to pages: for
/// less, the mapping costs more than the copy that it saves
/// (docs/decisions/2026-11-29-transfer-plan.md).
pub const MAPPED_BYTES: u64 = 256 << 10;

/// True if pages by reference cost less than copying them.
fn is_large(question: &Question, thresholds: &Thresholds) -> bool {
    match question.tls {
        Tls::Kernel => question.len >= TLS_RECORD_BYTES,
        Tls::None => question.len > thresholds.small_extent_bytes,
    }
}

/// A piece to be sent, and the means to send it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Question {
    /// Location of the bytes.
    pub source: Source,
    /// Number of bytes.
    pub len: u64,
    /// Encryption on the way.
    pub tls: Tls,
    /// The paths that this machine has.
    pub means: Means,
}

/// Location of bytes before they are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// In memory of this process.
    Memory,
    /// In a file, in a range that will not change.
    File,
    /// In a file, in a range that may be rewritten or cut while it is in flight.
    VolatileFile,
}

/// Encryption between a transfer and the network. In this process it is not a path of a transfer:
/// see [`SealedTransfer`](crate::SealedTransfer).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Tls {
    /// No encryption.
    #[default]
    None,
    /// Encryption by the kernel, as part of sending.
    Kernel,
}

#[cfg(test)]
mod tests;
