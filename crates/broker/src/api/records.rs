//! Records of a response: ranges of segment files, or of the files that have parts of remote
//! segments, which leave from there.

use levada_io::{Extent, Piece};
use levada_wire::gather::{self, Gather, HoleLen};

use crate::api::Reply;

/// Records of a response: ranges of files, sent from there.
#[derive(Clone, Debug)]
pub(super) struct Records {
    pub(super) extent: Extent,
    /// The ranges after it: a local read has none, because a segment is one file.
    pub(super) more: Vec<Extent>,
    /// The segment is no longer written to.
    pub(super) sealed: bool,
}

impl Records {
    /// A range of a local segment.
    pub(super) fn local(extent: Extent, sealed: bool) -> Self {
        Self { extent, more: Vec::new(), sealed }
    }

    /// Ranges of a segment, which may be remote; none without a range.
    pub(super) fn of(extents: Vec<Extent>, sealed: bool) -> Option<Self> {
        let mut extents = extents.into_iter();
        let extent = extents.next()?;
        Some(Self { extent, more: extents.collect(), sealed })
    }
}

impl HoleLen for Records {
    fn len(&self) -> u64 {
        self.more.iter().fold(self.extent.len, |sum, extent| sum + extent.len)
    }
}

/// The reply with these bytes and records.
pub(super) fn reply(gather: Gather<Records>) -> Reply {
    let mut tail = false;
    let parts = gather.into_pieces();
    let mut pieces = Vec::with_capacity(parts.len());
    for part in parts {
        match part {
            gather::Piece::Bytes(bytes) => pieces.push(Piece::Bytes(bytes)),
            gather::Piece::Hole(Records { extent, more, sealed }) => {
                tail |= !sealed;
                pieces.push(Piece::Extent(extent));
                pieces.extend(more.into_iter().map(Piece::Extent));
            }
        }
    }
    if tail { Reply::Send(pieces) } else { Reply::SendOld(pieces) }
}
