//! JSON to bytes.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use bytes::BufMut;
use serde_json::{Map, Value};

use super::layout::{Field, Kind, Layout};
use super::{JsonError, template};

/// Tagged fields that are not in the table.
pub(super) const TAGS: &str = "_tags";

/// The body of a message.
pub(super) fn body(layout: &Layout, version: i16, value: &Value) -> Result<Vec<u8>, JsonError> {
    let writer = Writer { version, is_flexible: layout.flexible.contains(version) };
    let mut out = Vec::new();
    writer.structure(&layout.fields, value, layout.name, &mut out)?;
    Ok(out)
}

struct Writer {
    version: i16,
    is_flexible: bool,
}

fn wrong(path: &str, problem: impl Into<String>) -> JsonError {
    JsonError::Field { path: path.to_owned(), problem: problem.into() }
}

impl Writer {
    fn structure(
        &self,
        fields: &[Field],
        value: &Value,
        path: &str,
        out: &mut Vec<u8>,
    ) -> Result<(), JsonError> {
        let given = value.as_object().ok_or_else(|| wrong(path, "expected an object with fields"))?;
        self.refuse_others(fields, given, path)?;
        let mut tagged = self.unknown_tags(given, path)?;
        for field in fields.iter().filter(|field| field.versions.contains(self.version)) {
            let path = format!("{path}.{}", field.name);
            match (field.tag(self.version), find(given, field.name)) {
                (None, Some(value)) => self.field(field, value, &path, out)?,
                (None, None) => self.field(field, &template::default(field, self.version), &path, out)?,
                (Some(_), None) => {}
                (Some(tag), Some(value)) => {
                    let (mut bytes, mut default) = (Vec::new(), Vec::new());
                    self.field(field, value, &path, &mut bytes)?;
                    self.field(field, &template::default(field, self.version), &path, &mut default)?;
                    if bytes != default {
                        tagged.insert(tag, bytes);
                    }
                }
            }
        }
        if self.is_flexible {
            varint(tagged.len() as u64, out);
            for (tag, bytes) in tagged {
                varint(tag.into(), out);
                varint(bytes.len() as u64, out);
                out.put_slice(&bytes);
            }
        }
        Ok(())
    }

    /// Fails for a name that no field of this version has.
    fn refuse_others(
        &self,
        fields: &[Field],
        given: &Map<String, Value>,
        path: &str,
    ) -> Result<(), JsonError> {
        for name in given.keys().filter(|name| !(*name == TAGS && self.is_flexible)) {
            let mut same = fields.iter().filter(|field| is_same(field.name, name)).peekable();
            let Some(first) = same.peek().map(|field| field.versions.shown()) else {
                let names = fields.iter().filter(|field| field.versions.contains(self.version));
                let names: Vec<&str> = names.map(|field| field.name).collect();
                return Err(wrong(
                    path,
                    format!("no field {name} in version {}; there are: {}", self.version, names.join(", ")),
                ));
            };
            if !same.any(|field| field.versions.contains(self.version)) {
                return Err(wrong(
                    path,
                    format!("{name} is in versions {first}, and this is {}", self.version),
                ));
            }
        }
        Ok(())
    }

    fn unknown_tags(
        &self,
        given: &Map<String, Value>,
        path: &str,
    ) -> Result<BTreeMap<u32, Vec<u8>>, JsonError> {
        let expected = || wrong(path, format!("{TAGS} must be an object of base64 by number"));
        let Some(tags) = given.get(TAGS) else { return Ok(BTreeMap::new()) };
        let tag = |(tag, value): (&String, &Value)| {
            let bytes = value.as_str().and_then(|text| STANDARD.decode(text).ok());
            Ok((tag.parse().map_err(|_| expected())?, bytes.ok_or_else(expected)?))
        };
        tags.as_object().ok_or_else(expected)?.iter().map(tag).collect()
    }

    fn field(&self, field: &Field, value: &Value, path: &str, out: &mut Vec<u8>) -> Result<(), JsonError> {
        let is_nullable = field.is_nullable(self.version);
        match (&field.kind, value) {
            (_, Value::Null) if !is_nullable => Err(wrong(path, "must not be null")),
            (Kind::Struct(_), Value::Null) => {
                out.put_i8(-1);
                Ok(())
            }
            (Kind::Text, Value::Null) if !self.is_flexible => {
                out.put_i16(-1);
                Ok(())
            }
            (_, Value::Null) if self.is_flexible => {
                out.put_u8(0);
                Ok(())
            }
            (_, Value::Null) => {
                out.put_i32(-1);
                Ok(())
            }
            (Kind::Struct(_), _) if is_nullable => {
                out.put_i8(1);
                self.value(&field.kind, value, path, out)
            }
            _ => self.value(&field.kind, value, path, out),
        }
    }

    fn value(&self, kind: &Kind, value: &Value, path: &str, out: &mut Vec<u8>) -> Result<(), JsonError> {
        let text = || value.as_str().ok_or_else(|| wrong(path, "expected a string"));
        match kind {
            Kind::Bool => {
                out.put_u8(value.as_bool().ok_or_else(|| wrong(path, "expected true or false"))?.into());
            }
            Kind::Int8 => out.put_i8(whole(value, path)?),
            Kind::Int16 => out.put_i16(whole(value, path)?),
            Kind::Uint16 => out.put_u16(whole(value, path)?),
            Kind::Int32 => out.put_i32(whole(value, path)?),
            Kind::Int64 => out.put_i64(whole(value, path)?),
            Kind::Float64 => out.put_f64(value.as_f64().ok_or_else(|| wrong(path, "expected a number"))?),
            Kind::Text => {
                let text = text()?;
                if self.is_flexible {
                    varint(text.len() as u64 + 1, out);
                } else {
                    out.put_i16(text.len().try_into().map_err(|_| wrong(path, "longer than 32767 bytes"))?);
                }
                out.put_slice(text.as_bytes());
            }
            Kind::Bytes => {
                let bytes = STANDARD.decode(text()?).map_err(|_| wrong(path, "expected base64"))?;
                self.count(bytes.len(), path, out)?;
                out.put_slice(&bytes);
            }
            Kind::Uuid => {
                let bytes = URL_SAFE_NO_PAD.decode(text()?).ok().filter(|bytes| bytes.len() == 16);
                out.put_slice(&bytes.ok_or_else(|| wrong(path, "expected an id of 22 letters"))?);
            }
            Kind::Struct(fields) => self.structure(fields, value, path, out)?,
            Kind::Array(element) => {
                let elements = value.as_array().ok_or_else(|| wrong(path, "expected an array"))?;
                self.count(elements.len(), path, out)?;
                for (at, value) in elements.iter().enumerate() {
                    self.value(element, value, &format!("{path}[{at}]"), out)?;
                }
            }
        }
        Ok(())
    }

    /// The length of bytes or of an array.
    fn count(&self, count: usize, path: &str, out: &mut Vec<u8>) -> Result<(), JsonError> {
        let count = i32::try_from(count).map_err(|_| wrong(path, "too long"))?;
        if self.is_flexible {
            varint(u64::from(count.unsigned_abs()) + 1, out);
        } else {
            out.put_i32(count);
        }
        Ok(())
    }
}

fn whole<T: TryFrom<i64>>(value: &Value, path: &str) -> Result<T, JsonError> {
    let number = value.as_i64().ok_or_else(|| wrong(path, "expected a whole number"))?;
    number.try_into().map_err(|_| wrong(path, format!("{number} is out of the field's range")))
}

/// The value of a field, whose name may begin in lower case, as in Kafka's own JSON.
fn find<'v>(given: &'v Map<String, Value>, name: &str) -> Option<&'v Value> {
    given.get(name).or_else(|| given.iter().find(|(other, _)| is_same(name, other)).map(|(_, value)| value))
}

fn is_same(name: &str, given: &str) -> bool {
    name == given || name.get(1..) == given.get(1..) && name.eq_ignore_ascii_case(given)
}

fn varint(mut number: u64, out: &mut Vec<u8>) {
    while number > 0x7f {
        out.put_u8(number as u8 | 0x80);
        number >>= 7;
    }
    out.put_u8(number as u8);
}
