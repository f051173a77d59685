//! Records of a response: ranges of segment files, or of the files that have parts of remote
//! segments, which leave from there.

use levada_io::{Extent, Piece};
use levada_wire::gather::{self, Gather, HoleLen};

use crate::api::Reply;

/// Records of a response: ranges of files, sent from there. As large as a piece of the response, in
/// whose memory the list of pieces is made.
#[derive(Clone, Debug)]
pub(super) struct Records {
    pub(super) extent: Extent,
    /// The ranges after it: a local read has none, because a segment is one file.
    more: Option<Box<More>>,
    /// True if the segment accepts no further appends.
    pub(super) sealed: bool,
}

/// Ranges of further files, at least one.
#[derive(Clone, Debug)]
struct More(Vec<Extent>);

const _: () = assert!(
    size_of::<gather::Piece<Records>>() == size_of::<Piece>(),
    "a list of pieces would be allocated again for each response"
);

impl Records {
    /// A range of a local segment.
    pub(super) fn local(extent: Extent, sealed: bool) -> Self {
        Self { extent, more: None, sealed }
    }

    /// Ranges of a segment, which may be remote; none without a range.
    pub(super) fn of(extents: Vec<Extent>, sealed: bool) -> Option<Self> {
        let mut extents = extents.into_iter();
        let extent = extents.next()?;
        let more: Vec<_> = extents.collect();
        Some(Self { extent, more: (!more.is_empty()).then(|| Box::new(More(more))), sealed })
    }
}

impl HoleLen for Records {
    fn len(&self) -> u64 {
        let more = self.more.iter().flat_map(|more| &more.0);
        more.fold(self.extent.len, |sum, extent| sum + extent.len)
    }
}

/// The reply with these bytes and records.
pub(super) fn reply(gather: Gather<Records>) -> Reply {
    let (mut tail, mut later) = (false, Vec::new());
    // In the memory of the parts: a reply of local records allocates nothing here.
    let parts = gather.into_pieces().into_iter().enumerate();
    let pieces: Vec<Piece> = parts
        .map(|(at, part)| match part {
            gather::Piece::Bytes(bytes) => Piece::Bytes(bytes),
            gather::Piece::Hole(Records { extent, more, sealed }) => {
                tail |= !sealed;
                later.extend(more.map(|more| (at, more)));
                Piece::Extent(extent)
            }
        })
        .collect();
    let pieces = if later.is_empty() { pieces } else { with_later(pieces, later) };
    if tail { Reply::Send(pieces) } else { Reply::SendOld(pieces) }
}

/// The pieces, with further ranges inserted after those at the given indexes, which are in order.
fn with_later(pieces: Vec<Piece>, later: Vec<(usize, Box<More>)>) -> Vec<Piece> {
    let sum = later.iter().map(|(_, more)| more.0.len()).sum::<usize>();
    let (mut all, mut later) = (Vec::with_capacity(pieces.len() + sum), later.into_iter().peekable());
    for (at, piece) in pieces.into_iter().enumerate() {
        all.push(piece);
        if let Some((_, more)) = later.next_if(|(place, _)| *place == at) {
            all.extend(more.0.into_iter().map(Piece::Extent));
        }
    }
    all
}
