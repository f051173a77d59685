//! Divides a queue of memory into runs that each leave by one call: small pieces are copied
//! together, large ones go by reference.
//!
//! A send by reference costs the same for every piece (its pages are pinned, a notification comes
//! back), so small headers in the same message as large bodies cost what the bodies saved:
//!
//! ```text
//!   [4K 4K | 16K 32K | 2K]   →   sendmsg (copied), sendmsg_zc (by reference), send (copied)
//! ```
//!
//! A pure function of the sizes of the pieces and of the permitted operations.

use crate::thresholds::Thresholds;

/// Method to send a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SendMode {
    /// Copied into the socket's buffers.
    Copied,
    /// Sent by reference to pages of this process.
    Referenced,
    /// Sent by reference to a registered buffer, whose pages are pinned already; one at a time.
    Registered,
}

/// Some neighbours in the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// Method to send the run.
    pub mode: SendMode,
    /// Number of neighbouring pieces.
    pub count: usize,
    /// Number of bytes they have together.
    pub bytes: usize,
}

/// One piece of the queue, as far as cutting cares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Length {
    /// Length in bytes.
    pub bytes: usize,
    /// True if it is in a registered buffer.
    pub registered: bool,
}

/// A message takes no more pieces than this (`IOV_MAX`).
pub const COPIED_PIECES: usize = 1024;

/// A packet refers to no more pieces than this (`MAX_SKB_FRAGS`); more start another one.
pub const REFERENCED_PIECES: usize = 17;
const _: () = assert!(REFERENCED_PIECES <= COPIED_PIECES);

/// Cuts a queue into runs, in order. `may_refer`: whether sending by reference is of use on this
/// route.
pub fn cut(
    pieces: impl IntoIterator<Item = Length>,
    thresholds: &Thresholds,
    may_refer: bool,
) -> impl Iterator<Item = Run> {
    let mut pieces = pieces.into_iter().peekable();
    let mode = move |length: &Length| match *length {
        Length { bytes, registered: true } if may_refer && bytes >= thresholds.registered_send_bytes => {
            SendMode::Registered
        }
        Length { bytes, .. } if may_refer && bytes >= thresholds.zero_copy_send_bytes => SendMode::Referenced,
        _ => SendMode::Copied,
    };
    std::iter::from_fn(move || {
        let first = pieces.next()?;
        let mut run = Run { mode: mode(&first), count: 1, bytes: first.bytes };
        let limit = match run.mode {
            SendMode::Copied => COPIED_PIECES,
            SendMode::Referenced => REFERENCED_PIECES,
            SendMode::Registered => 1,
        };
        while run.count < limit
            && let Some(next) = pieces.next_if(|next| mode(next) == run.mode)
        {
            run.count += 1;
            run.bytes += next.bytes;
        }
        Some(run)
    })
}

#[cfg(test)]
mod tests;
