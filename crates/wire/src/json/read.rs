//! Bytes to JSON. Nothing is allocated from a claimed length.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::{Map, Value};

use super::JsonError;
use super::layout::{Field, Kind, Layout};
use super::write::TAGS;
use crate::codec::MAX_ARRAY_ELEMENTS;

/// The correlation id and the body of a frame whose header has tagged fields or not.
pub(super) fn response(
    layout: &Layout,
    version: i16,
    (frame, has_tags): (&[u8], bool),
) -> Result<(i32, Value), JsonError> {
    let is_flexible = layout.flexible.contains(version);
    let mut reader = Reader { frame, at: 0, version, is_flexible, elements: 0 };
    let correlation_id = i32::from_be_bytes(reader.fixed()?);
    if has_tags {
        reader.tags(&mut Map::new(), &[])?;
    }
    Ok((correlation_id, reader.whole(layout)?))
}

/// A message without a header.
#[cfg(test)]
pub(super) fn body(layout: &Layout, version: i16, frame: &[u8]) -> Result<Value, JsonError> {
    let is_flexible = layout.flexible.contains(version);
    Reader { frame, at: 0, version, is_flexible, elements: 0 }.whole(layout)
}

struct Reader<'f> {
    frame: &'f [u8],
    at: usize,
    version: i16,
    is_flexible: bool,
    /// Number of elements of all arrays so far.
    elements: usize,
}

impl<'f> Reader<'f> {
    fn whole(&mut self, layout: &Layout) -> Result<Value, JsonError> {
        let value = self.structure(&layout.fields)?;
        match self.frame.len() - self.at {
            0 => Ok(value),
            left => Err(self.malformed(format!("{left} bytes are left over"))),
        }
    }

    fn malformed(&self, problem: impl Into<String>) -> JsonError {
        JsonError::Malformed { offset: self.at, problem: problem.into() }
    }

    fn take(&mut self, len: usize) -> Result<&'f [u8], JsonError> {
        let frame: &'f [u8] = self.frame;
        let end = self.at.checked_add(len).filter(|end| *end <= frame.len());
        let end = end.ok_or_else(|| self.malformed(format!("{len} bytes are missing")))?;
        let bytes = &frame[self.at..end];
        self.at = end;
        Ok(bytes)
    }

    fn fixed<const N: usize>(&mut self) -> Result<[u8; N], JsonError> {
        let mut fixed = [0; N];
        fixed.copy_from_slice(self.take(N)?);
        Ok(fixed)
    }

    fn varint(&mut self) -> Result<usize, JsonError> {
        let mut number = 0_u64;
        for shift in [0, 7, 14, 21, 28] {
            let [byte] = self.fixed()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return u32::try_from(number)
                    .ok()
                    .and_then(|number| usize::try_from(number).ok())
                    .ok_or_else(|| self.malformed("a varint is too large"));
            }
        }
        Err(self.malformed("a varint is too long"))
    }

    /// A length, or `None` for null.
    fn length(&mut self, is_text: bool) -> Result<Option<usize>, JsonError> {
        if self.is_flexible {
            return Ok(self.varint()?.checked_sub(1));
        }
        let length = if is_text {
            i32::from(i16::from_be_bytes(self.fixed()?))
        } else {
            i32::from_be_bytes(self.fixed()?)
        };
        match length {
            -1 => Ok(None),
            length => {
                usize::try_from(length).map(Some).map_err(|_| self.malformed(format!("a length of {length}")))
            }
        }
    }

    fn structure(&mut self, fields: &[Field]) -> Result<Value, JsonError> {
        let mut object = Map::new();
        let version = self.version;
        for field in fields.iter().filter(|field| field.versions.contains(version)) {
            let value = match field.tag(version) {
                None => self.field(field)?,
                Some(_) => super::template::default(field, version),
            };
            object.insert(field.name.to_owned(), value);
        }
        if self.is_flexible {
            self.tags(&mut object, fields)?;
        }
        Ok(Value::Object(object))
    }

    fn tags(&mut self, object: &mut Map<String, Value>, fields: &[Field]) -> Result<(), JsonError> {
        let mut unknown = Map::new();
        for _ in 0..self.varint()? {
            let (tag, size) = (self.varint()?, self.varint()?);
            let version = self.version;
            let known = fields.iter().find(|field| field.tag(version).is_some_and(|own| own as usize == tag));
            match known.filter(|field| field.versions.contains(version)) {
                Some(field) => {
                    let end = self.at + size;
                    let value = self.field(field)?;
                    if self.at != end {
                        return Err(self.malformed(format!("tag {tag} has {size} bytes, and not as many")));
                    }
                    object.insert(field.name.to_owned(), value);
                }
                None => {
                    let bytes = self.take(size)?;
                    unknown.insert(tag.to_string(), Value::String(STANDARD.encode(bytes)));
                }
            }
        }
        if !unknown.is_empty() {
            object.insert(TAGS.to_owned(), Value::Object(unknown));
        }
        Ok(())
    }

    fn field(&mut self, field: &Field) -> Result<Value, JsonError> {
        if matches!(field.kind, Kind::Struct(_)) && field.is_nullable(self.version) {
            let [mark] = self.fixed()?;
            if mark.cast_signed() < 0 {
                return Ok(Value::Null);
            }
        }
        self.value(&field.kind)
    }

    fn value(&mut self, kind: &Kind) -> Result<Value, JsonError> {
        Ok(match kind {
            Kind::Bool => Value::Bool(self.fixed::<1>()? != [0]),
            Kind::Int8 => i8::from_be_bytes(self.fixed()?).into(),
            Kind::Int16 => i16::from_be_bytes(self.fixed()?).into(),
            Kind::Uint16 => u16::from_be_bytes(self.fixed()?).into(),
            Kind::Int32 => i32::from_be_bytes(self.fixed()?).into(),
            Kind::Int64 => i64::from_be_bytes(self.fixed()?).into(),
            Kind::Float64 => f64::from_be_bytes(self.fixed()?).into(),
            Kind::Text => match self.length(true)? {
                None => Value::Null,
                Some(length) => {
                    let bytes = self.take(length)?;
                    let text = std::str::from_utf8(bytes);
                    Value::from(text.map_err(|_| self.malformed("a string is not UTF-8"))?)
                }
            },
            Kind::Bytes => match self.length(false)? {
                None => Value::Null,
                Some(length) => STANDARD.encode(self.take(length)?).into(),
            },
            Kind::Uuid => URL_SAFE_NO_PAD.encode(self.fixed::<16>()?).into(),
            Kind::Struct(fields) => self.structure(fields)?,
            Kind::Array(element) => match self.length(false)? {
                None => Value::Null,
                Some(count) => Value::Array(self.elements(count, element)?),
            },
        })
    }

    fn elements(&mut self, count: usize, element: &Kind) -> Result<Vec<Value>, JsonError> {
        self.elements = self.elements.saturating_add(count);
        if self.elements > MAX_ARRAY_ELEMENTS {
            return Err(self.malformed(format!("more than {MAX_ARRAY_ELEMENTS} elements")));
        }
        (0..count).map(|_| self.value(element)).collect()
    }
}
