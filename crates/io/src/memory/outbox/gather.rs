//! Merges tiny neighbouring pieces before they are sent.
//!
//! To be one of a thousand pieces costs a piece more than to be copied: an entry of the vector that
//! the kernel reads and walks through, a reference taken for the operation, and one given back
//! after it.

use std::collections::VecDeque;

use crate::memory::MemoryPiece;

/// Largest size of a tiny piece, in bytes.
pub(super) const TINY: usize = 256;

/// Largest size of a combined piece, in bytes.
const TOGETHER: usize = 64 << 10;
const _: () = assert!(TINY <= TOGETHER);

/// Merges each run of small pieces among the first `budget` bytes into one piece; returns the
/// number of bytes copied for it.
pub(super) fn gather(queue: &mut VecDeque<MemoryPiece>, budget: usize) -> usize {
    let (mut at, mut left, mut copied) = (0, budget, 0);
    while left > 0 && at < queue.len() {
        let (count, bytes) = tiny(queue.range(at..));
        if count > 1 {
            let mut together = Vec::with_capacity(bytes);
            queue.range(at..at + count).for_each(|piece| together.extend_from_slice(piece.bytes()));
            queue.drain(at + 1..at + count);
            queue[at] = MemoryPiece::Bytes(together.into());
            copied += bytes;
        }
        left = left.saturating_sub(queue[at].len());
        at += 1;
    }
    copied
}

/// Number of pieces from the first on that are tiny and fit together, and their bytes.
fn tiny<'a>(pieces: impl Iterator<Item = &'a MemoryPiece>) -> (usize, usize) {
    let (mut count, mut bytes) = (0, 0);
    for piece in pieces.take_while(|piece| piece.len() <= TINY) {
        if bytes + piece.len() > TOGETHER {
            break;
        }
        count += 1;
        bytes += piece.len();
    }
    (count, bytes)
}
