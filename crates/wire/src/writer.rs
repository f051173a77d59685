//! Writing Kafka's primitives, for the messages encoded by hand.

use bytes::{BufMut, BytesMut};

use crate::codec::EncodeError;
use crate::messages::{StrBytes, Uuid};

/// An output buffer that records if lengths are compact.
pub(crate) struct Writer {
    pub(crate) out: BytesMut,
    pub(crate) flexible: bool,
}

impl Writer {
    pub(crate) fn i8(&mut self, value: i8) {
        self.out.put_i8(value);
    }

    pub(crate) fn i16(&mut self, value: i16) {
        self.out.put_i16(value);
    }

    pub(crate) fn i32(&mut self, value: i32) {
        self.out.put_i32(value);
    }

    pub(crate) fn i64(&mut self, value: i64) {
        self.out.put_i64(value);
    }

    pub(crate) fn uuid(&mut self, value: Uuid) {
        self.out.put_slice(value.as_bytes());
    }

    pub(crate) fn varint(&mut self, mut value: u32) {
        while value >= 0x80 {
            self.out.put_u8(value as u8 | 0x80);
            value >>= 7;
        }
        self.out.put_u8(value as u8);
    }

    /// The length of an array or byte field that is not null.
    pub(crate) fn length(&mut self, length: u64) -> Result<(), EncodeError> {
        let too_large = |_| EncodeError::TooLarge { bytes: length };
        let length = i32::try_from(length).map_err(too_large)?;
        if self.flexible {
            self.varint(length as u32 + 1);
        } else {
            self.i32(length);
        }
        Ok(())
    }

    /// A null array or byte field.
    pub(crate) fn null(&mut self) {
        if self.flexible {
            self.varint(0);
        } else {
            self.i32(-1);
        }
    }

    pub(crate) fn string(&mut self, value: &StrBytes) -> Result<(), EncodeError> {
        let length =
            i16::try_from(value.len()).map_err(|_| EncodeError::TooLarge { bytes: value.len() as u64 })?;
        if self.flexible {
            self.varint(length as u32 + 1);
        } else {
            self.i16(length);
        }
        self.out.put_slice(value.as_bytes());
        Ok(())
    }

    pub(crate) fn nullable_string(&mut self, value: Option<&StrBytes>) -> Result<(), EncodeError> {
        match value {
            Some(value) => return self.string(value),
            None if self.flexible => self.varint(0),
            None => self.i16(-1),
        }
        Ok(())
    }

    /// Tagged fields, in ascending order of tag; nothing at all in a version without them.
    pub(crate) fn tags(&mut self, fields: &[(u32, &[u8])]) {
        if !self.flexible {
            return;
        }
        self.varint(fields.len() as u32);
        for (tag, value) in fields {
            self.varint(*tag);
            self.varint(value.len() as u32);
            self.out.put_slice(value);
        }
    }
}
