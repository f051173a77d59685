//! Values of Avro as JSON.
//!
//! A nullable value is null or the plain value. A value of another union is null or an object with
//! the name of its type, as in Avro's own JSON. Bytes are a string with one character for each
//! byte, a decimal number is a string of its digits, and a number that JSON lacks is a string.

use super::{Avro, DEPTH_MAX, Type, decimal};
use crate::frame::varint;
use crate::text::{JsonText, TooLong};

/// Reason why bytes are no value of a schema.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Damage {
    #[error("the data ends inside of {0}")]
    End(String),
    #[error("{0}")]
    Value(String),
    #[error("values are nested deeper than {DEPTH_MAX}")]
    Depth,
    #[error("its JSON has more than {0} bytes")]
    Long(usize),
    #[error("{0} bytes follow the value")]
    Rest(usize),
}

impl Avro {
    /// The value as JSON of at most `most` bytes. Memory is in proportion to the JSON.
    pub(crate) fn decode(&self, bytes: &[u8], most: usize) -> Result<String, Damage> {
        let mut reading = Reading { avro: self, bytes, out: JsonText::new(most), most };
        reading.value(self.root, 0)?;
        match reading.bytes.len() {
            0 => Ok(reading.out.into_string()),
            rest => Err(Damage::Rest(rest)),
        }
    }
}

struct Reading<'a> {
    avro: &'a Avro,
    /// The bytes that are left.
    bytes: &'a [u8],
    out: JsonText,
    most: usize,
}

impl<'a> Reading<'a> {
    fn value(&mut self, kind: usize, depth: usize) -> Result<(), Damage> {
        if depth > DEPTH_MAX {
            return Err(Damage::Depth);
        }
        let avro = self.avro;
        match &avro.types[kind] {
            Type::Null => self.push("null"),
            Type::Boolean => {
                let byte = self.take(1, kind)?[0];
                self.push(if byte == 0 { "false" } else { "true" })
            }
            Type::Int | Type::Long => {
                let number = self.long(kind)?;
                self.push(&number.to_string())
            }
            Type::Float => {
                let number = f32::from_le_bytes(self.array(kind)?);
                self.number(f64::from(number), &number.to_string())
            }
            Type::Double => {
                let number = f64::from_le_bytes(self.array(kind)?);
                self.number(number, &serde_json::Value::from(number).to_string())
            }
            Type::Bytes => {
                let bytes = self.sized(kind)?;
                self.letters(bytes)
            }
            Type::Fixed { size, .. } => {
                let bytes = self.take(*size, kind)?;
                self.letters(bytes)
            }
            Type::Decimal { scale, of } => self.decimal(*scale, *of),
            Type::String => {
                let text = self.text(kind)?;
                self.push_string(text)
            }
            Type::Enum { name, symbols } => {
                let index = self.long(kind)?;
                let symbol = usize::try_from(index).ok().and_then(|index| symbols.get(index));
                let symbol = symbol.ok_or_else(|| Damage::Value(format!("{name} has no symbol {index}")))?;
                self.push_string(symbol)
            }
            Type::Array(items) => self.items("[", *items, "]", (kind, depth)),
            Type::Map(values) => self.items("{", *values, "}", (kind, depth)),
            Type::Record { fields, .. } => {
                self.push("{")?;
                for (at, field) in fields.iter().enumerate() {
                    if at > 0 {
                        self.push(",")?;
                    }
                    self.push_string(&field.name)?;
                    self.push(":")?;
                    self.value(field.kind, depth + 1)?;
                }
                self.push("}")
            }
            Type::Union(branches) => self.union(branches, kind, depth),
        }
    }

    fn union(&mut self, branches: &[usize], kind: usize, depth: usize) -> Result<(), Damage> {
        let avro = self.avro;
        let index = self.long(kind)?;
        let branch = usize::try_from(index).ok().and_then(|index| branches.get(index));
        let branch = *branch
            .ok_or_else(|| Damage::Value(format!("a union of {} has no type {index}", branches.len())))?;
        if matches!(avro.types[branch], Type::Null)
            || avro.nullable(branches).is_some()
            || branches.len() == 1
        {
            return self.value(branch, depth + 1);
        }
        self.push("{")?;
        self.push_string(avro.name_of(branch))?;
        self.push(":")?;
        self.value(branch, depth + 1)?;
        self.push("}")
    }

    /// The blocks of an array or a map.
    fn items(
        &mut self,
        open: &str,
        item: usize,
        close: &str,
        (kind, depth): (usize, usize),
    ) -> Result<(), Damage> {
        self.push(open)?;
        let mut is_first = true;
        loop {
            let mut left = self.long(kind)?;
            if left == 0 {
                return self.push(close);
            }
            if left < 0 {
                // The size of the block in bytes, for readers that skip it.
                self.long(kind)?;
                left = left.saturating_neg();
            }
            for _ in 0..left {
                if !std::mem::take(&mut is_first) {
                    self.push(",")?;
                }
                if open == "{" {
                    let key = self.text(kind)?;
                    self.push_string(key)?;
                    self.push(":")?;
                }
                self.value(item, depth + 1)?;
            }
        }
    }

    fn decimal(&mut self, scale: u32, of: usize) -> Result<(), Damage> {
        let bytes = match self.avro.types[of] {
            Type::Fixed { size, .. } => self.take(size, of)?,
            _ => self.sized(of)?,
        };
        match decimal::shown(bytes, scale) {
            Some(digits) => self.push_string(&digits),
            None => self.letters(bytes),
        }
    }

    /// A number of floating point; one that is not finite is a string.
    fn number(&mut self, number: f64, json: &str) -> Result<(), Damage> {
        if number.is_nan() {
            self.push("\"NaN\"")
        } else if number.is_infinite() {
            self.push(if number > 0.0 { "\"Infinity\"" } else { "\"-Infinity\"" })
        } else {
            self.push(json)
        }
    }

    fn take(&mut self, count: usize, kind: usize) -> Result<&'a [u8], Damage> {
        let Some((taken, rest)) = self.bytes.split_at_checked(count) else { return Err(self.end(kind)) };
        self.bytes = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self, kind: usize) -> Result<[u8; N], Damage> {
        let Some((taken, rest)) = self.bytes.split_first_chunk() else { return Err(self.end(kind)) };
        self.bytes = rest;
        Ok(*taken)
    }

    fn long(&mut self, kind: usize) -> Result<i64, Damage> {
        let (number, rest) = varint(self.bytes).ok_or_else(|| self.end(kind))?;
        self.bytes = rest;
        Ok(number)
    }

    fn sized(&mut self, kind: usize) -> Result<&'a [u8], Damage> {
        let length = self.long(kind)?;
        let length = usize::try_from(length);
        let length = length
            .map_err(|_| Damage::Value(format!("a {} has a negative length", self.avro.name_of(kind))))?;
        self.take(length, kind)
    }

    fn text(&mut self, kind: usize) -> Result<&'a str, Damage> {
        let bytes = self.sized(kind)?;
        std::str::from_utf8(bytes).map_err(|error| Damage::Value(format!("a string is not UTF-8: {error}")))
    }

    /// Bytes as a string with one character for each.
    fn letters(&mut self, bytes: &[u8]) -> Result<(), Damage> {
        if bytes.len() > self.most {
            return Err(Damage::Long(self.most));
        }
        let letters: String = bytes.iter().copied().map(char::from).collect();
        self.push_string(&letters)
    }

    fn push(&mut self, json: &str) -> Result<(), Damage> {
        self.out.push(json).map_err(|TooLong| Damage::Long(self.most))
    }

    fn push_string(&mut self, string: &str) -> Result<(), Damage> {
        self.out.push_string(string).map_err(|TooLong| Damage::Long(self.most))
    }

    fn end(&self, kind: usize) -> Damage {
        Damage::End(match self.avro.types[kind] {
            Type::Union(_) => "a union".to_owned(),
            _ => format!("a value of type {}", self.avro.name_of(kind)),
        })
    }
}
