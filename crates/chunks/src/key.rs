//! Names of the parts of remote segments, and of their files.

use std::fmt;

use levada_base::{IdBytes, id_text, parse_id};

#[cfg(test)]
mod tests;

/// Bytes of a remote `.log` in one file of the cache; the last part of a segment has fewer.
pub const CHUNK_BYTES: u64 = 4 << 20;

/// Suffix of a file that is being written. Kafka removes such files from this directory as well.
const UNFINISHED: &str = ".tmp";

/// A part of a remote segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ChunkKey {
    /// The segment's id.
    pub segment: IdBytes,
    /// The part of the segment.
    pub part: Part,
}

/// Kinds of parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Part {
    /// The bytes of the `.log` from this number times [`CHUNK_BYTES`] on.
    Records(u32),
    /// The offset index.
    Offsets,
    /// The time index.
    Times,
    /// The transaction index.
    Aborted,
}

impl Part {
    pub(crate) fn number(self) -> u32 {
        match self {
            Self::Records(number) => number,
            Self::Offsets | Self::Times | Self::Aborted => 0,
        }
    }

    fn ending(self) -> &'static str {
        match self {
            Self::Records(_) => "records",
            Self::Offsets => "offsets",
            Self::Times => "times",
            Self::Aborted => "aborted",
        }
    }

    fn of(ending: &str, number: u32) -> Option<Self> {
        let part = match ending {
            "records" => Self::Records(number),
            "offsets" => Self::Offsets,
            "times" => Self::Times,
            "aborted" => Self::Aborted,
            _ => return None,
        };
        (part.number() == number).then_some(part)
    }
}

impl fmt::Display for ChunkKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { segment, part } = self;
        let (number, kind) = (part.number(), part.ending());
        write!(formatter, "part {number} ({kind}) of remote segment {}", id_text(*segment))
    }
}

impl ChunkKey {
    /// The name of its file. A Kafka broker keeps its cache of remote indexes in the same
    /// directory, and reads a segment's id between the first `_` and the first `.` of each name.
    pub(crate) fn file_name(&self) -> String {
        format!("{}_{}.{}", self.part.number(), id_text(self.segment), self.part.ending())
    }

    /// The name of its file until it is complete.
    pub(crate) fn unfinished_name(&self) -> String {
        self.file_name() + UNFINISHED
    }

    /// The key of a file; none for other files.
    pub(crate) fn of_file(name: &str) -> Option<Self> {
        let (number, rest) = name.split_once('_')?;
        let (segment, ending) = rest.split_once('.')?;
        let key = Self { segment: parse_id(segment)?, part: Part::of(ending, number.parse().ok()?)? };
        (key.file_name() == name).then_some(key)
    }

    /// True for a file that was not completed.
    pub(crate) fn is_unfinished(name: &str) -> bool {
        name.strip_suffix(UNFINISHED).is_some_and(|name| Self::of_file(name).is_some())
    }
}
