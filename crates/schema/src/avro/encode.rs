//! JSON as values of Avro.
//!
//! The JSON has the form that reading has. A value of a union may have the name of its type around
//! it; without the name, the first type that the value fits is taken. A field that is missing gets
//! its default.

use std::fmt;

use serde_json::{Map, Value};

use super::{Avro, DEPTH_MAX, Field, Type, decimal};
use crate::frame::push_varint;

/// A value that does not fit its schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Misfit {
    /// Names and indexes from the innermost to the outermost.
    steps: Vec<String>,
    reason: String,
}

impl Misfit {
    fn new(reason: impl Into<String>) -> Self {
        Self { steps: Vec::new(), reason: reason.into() }
    }

    fn of(expected: &str, found: &Value) -> Self {
        Self::new(format!("expected {expected}, found {}", super::cut(found)))
    }

    fn within(mut self, step: impl Into<String>) -> Self {
        self.steps.push(step.into());
        self
    }
}

impl fmt::Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.steps.is_empty() {
            let path: String = self.steps.iter().rev().map(String::as_str).collect();
            write!(f, "{}: ", path.trim_start_matches('.'))?;
        }
        f.write_str(&self.reason)
    }
}

impl Avro {
    /// Appends the bytes of a value.
    pub(crate) fn encode(&self, value: &Value, out: &mut Vec<u8>) -> Result<(), Misfit> {
        self.write(self.root, value, (out, 0))
    }

    fn write(&self, kind: usize, value: &Value, (out, depth): (&mut Vec<u8>, usize)) -> Result<(), Misfit> {
        if depth > DEPTH_MAX {
            return Err(Misfit::new(format!("values are nested deeper than {DEPTH_MAX}")));
        }
        let expected = |name: &str| Misfit::of(name, value);
        match &self.types[kind] {
            Type::Null => value.as_null().ok_or_else(|| expected("null"))?,
            Type::Boolean => out.push(u8::from(value.as_bool().ok_or_else(|| expected("boolean"))?)),
            Type::Int => {
                let number = value.as_i64().and_then(|number| i32::try_from(number).ok());
                push_varint(out, i64::from(number.ok_or_else(|| expected("int"))?));
            }
            Type::Long => push_varint(out, value.as_i64().ok_or_else(|| expected("long"))?),
            Type::Float => {
                let number = float(value).ok_or_else(|| expected("float"))?;
                out.extend_from_slice(&(number as f32).to_le_bytes());
            }
            Type::Double => {
                out.extend_from_slice(&float(value).ok_or_else(|| expected("double"))?.to_le_bytes());
            }
            Type::Bytes => {
                push_sized(out, &letters(value).ok_or_else(|| expected("bytes, one character each"))?)
            }
            Type::String => push_sized(out, value.as_str().ok_or_else(|| expected("string"))?.as_bytes()),
            Type::Decimal { scale, of } => self.decimal(*scale, *of, (value, out))?,
            Type::Fixed { name, size } => {
                let bytes = letters(value).filter(|bytes| bytes.len() == *size);
                let bytes = bytes.ok_or_else(|| expected(&format!("{name}, a string of {size} bytes")))?;
                out.extend_from_slice(&bytes);
            }
            Type::Enum { name, symbols } => {
                let index = value.as_str().and_then(|text| symbols.iter().position(|symbol| symbol == text));
                let index =
                    index.ok_or_else(|| expected(&format!("a symbol of {name} ({})", symbols.join(", "))))?;
                push_varint(out, index as i64);
            }
            Type::Array(item) => {
                let items = value.as_array().ok_or_else(|| expected("array"))?;
                push_count(out, items.len());
                for (at, one) in items.iter().enumerate() {
                    self.write(*item, one, (out, depth + 1))
                        .map_err(|misfit| misfit.within(format!("[{at}]")))?;
                }
                push_varint(out, 0);
            }
            Type::Map(item) => {
                let object = value.as_object().ok_or_else(|| expected("map"))?;
                push_count(out, object.len());
                for (key, one) in object {
                    push_sized(out, key.as_bytes());
                    self.write(*item, one, (out, depth + 1))
                        .map_err(|misfit| misfit.within(format!("[{key:?}]")))?;
                }
                push_varint(out, 0);
            }
            Type::Record { name, fields } => {
                let object = value.as_object().ok_or_else(|| expected(&format!("record {name}")))?;
                self.record((name, fields), object, (out, depth))?;
            }
            Type::Union(branches) => self.union(branches, value, (out, depth))?,
        }
        Ok(())
    }

    fn record(
        &self,
        (name, fields): (&str, &[Field]),
        object: &Map<String, Value>,
        (out, depth): (&mut Vec<u8>, usize),
    ) -> Result<(), Misfit> {
        for field in fields {
            let value = object.get(&field.name).or(field.default.as_ref());
            let step = || format!(".{}", field.name);
            let value = value.ok_or_else(|| {
                Misfit::new(format!("the field is missing; expected {}", self.expected(field.kind)))
                    .within(step())
            })?;
            self.write(field.kind, value, (out, depth + 1)).map_err(|misfit| misfit.within(step()))?;
        }
        match object.keys().find(|key| fields.iter().all(|field| field.name != **key)) {
            None => Ok(()),
            Some(key) => {
                let names: Vec<&str> = fields.iter().map(|field| field.name.as_str()).collect();
                Err(Misfit::new(format!("{name} has no field {key:?}; it has {}", names.join(", "))))
            }
        }
    }

    fn union(
        &self,
        branches: &[usize],
        value: &Value,
        (out, depth): (&mut Vec<u8>, usize),
    ) -> Result<(), Misfit> {
        let start = out.len();
        let mut attempt = |at: usize, value: &Value| {
            push_varint(out, at as i64);
            let written = self.write(branches[at], value, (out, depth + 1));
            if written.is_err() {
                out.truncate(start);
            }
            written
        };
        let named =
            value.as_object().filter(|object| object.len() == 1).and_then(|object| object.iter().next());
        let named = named.and_then(|(name, inner)| {
            let at = branches.iter().position(|branch| self.name_of(*branch) == name)?;
            Some((at, inner))
        });
        let of_named = named.map(|(at, inner)| attempt(at, inner));
        if let Some(Ok(())) = of_named {
            return Ok(());
        }
        let fitting: Vec<usize> =
            (0..branches.len()).filter(|at| self.may_be(branches[*at], value)).collect();
        for at in &fitting {
            match attempt(*at, value) {
                Ok(()) => return Ok(()),
                // The reason is that of the only candidate.
                Err(misfit) if fitting.len() == 1 && of_named.is_none() => return Err(misfit),
                Err(_) => {}
            }
        }
        match of_named {
            Some(Err(misfit)) => Err(misfit),
            _ => {
                let names: Vec<String> = branches.iter().map(|branch| self.expected(*branch)).collect();
                Err(Misfit::of(&format!("one of {}", names.join(", ")), value))
            }
        }
    }

    fn decimal(&self, scale: u32, of: usize, (value, out): (&Value, &mut Vec<u8>)) -> Result<(), Misfit> {
        let size = match self.types[of] {
            Type::Fixed { size, .. } => Some(size),
            _ => None,
        };
        let text = match value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let bytes = decimal::bytes(&text, scale, size);
        let bytes = bytes
            .ok_or_else(|| Misfit::of(&format!("a decimal number with at most {scale} decimals"), value))?;
        match size {
            Some(_) => out.extend_from_slice(&bytes),
            None => push_sized(out, &bytes),
        }
        Ok(())
    }

    /// True if a value of this form of JSON can be of the type.
    fn may_be(&self, kind: usize, value: &Value) -> bool {
        matches!(
            (&self.types[kind], value),
            (Type::Union(_), _)
                | (Type::Null, Value::Null)
                | (Type::Boolean, Value::Bool(_))
                | (Type::Int | Type::Long, Value::Number(_))
                | (Type::Float | Type::Double | Type::Decimal { .. }, Value::Number(_) | Value::String(_))
                | (Type::Bytes | Type::String | Type::Fixed { .. } | Type::Enum { .. }, Value::String(_))
                | (Type::Array(_), Value::Array(_))
                | (Type::Map(_) | Type::Record { .. }, Value::Object(_))
        )
    }

    /// The type as text, for messages.
    fn expected(&self, kind: usize) -> String {
        match &self.types[kind] {
            Type::Union(branches) => {
                let names: Vec<&str> = branches.iter().map(|branch| self.name_of(*branch)).collect();
                names.join(" or ")
            }
            Type::Decimal { .. } => "a decimal number".to_owned(),
            kind => kind.name().to_owned(),
        }
    }
}

fn float(value: &Value) -> Option<f64> {
    match value {
        Value::String(text) => match text.as_str() {
            "NaN" => Some(f64::NAN),
            "Infinity" => Some(f64::INFINITY),
            "-Infinity" => Some(f64::NEG_INFINITY),
            _ => None,
        },
        other => other.as_f64(),
    }
}

/// The bytes of a string with one character for each.
fn letters(value: &Value) -> Option<Vec<u8>> {
    value.as_str()?.chars().map(|letter| u8::try_from(u32::from(letter)).ok()).collect()
}

fn push_sized(out: &mut Vec<u8>, bytes: &[u8]) {
    push_varint(out, bytes.len() as i64);
    out.extend_from_slice(bytes);
}

/// The head of the only block, which an empty array or map lacks.
fn push_count(out: &mut Vec<u8>, count: usize) {
    if count > 0 {
        push_varint(out, count as i64);
    }
}
