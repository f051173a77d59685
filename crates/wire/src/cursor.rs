//! Reads Kafka's primitives from the front of a buffer, for the messages decoded by hand. Every
//! length is checked against the available bytes, and nothing is allocated from one.

use bytes::{Buf, Bytes, BytesMut};
use kafka_wire_core::DecodeError as Malformed;

use crate::codec::{MAX_ARRAY_ELEMENTS, MAX_STRING_BYTES};
use crate::messages::{StrBytes, Uuid};

/// A position in `bytes`; consumed bytes are removed.
pub(crate) struct Cursor<B> {
    bytes: B,
    position: usize,
    taken: usize,
    /// Elements that the arrays so far claim to have.
    elements: usize,
}

/// A buffer from whose front parts can be cut off without copying.
pub(crate) trait Source: AsRef<[u8]> + Sized {
    /// Drops `skip` bytes, then cuts off and returns the next `len`. Both are in range.
    fn cut(&mut self, skip: usize, len: usize) -> Self;
    /// Converts to a shared buffer; copies only a plain slice.
    fn into_bytes(self) -> Bytes;
}

impl Source for BytesMut {
    fn cut(&mut self, skip: usize, len: usize) -> Self {
        self.advance(skip);
        self.split_to(len)
    }

    fn into_bytes(self) -> Bytes {
        self.freeze()
    }
}

impl Source for Bytes {
    fn cut(&mut self, skip: usize, len: usize) -> Self {
        self.advance(skip);
        self.split_to(len)
    }

    fn into_bytes(self) -> Bytes {
        self
    }
}

impl Source for &[u8] {
    fn cut(&mut self, skip: usize, len: usize) -> Self {
        let (front, back) = self[skip..].split_at(len);
        *self = back;
        front
    }

    fn into_bytes(self) -> Bytes {
        Bytes::copy_from_slice(self)
    }
}

impl<B: Source> Cursor<B> {
    pub(crate) fn new(bytes: B) -> Self {
        Self { bytes, position: 0, taken: 0, elements: 0 }
    }

    /// Bytes read so far, counted from the start of the buffer given to `new`.
    pub(crate) fn offset(&self) -> usize {
        self.taken + self.position
    }

    fn rest(&self) -> &[u8] {
        &self.bytes.as_ref()[self.position..]
    }

    fn need(&self, needed: usize) -> Result<(), Malformed> {
        let remaining = self.rest().len();
        if needed <= remaining {
            return Ok(());
        }
        Err(Malformed::UnexpectedEnd { offset: self.offset(), needed, remaining })
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let Some(value) = self.rest().first_chunk::<N>().copied() else {
            return Err(Malformed::UnexpectedEnd {
                offset: self.offset(),
                needed: N,
                remaining: self.rest().len(),
            });
        };
        self.position += N;
        Ok(value)
    }

    pub(crate) fn i8(&mut self) -> Result<i8, Malformed> {
        self.array().map(i8::from_be_bytes)
    }

    pub(crate) fn i16(&mut self) -> Result<i16, Malformed> {
        self.array().map(i16::from_be_bytes)
    }

    pub(crate) fn i32(&mut self) -> Result<i32, Malformed> {
        self.array().map(i32::from_be_bytes)
    }

    pub(crate) fn i64(&mut self) -> Result<i64, Malformed> {
        self.array().map(i64::from_be_bytes)
    }

    pub(crate) fn uuid(&mut self) -> Result<Uuid, Malformed> {
        self.array().map(Uuid::from_bytes)
    }

    /// An unsigned varint of at most 32 bits.
    pub(crate) fn varint(&mut self) -> Result<u32, Malformed> {
        let offset = self.offset();
        let mut value = 0u64;
        for shift in [0, 7, 14, 21, 28] {
            let [byte] = self.array()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return u32::try_from(value).map_err(|_| Malformed::MalformedVarint { offset });
            }
        }
        Err(Malformed::MalformedVarint { offset })
    }

    /// The length of a nullable value, either encoding: `None` if null. Not yet checked against the
    /// buffer.
    fn length(&mut self, kind: &'static str, plain: Prefix) -> Result<Option<usize>, Malformed> {
        let offset = self.offset();
        let length = match plain {
            Prefix::Compact => i64::from(self.varint()?) - 1,
            Prefix::I16 => i64::from(self.i16()?),
            Prefix::I32 => i64::from(self.i32()?),
        };
        if length == -1 {
            return Ok(None);
        }
        usize::try_from(length).map(Some).map_err(|_| Malformed::NegativeLength { kind, length, offset })
    }

    /// An array's claimed count; the caller pushes elements one by one and fails if the claim is
    /// false. All arrays of a message together have at most [`MAX_ARRAY_ELEMENTS`].
    pub(crate) fn count(&mut self, flexible: bool) -> Result<usize, Malformed> {
        let offset = self.offset();
        let count = self.nullable_count(flexible)?;
        count.ok_or(Malformed::NullNotAllowed { kind: "array", offset })
    }

    /// Like [`count`](Cursor::count), for an array that may be null.
    pub(crate) fn nullable_count(&mut self, flexible: bool) -> Result<Option<usize>, Malformed> {
        let offset = self.offset();
        let count = self.length("array", Prefix::of(flexible, Prefix::I32))?;
        self.elements = self.elements.saturating_add(count.unwrap_or(0));
        if self.elements > MAX_ARRAY_ELEMENTS {
            let (length, limit) = (self.elements, MAX_ARRAY_ELEMENTS);
            return Err(Malformed::LimitExceeded { kind: "array", length, limit, offset });
        }
        Ok(count)
    }

    /// A nullable byte field, cut out of the buffer.
    pub(crate) fn nullable_bytes(&mut self, flexible: bool) -> Result<Option<B>, Malformed> {
        self.length("bytes", Prefix::of(flexible, Prefix::I32))?.map(|length| self.take(length)).transpose()
    }

    /// A string that must not be null, cut out of the buffer.
    pub(crate) fn string(&mut self, flexible: bool) -> Result<StrBytes, Malformed> {
        let offset = self.offset();
        let text = self.nullable_string(flexible)?;
        text.ok_or(Malformed::NullNotAllowed { kind: "string", offset })
    }

    /// A nullable string of at most [`MAX_STRING_BYTES`], cut out of the buffer.
    pub(crate) fn nullable_string(&mut self, flexible: bool) -> Result<Option<StrBytes>, Malformed> {
        let start = self.offset();
        let Some(length) = self.length("string", Prefix::of(flexible, Prefix::I16))? else { return Ok(None) };
        if length > MAX_STRING_BYTES {
            let limit = MAX_STRING_BYTES;
            return Err(Malformed::LimitExceeded { kind: "string", length, limit, offset: start });
        }
        let offset = self.offset();
        let text = StrBytes::try_from(self.take(length)?.into_bytes());
        text.map(Some).map_err(|error| Malformed::InvalidUtf8 { offset, valid_up_to: error.valid_up_to() })
    }

    fn take(&mut self, length: usize) -> Result<B, Malformed> {
        self.need(length)?;
        let part = self.bytes.cut(self.position, length);
        self.taken += self.position + length;
        self.position = 0;
        Ok(part)
    }

    /// Tagged fields: `known` decodes the known ones with their own cursor and returns true; others
    /// are dropped.
    pub(crate) fn tags(
        &mut self,
        mut known: impl FnMut(u32, &mut Self) -> Result<bool, Malformed>,
    ) -> Result<(), Malformed> {
        let mut previous = None;
        for _ in 0..self.varint()? {
            let offset = self.offset();
            let tag = self.varint()?;
            if let Some(previous) = previous.filter(|&previous| tag <= previous) {
                return Err(Malformed::TaggedFieldOrder { previous, current: tag, offset });
            }
            previous = Some(tag);
            let size = self.varint()? as usize;
            let start = self.offset();
            let mut field =
                Self { bytes: self.take(size)?, position: 0, taken: start, elements: self.elements };
            let left = |field: &Self| size - (field.offset() - start);
            if known(tag, &mut field)? && left(&field) != 0 {
                let consumed = size - left(&field);
                return Err(Malformed::TaggedFieldSize { tag, size, consumed, offset: start });
            }
        }
        Ok(())
    }

    /// Skips tagged fields, all of which are unknown.
    pub(crate) fn skip_tags(&mut self) -> Result<(), Malformed> {
        self.tags(|_, _| Ok(false))
    }
}

/// Encoding of a length.
#[derive(Clone, Copy)]
enum Prefix {
    Compact,
    I16,
    I32,
}

impl Prefix {
    fn of(flexible: bool, plain: Self) -> Self {
        if flexible { Self::Compact } else { plain }
    }
}

#[cfg(test)]
mod tests;
