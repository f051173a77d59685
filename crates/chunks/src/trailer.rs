//! The end of a file of the cache: names the part that the file has, and has the checksum of its
//! bytes. `docs/format/remote-cache.md` has the layout.

use levada_base::batch::crc32c;

use crate::{ChunkKey, Part};

#[cfg(test)]
mod tests;

/// Bytes of a trailer.
pub(crate) const TRAILER_LEN: usize = 48;
const MAGIC: &[u8; 8] = b"LVDCHNK1";
const CRC_AT: usize = TRAILER_LEN - 4;

/// The content of a trailer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Trailer {
    pub(crate) key: ChunkKey,
    /// Bytes before the trailer.
    pub(crate) len: u64,
    /// CRC-32C of these bytes.
    pub(crate) crc: u32,
}

impl Trailer {
    pub(crate) fn encode(&self) -> [u8; TRAILER_LEN] {
        let mut bytes = [0; TRAILER_LEN];
        bytes[..8].copy_from_slice(MAGIC);
        bytes[8..24].copy_from_slice(&self.key.segment);
        bytes[24..28].copy_from_slice(&kind(self.key.part).to_be_bytes());
        bytes[28..32].copy_from_slice(&self.key.part.number().to_be_bytes());
        bytes[32..40].copy_from_slice(&self.len.to_be_bytes());
        bytes[40..CRC_AT].copy_from_slice(&self.crc.to_be_bytes());
        let crc = crc32c(&bytes[..CRC_AT]);
        bytes[CRC_AT..].copy_from_slice(&crc.to_be_bytes());
        bytes
    }

    /// The trailer in these bytes; none if they are something else.
    pub(crate) fn decode(bytes: &[u8; TRAILER_LEN]) -> Option<Self> {
        let word = |at: usize| u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        if !bytes.starts_with(MAGIC) || word(CRC_AT) != crc32c(&bytes[..CRC_AT]) {
            return None;
        }
        let part = match (word(24), word(28)) {
            (0, number) => Part::Records(number),
            (1, 0) => Part::Offsets,
            (2, 0) => Part::Times,
            (3, 0) => Part::Aborted,
            _ => return None,
        };
        let segment = bytes[8..24].try_into().ok()?;
        let len = u64::from_be_bytes(bytes[32..40].try_into().ok()?);
        Some(Self { key: ChunkKey { segment, part }, len, crc: word(40) })
    }
}

fn kind(part: Part) -> u32 {
    match part {
        Part::Records(_) => 0,
        Part::Offsets => 1,
        Part::Times => 2,
        Part::Aborted => 3,
    }
}
