//! Records of a response: ranges of segment files, which leave from there.

use levada_io::{Extent, Piece};
use levada_wire::gather::{self, Gather, HoleLen};

use crate::api::Reply;

/// Records of a response: a range of a segment file, sent from there.
#[derive(Clone, Debug)]
pub(super) struct Records {
    pub(super) extent: Extent,
    /// The segment is no longer written to.
    pub(super) sealed: bool,
}

impl HoleLen for Records {
    fn len(&self) -> u64 {
        self.extent.len
    }
}

/// The reply with these bytes and records.
pub(super) fn reply(gather: Gather<Records>) -> Reply {
    let mut tail = false;
    let pieces = gather.into_pieces().into_iter().map(|piece| match piece {
        gather::Piece::Bytes(bytes) => Piece::Bytes(bytes),
        gather::Piece::Hole(Records { extent, sealed }) => {
            tail |= !sealed;
            Piece::Extent(extent)
        }
    });
    let pieces = pieces.collect();
    if tail { Reply::Send(pieces) } else { Reply::SendOld(pieces) }
}
