//! Format of a printed record: `%` fields and `\` escapes, compiled once; or JSON.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::str::FromStr;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use levada_base::batch::{Header, Record};
use levada_client::FetchedRecord;
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::schemas::{self, Part as Decoded, Parts};
use levada_terminal::escapes::{escape, shown_on_terminal};
use levada_terminal::failure::Failure;

/// A compiled `--format`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Template(Vec<Part>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(Vec<u8>),
    Topic,
    Partition,
    Offset,
    Timestamp,
    Key,
    KeyLength,
    Value,
    ValueLength,
    Headers,
    Deliveries,
}

impl FromStr for Template {
    type Err = String;

    fn from_str(format: &str) -> Result<Self, String> {
        let mut parts = Vec::new();
        let mut text = Vec::new();
        let mut rest = format.as_bytes();
        while let Some((byte, after)) = rest.split_first() {
            rest = after;
            match byte {
                b'\\' => text.push(escape(&mut rest)?),
                b'%' => {
                    if let Some(part) = field(&mut rest)? {
                        parts.push(Part::Text(std::mem::take(&mut text)));
                        parts.push(part);
                    } else {
                        text.push(b'%');
                    }
                }
                byte => text.push(*byte),
            }
        }
        parts.push(Part::Text(text));
        parts.retain(|part| !matches!(part, Part::Text(text) if text.is_empty()));
        Ok(Self(parts))
    }
}

/// The field after `%`, or `None` for a percent sign.
fn field(rest: &mut &[u8]) -> Result<Option<Part>, String> {
    let (letter, after) = rest.split_first().ok_or("a lone % at the end; %% is a percent sign")?;
    *rest = after;
    Ok(Some(match letter {
        b'%' => return Ok(None),
        b't' => Part::Topic,
        b'p' => Part::Partition,
        b'o' => Part::Offset,
        b'T' => Part::Timestamp,
        b'k' => Part::Key,
        b'K' => Part::KeyLength,
        b'v' | b's' => Part::Value,
        b'V' | b'S' => Part::ValueLength,
        b'h' => Part::Headers,
        b'd' => Part::Deliveries,
        other => {
            return Err(format!(
                "no field %{}; fields are %v %k %t %p %o %T %h %V %K %d",
                other.escape_ascii()
            ));
        }
    }))
}

impl Template {
    /// Prints a record; an absent key or value prints nothing, its length is -1. A decoded part is
    /// printed as JSON, and its length is that of its bytes. On a terminal, bytes of the record
    /// that would steer it are escaped.
    pub(super) fn print(
        &self,
        out: &mut dyn Write,
        (shown, parts): (&FetchedRecord<'_>, &Parts),
        is_terminal: bool,
    ) -> Result<(), Failure> {
        let record = shown.record;
        let print = |out: &mut dyn Write, bytes: &[u8]| -> io::Result<()> {
            if is_terminal {
                out.write_all(shown_on_terminal(bytes).as_bytes())
            } else {
                out.write_all(bytes)
            }
        };
        for part in &self.0 {
            match part {
                Part::Text(text) => out.write_all(text)?,
                Part::Topic => out.write_all(shown.topic.as_bytes())?,
                Part::Partition => write!(out, "{}", shown.partition)?,
                Part::Offset => write!(out, "{}", shown.offset)?,
                Part::Timestamp => write!(out, "{}", shown.timestamp_ms)?,
                Part::Key => {
                    let key = Parts::shown(parts.key.as_ref(), record.key.as_deref());
                    print(out, key.unwrap_or_default())?;
                }
                Part::KeyLength => write!(out, "{}", length(record.key.as_deref()))?,
                Part::Value => {
                    let value = Parts::shown(parts.value.as_ref(), record.value.as_deref());
                    print(out, value.unwrap_or_default())?;
                }
                Part::ValueLength => write!(out, "{}", length(record.value.as_deref()))?,
                Part::Headers => print(out, &headers(record))?,
                Part::Deliveries => write!(out, "{}", shown.deliveries.unwrap_or(1))?,
            }
        }
        Ok(())
    }
}

fn length(bytes: Option<&[u8]>) -> i64 {
    bytes.map_or(-1, |bytes| bytes.len() as i64)
}

/// The headers as `KEY=VALUE`, separated by commas.
fn headers(record: &Record) -> Vec<u8> {
    let header = |header: Header<'_>| [header.key, b"=", header.value.unwrap_or_default()].concat();
    record.headers.iter().map(header).collect::<Vec<_>>().join(&b","[..])
}

/// A value of a printed object: one that is made here, or the JSON of a decoded part.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum Field {
    Made(Value),
    Decoded(Box<RawValue>),
}

/// The record as a JSON object. Bytes that are not UTF-8 are under a name with `_base64` added. A
/// decoded part has the names of its schema beside it, a part that could not be decoded the reason.
pub(super) fn json(shown: &FetchedRecord<'_>, parts: &Parts) -> BTreeMap<String, Field> {
    let mut object = Map::new();
    object.insert("topic".to_owned(), json!(shown.topic));
    object.insert("partition".to_owned(), json!(shown.partition));
    object.insert("offset".to_owned(), json!(shown.offset));
    object.insert("timestamp_ms".to_owned(), json!(shown.timestamp_ms));
    if let Some(deliveries) = shown.deliveries {
        object.insert("deliveries".to_owned(), json!(deliveries));
    }
    let header = |header: Header<'_>| {
        let mut object = Map::new();
        insert_bytes(&mut object, "key", Some(header.key));
        insert_bytes(&mut object, "value", header.value);
        Value::Object(object)
    };
    object.insert("headers".to_owned(), shown.record.headers.iter().map(header).collect());
    let mut decoded = BTreeMap::new();
    for (name, bytes, part) in [
        ("key", shown.record.key.as_deref(), &parts.key),
        ("value", shown.record.value.as_deref(), &parts.value),
    ] {
        match raw(part.as_ref()) {
            Some(json) => drop(decoded.insert(name.to_owned(), Field::Decoded(json))),
            None => insert_bytes(&mut object, name, bytes),
        }
        match part {
            None => None,
            Some(Ok(part)) => object.insert(format!("{name}_schema"), schemas::names(&part.label)),
            Some(Err(fault)) => object.insert(format!("{name}_error"), json!(fault.to_string())),
        };
    }
    decoded.extend(object.into_iter().map(|(name, value)| (name, Field::Made(value))));
    decoded
}

fn raw(part: Option<&Decoded>) -> Option<Box<RawValue>> {
    RawValue::from_string(part?.as_ref().ok()?.json.clone()).ok()
}

fn insert_bytes(object: &mut Map<String, Value>, name: &str, bytes: Option<&[u8]>) {
    match bytes.map(|bytes| std::str::from_utf8(bytes).map_err(|_| bytes)) {
        None => object.insert(name.to_owned(), Value::Null),
        Some(Ok(text)) => object.insert(name.to_owned(), json!(text)),
        Some(Err(bytes)) => object.insert(format!("{name}_base64"), json!(STANDARD.encode(bytes))),
    };
}
