//! The wire format of a record with a schema: the schema's id before the payload, or in a header.
//!
//! The prefix is a zero and the id in four bytes. A header `__key_schema_id` or `__value_schema_id`
//! has a zero and the id, or a one and the schema's GUID in 16 bytes; the record then begins with
//! its payload. With Protobuf, the position of the message in its file follows the id: the number
//! of indexes and the indexes as zigzag varints, or a single zero for the first message.

use std::fmt;

/// First byte of a prefix, and of a header with a number.
const NUMBERED: u8 = 0;
/// First byte of a header with a GUID.
const GLOBAL: u8 = 1;
/// Maximum number of indexes of a message: the depth of a message in its file.
const INDEXES_MAX: usize = 32;

/// Identifier of a schema in a registry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SchemaId {
    /// The number that the registry assigned to the schema.
    Number(u32),
    /// The identifier of the schema's text, equal in all registries.
    Guid([u8; 16]),
}

impl fmt::Display for SchemaId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::Guid(bytes) => {
                for (at, byte) in bytes.iter().enumerate() {
                    if matches!(at, 4 | 6 | 8 | 10) {
                        f.write_str("-")?;
                    }
                    write!(f, "{byte:02x}")?;
                }
                Ok(())
            }
        }
    }
}

/// Part of a record that may have a schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The key.
    Key,
    /// The value.
    Value,
}

impl Side {
    /// Name of the header with the id of this part's schema.
    #[must_use]
    pub fn header(self) -> &'static str {
        match self {
            Self::Key => "__key_schema_id",
            Self::Value => "__value_schema_id",
        }
    }

    /// Ending of the subject of a topic's schemas.
    #[must_use]
    pub fn suffix(self) -> &'static str {
        match self {
            Self::Key => "-key",
            Self::Value => "-value",
        }
    }
}

/// A part of a record with the id of its schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Framed<'a> {
    /// The schema's id.
    pub(crate) id: SchemaId,
    /// The bytes after the id in the header.
    after_id: Option<&'a [u8]>,
    /// The bytes after the prefix, or all bytes of the part if a header has the id.
    rest: &'a [u8],
}

impl<'a> Framed<'a> {
    /// The id and the payload of a part of a record, with the value of its [`Side::header`]. None
    /// if neither the header nor the part begins with an id.
    pub(crate) fn of(bytes: &'a [u8], header: Option<&'a [u8]>) -> Option<Self> {
        if let Some((id, after)) = header.and_then(in_header) {
            return Some(Self { id, after_id: Some(after), rest: bytes });
        }
        let (id, rest) = numbered(bytes)?;
        Some(Self { id, after_id: None, rest })
    }

    /// The payload of a schema that is not Protobuf.
    pub(crate) fn payload(&self) -> &'a [u8] {
        self.rest
    }

    /// The indexes of the message, and the payload; none if the indexes are malformed.
    pub(crate) fn message(&self) -> Option<(Vec<usize>, &'a [u8])> {
        match self.after_id {
            Some(after) => Some((indexes(after)?.0, self.rest)),
            None => indexes(self.rest),
        }
    }
}

fn numbered(bytes: &[u8]) -> Option<(SchemaId, &[u8])> {
    let (number, rest) = bytes.strip_prefix(&[NUMBERED])?.split_first_chunk::<4>()?;
    Some((SchemaId::Number(u32::from_be_bytes(*number)), rest))
}

fn in_header(bytes: &[u8]) -> Option<(SchemaId, &[u8])> {
    match bytes.strip_prefix(&[GLOBAL]) {
        Some(guid) => guid.split_first_chunk::<16>().map(|(guid, rest)| (SchemaId::Guid(*guid), rest)),
        None => numbered(bytes),
    }
}

fn indexes(bytes: &[u8]) -> Option<(Vec<usize>, &[u8])> {
    let (count, mut rest) = varint(bytes)?;
    let count = usize::try_from(count).ok().filter(|count| *count <= INDEXES_MAX)?;
    if count == 0 {
        return Some((vec![0], rest));
    }
    let mut found = Vec::with_capacity(count);
    for _ in 0..count {
        let (index, after) = varint(rest)?;
        found.push(usize::try_from(index).ok()?);
        rest = after;
    }
    Some((found, rest))
}

/// A zigzag varint of at most 64 bits, and the bytes after it.
pub(crate) fn varint(bytes: &[u8]) -> Option<(i64, &[u8])> {
    let mut value = 0_u64;
    for (at, byte) in bytes.iter().take(10).enumerate() {
        value |= u64::from(byte & 0x7f).checked_shl(7 * at as u32)?;
        if byte & 0x80 == 0 {
            // The tenth byte has one bit of a number of 64.
            if at == 9 && *byte > 1 {
                return None;
            }
            return Some(((value >> 1) as i64 ^ -((value & 1) as i64), &bytes[at + 1..]));
        }
    }
    None
}

/// Appends a zigzag varint.
pub(crate) fn push_varint(out: &mut Vec<u8>, value: i64) {
    let mut left = ((value << 1) ^ (value >> 63)) as u64;
    while left >= 0x80 {
        out.push(left as u8 | 0x80);
        left >>= 7;
    }
    out.push(left as u8);
}

/// Appends the prefix of a payload, with the indexes of a Protobuf message.
pub(crate) fn push_prefix(out: &mut Vec<u8>, number: u32, indexes: Option<&[usize]>) {
    out.push(NUMBERED);
    out.extend_from_slice(&number.to_be_bytes());
    match indexes {
        None => {}
        Some([0]) => out.push(0),
        Some(indexes) => {
            push_varint(out, indexes.len() as i64);
            indexes.iter().for_each(|index| push_varint(out, *index as i64));
        }
    }
}

#[cfg(test)]
mod tests;
