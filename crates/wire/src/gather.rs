//! A response as an ordered list of bytes and holes. A hole represents records that stay in place
//! (usually a range of a file) until the transfer engine sends them.

use bytes::{Bytes, BytesMut};

/// Contents of a hole, with a length known before the first byte is sent.
pub trait HoleLen {
    /// Exact length in bytes.
    fn len(&self) -> u64;

    /// True if nothing is to be sent.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl HoleLen for Bytes {
    fn len(&self) -> u64 {
        Self::len(self) as u64
    }
}

/// One piece of a [`Gather`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece<H> {
    /// Encoded bytes; two of these are never neighbours, and none is empty.
    Bytes(Bytes),
    /// Records that the transfer engine inserts; never empty.
    Hole(H),
}

/// A frame to send: its pieces in order, and their total length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gather<H> {
    pieces: Vec<Piece<H>>,
    len: u64,
}

impl<H: HoleLen> Gather<H> {
    /// Bytes on the wire, size prefix and holes included.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// True if there is nothing to send.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The pieces in order.
    pub fn pieces(&self) -> &[Piece<H>] {
        &self.pieces
    }

    /// Takes the pieces, in order.
    pub fn into_pieces(self) -> Vec<Piece<H>> {
        self.pieces
    }
}

impl<H> From<Bytes> for Gather<H> {
    /// A response without holes.
    fn from(bytes: Bytes) -> Self {
        let len = bytes.len() as u64;
        let pieces = if bytes.is_empty() { Vec::new() } else { vec![Piece::Bytes(bytes)] };
        Self { pieces, len }
    }
}

/// Collects holes while one buffer collects all bytes, so that a response costs one allocation for
/// bytes however many holes interrupt it.
pub(crate) struct Holes<H> {
    /// Position of each hole in the buffer.
    holes: Vec<(usize, H)>,
    len: u64,
}

impl<H: HoleLen> Holes<H> {
    pub(crate) fn new() -> Self {
        Self { holes: Vec::new(), len: 0 }
    }

    /// Puts `hole` after the first `position` bytes of the buffer.
    pub(crate) fn push(&mut self, position: usize, hole: H) {
        if !hole.is_empty() {
            self.len += hole.len();
            self.holes.push((position, hole));
        }
    }

    /// Total length of the holes.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// Cuts the buffer at the holes.
    pub(crate) fn into_gather(self, mut bytes: BytesMut) -> Gather<H> {
        let len = self.len + bytes.len() as u64;
        let mut pieces = Vec::with_capacity(2 * self.holes.len() + 1);
        let mut cut = 0;
        for (position, hole) in self.holes {
            if position > cut {
                pieces.push(Piece::Bytes(bytes.split_to(position - cut).freeze()));
                cut = position;
            }
            pieces.push(Piece::Hole(hole));
        }
        if !bytes.is_empty() {
            pieces.push(Piece::Bytes(bytes.freeze()));
        }
        Gather { pieces, len }
    }
}

#[cfg(test)]
mod tests;
